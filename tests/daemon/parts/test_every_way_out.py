"""Every way out of a run, and every state of its contract, through a whole daemon over real directories.

Each row of the two tables says what it must come to; together they are ADR-0029's status, reason and evidence for
a pair, what `session show` says where status and verification disagree, and what `why` keeps. All pairs are in
`tests/handlers/sessions/test_ended.py`: a daemon adds nothing to what its handler makes of a pair.
"""

import ctypes
import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from tests.contract_json import entry
from tests.daemon.cli.calling import Place
from tests.daemon.in_process import StillClock, ToldProcesses, daemon

from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.handlers.model.contracts import Declarations

KEY = "native:runs/{}"


@dataclass(frozen=True)
class WayOut:
    """How a run ends: by what its `exit.json` says, or without one. `says` completes "it … for a cause of its own"."""

    exit: Mapping[str, JsonValue] | None
    status: str
    code: str
    summary: str
    says: str = "failed"
    ended_by: str = "declared"


WAYS = {
    "clean": WayOut({"exit_code": 0}, "completed", "run.completed.ok", "exited with 0", "completed"),
    "non-zero": WayOut({"exit_code": 3}, "failed", "run.failed.exit_nonzero", "exited with 3"),
    "signal": WayOut(
        {"exit_code": None, "signal": 9, "cause": "signalled"},
        "failed",
        "run.failed.signal",
        "killed by signal 9",
    ),
    "exception": WayOut({"exit_code": 1, "error": "boom"}, "failed", "run.failed.exception", "boom"),
    "exception after a clean exit": WayOut(
        {"exit_code": 0, "error": "boom"}, "failed", "run.failed.exception", "boom"
    ),
    "timeout": WayOut(
        {"exit_code": None, "signal": 15, "cause": "timed_out"},
        "timed_out",
        "run.timed_out.deadline",
        "its deadline passed",
        "timed out",
    ),
    "SIGINT": WayOut(
        {"exit_code": None, "signal": 2, "cause": "cancelled"},
        "aborted",
        "run.aborted.user",
        "interrupted",
        "was aborted",
    ),
    "SIGTERM": WayOut(
        {"exit_code": None, "signal": 15, "cause": "cancelled"},
        "cancelled",
        "run.cancelled.sigterm",
        "told to stop by signal 15",
        "was cancelled",
    ),
    "SIGHUP": WayOut(
        {"exit_code": None, "signal": 1, "cause": "cancelled"},
        "cancelled",
        "run.cancelled.sigterm",
        "told to stop by signal 1",
        "was cancelled",
    ),
    "a person": WayOut(
        {"exit_code": None, "signal": None, "cause": "cancelled"},
        "cancelled",
        "run.cancelled.user",
        "told to stop",
        "was cancelled",
    ),
    "shutdown": WayOut(
        {"exit_code": None, "signal": None, "cause": "cancelled", "error": "shutdown"},
        "cancelled",
        "run.cancelled.system",
        "the system was shutting down",
        "was cancelled",
    ),
    "not started": WayOut(
        {"exit_code": 127, "cause": "not_started", "error": "No such file"},
        "failed",
        "run.failed.not_started",
        "it could not be started: No such file",
    ),
    "process gone": WayOut(
        None,
        "aborted",
        "run.aborted.process_gone",
        "its process ended without reporting why",
        "was aborted",
        "process_gone",
    ),
    "vanished": WayOut(
        None,
        "aborted",
        "run.aborted.vanished",
        "its directory vanished while it ran",
        "was aborted",
        "process_gone",
    ),
}


REVIEW, REPORT, NOTES = entry("review.md"), entry("report.md"), entry("notes.md", required=False)


