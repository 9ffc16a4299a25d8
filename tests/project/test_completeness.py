"""What one page names, the others know: reasons, effects, questions, events, and the points where tests strike."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import get_args

import anyio
import pytest
from tests.daemon.fleet.test_events_of_hosts import POINTS as POINTS_OF_EVENTS
from tests.daemon.fleet.test_joining import POINTS as POINTS_OF_JOIN
from tests.daemon.fleet.test_receipts import POINTS as POINTS_OF_RECEIPTS
from tests.daemon.fleet.test_remote_steps import POINTS as POINTS_OF_ORDERS
from tests.daemon.fleet.test_reporting import POINTS as POINTS_OF_PROGRAM
from tests.daemon.fleet.test_restored_fleet import POINTS as POINTS_OF_RECORD
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.launching import Launcher
from tests.daemon.parts.test_announced_starts import Announcing
from tests.daemon.world.test_reused_launchers import Listening
from tests.project.repository import ROOT, parsed, sources

from runward.config.bundle import BundleRules
from runward.config.notification import Recipient
from runward.config.playbook import Playbook
from runward.daemon import faults
from runward.daemon.engine.deciding import Answers, NoAnswer
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.store.tables import jobs
from runward.daemon.store.tables.all import APPLIERS, TABLES, TwoOwners, joined
from runward.daemon.store.transaction import Statement
from runward.daemon.world import starting
from runward.daemon.world.messenger import SettingsMessenger
from runward.handlers.exchange.accounts import CodeRun
from runward.handlers.model.asking import Question
from runward.handlers.model.bundle import ReceiptSignRequested
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, Request
from runward.handlers.model.invocations import Play
from runward.handlers.model.reasons import MEANINGS, ReasonCode, status_of
from runward.handlers.model.requests import PlayRunRequested, SessionCancelRequested
from runward.handlers.model.sessions import Status
from runward.handlers.registry import EFFECTS, EVENTS, QUESTIONS
from runward.handlers.route import HANDLERS

SESSIONS = (ROOT / "docs" / "sessions.md").read_text()
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
REASON = re.compile(r"run\.[a-z_]+\.[a-z_]+")
INSPECTED_ONLY = "run.unknown."
"""What `runward inspect` says where nobody can know: no session in the store has it."""


def texts_in(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def reasons_in(*packages: str) -> set[str]:
    return {
        text
        for path in sources(*packages)
        if path.name != "reasons.py" and REASON.search(path.read_text())
        for text in texts_in(path)
        if REASON.fullmatch(text)
    }


def test_every_reason_that_the_code_gives_is_listed() -> None:
    given = {code for code in reasons_in() if not code.startswith(INSPECTED_ONLY)}
    assert given - set(MEANINGS) == set()
    assert set(MEANINGS) - reasons_in("handlers") == set(), "listed, but never given"


@pytest.mark.parametrize("code", sorted(MEANINGS))
def test_every_listed_reason_is_documented_with_its_status(code: str) -> None:
    rows = [line for line in SESSIONS.splitlines() if line.startswith("|") and f"`{code}`" in line]
    assert rows, f"docs/sessions.md doesn't say what {code} means"
    assert any(f"`{status_of(code)}`" in row for row in rows)


def test_reasons_have_three_parts_and_go_with_their_status() -> None:
    assert set(get_args(ReasonCode)) == set(MEANINGS)
    for code, (status, meaning) in MEANINGS.items():
        assert REASON.fullmatch(code)
        assert status in get_args(Status)
        assert meaning
        assert status == ("running" if code.startswith("run.started.") else code.split(".")[1])


def test_every_effect_is_applied() -> None:
    assert set(APPLIERS) == set(EFFECTS)


@pytest.mark.parametrize(
    "declared",
    [jobs.table().appliers, jobs.table().answers, jobs.table().folds],
    ids=["applied", "answered", "folded"],
)
def test_what_two_tables_own_keeps_runward_from_starting(declared: Mapping[type[object], object]) -> None:
    with pytest.raises(TwoOwners, match=next(iter(declared)).__name__):
        joined([declared, declared])


WRITTEN = re.compile(r"(?:insert(?: or \w+)? into|update|delete from) (\w+)")


def test_a_table_of_the_store_is_written_by_its_owner_alone() -> None:
    owned = [
        {
            written[1]
            for sql in (
                *(write.sql for write in table.writes),
                *(*table.goes_with_session, *table.goes_with_event, *table.goes_with_chain_run),
                *table.moved_by_steps,
                *table.moved,
            )
            if (written := WRITTEN.match(sql))
        }
        for table in TABLES
    ]
    assert all(owned), "each of them writes something"
    shared = Counter(name for names in owned for name in names)
    assert [name for name, owners in shared.items() if owners > 1] == []


def test_a_question_that_nobody_answers_keeps_the_daemon_from_starting() -> None:
    answers = Answers()
    for kind in QUESTIONS[1:]:
        answers.at_once(kind, lambda question: None)
    with pytest.raises(NoAnswer, match=f"nobody answers {QUESTIONS[0].__name__}"):
        answers.check(QUESTIONS)


def kinds_of(base: type[object]) -> set[type[object]]:
    """All kinds that are defined anywhere, apart from those that are only the base of others."""
    found = {each for kind in base.__subclasses__() for each in (kinds_of(kind) or {kind})}
    return {each for each in found if each.__module__.startswith("runward.")}


@pytest.mark.parametrize(
    ("base", "listed"), [(Event, EVENTS.values()), (Effect, EFFECTS), (Question, QUESTIONS)]
)
def test_what_a_capability_defines_is_registered(base: type[object], listed: Iterable[type[object]]) -> None:
    assert kinds_of(base) - {CodeRun} == set(listed), "code is asked for in the sandbox alone"


def test_every_event_has_its_handlers() -> None:
    assert set(HANDLERS) == set(EVENTS)
    assert all(handlers for handlers in HANDLERS.values())


def named_points(*files: Path) -> set[str]:
    """The points whose names stand in these files as they are."""
    found = set()
    for path in files:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "point":
                (name,) = node.args
                if isinstance(name, ast.Constant):
                    found.add(str(name.value))
    return found


LAUNCHER = {ROOT / "daemon" / "launch" / name for name in ("launch.py", "detached.py")}
"""The files whose points are a launcher's and not the daemon's."""
CHANNEL = ROOT / "daemon" / "world" / "starting.py"
"""Where the daemon hears launchers."""
FLEET = set((ROOT / "daemon" / "fleet").iterdir())
"""The files whose points are a fleet's: `tests/daemon/fleet` kills what passes them at each."""
HEARD = {"launch.renamed", "launch.told", "launch.over"}
"""Points of a launcher that somebody listens to."""


