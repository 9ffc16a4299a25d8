"""A whole daemon over roots of other tools' transcripts: one session is one session, wherever its files are."""

import json
import math
import os
from base64 import b64encode
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from uuid import UUID, uuid4

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.handlers.layouts import copilot_lines, droid_lines, qwen_lines
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript

from runward.config.contract import ExpectedArtifact
from runward.config.root import Root
from runward.daemon.engine import clock_steps
from runward.daemon.inbox.spool import put
from runward.daemon.parts.answering import Bundled, no_bundles
from runward.daemon.parts.notices import NOBODY, Messenger
from runward.daemon.store.transaction import Row, Statement
from runward.daemon.watch import following, looks
from runward.daemon.watch.hints import Why
from runward.daemon.watch.remembered import dump_remembered, load_remembered
from runward.daemon.world.files import Files
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.model.contracts import Declarations, Ruled, RuledPlaybook
from runward.handlers.model.files import signature_of
from runward.handlers.model.processes import FIRST_NAMESPACE, RecordedProcess, Whereabouts
from runward.handlers.sessions.over import Absence, Writer

KEY = f"claude-code:{SESSION}"
AGENT = RecordedProcess(41, 7, "this boot")
LONG_AGO = 40 * 86_400.0


class Home:
    """The root `base/projects` with one transcript, and the daemon that follows it."""

    def __init__(
        self, base: Path, entrypoint: str = "sdk-cli", history: Literal["live", "record"] = "live"
    ) -> None:
        self.base = base
        self.projects = base / "projects"
        self.clock = StillClock()
        self.processes = ToldProcesses()
        self.transcript = Transcript(now=self.clock.wall - 100, entrypoint=entrypoint)
        self.place = self.projects / "-home-dev-app" / f"{SESSION}.jsonl"
        self.place.parent.mkdir(parents=True)
        self.further: tuple[Root, ...] = ()
        self.history = history
        self.playbooks: dict[str, str] = {}
        self.bundled: Bundled = no_bundles
        self.messenger: Messenger = NOBODY

    def open(self) -> AbstractAsyncContextManager[Daemon]:
        root = Root("claude", str(self.projects), "claude-code", self.history)
        return daemon(
            self.base,
            self.clock,
            self.processes,
            declared=lambda playbook, agent: Declarations((ExpectedArtifact("review", "review.md"),), None),
            ruled=self._ruled,
            roots=(root, *self.further),
            bundled=self.bundled,
            messenger=self.messenger,
        )

    def _ruled(self, question: RuledPlaybook) -> Ruled:
        playbook = self.playbooks.get(question.cwd or "")
        return Ruled(playbook, None, "runward.toml:9:1") if playbook is not None else Ruled()

    def write(self, place: Path | None = None) -> None:
        """The transcript as it is now, written this moment."""
        self.write_as(self.transcript.content(), place)

    def write_as(self, content: bytes, place: Path | None = None) -> None:
        place = place or self.place
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("ab") as file:
            file.truncate(min(len(content), place.stat().st_size))
            file.write(content[place.stat().st_size :])
        os.utime(place, (self.clock.wall, self.clock.wall))

    async def rest(self, running: Daemon, seconds: float = 6.0, times: int = 3) -> None:
        """Time goes by, and the daemon looks at what is due."""
        for _ in range(times):
            await running.settle()
            self.clock.move(seconds)
            running.supervisor.assembly.queue.may_be_due = True  # as when a wait for it ends
        await running.settle()


async def sessions(running: Daemon) -> list[Row]:
    return await running.rows("select key, status, attempt, reason_code, path from sessions order by key")


async def attempts(running: Daemon) -> list[Row]:
    return await running.rows("select attempt, status, ended_by, reason_code from attempts order by attempt")


async def test_a_headless_session_is_judged_when_its_transcript_has_come_to_rest(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        await running.settle()
        assert await sessions(running) == [(KEY, "running", 1, "run.started.ok", str(home.place))]
        home.transcript.text("fixed")
        home.write()
        await running.settle()
        assert await attempts(running) == [(1, "running", None, None)]
        await home.rest(running)
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]


async def test_a_transcript_whose_last_newline_is_missing_is_judged_by_its_last_record(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.write_as(home.transcript.content().rstrip(b"\n"))
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]
        assert await running.rows("select message from problems") == []