@dataclass(frozen=True)
class Missing:
    """What was not delivered: ids of required and optional artifacts, and why, by path."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """A contract and what lies on the disk at the end.

    `expected` is None where there is no contract in force; `run` is what `run.json` says. `root` tells whether the
    artifacts' directory is there.
    """

    expected: tuple[dict[str, JsonValue], ...] | None
    run: Mapping[str, JsonValue]
    plant: Callable[[Path], object] = lambda artifacts: None
    verification: str | None = None
    delivery: str | None = None
    missing: Missing = Missing()
    basis: str | None = "first_look"
    problem: str | None = None
    root: bool = True


def held_to(*expected: dict[str, JsonValue]) -> Mapping[str, JsonValue]:
    return {"contract": {"expected": list(expected)}}


def deliver(*names: str) -> Callable[[Path], object]:
    return lambda artifacts: [(artifacts / f"{name}.md").write_text("work") for name in names]


def close_off(artifacts: Path) -> None:
    (artifacts / "closed").mkdir()
    (artifacts / "closed" / "review.md").write_text("work")
    (artifacts / "closed").chmod(0)


CLOSED: dict[str, JsonValue] = {**REVIEW, "path": "closed/review.md"}
ABSENT_REVIEW = Missing(("review",), (), {"review.md": "absent"})

STATES = {
    "none": State(None, {}, basis=None),
    "explicit null": State(None, {"contract": None, "playbook": "review"}, basis=None),
    "nothing expected": State((), held_to(), verification="passed", delivery="passed"),
    "delivered": State(
        (REVIEW, NOTES), held_to(REVIEW, NOTES), deliver("review", "notes"), "passed", "passed"
    ),
    "declared by the playbook": State(
        (REVIEW,), {"playbook": "review"}, deliver("review"), "passed", "passed", basis="first_look"
    ),
    "optional missing": State(
        (REVIEW, NOTES),
        held_to(REVIEW, NOTES),
        deliver("review"),
        "warning",
        "passed",
        Missing((), ("notes",), {"notes.md": "absent"}),
    ),
    "required missing": State(
        (REVIEW, NOTES), held_to(REVIEW, NOTES), deliver("notes"), "failed", "missing", ABSENT_REVIEW
    ),
    "one of two missing": State(
        (REPORT, REVIEW), held_to(REPORT, REVIEW), deliver("report"), "failed", "partial", ABSENT_REVIEW
    ),
    "empty": State(
        (REVIEW,),
        held_to(REVIEW),
        lambda artifacts: (artifacts / "review.md").touch(),
        "failed",
        "invalid",
        Missing(("review",), (), {"review.md": "empty"}),
    ),
    "outside": State(
        (REVIEW,),
        held_to(REVIEW),
        lambda artifacts: (artifacts / "review.md").symlink_to("../run.json"),
        "failed",
        "invalid",
        Missing(("review",), (), {"review.md": "leads outside the root"}),
    ),
    "not regular": State(
        (REVIEW,),
        held_to(REVIEW),
        lambda artifacts: os.mkfifo(artifacts / "review.md"),
        "failed",
        "invalid",
        Missing(("review",), (), {"review.md": "not a regular file"}),
    ),
    "denied": State(
        (CLOSED,),
        held_to(CLOSED),
        close_off,
        "failed",
        "invalid",
        Missing(("review",), (), {"closed/review.md": "not readable by the daemon"}),
    ),
    "root missing": State(
        (REVIEW, NOTES),
        held_to(REVIEW, NOTES),
        verification="failed",
        delivery="missing",
        missing=Missing(("review",), ("notes",)),
        root=False,
    ),
    "root missing, all optional": State(
        (NOTES,),
        held_to(NOTES),
        verification="failed",
        delivery="missing",
        missing=Missing((), ("notes",)),
        root=False,
    ),
    "no such playbook": State(None, {"playbook": "nowhere"}, basis=None, problem="there is no playbook"),
    "a snapshot that is none": State(None, {"contract": {"expected": 7}}, basis=None, problem="run.json: "),
}
PAIRS = [
    *(("clean", state) for state in STATES),
    *((way, "one of two missing") for way in WAYS if way != "clean"),
    ("signal", "delivered"),
]


def declares(playbook: str | None, agent: str | None) -> Declarations:
    if playbook == "review":
        return Declarations((ExpectedArtifact("review", "review.md"),), None)
    return Declarations(None, None, f"there is no playbook {playbook!r}")


def seen_from_a_vanished_directory(state: State) -> State:
    """What a state amounts to where the whole run directory is gone: a missing root."""
    if state.expected is None:
        return state
    names = [(str(each["id"]), bool(each["required"])) for each in state.expected]
    missing = Missing(
        tuple(name for name, required in names if required),
        tuple(name for name, required in names if not required),
    )
    return State(
        state.expected, state.run, state.plant, "failed", "missing", missing, state.basis, root=False
    )


def begin(runs: Path, name: str, number: int, state: State) -> Path:
    """A run with a process of its own that has left behind what the state says."""
    directory = runs / name
    directory.mkdir()
    if state.root:
        (directory / "artifacts").mkdir()
        state.plant(directory / "artifacts")
    launcher = {"pid": number, "start_ticks": 1, "boot_id": "b"}
    (directory / "run.json").write_text(
        json.dumps({"schema": "runward-run-v1", "launcher": launcher, **state.run})
    )
    return directory


def end(directory: Path, number: int, way: str, processes: ToldProcesses) -> None:
    said = WAYS[way].exit
    if said is not None:
        (directory / ".exit").write_text(json.dumps({"cause": "exited", **said}))
        (directory / ".exit").rename(directory / "exit.json")
    elif way == "process gone":
        processes.gone.add(number)
    else:
        _open_again(directory)
        shutil.rmtree(directory)


def _open_again(directory: Path) -> None:
    for closed in directory.glob("artifacts/closed"):
        closed.chmod(0o700)


@contextmanager
def modes_hold() -> Iterator[None]:
    """Within it the modes of files hold also where root runs the tests (capset(2), version 3, for this thread)."""
    libc = ctypes.CDLL(None)
    header, held = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    assert libc.capget(header, held) == 0
    words = struct.unpack("=6I", held.raw)
    without = struct.pack("=6I", words[0] & ~0b110, *words[1:])  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, without) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held.raw) == 0


async def _live_through(base: Path) -> None:
    clock, processes = StillClock(), ToldProcesses()
    async with daemon(base, clock, processes, declared=declares) as running:
        directories = {
            (way, state): begin(base / "runs", f"{way}, {state}", 1000 + number, STATES[state])
            for number, (way, state) in enumerate(PAIRS)
        }
        await running.settle()
        for number, (way, state) in enumerate(PAIRS):
            end(directories[way, state], 1000 + number, way, processes)
        await running.settle()
        clock.move(6)
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place in which every pair has been judged."""
    place = Place(tmp_path_factory.mktemp("judged"))
    text = 'state_dir = "state"\n[[roots]]\npath = "runs"\n'
    (place.directory / "runward.toml").write_text(text)
    with modes_hold():
        anyio.run(_live_through, place.directory)
    yield place
    for directory in (place.directory / "runs").iterdir():
        _open_again(directory)


