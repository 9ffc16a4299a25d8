"""Events as they are stored: written out, read back, lifted, and refused where they are not known."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.handlers.examples import declaration, ended, planned, started

from runward.config.json_value import JsonValue
from runward.handlers.model import events
from runward.handlers.model.approvals import ApprovalDecided, ApprovalRequested, ApprovalWanted
from runward.handlers.model.bundle import ReceiptSignRequested
from runward.handlers.model.chains import (
    ChainFired,
    ChainFireRequested,
    ChainRunCancelRequested,
    ChainRunFinished,
    ChainRunTurn,
    ChainStatusRequested,
    EventOccurred,
    SlotOffered,
    TriggerMatched,
)
from runward.handlers.model.events import Event, Request, UnknownEvent
from runward.handlers.model.exchange import (
    ActionRequested,
    ActionTaken,
    IntentMade,
    MintRequested,
    PrincipalCreateRequested,
)
from runward.handlers.model.fleet import (
    RemoteStepBegun,
    RemoteStepCancelled,
    RemoteStepOrdered,
    RemoteStepOver,
    RemoteStepTaken,
)
from runward.handlers.model.invocations import StartedEarlier, StartFailed
from runward.handlers.model.journal import JournalDamaged
from runward.handlers.model.notices import NoticeRetryRequested
from runward.handlers.model.outcomes import ArtifactAddRequested, ArtifactFilesNamed, OutcomesChanged
from runward.handlers.model.requests import (
    JobDiscardRequested,
    JobRetryRequested,
    PlayRunRequested,
    PruneRequested,
    RecordMoved,
    RootAcceptRequested,
    ScanRequested,
    SessionCancelRequested,
    SessionSeenRequested,
)
from runward.handlers.model.schedules import ScheduleChanged, TimerRang, TimerSet
from runward.handlers.model.sessions import (
    EVIDENCE_STRENGTH,
    AttemptEnded,
    AttemptStarted,
    HookSpoke,
    RunLaunched,
    SessionFinished,
)
from runward.handlers.model.shows import PlayChanged
from runward.handlers.model.stored import as_json
from runward.handlers.registry import EVENTS, load_payload

EXAMPLES: list[Event] = [
    NoticeRetryRequested("r", 1.0, "nt_1", "ann"),
    started(has_snapshot=True, contract={"expected": [{"id": "a", "path": "ä\0\n"}]}),
    started(layout="codex", cwd="/src", agent="builder", prompt="fix\nit"),
    started(attempt=2),
    planned(filled=("one", "ä"), seen_over=True),
    ended(exit_code=0),
    ended("failed", "run.failed.signal", signal=9, evidence="process_gone"),
    SessionFinished("k", 1, 5.0, "failed", "run.failed.signal", None),
    JournalDamaged("k", 5.0, 2, "/r/ä\n", "events.jsonl", (256, 257), 3, 10, 1, 2),
    JobRetryRequested("r", 1.0, 7, "ann"),
    EventOccurred("r", 1.0, "data.ready", "build/1", {}, "ann", None, "build", 3),
    RemoteStepTaken("r", 1.0, "cr_0-0-1", "gpu-box", 1, taken_at=0.5),
    RemoteStepBegun("r", 1.0, "cr_0-0-1", "gpu-box", 1),
    RemoteStepOver("r", 1.0, "cr_0-0-1", "declined", None, None, {"gpu-box": "no"}),
    RemoteStepOrdered("r", 1.0, "laptop", "cr_0-0-1", 1, {"format": 1}, True),
    RemoteStepCancelled("r", 1.0, "laptop", "cr_0-0-1", 1),
    JobDiscardRequested("r", 1.0, 7, "why", "ann"),
    SessionCancelRequested("r", 1.0, "k", 2, "why", "ann"),
    SessionSeenRequested("r", 1.0, "k", 2, "ann"),
    ReceiptSignRequested("r", 1.0, "k", 2, "ed25519", "ann"),
    PlayRunRequested("r", 1.0, "review", {"pr": 12, "more": {"x": [None, "ä"]}}, "/src", "00-a-b-01", "ann"),
    HookSpoke("r", 1.0, "codex", "id", "turn_ended"),
    HookSpoke(
        "r",
        1.0,
        "claude-code",
        "id",
        "prompted",
        "/src",
        "/p/id.jsonl",
        "fix\nä",
        "resume",
        "b-0",
        ((7, 1 << 40), (1, 30)),
        "night",
        "ann",
    ),
    ScanRequested("r", 1.0),
    PruneRequested("r", 1.0, 5.0, "ann"),
    RootAcceptRequested("r", 1.0, "runs", "1:2", "ann"),
    EventOccurred("r", 1.0, "pr.opened", "id", {"pr": 12, "more": {"x": [None, "ä"]}}, "ann"),
    ChainFireRequested("r", 1.0, "pr", {"pr": 12}, "ann"),
    ChainStatusRequested("r", 1.0, "pr", "paused", "why", "ann"),
    ChainRunCancelRequested("r", 1.0, "cr_0", "why", "ann"),
    ChainFired("pr", 1.0, "r", "pr.opened", "id", {"pr": 12}, {"name": "pr", "steps": [{"id": "a"}]}),
    TriggerMatched("pr", 1.0, "r", "pr.opened", "id", {"pr": 12}, {"name": "pr"}, (0, 2), "ann", "cr_0"),
    ChainRunFinished("cr_0", "pr", 9.0, "completed", "chain.completed.ok"),
    ChainRunTurn("cr_1", 9.0, "cr_0"),
    SlotOffered("cr_1", 0, 1, 9.0, "ab"),
    ScheduleChanged("pr", 1.0, '{"schedule": "@daily"}'),
    TimerSet("cr_0", "try 0 2", 1.0, 61.0),
    TimerRang("cr_0", "try 0 2", 61.0),
    ApprovalWanted("cr_0", 1, "a1", 1.0),
    ApprovalRequested("r", 1.0, "ap_0", "cr_0", "approved", "looks right", "ada"),
    ApprovalDecided("ap_0", "cr_0", 1, 1.0, "approved", "looks right", "ada"),
    ArtifactAddRequested("r", 1.0, "native:runs/a", "note", "one", {"x": [None, "ä"]}, "notes.md", "ada"),
    OutcomesChanged("native:runs/a", 1, 2.0, "5e"),
    PlayChanged("show:shows/retry/play-1", 1, 2.0, "7.12.3"),
    ArtifactFilesNamed("native:runs/a", 2.0, "native:runs/a#1/ended", (("ar_0", "logs/ä"), ("ar_1", "b"))),
    IntentMade("native:runs/a", 1, 3, 2.0, "ä", "{}", "too long", "ann"),
    ActionRequested("r", 1.0, "writer", '{"action_type":"noop"}', "ada"),
    PrincipalCreateRequested(
        "r", 1.0, "writer", "ä", 100, 10, 0.5, True, ("ann",), True, True, "be kind", "ada"
    ),
    MintRequested("r", 1.0, "writer", -3, "scrip", "why", "ada"),
    ActionTaken(
        "s",
        "r",
        1.0,
        "writer",
        "noop",
        "a",
        True,
        None,
        {"result": {"x": None}},
        "native:runs/a",
        (ActionTaken("t", "q", 1.0, None, None, None, False, "not_found", {"line": 2}, "native:runs/a"),),
    ),
    StartFailed("cr_0/0/1", "native:runs/cr_0-0-1", 1.0, "its run directory can't be made"),
    StartedEarlier("cr_0/0/1", "native:runs/cr_0-0-1", 1.0),
    RecordMoved(1.0, 7, (("/home/ann", "/home/bea"),), "ann"),
    RunLaunched("k", "l", 1.0, "5e", (7, 70, "b"), (8, 80, "b"), {"expected": []}, 60.0, 5.0),
]
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.type)
def test_an_event_is_read_back_as_it_was_written(event: Event) -> None:
    assert load_payload(event.type, event.version, as_json(event)) == event


def test_every_type_of_event_has_an_example_here() -> None:
    assert {event.type for event in EXAMPLES} == set(EVENTS)


@given(plain, st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.floats(0, 1e12))
def test_whatever_a_run_declared_is_read_back(contract: JsonValue, name: str, at: float) -> None:
    event = AttemptStarted("k", 1, at, declaration(contract=contract, has_snapshot=True, session_id=name))
    assert load_payload(event.type, event.version, as_json(event)) == event


def test_a_start_that_was_stored_before_there_were_rules_is_read_without_directory_and_prompt() -> None:
    event = started(cwd="/src", prompt="fix it")
    stored = json.loads(as_json(event))
    assert (stored["declaration"].pop("cwd"), stored["declaration"].pop("prompt")) == ("/src", "fix it")
    assert load_payload(event.type, event.version, json.dumps(stored)) == started()


@pytest.mark.parametrize(
    "event", [ended(origin="history"), SessionFinished("k", 1, 5.0, "failed", "c", None, origin="history")]
)
def test_an_end_that_was_stored_before_history_had_one_is_live(event: AttemptEnded | SessionFinished) -> None:
    stored = json.loads(as_json(event))
    assert stored.pop("origin") == "history"
    read = load_payload(event.type, event.version, json.dumps(stored))
    assert isinstance(read, type(event))
    assert read == replace(event, origin="live")


def test_what_a_hook_says_is_in_the_lane_of_its_session() -> None:
    spoke = HookSpoke("r", 1.0, "codex", "id", "turn_ended")
    assert (spoke.key, spoke.lane, spoke.session_key) == ("r", "codex:id", "codex:id")


def test_the_key_of_an_event_names_its_fact() -> None:
    assert started().key == "native:runs/alpha#1/started"
    assert planned(attempt=2).key == f"native:runs/alpha#2/planned/{'d' * 16}"
    assert ended(attempt=3).key == "native:runs/alpha#3/ended"
    assert SessionFinished("k", 1, 5.0, "failed", "c", None).key == "k#1/finished"
    assert ScanRequested("uuid", 1.0).key == "uuid"


def test_requests_about_a_job_have_a_lane_beside_that_of_its_session() -> None:
    assert JobRetryRequested("r", 1.0, 7).lane == JobDiscardRequested("r", 1.0, 7).lane == "queue:7"


def test_requests_for_runs_hold_each_other_up_in_no_way() -> None:
    one, other = (PlayRunRequested(name, 1.0, "review", {}, "/src") for name in ("one", "other"))
    assert one.lane != other.lane
    assert started().lane == ended().lane == "native:runs/alpha"


@pytest.mark.parametrize(
    ("kind", "version", "payload"),
    [
        ("NoSuchEvent", 1, "{}"),
        ("AttemptEnded", 99, as_json(ended())),
        ("AttemptEnded", 0, as_json(ended())),
        ("AttemptEnded", 1, "{}"),
        ("AttemptEnded", 1, "no json"),
        ("AttemptEnded", 1, as_json(ended()).replace('"declared"', '"guessed"')),
        ("ScanRequested", 1, '{"request": "r", "at": null}'),
    ],
)
def test_what_this_program_does_not_know_is_refused(kind: str, version: int, payload: str) -> None:
    with pytest.raises(UnknownEvent):
        load_payload(kind, version, payload)


def test_an_older_version_is_lifted_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScanRequested, "version", 3)
    monkeypatch.setitem(
        events.UPCASTERS, ("ScanRequested", 1), lambda old: {"request": old["name"], "when": 4.0}
    )
    monkeypatch.setitem(
        events.UPCASTERS, ("ScanRequested", 2), lambda old: {"request": old["request"], "at": old["when"]}
    )
    assert load_payload("ScanRequested", 1, json.dumps({"name": "r"})) == ScanRequested("r", 4.0)


def test_an_event_that_forgets_its_key_or_its_lane_is_refused_where_it_is_defined() -> None:
    with pytest.raises(TypeError, match="DoorOpened has no key and no lane"):

        class DoorOpened(Event, frozen=True):
            at: float

    with pytest.raises(TypeError, match="DoorRequested has no lane"):

        class DoorRequested(Request, frozen=True):
            door: str


def test_an_evidence_is_ranked_from_declared_down_to_quiet() -> None:
    ranked = sorted(EVIDENCE_STRENGTH, key=lambda evidence: -EVIDENCE_STRENGTH[evidence])
    assert ranked == ["declared", "process_gone", "deadline", "quiet"]
    assert isinstance(ended(), AttemptEnded)