def test_an_ordinary_launch_passes_every_point_of_a_launcher(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    launcher.environment["RUNWARD_RUN_FAULT"] = "list"
    said = launcher.run("--name", "a", "--", "printenv", "RUNWARD_RUN_FAULT")
    assert said.stdout == b"", "and its command is told of none"
    passed = [line.removeprefix("point ") for line in said.stderr.decode().splitlines()]
    assert set(passed) == named_points(*LAUNCHER) - HEARD
    assert len(passed) == len(set(passed)) >= 8
    assert all(f"`{name}`" in REFERENCE for name in passed)


def test_a_launcher_that_is_heard_passes_every_point_and_who_hears_it_those_of_the_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from runward.daemon import faults; from runward.daemon.launch.detached import main;"
        "faults.from_environment('list'); main()"
    )
    monkeypatch.setattr(starting, "LAUNCHER", (sys.executable, "-P", "-c", code))
    passed: list[str] = []
    monkeypatch.setattr(faults, "_hook", passed.append)
    starter = Listening(tmp_path)
    try:
        starter.begin("a", "true")
        anyio.run(starter.launched["a"].channel.ended)
        starter.end("a")
    finally:
        starter.close()
    said = (starter.state / "log" / "launcher.log").read_text().splitlines()
    assert {line.removeprefix("point ") for line in said} == named_points(*LAUNCHER)
    assert set(passed) == named_points(CHANNEL)
    assert all(f"`{name}`" in REFERENCE for name in HEARD | named_points(CHANNEL))