_WHY = {
    "denied": "not readable by the daemon",
    "outside": "leads outside the root",
    "not regular": "not a regular file",
    "empty": "empty",
}
"""What is said of files that are there and don't count."""


@pytest.mark.parametrize(("way", "state"), PAIRS, ids=[f"{way}-{state}" for way, state in PAIRS])
def test_every_way_out_over_every_contract_state_gives_the_seeds_verdict(
    judged: Place, way: str, state: str
) -> None:
    out, held = WAYS[way], STATES[state]
    if way == "vanished":
        held = seen_from_a_vanished_directory(held)
    name = f"{way}, {state}"
    shown = judged.call("session", "show", name, "--json").object()
    for_the_contract = out.status == "completed" and held.verification == "failed"

    reason = shown["reason"]
    assert isinstance(reason, dict)
    if for_the_contract:
        paths = {str(each["id"]): str(each["path"]) for each in held.expected or ()}
        assert (shown["status"], reason["code"]) == ("failed", "run.failed.missing_artifact")
        assert reason["evidence_refs"] == [
            {"kind": "expected_artifact", "id": each, "label": paths[each]} for each in held.missing.required
        ]
        why = _WHY.get(state)
        named = ", ".join(
            f"{each} ({paths[each]}){f': {why}' if why else ''}" for each in held.missing.required
        )
        what = "required artifacts were not delivered" if why else "missing required artifacts"
        assert reason["summary"] == (f"{what}: {named}" if named else "the artifacts' directory is missing")
    else:
        assert (shown["status"], reason["code"], reason["summary"]) == (out.status, out.code, out.summary)
        assert reason["evidence_refs"] == [
            {
                "kind": "exit" if out.ended_by == "declared" else "process",
                "id": f"{KEY.format(name)}#1/ended",
                "label": f"{out.ended_by}: {out.summary}",
            }
        ]
    assert (shown["ended_by"], shown["attempt"]) == (out.ended_by, 1)

    assert (shown["contract"] is None) == (held.expected is None)
    assert (shown["contract_basis"], shown["delivery"]) == (held.basis, held.delivery)
    assert str(shown["contract_problem"]).startswith(str(held.problem))
    verification = shown["verification"]
    if held.verification is None:
        assert verification is None
    else:
        assert isinstance(verification, dict)
        assert verification["status"] == held.verification
        assert _ids(verification["missing_required"]) == held.missing.required
        assert _ids(verification["missing_optional"]) == held.missing.optional
        assert len(_ids(verification["produced"])) == len(held.expected or ()) - len(
            held.missing.required + held.missing.optional
        )

    text = judged.call("session", "show", name).out
    both = _both_signals(out, held) if not for_the_contract else None
    assert (f"Status and verification differ: {both}." in text) if both else ("Both count" not in text)
    assert ("Expected artifacts" in text) == (held.expected is not None)

    story = judged.call("why", name, "--json")
    (decided,) = [
        cause
        for cause in story.items("causes")
        if cause["kind"] == "decision" and str(cause["event"]).endswith("ended")
    ]
    assert decided["summary"] == f"sessions/ended decided: {shown['status']}: {reason['summary']}"
    known = decided["known"]
    assert isinstance(known, dict)
    assert known.get("not_delivered", {}) == (held.missing.why if held.root else {})
    assert ("artifacts_root" in known) == (held.expected is not None and not held.root)
    finished = story.items("causes")[-1]
    delivery = f", delivery {held.delivery}" if held.delivery else ""
    assert finished["summary"] == f"SessionFinished: the verdict on attempt 1: {shown['status']}{delivery}"
    undone = [str(each["what"]) for each in story.items("not_done")]
    assert any("contract" in each for each in undone) == (held.problem is not None)