@pytest.mark.parametrize("tail", [b'{"type":"assis', b"\0" * 4096])
async def test_what_a_transcript_ends_in_instead_of_a_record_is_a_problem_and_no_end(
    tmp_path: Path, tail: bytes
) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.write_as(home.transcript.content() + tail)
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [(1, "running", None, None)]
        ((file, message),) = await running.rows("select path, message from problems")
        assert file == str(home.place)
        assert str(message).startswith(f"ends in {len(tail)} ")
        home.transcript.text("fixed")
        home.place.write_bytes(b"")
        home.write()
        await home.rest(running)
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]
        assert await running.rows("select message from problems") == []


async def test_a_last_record_that_an_earlier_version_left_unread_is_read_at_the_next_start(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        await running.settle()
        ((state,),) = await running.rows("select state from cursors")
        home.transcript.text("fixed")
        home.write_as(home.transcript.content().rstrip(b"\n"))
        stored = load_remembered(str(state))
        (log,) = stored.read.logs
        status = home.place.stat()
        read_whole = log._replace(signature=signature_of(status))
        before = stored._replace(read=stored.read._replace(logs=(read_whole,), version=1))
        change = Statement("update cursors set state = ?", [(dump_remembered(before),)])
        await running.store.run([change], "older")
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]


async def test_a_rule_holds_a_session_to_what_its_working_directory_must_get(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.playbooks["/home/dev/app"] = "feature"
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.write()
    async with home.open() as running:
        await home.rest(running)
        assert await running.rows(
            "select playbook, contract_basis, status, reason_code, delivery from sessions"
        ) == [("feature", "late", "failed", "run.failed.missing_artifact", "missing")]


async def test_its_journal_lies_among_runwards_own_state_and_nothing_is_written_beside_the_transcript(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.write()
    async with home.open() as running:
        await home.rest(running)
    (journal,) = (running.state / "sessions" / "claude-code").glob("*/*/events.jsonl")
    told = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
    assert told == ["session_started", "status_changed", "session_finished"]
    assert journal.stat().st_mode & 0o777 == 0o600
    assert {each.stat().st_mode & 0o777 for each in (journal.parent, *journal.parents[1:4])} == {0o700}
    assert list(home.projects.rglob("*")) == [home.place.parent, home.place]


PLACES = {
    "copilot": f"session-state/{copilot_lines.NAME}/events.jsonl",
    "droid": f"sessions/-home-dev-app/{droid_lines.NAME}",
    "qwen": f"projects/-home-dev-app/chats/{qwen_lines.NAME}",
}
"""Where the sessions of agents are whose hooks name their process, and the lines in them."""


@pytest.mark.parametrize(
    ("layout", "lines", "payload"),
    [
        (
            "copilot",
            copilot_lines,
            {"sessionId": copilot_lines.NAME, "cwd": "/src", "source": "new", "initialPrompt": "x"},
        ),
        (
            "droid",
            droid_lines,
            {"session_id": droid_lines.SESSION, "cwd": "/src", "hook_event_name": "SessionStart"},
        ),
        (
            "qwen",
            qwen_lines,
            {"session_id": qwen_lines.SESSION, "cwd": "/src", "hook_event_name": "SessionStart"},
        ),
    ],
    ids=PLACES,
)
async def test_an_agent_whose_hook_named_it_lives_as_long_as_that_process(
    tmp_path: Path, layout: str, lines: ModuleType, payload: dict[str, str]
) -> None:
    home, place = Home(tmp_path / "other"), tmp_path / layout / PLACES[layout]
    home.further = (Root(layout, str(tmp_path / layout / PLACES[layout].split("/")[0]), layout, "live"),)
    async with home.open() as running:
        await running.settle()
    shell = RecordedProcess(40, 8, "this boot")
    put_note(running.state, layout, payload, None, home.clock.wall, (shell, AGENT))
    home.write_as(b"".join(line + b"\n" for line in lines.Log().prompt().call().lines()), place)
    home.processes.gone.add(shell.pid)
    async with home.open() as running:
        await home.rest(running, 600)
        assert await attempts(running) == [(1, "running", None, None)], "the agent itself is alive"
        home.processes.gone.add(AGENT.pid)
        await home.rest(running, 600)
        assert await attempts(running) == [(1, "aborted", "process_gone", "run.aborted.process_gone")]


@pytest.mark.parametrize("is_up", [True, False], ids=["it was watched", "nobody watched"])
async def test_a_sub_agent_in_its_session_s_process_ends_with_that(tmp_path: Path, is_up: bool) -> None:
    """Qwen Code's write logs of their own, and no hook names them."""
    home, place = Home(tmp_path / "other"), tmp_path / "qwen" / PLACES["qwen"]
    home.further = (Root("qwen", str(tmp_path / "qwen/projects"), "qwen", "live"),)
    async with home.open() as running:
        await running.settle()
    shell = RecordedProcess(40, 8, "this boot")
    payload = {"session_id": qwen_lines.SESSION, "cwd": "/src", "hook_event_name": "SessionStart"}
    put_note(running.state, "qwen", payload, None, home.clock.wall, (shell, AGENT))
    worker = qwen_lines.Log().prompt().call()
    for record in worker.records:
        record |= {"isSidechain": True, "agentId": "worker"}
    beside = place.parents[1] / "subagents" / qwen_lines.SESSION / "agent-worker.jsonl"
    home.write_as(b"".join(line + b"\n" for line in qwen_lines.Log().prompt().call().lines()), place)
    home.write_as(b"".join(line + b"\n" for line in worker.lines()), beside)
    home.processes.gone.add(shell.pid)
    if not is_up:
        home.processes.gone.add(AGENT.pid)
    states = "select s.session_id, a.status, a.ended_by from sessions s join attempts a on a.session_key = s.key order by 1"
    sessions = (qwen_lines.SESSION, f"{qwen_lines.SESSION}-worker")
    async with home.open() as running:
        await home.rest(running, 600)
        if is_up:
            assert await running.rows(states) == [(each, "running", None) for each in sessions]
            home.processes.gone.add(AGENT.pid)
            await home.rest(running, 600)
        assert await running.rows(states) == [(each, "aborted", "process_gone") for each in sessions]


async def test_a_killed_agent_is_over_after_the_grace_though_its_traces_went_meanwhile(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    home.processes.writing[SESSION] = Writer("alive", "busy", AGENT)
    async with home.open() as running:
        await home.rest(running, 600)
        assert await attempts(running) == [(1, "running", None, None)]
    home.processes.writing.clear()
    home.processes.gone.add(AGENT.pid)
    async with home.open() as running:
        await running.settle()
        assert await attempts(running) == [(1, "running", None, None)]
        await home.rest(running)
        assert await attempts(running) == [(1, "aborted", "process_gone", "run.aborted.process_gone")]


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        ((40, 41), "run.aborted.process_gone"),
        ((41,), "run.unknown.no_process"),
    ],
    ids=["who called the hook is gone", "it may have been called without a shell"],
)
async def test_an_agent_that_only_its_hook_named_is_over_once_it_is_gone(
    tmp_path: Path, gone: tuple[int, ...], reason: str
) -> None:
    home = Home(tmp_path, entrypoint="cli")
    async with home.open() as running:
        await running.settle()
    home.transcript.prompt("fix it")
    shell = RecordedProcess(40, 8, "this boot")
    hook_says(running.state, None, home.clock.wall, ancestors=(shell, AGENT))
    home.write()
    home.processes.gone.update(gone)
    async with home.open() as running:
        await home.rest(running, 600)
        ended = "select reason_code from attempts where status = 'aborted'"
        unsure = "select a.reason_code from attempts a where a.status <> 'aborted'"
        if reason == "run.aborted.process_gone":
            assert await running.rows(ended) == [(reason,)]
        else:
            assert await running.rows(ended) == []
            assert await running.rows(unsure) == [(None,)]


async def test_a_killed_agent_ended_when_it_was_last_seen_alive_and_no_look_was_stored_for_that(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    home.processes.writing[SESSION] = Writer("alive", "busy", AGENT)
    async with home.open() as running:
        home.clock.move(16.0)
        await running.settle()
        stored = await running.rows("select state from cursors")
        home.clock.move(16.0)
        await running.settle()
        last_seen = home.clock.wall
        assert await running.rows("select state from cursors") == stored
        home.processes.gone.add(AGENT.pid)
        home.processes.writing.clear()
        home.clock.move(2.0)
        found_gone = home.clock.wall
        await home.rest(running)
        assert await running.rows("select finished_at, reason_code from sessions") == [
            (last_seen, "run.aborted.process_gone")
        ]
        ((told,),) = await running.rows("select payload from events where type = 'AttemptEnded'")
        assert json.loads(str(told))["gone_by"] == found_gone


async def test_a_session_is_over_when_its_process_goes_on_with_another_one(tmp_path: Path) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.write()
    home.processes.writing[SESSION] = Writer("alive", "idle", AGENT)
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [(1, "running", None, None)]
        as_named = AGENT._replace(boot_id="as its file says")
        home.processes.writing[SESSION] = Writer("unknown", elsewhere=frozenset({as_named}))
        await home.rest(running)
        over = [(1, "completed", "process_gone", "run.completed.ok")]
        assert await attempts(running) == over
        await home.rest(running)
        assert await attempts(running) == over


async def test_a_process_that_no_file_names_any_more_still_runs_its_session(tmp_path: Path) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    home.processes.writing[SESSION] = Writer("alive", "busy", AGENT)
    async with home.open() as running:
        await home.rest(running)
        other = RecordedProcess(42, 9, "this boot")
        home.processes.writing[SESSION] = Writer("unknown", elsewhere=frozenset({other}))
        await home.rest(running)
        await home.rest(running)
        assert await attempts(running) == [(1, "running", None, None)]


async def test_a_session_that_a_program_drives_is_one_attempt_while_its_process_waits(tmp_path: Path) -> None:
    home = Home(tmp_path, entrypoint="sdk-py")
    home.processes.writing[SESSION] = Writer("alive", "idle", AGENT)
    home.processes.ages[AGENT.pid] = 500.0
    async with home.open() as running:
        for turn in range(3):
            home.transcript.now = home.clock.wall
            home.transcript.prompt(f"fix {turn}")
            home.transcript.text("fixed")
            home.write()
            await home.rest(running)
            assert await attempts(running) == [(1, "running", None, None)]
            assert await running.rows("select activity from cursors") == [("idle",)]
        home.processes.gone.add(AGENT.pid)
        home.processes.writing.clear()
        await home.rest(running)
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]


NOBODY_ELSE = Absence((AGENT,), is_in_first_namespace=True, is_local=True, is_nowhere=True)
ELSEWHERE = NOBODY_ELSE._replace(is_local=False)
ABORTED = (1, "aborted", "process_gone", "run.aborted.process_gone")
RUNNING = (1, "running", None, None)


def missing(home: Home, absence: Absence) -> None:
    """Its pid file still names the agent, which can't be found."""
    home.processes.writing[SESSION] = Writer("gone", None, absence.named[0], absence)
    home.processes.gone.add(absence.named[0].pid)


@pytest.mark.parametrize(
    ("seen", "here", "expected"),
    [
        (True, None, ABORTED),
        (False, None, RUNNING),
        (True, Whereabouts("this machine", "this boot", 77), RUNNING),
        (True, Whereabouts("another", "another boot", FIRST_NAMESPACE), RUNNING),
        (True, Whereabouts("this machine", "another boot", FIRST_NAMESPACE), ABORTED),
    ],
    ids=[
        "it was seen alive",
        "it never was",
        "a daemon in another namespace",
        "another machine",
        "the machine started again",
    ],
)
async def test_in_a_shared_home_a_process_is_dead_only_if_this_machine_saw_it_alive(
    tmp_path: Path, seen: bool, here: Whereabouts | None, expected: Row
) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    if seen:
        home.processes.writing[SESSION] = Writer("alive", "busy", AGENT)
    async with home.open() as running:
        await home.rest(running, 600)
    missing(home, ELSEWHERE)
    home.processes.here = here
    async with home.open() as running:
        await home.rest(running)
        await home.rest(running)
        assert await attempts(running) == [expected]


async def test_a_process_that_was_never_seen_is_dead_where_nobody_else_can_be_writing(tmp_path: Path) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    missing(home, NOBODY_ELSE)
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [ABORTED]


async def test_a_process_that_a_hook_from_here_named_is_dead_once_it_is_gone(tmp_path: Path) -> None:
    home = Home(tmp_path, entrypoint="cli")
    async with home.open() as running:
        await running.settle()
    home.transcript.prompt("fix it")
    hook_says(running.state, None, home.clock.wall, ancestors=(RecordedProcess(40, 8, "this boot"), AGENT))
    home.write()
    missing(home, ELSEWHERE)
    home.processes.gone.add(40)
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [ABORTED]


async def test_a_dead_process_that_a_hook_named_says_nothing_of_another_one_that_is_not_here(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path, entrypoint="cli")
    async with home.open() as running:
        await running.settle()
    home.transcript.prompt("fix it")
    hook_says(running.state, None, home.clock.wall, ancestors=(RecordedProcess(40, 8, "this boot"), AGENT))
    home.write()
    home.processes.gone.update((40, AGENT.pid))
    missing(home, ELSEWHERE._replace(named=(RecordedProcess(42, 9, "this boot"),)))
    async with home.open() as running:
        await home.rest(running)
        await home.rest(running)
        assert await attempts(running) == [RUNNING]


async def test_another_process_that_is_not_here_is_not_mistaken_for_the_dead_one_before_it(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    home.processes.writing[SESSION] = Writer("alive", "busy", AGENT)
    async with home.open() as running:
        await home.rest(running)
        home.processes.gone.add(AGENT.pid)
        missing(home, ELSEWHERE._replace(named=(RecordedProcess(42, 9, "this boot"),)))
        await home.rest(running)
        home.processes.writing.clear()  # the other machine's program ended, or its file was removed
        await home.rest(running)
        assert await attempts(running) == [RUNNING]


async def test_growth_takes_a_death_back_and_shows_that_others_write_in_that_home(tmp_path: Path) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    missing(home, NOBODY_ELSE)
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [ABORTED]
        home.transcript.now = home.clock.wall
        home.transcript.result(home.transcript.call())
        home.write()
        await home.rest(running)
        again = [ABORTED, (2, "running", None, None)]
        assert await attempts(running) == again
    async with (
        home.open() as running
    ):  # a restart forgets nothing: not for any other session of that home either
        other = "7d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b99"
        transcript = Transcript(other, now=home.clock.wall, entrypoint="cli")
        transcript.prompt("fix that")
        home.write_as(transcript.content(), home.place.parent / f"{other}.jsonl")
        process = RecordedProcess(43, 10, "this boot")
        absence = NOBODY_ELSE._replace(named=(process,))
        home.processes.writing[other] = Writer("gone", None, process, absence)
        home.processes.gone.add(process.pid)
        await home.rest(running)
        assert await attempts(running) == [ABORTED, (1, "running", None, None), (2, "running", None, None)]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_a_start_of_this_machine_ends_only_what_no_other_machine_can_be_writing(
    tmp_path: Path, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Files, "is_local", lambda self, path: not is_shared)
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [RUNNING]
    home.processes.booted = home.clock.wall
    async with home.open() as running:
        await home.rest(running)
        assert await attempts(running) == [RUNNING if is_shared else ABORTED]


async def test_what_a_session_does_is_told_beside_its_status(tmp_path: Path) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        for status, activity in (("busy", "active"), ("waiting", "waiting"), ("idle", "idle")):
            home.processes.writing[SESSION] = Writer("alive", status, AGENT)  # type: ignore[arg-type] # one of three
            await running.settle()
            assert await running.rows("select activity from cursors") == [(activity,)]


async def test_what_a_session_did_is_forgotten_when_nobody_can_tell_any_more(tmp_path: Path) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    home.processes.writing[SESSION] = Writer("alive", "busy")
    async with home.open() as running:
        await running.settle()
        assert await running.rows("select activity from cursors") == [("active",)]
        del home.processes.writing[SESSION]
        await home.rest(running)
        assert await running.rows("select activity, phase from cursors") == [(None, "open")]


@pytest.mark.parametrize("is_over", [False, True], ids=["while it runs", "after its end"])
@pytest.mark.parametrize("way", ["renamed", "copied and removed", "packed"])
async def test_a_session_that_moves_stays_the_same(tmp_path: Path, way: str, is_over: bool) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    if is_over:
        home.transcript.text("fixed")
    home.write()
    async with home.open() as running:
        await home.rest(running, 1.0 if not is_over else 6.0)
        place = home.projects / "archive" / home.place.name
        place.parent.mkdir()
        if way == "renamed":
            home.place.rename(place)
        elif way == "copied and removed":
            home.write(place)
            home.place.unlink()
        else:
            place = _packed(home)
        await home.rest(running)
        before = await attempts(running)
        assert len(before) == 1
        if way != "packed":
            home.transcript.prompt("and now the tests") if is_over else home.transcript.text("fixed")
            home.write(place)
            await home.rest(running)
            if is_over:
                assert (await attempts(running))[1:] == [(2, "running", None, None)]
            else:
                assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]
        ((key, path),) = await running.rows("select key, path from sessions")
        assert (key, path) == (KEY, str(place).removesuffix(".zst"))


async def test_a_move_is_noticed_though_the_disk_refused_to_show_the_new_place_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.write()
    refused: list[str] = []
    real = Files.place_signature

    def signature(files: Files, root: str, place: str, shape: Any) -> Any:
        if place.startswith("archive/") and not refused:
            refused.append(place)
            return None
        return real(root, place, shape)

    async with home.open() as running:
        await home.rest(running)
        monkeypatch.setattr(Files, "place_signature", signature)
        place = home.projects / "archive" / home.place.name
        place.parent.mkdir()
        home.place.rename(place)
        await home.rest(running)
        assert refused
        await home.rest(running, 60.0)
        ((path,),) = await running.rows("select path from sessions")
        assert path == str(place)


def _packed(home: Home) -> Path:
    import zstandard

    packed = home.place.with_name(f"{home.place.name}.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(home.place.read_bytes()))
    os.utime(packed, (home.clock.wall, home.clock.wall))
    home.place.unlink()
    return packed


async def test_a_session_that_is_seen_under_two_roots_is_one_and_is_read_where_it_was_found_first(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    mirror = tmp_path / "mirror"
    home.further = (Root("mirror", str(mirror), "claude-code", "live"),)
    home.transcript.prompt("fix it")
    home.write()
    home.write(mirror / home.place.name)
    async with home.open() as running:
        await home.rest(running, 1.0)
        home.transcript.text("fixed")
        home.write()
        home.write(mirror / home.place.name)
        await home.rest(running)
        assert await sessions(running) == [(KEY, "completed", 1, "run.completed.ok", str(home.place))]
        assert await running.rows("select count(*) from events where type = 'AttemptEnded'") == [(1,)]
        home.place.unlink()
        await home.rest(running)
        home.transcript.prompt("once more")
        home.write(mirror / home.place.name)
        await home.rest(running)
        path = str(mirror / home.place.name)
        assert await sessions(running) == [(KEY, "running", 2, "run.started.resumed", path)]


async def test_a_session_goes_on_in_its_copy_where_its_own_file_goes_while_it_runs(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.write()
    copy = home.projects / "copies" / home.place.name
    home.write(copy)
    async with home.open() as running:
        await home.rest(running, 60)
        home.place.unlink()
        await home.rest(running, 60)
        assert await sessions(running) == [(KEY, "running", 1, "run.started.ok", str(copy))]


async def test_what_another_version_of_a_scanner_kept_is_read_anew(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        await home.rest(running, 1.0)
        ((text,),) = await running.rows("select state from cursors")
        older = dump_remembered(load_remembered(str(text))._replace(scan='{"version": 0}'))
        await running.store.run([Statement("update cursors set state = ?", [(older,)])], "older")
        home.transcript.text("fixed")
        home.write()
        await home.rest(running)
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]
        assert await running.rows("select * from problems") == []


async def test_a_session_whose_file_goes_while_it_runs_has_vanished_once_it_is_nowhere_else(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        await running.settle()
        home.place.unlink()
        await running.settle()
        assert await attempts(running) == [(1, "running", None, None)]
        await home.rest(running)
        assert await attempts(running) == [(1, "aborted", "process_gone", "run.aborted.vanished")]
        home.write()
        await home.rest(running)
        assert len(await attempts(running)) == 1, "it says no more than before"


async def test_a_restart_looks_at_no_transcript_that_stayed_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.write()
    async with home.open() as running:
        await home.rest(running)
    monkeypatch.setattr(Files, "look_at_session", _unexpected)
    monkeypatch.setattr(Files, "identify", _unexpected)
    async with home.open() as running:
        await running.settle()
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]
        assert await running.rows("select * from problems") == []


def _unexpected(*given: object) -> None:
    raise AssertionError("nothing changed")


async def test_a_look_that_finds_nothing_new_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_steps, "AGAIN", math.inf)  # the clock is noted all the same, now and then
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    home.processes.writing[SESSION] = Writer("alive", "busy", AGENT)
    async with home.open() as running:
        await home.rest(running, 60)
        commits = running.store.commits
        await home.rest(running, 60)
        assert running.store.commits == commits


async def test_the_first_sight_of_a_home_records_its_history_and_fires_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path, history="record")
    home.transcript.now -= LONG_AGO
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.transcript.prompt("and the tests")
    home.transcript.text("done")
    home.write()
    os.utime(home.place, (home.transcript.now, home.transcript.now))
    async with home.open() as running:
        await home.rest(running)
        assert await running.rows("select status, attempt, origin from sessions") == [
            ("completed", 2, "history")
        ]
        finished = "select payload ->> 'origin' from events where type = 'SessionFinished'"
        assert await running.rows(finished) == [("history",), ("history",)]
        assert await running.rows("select * from journal_lines") == []
        home.transcript.now = home.clock.wall
        home.transcript.prompt("once more")
        home.write()
        await home.rest(running)
        assert (await attempts(running))[2:] == [(3, "running", None, None)]
    assert len(list((running.state / "sessions").rglob("events.jsonl"))) == 1


@pytest.mark.parametrize("last_native", [0.0, 0.5], ids=["alone", "beside native runs"])
async def test_a_long_transcript_is_read_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_native: float
) -> None:
    pieces = {"MOST_BYTES": 5_000, "FEWER_BYTES": 2_000}
    for name, size in pieces.items():
        monkeypatch.setattr(looks, name, size)
    asked: list[int] = []
    look = following.Follower.look

    def noted(follower: following.Follower, *given: Any) -> following.Followings:
        asked.append(given[-1])
        return look(follower, *given)

    monkeypatch.setattr(following.Follower, "look", noted)
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    for number in range(50):
        home.transcript.result(home.transcript.call(command=f"make {number}"), "x" * 500)
    home.transcript.text("fixed")
    home.write()
    async with home.open() as running:
        if last_native:
            running.supervisor.assembly.worker.looks._native_at = home.clock.monotonic() - last_native
        await home.rest(running)
        assert await attempts(running) == [(1, "completed", "declared", "run.completed.ok")]
        ((text,),) = await running.rows("select state from cursors")
        scan = load_remembered(str(text)).scan
        assert scan is not None
        assert LAYOUTS.named("claude-code").load(scan).tell().counts.tool_calls == 50
    assert asked[0] == pieces["FEWER_BYTES" if last_native else "MOST_BYTES"]
    assert len(asked) > 5


async def test_what_is_no_session_is_looked_at_again_only_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.write_as(b"")
    async with home.open() as running:
        await home.rest(running)
        assert await sessions(running) == []
        assert await running.rows("select session_key from places") == [(None,)]
        home.transcript.prompt("fix it")
        home.write()
        await home.rest(running)
        assert [row[:2] for row in await sessions(running)] == [(KEY, "running")]


async def test_a_mistake_of_ours_in_one_sessions_look_is_shown_and_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.write()
    home.write(home.projects / "other" / "5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b22.jsonl")
    real = Files.look_at_session

    def look(files: Files, root: str, place: str, **more: object) -> object:
        if place.startswith("other/"):
            raise ZeroDivisionError("ours")
        return real(root, place, **more)  # type: ignore[arg-type] # passed on as it came

    monkeypatch.setattr(Files, "look_at_session", look)
    async with home.open() as running:
        await home.rest(running)
        assert [row[:2] for row in await sessions(running)] == [(KEY, "completed")]
        ((message,),) = await running.rows("select message from problems")
        assert "because of a bug in Runward: ZeroDivisionError('ours')" in str(message)
    monkeypatch.setattr(Files, "look_at_session", staticmethod(real))
    async with home.open() as running:
        await home.rest(running)
        assert await running.rows("select * from problems") == []


async def test_a_root_that_gets_another_layout_remembers_nothing_of_the_one_before(tmp_path: Path) -> None:
    home = Home(tmp_path, entrypoint="cli")
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        await home.rest(running, 60)
    root = Root("claude", str(home.projects))
    async with daemon(tmp_path, home.clock, home.processes, roots=(root,)) as running:
        await running.settle()
        assert running.supervisor.assembly.roots["claude"].open == {}


class Launched:
    """A launched run in `base/runs`, in which the agent of a home was started."""

    def __init__(self, home: Home, name: str = "night", root: str = "runs") -> None:
        self.directory = home.base / root / name
        self.key = f"native:{root}/{name}"
        home.processes.launchers[AGENT.pid] = name
        home.processes.writing[SESSION] = Writer("alive", None, AGENT)
        self.home = home

    def begin(self) -> None:
        self.directory.mkdir(parents=True)
        (self.directory / "run.json").write_text(
            json.dumps({"schema": "runward-run-v1", "session_id": self.directory.name})
        )

    def end(self) -> None:
        """The command ends well, and with it the agent."""
        (self.directory / "exit.json").write_text(json.dumps({"exit_code": 0, "cause": "exited"}))
        os.utime(self.directory / "exit.json", (self.home.clock.wall, self.home.clock.wall))
        self.home.processes.writing.clear()
        self.home.processes.gone.add(AGENT.pid)


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        ("good", "completed", "run.completed.ok"),
        ("error", "failed", "run.failed.api_error"),
        ("killed", "aborted", "run.aborted.process_gone"),
    ],
)
async def test_a_command_that_ended_well_is_judged_by_the_agent_that_was_started_in_it(
    tmp_path: Path, end: str, status: str, reason: str
) -> None:
    home = Home(tmp_path)
    home.playbooks["/home/dev/app"] = "feature"
    launched = Launched(home)
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        launched.begin()
        await running.settle()
        if end != "killed":
            home.transcript.text("fixed") if end == "good" else home.transcript.api_error()
            home.write()
        launched.end()
        await home.rest(running, 2.5, 6)
        columns = "key, status, reason_code, contract_basis"
        assert await running.rows(f"select {columns} from sessions order by key") == [
            (KEY, status, reason, None),
            (launched.key, status, reason, None),
        ]
        assert await running.rows("select linked, launcher from links") == [(KEY, launched.key)]


