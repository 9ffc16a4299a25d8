"""A whole daemon in this process: what goes wrong with one run stops nobody else's."""

import json
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.daemon.engine import turn_transaction
from runward.daemon.engine.foreseeing import Foreseen
from runward.daemon.engine.turn import StoppedInTrouble, Worker
from runward.daemon.inbox.spool import dump_request, list_inbox, put
from runward.daemon.log import log_into
from runward.daemon.store.batch import Batch, Job
from runward.daemon.store.tables import all as tables
from runward.daemon.world.files import Files
from runward.handlers.model.contracts import Declarations
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Request
from runward.handlers.model.files import RootFacts, Unreadable
from runward.handlers.model.requests import JobDiscardRequested, JobRetryRequested, ScanRequested
from runward.handlers.model.sessions import EndAttempt, OpenSession

RUN: JsonValue = {"schema": "runward-run-v1"}
REVIEW: JsonValue = {"schema": "runward-run-v1", "playbook": "review"}


def begin(base: Path, name: str, run: JsonValue = RUN) -> Path:
    directory = base / "runs" / name
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps(run))
    return directory


def finish(directory: Path, exit_code: int = 0) -> None:
    (directory / ".exit.tmp").write_text(json.dumps({"exit_code": exit_code}))
    (directory / ".exit.tmp").rename(directory / "exit.json")


async def verdicts(running: Daemon) -> dict[str, str]:
    rows = await running.rows("select key, status from sessions")
    return {str(key).removeprefix("native:runs/"): str(status) for key, status in rows}


def events_in(directory: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (directory / "events.jsonl").read_bytes().splitlines()]


async def ask(running: Daemon, request: Request) -> None:
    put(running.state, request.key, dump_request(request))
    running.supervisor.assembly.worker.inbox_waits = True
    await running.work()


async def test_a_run_is_judged_from_its_first_file_to_its_last(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        directory = begin(tmp_path, "a")
        await running.settle()
        assert await verdicts(running) == {"a": "running"}
        finish(directory)
        await running.settle()
        assert await verdicts(running) == {"a": "completed"}
        assert events_in(directory) == ["session_started", "status_changed", "session_finished"]


async def test_the_lag_is_that_of_runs_that_ended_while_the_daemon_ran(tmp_path: Path) -> None:
    clock = StillClock()
    before, meanwhile = clock.wall - 3600.0, clock.wall + 5.0
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        for name, at in (("before", before), ("meanwhile", meanwhile)):
            ended_at = datetime.fromtimestamp(at, UTC).isoformat()
            (begin(tmp_path, name) / "exit.json").write_text(
                json.dumps({"exit_code": 0, "finished_at": ended_at})
            )
        clock.move(7.0)
        await running.settle()
        assert await verdicts(running) == {"before": "completed", "meanwhile": "completed"}
        assert list(running.supervisor.assembly.verdicts.lag) == [pytest.approx(2.0)]


async def test_nothing_is_remembered_of_the_journals_of_runs_that_are_over(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        outbox = running.supervisor.assembly.outbox
        for name in ("ends", "goes-on"):
            begin(tmp_path, name)
        await running.settle()
        assert {os.path.basename(directory) for directory, _ in outbox._begun} == {"ends", "goes-on"}
        finish(tmp_path / "runs" / "ends")
        await running.settle()
        assert {os.path.basename(directory) for directory, _ in outbox._begun} == {"goes-on"}
        assert events_in(tmp_path / "runs" / "ends") == [
            "session_started",
            "status_changed",
            "session_finished",
        ]


async def test_many_runs_are_judged_however_small_the_batch(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), batch=7) as running:
        for number in range(60):
            finish(begin(tmp_path, f"r{number}"), number % 2)
        await running.settle()
        found = await verdicts(running)
        assert found == {f"r{number}": "failed" if number % 2 else "completed" for number in range(60)}


async def test_what_a_turn_left_behind_is_done_though_there_is_always_more_to_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_transaction, "MOST_EVENTS", 0)  # each job waits for a turn of its own
    async with daemon(tmp_path, StillClock(), ToldProcesses(), batch=4) as running:
        assembly = running.supervisor.assembly
        for turn in range(20):
            for number in range(4):
                finish(begin(tmp_path, f"r{turn}-{number}"))
            await assembly.rounds.scan()
            assert len(assembly.hints) >= 4, "more than a turn takes"
            await assembly.worker.turn()
        assert (await verdicts(running)).get("r0-0") == "completed"