def _ids(entries: JsonValue) -> tuple[str, ...]:
    assert isinstance(entries, list)
    return tuple(str(each["id"]) for each in entries if isinstance(each, dict))


def _both_signals(out: WayOut, held: State) -> str | None:
    """What is to be said where status and verification tell two stories."""
    if out.status == "completed":
        return "it completed, but optional artifacts are missing" if held.verification == "warning" else None
    if held.verification in ("passed", "warning"):
        return f"it {out.says}, although all required artifacts are there"
    if held.verification == "failed":
        paths = {str(each["id"]): str(each["path"]) for each in held.expected or ()}
        named = ", ".join(f"{each} ({paths[each]})" for each in held.missing.required)
        return f"it {out.says} for another reason; it also did not deliver {named or 'its artifacts'}"
    return None


async def _through_an_absence(base: Path, held: State) -> Sequence[tuple[object, ...]]:
    """Status and delivery of a run that ends while its root is away: then, and when the root is back."""
    processes = ToldProcesses()
    async with daemon(base, StillClock(), processes, declared=declares) as running:
        directory = begin(base / "runs", "a", 1000, held)
        await running.settle()
        end(directory, 1000, "clean", processes)
        (base / "runs").rename(base / "away")
        await running.settle()
        meanwhile = await running.rows("select status, delivery from sessions")
        (base / "away").rename(base / "runs")
        await running.settle()
        return meanwhile + await running.rows("select status, delivery from sessions")


@pytest.mark.parametrize("state", ["none", "delivered", "required missing"])
def test_while_the_root_of_all_runs_is_away_no_run_ends_and_nothing_is_judged(
    tmp_path: Path, state: str
) -> None:
    held = STATES[state]
    status = "failed" if held.verification == "failed" else "completed"
    with modes_hold():
        assert anyio.run(_through_an_absence, tmp_path, held) == [("running", None), (status, held.delivery)]
    _open_again(tmp_path / "runs" / "a")