async def test_a_command_is_not_judged_before_the_agent_in_it_nor_waits_for_it_for_ever(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path, entrypoint="cli")
    launched = Launched(home)
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        launched.begin()
        await running.settle()
        launched.end()
        home.processes.gone.clear()
        await running.settle()
        status = f"select status from sessions where key = '{launched.key}'"
        assert await running.rows(status) == [("running",)]
        await home.rest(running, 5.0, 7)
        assert await running.rows(status) == [("completed",)]


def hook_says(
    running_state: Path,
    launcher: str | None,
    at: float,
    session: str = SESSION,
    ancestors: tuple[RecordedProcess, ...] = (),
) -> None:
    """Claude Code's hook tells of a prompt to a session, which may have been started in a launched run."""
    payload = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": session,
        "cwd": "/src",
        "prompt": "fix it",
    }
    put_note(running_state, "claude-code", payload, launcher, at, ancestors)


def put_note(
    running_state: Path,
    layout: str,
    payload: dict[str, str],
    launcher: str | None,
    at: float,
    ancestors: tuple[RecordedProcess, ...],
) -> None:
    """What an agent's hook puts into the inbox."""
    note = {
        "hook": layout,
        "version": 1,
        "at": at,
        "boot_id": str(UUID(int=7)),
        "ancestors": [[each.pid, each.start_ticks] for each in ancestors],
        "launcher_session": launcher,
        "payload": b64encode(json.dumps(payload).encode()).decode(),
    }
    put(running_state, str(uuid4()), json.dumps(note).encode())