@pytest.mark.parametrize("seen_over", [False, True])
async def test_what_the_playbook_declares_is_taken_at_the_first_look(tmp_path: Path, seen_over: bool) -> None:
    declared = Declarations((ExpectedArtifact("review", "review.md"),), None)
    async with daemon(tmp_path, StillClock(), ToldProcesses(), declared=lambda *names: declared) as running:
        directory = begin(tmp_path, "a", REVIEW)
        if not seen_over:
            await running.settle()
            declared = Declarations(None, None, "it was deleted meanwhile")
        finish(directory)
        await running.settle()
        assert await running.rows("select status, reason_code, contract_basis from sessions") == [
            ("failed", "run.failed.missing_artifact", "late" if seen_over else "first_look")
        ]


class Zoo:
    """Run directories that nobody should write."""

    def fifo(self, directory: Path) -> None:
        (directory / "run.json").unlink()
        os.mkfifo(directory / "run.json")

    def giant(self, directory: Path) -> None:
        (directory / "exit.json").touch()
        os.truncate(directory / "exit.json", 1 << 30)

    def deep(self, directory: Path) -> None:
        (directory / "exit.json").write_bytes(b"[" * 100_000)

    def not_a_number(self, directory: Path) -> None:
        (directory / "exit.json").write_bytes(b'{"exit_code": NaN}')

    def twice(self, directory: Path) -> None:
        (directory / "exit.json").write_bytes(b'{"exit_code": 0, "exit_code": 0}')

    def no_text(self, directory: Path) -> None:
        (directory / "exit.json").write_bytes(b'{"exit_code": 0, "error": "\xff"}')

    def surrogate(self, directory: Path) -> None:
        (directory / "exit.json").write_bytes(b'{"exit_code": 0, "error": "\\ud800"}')

    def link(self, directory: Path) -> None:
        (directory / "exit.json").symlink_to("/etc/hostname")

    def loop(self, directory: Path) -> None:
        (directory / "exit.json").symlink_to("exit.json")

    def journal_is_a_fifo(self, directory: Path) -> None:
        os.mkfifo(directory / "events.jsonl")

    def journal_is_a_directory(self, directory: Path) -> None:
        (directory / "events.jsonl").mkdir()

    def before_the_calendar(self, directory: Path) -> None:
        os.utime(directory / "run.json", ns=(-(10**18), -(10**18)))

    def started_before_the_calendar(self, directory: Path) -> None:
        run = {"schema": "runward-run-v1", "started_at": "0001-01-01T00:00:00+05:00"}
        (directory / "run.json").write_text(json.dumps(run))

    def ended_after_the_calendar(self, directory: Path) -> None:
        end = {"exit_code": 0, "finished_at": "9999-12-31T23:59:59-05:00"}
        (directory / "exit.json").write_text(json.dumps(end))

    def numbers_beyond_all_reason(self, directory: Path) -> None:
        run = {"schema": "runward-run-v1", "contract": {"expected": [], "x": 10**400}, "timeout": 10**4000}
        (directory / "run.json").write_text(json.dumps(run))

    def a_text_that_steers_terminals(self, directory: Path) -> None:
        run = {"schema": "runward-run-v1", "session_id": "\x1b]0;owned\x07\r\n", "agent": "\x00"}
        (directory / "run.json").write_text(json.dumps(run))


EVIL = sorted(name for name in vars(Zoo) if not name.startswith("_"))


