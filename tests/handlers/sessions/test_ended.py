"""Every way out of a run, held against every state of its contract: ADR-0029's status, reason, evidence and delivery."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from tests.handlers.examples import HASH, KEY, NOTES, NOW, PATH, REPORT, REVIEW, ended, session
from tests.handlers.played import Answer, AnyQuestion, Need, played

from runward.config.bundle import BundleRules
from runward.config.contract import Contract
from runward.handlers.contracts.snapshots import BrokenSnapshot
from runward.handlers.model.asking import TryLater
from runward.handlers.model.bundle import BegunReplay, BegunReplayOf, BundleRulesOf, Grown
from runward.handlers.model.chains import IsHeard
from runward.handlers.model.contracts import ArtifactsUnder
from runward.handlers.model.effects import Effects, Emit, Explain
from runward.handlers.model.files import FileFact, RootFacts, Unreadable
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.notices import RecipientsOf
from runward.handlers.model.outcomes import OutcomesIn
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.reasons import status_of
from runward.handlers.model.sessions import (
    AttemptEnded,
    Cancellation,
    CancellationOf,
    EndAttempt,
    EndTree,
    Evidence,
    EvidenceRef,
    HoldToLaunch,
    LastChange,
    LastChangeOf,
    Launch,
    LaunchOf,
    LinkedSession,
    LinkedSessions,
    LinkedSessionsOf,
    Origin,
    Session,
    SessionFinished,
    SessionOf,
    Status,
)
from runward.handlers.sessions import ended as handler

decide = played(handler.end_attempt)


@dataclass(frozen=True)
class WayOut:
    """How a run ended by its evidence alone."""

    status: Status
    code: str
    evidence: Evidence = "declared"

    def event(self) -> AttemptEnded:
        return ended(self.status, self.code, evidence=self.evidence)


WAYS = {
    "completed": WayOut("completed", "run.completed.ok"),
    "exit_nonzero": WayOut("failed", "run.failed.exit_nonzero"),
    "exception": WayOut("failed", "run.failed.exception"),
    "signal": WayOut("failed", "run.failed.signal"),
    "not_started": WayOut("failed", "run.failed.not_started"),
    "timed_out": WayOut("timed_out", "run.timed_out.deadline"),
    "silent": WayOut("timed_out", "run.timed_out.stale"),
    "interrupted": WayOut("aborted", "run.aborted.user"),
    "cancelled by a person": WayOut("cancelled", "run.cancelled.user"),
    "cancelled by SIGTERM": WayOut("cancelled", "run.cancelled.sigterm"),
    "cancelled by a shutdown": WayOut("cancelled", "run.cancelled.system"),
    "process_gone": WayOut("aborted", "run.aborted.process_gone", "process_gone"),
    "vanished": WayOut("aborted", "run.aborted.vanished", "process_gone"),
}


@dataclass(frozen=True)
class ContractState:
    """A contract, what lies on the disk, and what ADR-0029 makes of the two."""

    contract: Contract | None
    facts: RootFacts | None
    verification: str | None
    delivery: str | None
    missing: tuple[tuple[str, str], ...] = ()


THERE, ABSENT = FileFact("file", 12), FileFact("absent")
CONTRACT = Contract((REVIEW, NOTES))


def found(*files: FileFact) -> RootFacts:
    return RootFacts(True, files)


MISSING_REVIEW = (("review", "review.md"),)
STATES = {
    "none": ContractState(None, None, None, None),
    "nothing expected": ContractState(Contract(()), found(), "passed", "passed"),
    "passed": ContractState(CONTRACT, found(THERE, THERE), "passed", "passed"),
    "missing required": ContractState(CONTRACT, found(ABSENT, THERE), "failed", "missing", MISSING_REVIEW),
    "missing optional": ContractState(CONTRACT, found(THERE, ABSENT), "warning", "passed"),
    "missing one of two": ContractState(
        Contract((REVIEW, REPORT)),
        found(THERE, ABSENT),
        "failed",
        "partial",
        (("report", "sub/report.md"),),
    ),
    "empty file": ContractState(
        CONTRACT, found(FileFact("empty"), THERE), "failed", "invalid", MISSING_REVIEW
    ),
    "outside": ContractState(
        CONTRACT, found(FileFact("outside"), THERE), "failed", "invalid", MISSING_REVIEW
    ),
    "not regular": ContractState(
        CONTRACT, found(FileFact("not_regular"), THERE), "failed", "invalid", MISSING_REVIEW
    ),
    "denied": ContractState(CONTRACT, found(FileFact("denied"), THERE), "failed", "invalid", MISSING_REVIEW),
    "missing root": ContractState(CONTRACT, RootFacts(False), "failed", "missing", MISSING_REVIEW),
    "missing root, all optional": ContractState(Contract((NOTES,)), RootFacts(False), "failed", "missing"),
}


def answers(
    event: AttemptEnded,
    running: Session,
    facts: RootFacts | Unreadable | None,
    order: Cancellation | None = None,
    inside: LinkedSessions = LinkedSessions(),  # noqa: B008 - a value
    tries: int = 0,
    launch: Launch | None = None,
    changed: LastChange | Unreadable | None = None,
    rules: BundleRules | None = BundleRules(),  # noqa: B008 - a value
    begun: BegunReplay | None = None,
) -> Effects | TryLater:
    """Ask and answer as the worker does, at most eleven rounds."""
    known: dict[AnyQuestion, Answer] = {}
    for _ in range(11):
        decision = decide(event, HASH, known, NOW, tries)
        if not isinstance(decision, Need):
            return decision
        match decision.question:
            case SessionOf():
                known[decision.question] = running
            case LinkedSessionsOf():
                known[decision.question] = inside
            case CancellationOf():
                known[decision.question] = order
            case LaunchOf():
                known[decision.question] = launch
            case LastChangeOf():
                known[decision.question] = changed
            case BundleRulesOf():
                known[decision.question] = rules
            case BegunReplayOf():
                known[decision.question] = begun
            case OutcomesIn() | IsHeard() | RecipientsOf():
                known[decision.question] = ()
            case _:
                known[decision.question] = facts
    raise AssertionError("it still asks after eleven rounds")


def conclude(way: WayOut, state: ContractState, **changed: object) -> Effects:
    decision = answers(way.event(), session(state.contract, **changed), state.facts)
    assert isinstance(decision, tuple)
    return decision


def the_end(effects: Effects) -> EndAttempt:
    (only,) = [effect for effect in effects if isinstance(effect, EndAttempt)]
    return only


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_out_over_every_contract_state_gives_the_seeds_verdict(
    way: WayOut, state: ContractState
) -> None:
    end = the_end(conclude(way, state))
    if way.status == "completed" and state.verification == "failed":
        assert (end.status, end.reason.code) == ("failed", "run.failed.missing_artifact")
        assert end.reason.evidence_refs == tuple(
            EvidenceRef("expected_artifact", name, path) for name, path in state.missing
        )
    else:
        assert (end.status, end.reason.code, end.reason.summary) == (way.status, way.code, f"why {way.code}")
        kind = "exit" if way.evidence == "declared" else "process"
        assert [reference.kind for reference in end.reason.evidence_refs] == [kind]
    assert end.status == status_of(end.reason.code)
    assert (end.ended_by, end.at, end.attempt, end.replaces) == (way.evidence, 200.0, 1, "running")
    assert end.delivery == state.delivery
    verification = None if end.verification_json is None else json.loads(end.verification_json)
    assert (verification and verification["status"]) == state.verification
    assert verification is None or verification["checked_at"] == NOW
    produced = [] if verification is None else verification["produced"]
    assert [(each.id, each.path, each.size) for each in end.produced] == [
        tuple(each.values()) for each in produced
    ]


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_verdict_is_emitted_and_journalled_as_it_was_recorded(way: WayOut, state: ContractState) -> None:
    effects = conclude(way, state)
    end = the_end(effects)
    assert [effect.event for effect in effects if isinstance(effect, Emit)] == [
        SessionFinished(
            KEY,
            1,
            200.0,
            end.status,
            end.reason.code,
            end.delivery,
            len(end.produced),
            sum(each.size for each in end.produced),
        )
    ]
    (events,) = [effect for effect in effects if isinstance(effect, AppendLines)]
    assert (events.directory, events.name, events.live) == (PATH, "events.jsonl", False)
    lines = [json.loads(line) for line in events.content.splitlines()]
    verified = [] if state.verification is None else ["artifact_verified"]
    assert [line["event"] for line in lines] == [*verified, "status_changed", "session_finished"]
    assert all(line["hash"] == HASH for line in lines)
    assert (lines[-1]["status"], lines[-1]["reason_code"], lines[-1]["delivery"]) == (
        end.status,
        end.reason.code,
        end.delivery,
    )


def test_a_missing_root_with_nothing_required_says_what_is_missing() -> None:
    end = the_end(conclude(WAYS["completed"], STATES["missing root, all optional"]))
    assert end.reason.summary == "the artifacts' directory is missing"
    assert end.reason.evidence_refs == ()


def test_why_keeps_what_was_not_delivered_and_nothing_else() -> None:
    state = ContractState(
        Contract((REVIEW, REPORT, NOTES)), found(FileFact("empty"), THERE, ABSENT), None, None
    )
    (explained,) = [each for each in conclude(WAYS["signal"], state) if isinstance(each, Explain)]
    assert isinstance(explained.known, dict)
    assert explained.known["not_delivered"] == {"review.md": "empty", "notes.md": "absent"}


def test_an_end_of_a_session_that_never_started_is_refused() -> None:
    event = ended()
    decision = decide(event, HASH, {SessionOf(KEY): None}, NOW)
    assert isinstance(decision, tuple)
    assert [type(effect) for effect in decision] == [Explain]
    assert isinstance(decision[0], Explain)
    assert decision[0].verdict == "refused"


@pytest.mark.parametrize(
    "changed", [{"status": "completed"}, {"attempt": 2}, {"status": "aborted", "attempt": 3}]
)
def test_an_attempt_that_is_not_the_running_one_cannot_end(changed: dict[str, object]) -> None:
    decision = answers(ended(), session(CONTRACT, **changed), found(THERE, THERE))
    assert isinstance(decision, tuple)
    (explained,) = decision
    assert isinstance(explained, Explain)
    assert explained.verdict == "refused"


LAUNCH = Launch(1.0, "5" * 64, None, RecordedProcess(1, 2, "this"), RecordedProcess(3, 4, "this"))
BY_A_PERSON: dict[str, Any] = {
    "status": "cancelled",
    "reason_code": "run.cancelled.user",
    "source": "launcher",
}


@pytest.mark.parametrize(
    ("launch", "order", "status", "reason"),
    [
        (LAUNCH, None, "failed", "run.failed.signal"),
        (LAUNCH, Cancellation("ann", ""), "cancelled", "run.cancelled.user"),
        (None, None, "cancelled", "run.cancelled.user"),
    ],
    ids=["no order", "an order", "files that were written by hand"],
)
def test_a_launched_run_was_cancelled_by_a_person_only_if_the_order_is_recorded(
    launch: Launch | None, order: Cancellation | None, status: str, reason: str
) -> None:
    decision = answers(ended(**BY_A_PERSON), session(None), None, order, launch=launch)
    assert isinstance(decision, tuple)
    end = the_end(decision)
    assert (end.status, end.reason.code) == (status, reason)


def test_artifacts_that_cannot_be_read_are_tried_later_and_never_judged_absent() -> None:
    decision = answers(ended(), session(CONTRACT), Unreadable("Input/output error"))
    assert isinstance(decision, TryLater)
    assert "Input/output error" in decision.why


def test_a_snapshot_that_is_no_contract_is_a_mistake_of_ours() -> None:
    with pytest.raises(BrokenSnapshot):
        answers(ended(), session(None, contract_json='{"expected": 7}'), None)


def test_artifacts_below_the_run_may_not_leave_it_and_others_are_where_the_launcher_said() -> None:
    def asks(**changed: object) -> object:
        known: dict[AnyQuestion, Answer] = {
            LaunchOf(KEY): None,
            OutcomesIn(PATH, str(changed.get("artifacts_path", f"{PATH}/artifacts"))): (),
            SessionOf(KEY): session(CONTRACT, **changed),
            LinkedSessionsOf(KEY): LinkedSessions(),
            BundleRulesOf("native", PATH): BundleRules(),
        }
        return decide(ended(), HASH, known, NOW)

    paths = ("review.md", "notes.md")
    assert asks() == Need(ArtifactsUnder(f"{PATH}/artifacts", PATH, paths))
    assert asks(artifacts_path="/out") == Need(ArtifactsUnder("/out", "", paths))
    assert asks(artifacts_path=f"{PATH}-2/a") == Need(ArtifactsUnder(f"{PATH}-2/a", "", paths))


AGENT = LinkedSession("claude-code:a", "running", "run.started.ok", "it started")
FAILED_AGENT = AGENT._replace(status="failed", reason_code="run.failed.api_error", reason_summary="refused")


@pytest.mark.parametrize(
    ("agents", "status", "reason"),
    [
        ((AGENT._replace(status="completed"),), "completed", "run.completed.ok"),
        ((AGENT._replace(status="completed"), FAILED_AGENT), "failed", "run.failed.api_error"),
        ((AGENT, FAILED_AGENT), "failed", "run.failed.api_error"),
    ],
    ids=["a good one", "a bad one", "a bad one beside one that goes on"],
)
def test_a_command_that_ended_well_is_judged_by_the_agents_that_were_started_in_it(
    agents: tuple[LinkedSession, ...], status: str, reason: str
) -> None:
    decision = answers(ended(), session(None), None, inside=LinkedSessions(agents))
    assert isinstance(decision, tuple)
    end = the_end(decision)
    assert (end.status, end.reason.code, end.source) == (
        status,
        reason,
        "launcher" if status == "completed" else "daemon",
    )


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        (LinkedSessions((AGENT,)), "claude-code:a, which was started in it, is not over yet"),
        (LinkedSessions((), ("codex:b",)), "codex:b, which was started in it, has not been read yet"),
        (LinkedSessions(may_be_more=True), "some notes of agents' hooks have not been read yet"),
    ],
    ids=["goes on", "was announced", "may be announced"],
)
@pytest.mark.parametrize("ago", [0.0, 1e6], ids=["just now", "while nobody looked"])
def test_an_agent_that_goes_on_is_waited_for_but_not_for_ever(
    inside: LinkedSessions, why: str, ago: float
) -> None:
    waits = answers(ended(at=NOW - ago), session(None), None, inside=inside, tries=4)
    assert isinstance(waits, TryLater)
    assert waits.why == why
    given_up = answers(ended(at=NOW - ago), session(None), None, inside=inside, tries=5)
    assert isinstance(given_up, tuple)
    assert the_end(given_up).status == "completed"


def test_a_command_that_failed_by_itself_keeps_its_own_reason() -> None:
    failed = ended(status="failed", reason_code="run.failed.exit_nonzero")
    decision = answers(failed, session(None), None, inside=LinkedSessions((FAILED_AGENT,)))
    assert isinstance(decision, tuple)
    assert the_end(decision).reason.code == "run.failed.exit_nonzero"


def test_history_is_recorded_without_journal_lines() -> None:
    effects = conclude(WAYS["completed"], STATES["none"], origin="history")
    assert not [effect for effect in effects if isinstance(effect, AppendLines)]
    assert the_end(effects).status == "completed"


def test_no_attempt_of_history_is_verified_or_journalled_and_its_verdict_says_so() -> None:
    event = ended(attempt=2, origin="history")
    effects = _tuple(answers(event, session(CONTRACT, attempt=2, origin="history"), None))
    assert not [effect for effect in effects if isinstance(effect, AppendLines)]
    end = the_end(effects)
    assert (end.status, end.verification_json, end.delivery) == ("completed", None, None)
    (verdict,) = [effect.event for effect in effects if isinstance(effect, Emit)]
    assert isinstance(verdict, SessionFinished)
    assert verdict.origin == "history"


def test_what_goes_on_after_history_is_live() -> None:
    effects = _tuple(answers(ended(attempt=2), session(None, attempt=2, origin="history"), None))
    assert [effect for effect in effects if isinstance(effect, AppendLines)]
    (verdict,) = [effect.event for effect in effects if isinstance(effect, Emit)]
    assert isinstance(verdict, SessionFinished)
    assert verdict.origin == "live"


def test_an_end_of_history_that_was_stored_before_it_could_say_so_is_still_one() -> None:
    effects = _tuple(answers(ended(), session(None, origin="history"), None))
    (verdict,) = [effect.event for effect in effects if isinstance(effect, Emit)]
    assert isinstance(verdict, SessionFinished)
    assert verdict.origin == "history"


def test_a_process_that_a_person_had_ended_went_because_of_that_and_not_without_a_word() -> None:
    event = ended("aborted", "run.aborted.process_gone", evidence="process_gone", source="daemon")
    end = the_end(_tuple(answers(event, session(), None, Cancellation("alice", "wrong branch"))))
    assert (end.status, end.reason.code) == ("cancelled", "run.cancelled.user")
    assert end.reason.summary == "told to stop: cancelled by alice: wrong branch"
    assert (end.ended_by, end.source) == ("process_gone", "person")


def test_while_an_order_is_owed_a_silent_end_waits_for_what_comes_of_it() -> None:
    event = ended("aborted", "run.aborted.process_gone", evidence="process_gone", source="daemon")
    waits = answers(event, session(), None, Cancellation("alice", "wrong branch", is_owed=True))
    assert isinstance(waits, TryLater)
    assert waits.why == "a person cancelled it, and the result is not known yet"


def test_an_order_changes_nothing_about_an_end_that_was_declared() -> None:
    event = ended("failed", "run.failed.exit_nonzero")
    end = the_end(_tuple(answers(event, session(), None, Cancellation("alice", ""))))
    assert (end.status, end.reason.code) == ("failed", "run.failed.exit_nonzero")


def _tuple(decision: Effects | TryLater) -> Effects:
    assert isinstance(decision, tuple)
    return decision


def test_a_run_whose_files_said_another_contract_is_verified_by_what_its_launcher_recorded() -> None:
    text = session(CONTRACT).contract_json
    process = RecordedProcess(7, 70, "b")
    launch = Launch(100.0, "5" * 64, text, process, process)
    decision = answers(ended(), session(None), RootFacts(True, (ABSENT, ABSENT)), launch=launch)
    assert isinstance(decision, tuple)
    (held,) = [effect for effect in decision if isinstance(effect, HoldToLaunch)]
    assert held.contract_json == text
    assert the_end(decision).reason.code == "run.failed.missing_artifact"


@pytest.mark.parametrize(
    ("cgroup", "event", "is_ended"),
    [
        ("/sys/fs/cgroup/runward-a-1f", ended("aborted", "run.aborted.process_gone"), True),
        ("/sys/fs/cgroup/runward-a-1f", ended(), False),
        (None, ended("aborted", "run.aborted.process_gone"), False),
    ],
)
def test_what_is_left_in_the_cgroup_of_a_run_whose_processes_are_gone_is_ended(
    cgroup: str | None, event: AttemptEnded, is_ended: bool
) -> None:
    process = RecordedProcess(7, 70, "b")
    launch = Launch(100.0, "5" * 64, None, process, process, cgroup=cgroup)
    decision = answers(event, session(None), None, launch=launch)
    assert isinstance(decision, tuple)
    ends = [effect for effect in decision if isinstance(effect, EndTree)]
    assert [(each.processes.cgroup, each.timeout) for each in ends] == ([(cgroup, None)] if is_ended else [])


BEGUN = BegunReplay(Grown(9, "0" * 64, None, None), BundleRules())


@pytest.mark.parametrize(
    ("origin", "rules", "begun", "has_bundle"),
    [
        ("live", BundleRules(), None, True),
        ("live", None, None, False),
        ("live", None, BEGUN, True),
        ("history", BundleRules(), None, False),
    ],
    ids=["its root wants it", "its root wants none", "its replay was begun before that", "history"],
)
def test_a_verdict_says_whether_there_will_be_a_bundle(
    origin: Origin, rules: BundleRules | None, begun: BegunReplay | None, has_bundle: bool
) -> None:
    effects = _tuple(answers(ended(origin=origin), session(None), None, rules=rules, begun=begun))
    (verdict,) = [
        each.event for each in effects if isinstance(each, Emit) and isinstance(each.event, SessionFinished)
    ]
    assert verdict.has_bundle is has_bundle