@pytest.mark.parametrize("others", [0, 300], ids=["one word of a hook", "very many"])
async def test_a_command_that_began_and_ended_while_nobody_looked_is_judged_by_the_agent_in_it(
    tmp_path: Path, others: int
) -> None:
    home = Home(tmp_path)
    async with home.open() as running:
        await running.settle()
    launched = Launched(home)
    launched.begin()
    home.transcript.prompt("fix it")
    for number in range(others):
        hook_says(running.state, "another", home.clock.wall, f"other-{number}")
    hook_says(running.state, "night", home.clock.wall)
    home.transcript.api_error()
    home.write()
    launched.end()
    home.clock.move(3600)
    async with home.open() as running:
        running.supervisor.assembly.hints.add([("runs", "night")], Why.WATCH)  # it is met before all else
        await home.rest(running, 6, 6)
        standing = "select status, reason_code from sessions order by key"
        assert await running.rows(standing) == [("failed", "run.failed.api_error")] * 2


async def test_an_agent_that_was_announced_and_never_writes_is_not_waited_for_for_ever(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    launched = Launched(home)
    async with home.open() as running:
        await running.settle()
        launched.begin()
        hook_says(running.state, "night", home.clock.wall)
        running.supervisor.assembly.worker.inbox_waits = True
        await running.settle()
        launched.end()
        await running.settle()
        status = f"select status from sessions where key = '{launched.key}'"
        assert await running.rows(status) == [("running",)]
        await home.rest(running, 20, 8)
        assert await running.rows(status) == [("completed",)]


async def test_a_run_in_another_native_root_than_the_first_is_linked_to(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "nightly").mkdir()
    (tmp_path / "by another path").symlink_to(tmp_path / "nightly")
    home.further = (Root("nightly", str(tmp_path / "by another path")),)
    launched = Launched(home, root="nightly")
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        launched.begin()
        await running.settle()
        assert await running.rows("select linked, launcher from links") == [(KEY, launched.key)]


async def test_so_is_one_whose_root_can_t_be_read_when_the_agent_begins(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "nightly").mkdir()
    home.further = (Root("nightly", str(tmp_path / "nightly")),)
    launched = Launched(home, root="nightly")
    async with home.open() as running:
        launched.begin()
        await running.settle()
        (tmp_path / "nightly").rename(tmp_path / "away")
        home.transcript.prompt("fix it")
        home.write()
        await running.settle()
        assert await running.rows("select linked, launcher from links") == [(KEY, launched.key)]


async def test_of_two_runs_of_the_same_name_that_end_at_once_each_is_judged_by_its_own_agents(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    (tmp_path / "nightly").mkdir()
    home.further = (Root("nightly", str(tmp_path / "nightly")),)
    launched, alone = Launched(home), Launched(home, root="nightly")
    home.transcript.prompt("fix it")
    home.write()
    async with home.open() as running:
        launched.begin()
        await running.settle()
        alone.begin()
        await running.settle()
        home.transcript.api_error()
        home.write()
        launched.end()
        alone.end()
        await home.rest(running, 2.5, 6)
        standing = "select key, status from sessions where layout = 'native' order by key"
        assert await running.rows(standing) == [(alone.key, "completed"), (launched.key, "failed")]