async def test_good_runs_are_judged_amid_every_hostile_one(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        for name in EVIL:
            getattr(Zoo(), name)(begin(tmp_path, f"evil {name}\n\x1b[31m"))
        good = [begin(tmp_path, f"good{number}") for number in range(3)]
        await running.settle()
        for directory in good:
            finish(directory)
        await running.settle()
        found = await verdicts(running)
        assert {name: found[name] for name in found if name.startswith("good")} == {
            f"good{number}": "completed" for number in range(3)
        }
        assert await running.rows("select error from jobs where state != 'done'") == []
        assert running.supervisor.assembly.queue.tally.refused == []
        await running.supervisor.assembly.outbox.sweep()
        assert await running.rows("select count(*) from outbox") == [(0,)]


@pytest.mark.parametrize("name", EVIL)
async def test_a_hostile_run_is_noticed_and_never_held_for_a_bug_of_ours(tmp_path: Path, name: str) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        directory = begin(tmp_path, "evil")
        getattr(Zoo(), name)(directory)
        await running.settle()
        problems = await running.rows("select path from problems")
        sessions = await verdicts(running)
        assert problems or sessions
        assert await running.rows("select error from jobs where state != 'done'") == []


async def test_a_run_with_a_file_from_beyond_all_calendars_is_judged(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        directory = begin(tmp_path, "a")
        finish(directory)
        for name in ("run.json", "exit.json"):
            os.utime(directory / name, (4e11, 4e11))
        await running.settle()
        assert await verdicts(running) == {"a": "completed"}
        assert len(events_in(directory)) == 3


async def test_a_run_that_died_in_the_middle_of_a_line_gets_all_its_lines_once_it_is_over(
    tmp_path: Path,
) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        directory = begin(tmp_path, "a")
        (directory / "events.jsonl").write_bytes(b'{"role":"agent"}\n{"role":"ag')
        await running.settle()
        assert (directory / "events.jsonl").read_bytes() == b'{"role":"agent"}\n{"role":"ag'
        finish(directory)
        await running.settle()
        clock.move(60)
        await running.work()
        content = (directory / "events.jsonl").read_bytes()
        assert content.startswith(b'{"role":"agent"}\n{"role":"ag')
        ours = [json.loads(line)["event"] for line in content.splitlines()[2:]]
        assert ours == ["session_started", "status_changed", "session_finished"]


async def test_a_torn_line_that_the_run_completes_is_followed_by_ours(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        directory = begin(tmp_path, "a")
        (directory / "events.jsonl").write_bytes(b'{"event":"it')
        await running.settle()
        with (directory / "events.jsonl").open("ab") as file:
            file.write(b's own"}\n')
        clock.move(60)
        await running.work()
        assert events_in(directory) == ["its own", "session_started"]


async def test_artifacts_that_cannot_be_read_hold_the_verdict_back_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract: JsonValue = {"expected": [{"id": "a", "path": "a.md"}]}
    clock, artifacts = StillClock(), Files.artifacts

    def broken(self: Files, root: str, within: str, paths: tuple[str, ...]) -> RootFacts | Unreadable:
        return Unreadable("Input/output error") if "/bad/" in root else artifacts(self, root, within, paths)

    monkeypatch.setattr(Files, "artifacts", broken)
    async with daemon(tmp_path, clock, ToldProcesses()) as running:
        for name in ("bad", "good"):
            directory = begin(tmp_path, name, {"schema": "runward-run-v1", "contract": contract})
            (directory / "artifacts").mkdir()
            (directory / "artifacts" / "a.md").write_text("work")
            finish(directory)
        await running.settle()
        assert await verdicts(running) == {"bad": "running", "good": "completed"}
        monkeypatch.undo()
        clock.move(1)
        running.supervisor.assembly.queue.may_be_due = True
        await running.work()
        assert await verdicts(running) == {"bad": "completed", "good": "completed"}


@pytest.fixture
def broken_playbook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that can't take a session of the playbook `review`, as a bug of ours would have it."""
    apply = tables.apply

    def broken(batch: Batch, job: Job, each: Effect) -> None:
        if isinstance(each, OpenSession) and each.declaration.playbook == "review":
            each = replace(each, contract_basis="a bug")  # that is the bug
        apply(batch, job, each)

    monkeypatch.setattr(tables, "apply", broken)


@pytest.mark.parametrize("is_foreseen", [True, False])
async def test_a_verdict_that_the_store_refuses_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_foreseen: bool
) -> None:
    apply = tables.apply

    def broken(batch: Batch, job: Job, each: Effect) -> None:
        if isinstance(each, EndAttempt) and each.key.endswith("/bad"):
            each = replace(each, attempt=each.attempt + 1)  # a bug of ours: the session has no such attempt
        apply(batch, job, each)

    async def nothing(*_: object) -> Foreseen:
        return Foreseen()

    monkeypatch.setattr(tables, "apply", broken)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        if (
            not is_foreseen
        ):  # then a verdict is decided after the first transaction, and recorded in a second one
            monkeypatch.setattr(Worker, "_foresee", nothing)
        for name in ("a", "bad", "b"):
            begin(tmp_path, name)
        await running.settle()
        for name in ("a", "bad", "b"):
            finish(tmp_path / "runs" / name)
        await running.settle()
        assert await verdicts(running) == {"a": "completed", "bad": "running", "b": "completed"}
        assert await running.rows("select lane from jobs where state = 'held'") == [("native:runs/bad",)]
        assert running.supervisor.assembly.queue.tally.in_steps == 1


async def held_job(running: Daemon) -> int:
    ((number,),) = await running.rows("select id from jobs where state = 'held'")
    assert isinstance(number, int)
    return number


async def test_a_held_job_is_retried_through_the_inbox(
    tmp_path: Path, broken_playbook: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        finish(begin(tmp_path, "bad", REVIEW))
        finish(begin(tmp_path, "good"))
        await running.settle()
        assert await verdicts(running) == {"good": "completed"}
        number = await held_job(running)
        monkeypatch.undo()
        await ask(running, JobRetryRequested("retry-1", 1.0, number))
        assert await verdicts(running) == {"bad": "completed", "good": "completed"}
        assert list_inbox(running.state) == ()
        assert events_in(tmp_path / "runs" / "bad") == [
            "session_started",
            "status_changed",
            "session_finished",
        ]


async def test_a_request_that_comes_while_the_inbox_is_listed_is_not_left_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        worker, real, listed = running.supervisor.assembly.worker, Files.inbox, list[object]()

        def listed_before(files: Files) -> object:
            found = real(files)
            listed.append(found)
            if len(listed) == 1:
                put(running.state, "late", dump_request(ScanRequested("late", 1.0)))
                worker.inbox_waits = True  # as its notification does
            return found

        monkeypatch.setattr(Files, "inbox", listed_before)
        worker.inbox_waits = True
        await running.work()
        assert list_inbox(running.state) == ()
        assert await running.rows("select count(*) from events where key = 'late'") == [(1,)]


async def test_a_held_job_is_discarded_through_the_inbox_and_its_lane_goes_on(
    tmp_path: Path, broken_playbook: None
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        finish(begin(tmp_path, "bad", REVIEW))
        await running.settle()
        number = await held_job(running)
        await ask(running, JobDiscardRequested("discard-1", 1.0, number, "nobody needs it"))
        assert await verdicts(running) == {}
        assert await running.rows("select distinct state from jobs order by 1") == [("discarded",), ("done",)]
        ((summary,),) = await running.rows("select summary from decisions where verdict = 'refused'")
        assert "never started" in str(summary)


async def test_a_request_is_recorded_once_however_often_it_is_found(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        for _ in range(2):
            await ask(running, ScanRequested("scan-1", 1.0))
        assert await running.rows("select key from events") == [("scan-1",)]


async def test_what_is_no_request_is_set_aside_and_stops_nothing(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        put(running.state, "nonsense", b"{")
        (running.state / "inbox" / os.fsdecode(b"\xff.json")).write_bytes(b"{}")
        finish(begin(tmp_path, "a"))
        await running.settle()
        await ask(running, ScanRequested("scan-1", 1.0))
        assert await verdicts(running) == {"a": "completed"}
        assert [each.name for each in (running.state / "rejected").iterdir()] == ["nonsense.json"]


@pytest.mark.parametrize(
    ("why", "fix"),
    [
        (
            "database is locked",
            "end the program that holds runward.db (fuser runward.db names it); it is retried",
        ),
        (
            "database table is locked",
            "end the program that holds runward.db (fuser runward.db names it); it is retried",
        ),
        ("database or disk is full", "free space or repair the disk; it is retried"),
        ("disk I/O error", "free space or repair the disk; it is retried"),
    ],
)
async def test_the_log_says_what_to_do_about_a_store_that_is_locked_or_whose_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, fix: str
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        worker = running.supervisor.assembly.worker
        lines: list[dict[str, object]] = []
        worker.log = log_into(lines.append)
        worker.stopping.set()

        async def fail() -> None:
            raise sqlite3.OperationalError(why)

        monkeypatch.setattr(worker.queue, "next_due", fail)
        with pytest.raises(StoppedInTrouble):
            await worker.next_due()
    assert [(line["event"], line["why"], line["fix"]) for line in lines] == [("store.trouble", why, fix)]