def test_what_passes_a_point_of_a_fleet_is_killed_there() -> None:
    of_hosts = [*POINTS_OF_ORDERS.values(), *POINTS_OF_EVENTS.values()]
    points = {name for each in of_hosts for name in each}
    killed = {*POINTS_OF_PROGRAM, *POINTS_OF_JOIN, *POINTS_OF_RECEIPTS, *POINTS_OF_RECORD, *points}
    assert named_points(*(path for path in FLEET if path.suffix == ".py")) == killed
    assert all(f"`{name}`" in REFERENCE for name in killed)


async def test_an_ordinary_life_passes_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = named_points(*(path for path in sources("daemon") if path not in LAUNCHER | FLEET | {CHANNEL}))
    passed: list[str] = []
    monkeypatch.setattr(faults, "_hook", passed.append)
    play = Play(Playbook("make", command=("make",)), root_name="runs", root_path=str(tmp_path / "runs"))
    told = SettingsMessenger(lambda: (Recipient(("session.*",), command=("true",)),))
    async with daemon(
        tmp_path,
        StillClock(),
        Announcing(tmp_path),
        playable=lambda name: play,
        messenger=told,
        bundled=lambda session: BundleRules(),
    ) as running:
        directory = tmp_path / "runs" / "a"
        directory.mkdir()
        (directory / "run.json").write_text('{"schema": "runward-run-v1"}')
        (directory / "exit.json").write_text('{"exit_code": 0}')
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()
        assert await running.supervisor.assembly.notices.carry_out()
        assert await running.supervisor.assembly.bundles.carry_out()
        await _ask(running, ReceiptSignRequested("s", 1.0, "native:runs/a", 1, "ed25519"))
        assert await running.supervisor.assembly.signings.carry_out()
        await _cancel_a_run(running, tmp_path)
        await _start_a_run(running)
        await _remove_a_worktree(running, monkeypatch)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as after_an_unclean_stop:
        await after_an_unclean_stop.work()
    assert points <= set(passed)
    assert len(points) >= 5
    for commit in ("roots", "put", "apply", "outbox"):
        moments = [name.rpartition(".")[2] for name in passed if name.startswith(f"commit.{commit}.")]
        assert moments[:3] == ["begin", "before", "after"]


async def _cancel_a_run(running: Daemon, base: Path) -> None:
    directory = base / "runs" / "b"
    directory.mkdir()
    launcher = '{"pid": 100, "start_ticks": 7, "boot_id": "this"}'
    (directory / "run.json").write_text(f'{{"schema": "runward-run-v1", "launcher": {launcher}}}')
    (directory / "trace.jsonl").write_text("")  # without it, no replay would begin
    await running.settle()
    running.clock.move(60.0)
    assert await running.supervisor.assembly.running_replays.carry_out()
    await _ask(running, SessionCancelRequested("b", 1.0, "native:runs/b", 1))


async def _start_a_run(running: Daemon) -> None:
    await _ask(running, PlayRunRequested("c", 1.0, "make", {}, "/"))


async def _remove_a_worktree(running: Daemon, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ToldProcesses, "remove_worktree", lambda self, name, repo: None)
    owed = "insert into worktrees (session_key, event, name, repo) values (?, ?, ?, ?)"
    await running.store.run([Statement(owed, [("native:runs/a", 1, "a", "/repo")])], "worktree")
    assert await running.supervisor.assembly.worktrees.carry_out()


async def _ask(running: Daemon, request: Request) -> None:
    put(running.state, request.request, dump_request(request))
    running.supervisor.assembly.worker.inbox_waits = True
    await running.work()
