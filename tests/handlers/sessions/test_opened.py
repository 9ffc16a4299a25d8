"""The contract in force, and where it came from, for every way that a session can begin."""

import json
from collections.abc import Mapping

import pytest
from tests.handlers.examples import HASH, KEY, NOW, PATH, session, started
from tests.handlers.played import Answer, AnyQuestion, Need, played

from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.handlers.contracts.snapshots import snapshot_from_run
from runward.handlers.model.asking import TryLater
from runward.handlers.model.contracts import Declarations, DeclaredContract, Ruled, RuledPlaybook
from runward.handlers.model.effects import Effects, Explain
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.sessions import (
    AttemptStarted,
    DeclaredToHook,
    HoldToLaunch,
    HookDeclaration,
    Launch,
    LaunchOf,
    OpenAttempt,
    OpenSession,
    SessionOf,
)
from runward.handlers.sessions import opened as handler

play = played(handler.open_attempt)


def decide(
    event: AttemptStarted, event_hash: str, known: Mapping[AnyQuestion, Answer], now: float
) -> Effects | Need | TryLater:
    """What comes of it where no launcher recorded a launch, unless that is known."""
    return play(event, event_hash, {LaunchOf(KEY): None, **known}, now)


SNAPSHOT: JsonValue = {"expected": [{"id": "review", "path": "review.md", "source": "agent_profile"}]}
REVIEW = ExpectedArtifact("review", "review.md")
NOTES = ExpectedArtifact("notes", "notes.md", required=False)
NOTHING_DECLARED = Declarations(None, None)


def answers(event: AttemptStarted, declared: Answer = None) -> Effects:
    known: dict[AnyQuestion, Answer] = {SessionOf(KEY): None}
    for _ in range(4):
        decision = decide(event, HASH, known, NOW)
        if not isinstance(decision, Need):
            assert isinstance(decision, tuple)
            return decision
        known[decision.question] = declared
    raise AssertionError("it still asks")


@pytest.mark.parametrize(
    ("told", "basis", "playbook"),
    [
        (HookDeclaration(5.0, "p", json.dumps(SNAPSHOT), None, "f:1:1"), "hook", "p"),
        (HookDeclaration(5.0, "gone", None, "there is no playbook 'gone'", "f:1:1"), None, "gone"),
        (HookDeclaration(5.0), "first_look", "now"),
        (None, "first_look", "now"),
    ],
    ids=["a contract", "a problem", "nothing", "no hook"],
)
def test_what_was_declared_when_its_hook_told_of_its_first_prompt_goes_before_what_is_there_now(
    told: HookDeclaration | None, basis: str | None, playbook: str
) -> None:
    event = started(layout="claude-code", cwd="/src")
    known: dict[AnyQuestion, Answer] = {SessionOf(KEY): None}
    while isinstance(decision := decide(event, HASH, known, NOW), Need):
        match decision.question:
            case DeclaredToHook():
                known[decision.question] = told
            case RuledPlaybook():
                known[decision.question] = Ruled("now", None, "f:2:1")
            case _:
                known[decision.question] = Declarations((REVIEW,), None)
    assert isinstance(decision, tuple)
    opened = decision[0]
    assert isinstance(opened, OpenSession)
    assert (opened.contract_basis, opened.declaration.playbook) == (basis, playbook)
    assert (opened.contract_json is None) == (basis is None)
    assert opened.contract_problem == (told.problem if told is not None else None)


def foreign(
    ruled: Ruled,
    declared: Answer = NOTHING_DECLARED,
    agent: str | None = None,
    seen_over: bool = False,
) -> tuple[OpenSession, Explain]:
    """How another tool's session is opened under such a ruling, and what is kept for `why`."""
    event = started(seen_over=seen_over, layout="claude-code", cwd="/src", prompt="fix it", agent=agent)
    known: dict[AnyQuestion, Answer] = {SessionOf(KEY): None, DeclaredToHook(KEY): None}
    while isinstance(decision := decide(event, HASH, known, NOW), Need):
        known[decision.question] = ruled if isinstance(decision.question, RuledPlaybook) else declared
    assert isinstance(decision, tuple)
    (opened,) = [effect for effect in decision if isinstance(effect, OpenSession)]
    (explained,) = [effect for effect in decision if isinstance(effect, Explain)]
    return opened, explained


def opening(event: AttemptStarted, declared: Answer = None) -> OpenSession:
    (opened,) = [effect for effect in answers(event, declared) if isinstance(effect, OpenSession)]
    return opened


def expected_of(opened: OpenSession) -> list[tuple[str, bool, str]]:
    assert opened.contract_json is not None
    return [
        (each["id"], each["required"], each["source"])
        for each in json.loads(opened.contract_json)["expected"]
    ]


PROCESS = RecordedProcess(7, 70, "b")


def launched(contract: JsonValue) -> Launch:
    return Launch(100.0, "5" * 64, snapshot_from_run(contract).text, PROCESS, PROCESS)


@pytest.mark.parametrize("forged", [None, {"expected": []}, {"expected": "nonsense"}])
@pytest.mark.parametrize("seen_over", [False, True])
def test_the_contract_that_the_launcher_recorded_holds_whatever_the_run_s_files_say(
    forged: JsonValue, seen_over: bool
) -> None:
    event = started(has_snapshot=True, contract=forged, playbook="other", seen_over=seen_over)
    decision = decide(event, HASH, {SessionOf(KEY): None, LaunchOf(KEY): launched(SNAPSHOT)}, NOW)
    assert isinstance(decision, tuple)
    (opened,) = [effect for effect in decision if isinstance(effect, OpenSession)]
    assert expected_of(opened) == [("review", True, "agent_profile")]
    assert (opened.contract_basis, opened.contract_problem) == ("launcher", None)


def test_a_launch_without_a_contract_has_none_whatever_the_run_s_files_say() -> None:
    event = started(has_snapshot=True, contract=SNAPSHOT)
    decision = decide(event, HASH, {SessionOf(KEY): None, LaunchOf(KEY): launched(None)}, NOW)
    assert isinstance(decision, tuple)
    (opened,) = [effect for effect in decision if isinstance(effect, OpenSession)]
    assert (opened.contract_json, opened.contract_basis) == (None, None)


@pytest.mark.parametrize(("seen_over", "basis"), [(False, "first_look"), (True, "late")])
def test_a_snapshot_that_was_written_by_hand_is_the_contract_and_says_so(seen_over: bool, basis: str) -> None:
    opened = opening(started(has_snapshot=True, contract=SNAPSHOT, playbook="other", seen_over=seen_over))
    assert expected_of(opened) == [("review", True, "agent_profile")]
    assert (opened.contract_basis, opened.contract_problem) == (basis, None)


def test_a_run_that_is_launched_again_under_another_contract_is_held_to_that_and_says_so() -> None:
    before = session(status="completed", contract_json='{"expected":[]}', contract_basis="launcher")
    launch = launched(SNAPSHOT)
    decision = decide(started(attempt=2), HASH, {SessionOf(KEY): before, LaunchOf(KEY): launch}, NOW)
    assert isinstance(decision, tuple)
    (held,) = [effect for effect in decision if isinstance(effect, HoldToLaunch)]
    assert held.contract_json == launch.contract_json
    assert "launched again" in held.problem


def test_an_explicit_null_is_no_contract_whatever_the_playbook_declares() -> None:
    opened = opening(started(has_snapshot=True, contract=None, playbook="review"))
    assert (opened.contract_json, opened.contract_basis, opened.contract_problem) == (None, None, None)


def test_a_contract_that_expects_nothing_is_a_contract() -> None:
    opened = opening(started(has_snapshot=True, contract={"expected": []}))
    assert (opened.contract_json, opened.contract_basis) == ('{"expected":[]}', "first_look")


@pytest.mark.parametrize(
    "contract",
    [
        7,
        [],
        {},
        {"expected": {}},
        {"expected": [{"id": "a", "path": "/etc/passwd"}]},
        {"expected": [{"id": "a", "path": "../x"}]},
        {"expected": [{"id": "a", "path": "x"}, {"id": "a", "path": "y"}]},
        {"expected": [{"id": "", "path": "x"}]},
        {"expected": [{"id": "a", "path": "x", "required": "yes"}]},
    ],
)
def test_a_snapshot_that_is_no_contract_is_a_problem_and_never_a_failure(contract: JsonValue) -> None:
    opened = opening(started(has_snapshot=True, contract=contract))
    assert opened.contract_json is None
    assert opened.contract_basis is None
    assert opened.contract_problem is not None
    assert opened.contract_problem.startswith("run.json: ")


@pytest.mark.parametrize(("seen_over", "basis"), [(False, "first_look"), (True, "late")])
def test_what_playbook_and_agent_declare_now_is_taken_at_the_first_look(seen_over: bool, basis: str) -> None:
    event = started(seen_over=seen_over, playbook="review", agent="reviewer")
    opened = opening(event, Declarations((REVIEW,), (NOTES,)))
    assert expected_of(opened) == [("notes", False, "agent_profile"), ("review", True, "playbook")]
    assert opened.contract_basis == basis


def test_both_names_are_asked_about_in_one_question() -> None:
    event = started(playbook="review", agent="reviewer")
    assert decide(event, HASH, {}, NOW) == Need(SessionOf(KEY))
    assert decide(event, HASH, {SessionOf(KEY): None}, NOW) == Need(DeclaredContract("review", "reviewer"))


def test_a_playbook_that_declares_nothing_gives_no_contract_and_no_problem() -> None:
    opened = opening(started(playbook="review"), Declarations(None, None))
    assert (opened.contract_json, opened.contract_basis, opened.contract_problem) == (None, None, None)


def test_a_missing_playbook_is_the_operators_problem_and_gives_no_contract() -> None:
    problem = "there is no playbook 'reviev'; did you mean 'review'?"
    effects = answers(started(playbook="reviev"), Declarations((REVIEW,), None, problem))
    (opened,) = [effect for effect in effects if isinstance(effect, OpenSession)]
    assert (opened.contract_json, opened.contract_basis, opened.contract_problem) == (None, None, problem)
    (explained,) = [effect for effect in effects if isinstance(effect, Explain)]
    assert (explained.verdict, explained.summary) == ("refused", f"no contract: {problem}")


def test_a_run_that_names_nothing_is_held_to_nothing() -> None:
    opened = opening(started())
    assert (opened.contract_json, opened.contract_basis) == (None, None)
    assert (opened.reason.code, opened.at, opened.source) == ("run.started.ok", 100.0, "daemon")


def asked(event: AttemptStarted) -> tuple[AnyQuestion, ...]:
    decision = decide(event, HASH, {SessionOf(KEY): None, DeclaredToHook(KEY): None}, NOW)
    return (decision.question,) if isinstance(decision, Need) else ()


def test_another_tools_session_is_asked_about_by_all_that_it_says_of_itself() -> None:
    event = started(layout="codex", cwd="/src", agent="builder", prompt="fix it")
    assert asked(event) == (RuledPlaybook("codex", "/src", "builder", "fix it"),)


@pytest.mark.parametrize(
    ("event", "questions"),
    [
        (started(layout="native", cwd="/src"), ()),
        (started(layout="native", agent="reviewer"), (DeclaredContract(None, "reviewer"),)),
        (started(layout="lionagi", has_snapshot=True), ()),
        (started(layout="lionagi", origin="history"), ()),
    ],
)
def test_no_rule_is_asked_for_where_a_session_needs_none(
    event: AttemptStarted, questions: tuple[AnyQuestion, ...]
) -> None:
    assert asked(event) == questions


@pytest.mark.parametrize(("seen_over", "basis"), [(False, "first_look"), (True, "late")])
def test_the_playbook_that_a_rule_names_is_held_to_as_if_the_session_named_it(
    seen_over: bool, basis: str
) -> None:
    ruled = Ruled("feature", "reviewer", "/etc/runward.toml:9")
    opened, explained = foreign(ruled, Declarations((REVIEW,), (NOTES,)), seen_over=seen_over)
    assert expected_of(opened) == [("notes", False, "agent_profile"), ("review", True, "playbook")]
    assert (opened.contract_basis, opened.contract_problem) == (basis, None)
    assert opened.declaration.playbook == "feature"
    assert explained.summary == f"contract of 2 artifacts fixed by the rule at /etc/runward.toml:9 ({basis})"
    assert isinstance(explained.known, dict)
    assert (explained.known["contract_rule"], explained.known["playbook"]) == (
        "/etc/runward.toml:9",
        "feature",
    )


def test_the_playbook_that_another_tools_session_names_goes_before_any_rule() -> None:
    event = started(layout="lionagi", playbook="own", agent="somebody")
    (question,) = asked(event)
    known: dict[AnyQuestion, Answer] = {
        SessionOf(KEY): None,
        DeclaredToHook(KEY): None,
        question: Ruled("feature", None, "f:1"),
    }
    assert decide(event, HASH, known, NOW) == Need(DeclaredContract("own", None))
    known[DeclaredContract("own", None)] = Declarations((REVIEW,), None)
    decision = decide(event, HASH, known, NOW)
    assert isinstance(decision, tuple)
    (opened,) = [effect for effect in decision if isinstance(effect, OpenSession)]
    assert (opened.declaration.playbook, opened.declaration.agent) == ("own", "somebody")
    assert expected_of(opened) == [("review", True, "playbook")]


def test_playbook_and_agent_of_a_ruling_are_asked_about_in_one_question() -> None:
    event = started(layout="codex", agent="somebody")
    known: dict[AnyQuestion, Answer] = {
        SessionOf(KEY): None,
        DeclaredToHook(KEY): None,
        RuledPlaybook("codex", None, "somebody", None): Ruled("feature", None, "f:1"),
    }
    assert decide(event, HASH, known, NOW) == Need(DeclaredContract("feature", None))


def test_a_rule_whose_playbook_is_missing_is_the_operators_problem_and_gives_no_contract() -> None:
    ruled = Ruled("feture", None, "/etc/runward.toml:9")
    opened, explained = foreign(ruled, Declarations(None, None, "there is no playbook 'feture'"))
    problem = "there is no playbook 'feture' (named by the rule at /etc/runward.toml:9)"
    assert (opened.contract_json, opened.contract_basis, opened.contract_problem) == (None, None, problem)
    assert (explained.verdict, explained.summary) == ("refused", f"no contract: {problem}")


def test_a_rule_whose_playbook_declares_nothing_gives_no_contract_and_no_problem() -> None:
    opened, explained = foreign(Ruled("plain", None, "f:1"))
    assert (opened.contract_json, opened.contract_basis, opened.contract_problem) == (None, None, None)
    assert explained.summary == "no contract was declared by the rule at f:1: nothing will be verified"


def test_another_tools_session_that_no_rule_is_about_is_held_to_nothing() -> None:
    opened, _ = foreign(Ruled())
    assert (opened.contract_json, opened.contract_basis, opened.contract_problem) == (None, None, None)
    assert opened.declaration.playbook is None


def test_another_tools_agent_with_a_profile_brings_its_defaults_without_a_rule() -> None:
    opened, _ = foreign(Ruled(agent="reviewer"), Declarations(None, (NOTES,)), agent="reviewer")
    assert expected_of(opened) == [("notes", False, "agent_profile")]


def test_history_gets_no_contract_and_no_journal() -> None:
    effects = answers(started(origin="history", seen_over=True, has_snapshot=True, contract=SNAPSHOT))
    (opened,) = [effect for effect in effects if isinstance(effect, OpenSession)]
    assert (opened.origin, opened.contract_json, opened.contract_basis) == ("history", None, None)
    assert not [effect for effect in effects if isinstance(effect, AppendLines)]


def test_a_further_attempt_of_history_gets_no_journal_either() -> None:
    over: dict[AnyQuestion, Answer] = {SessionOf(KEY): session(status="completed")}
    past = decide(started(attempt=2, origin="history"), HASH, over, NOW)
    live = decide(started(attempt=2), HASH, over, NOW)
    assert isinstance(past, tuple)
    assert isinstance(live, tuple)
    assert [type(effect) for effect in past] == [OpenAttempt, Explain]
    assert live[:2] == past
    assert {type(effect) for effect in live[2:]} == {AppendLines}


def test_the_journals_begin_with_the_start_and_the_contract() -> None:
    effects = answers(started(has_snapshot=True, contract=SNAPSHOT))
    (events,) = [effect for effect in effects if isinstance(effect, AppendLines)]
    assert (events.directory, events.name, events.live) == (PATH, "events.jsonl", True)
    assert [json.loads(line)["event"] for line in events.content.splitlines()] == [
        "session_started",
        "contract_snapshotted",
    ]


def test_without_a_contract_no_contract_is_journalled() -> None:
    (events,) = [effect for effect in answers(started()) if isinstance(effect, AppendLines)]
    assert [json.loads(line)["event"] for line in events.content.splitlines()] == ["session_started"]


@pytest.mark.parametrize("status", ["completed", "failed", "timed_out", "aborted", "cancelled"])
def test_the_next_attempt_replaces_the_status_of_the_last_one(status: str) -> None:
    decision = decide(started(attempt=2), HASH, {SessionOf(KEY): session(status=status)}, NOW)
    assert isinstance(decision, tuple)
    (opened,) = [effect for effect in decision if isinstance(effect, OpenAttempt)]
    assert (opened.attempt, opened.replaces, opened.reason.code) == (2, status, "run.started.resumed")
    (events,) = [effect for effect in decision if isinstance(effect, AppendLines)]
    assert json.loads(events.content)["event"] == "session_resumed"
    assert not [effect for effect in decision if isinstance(effect, OpenSession)]


@pytest.mark.parametrize(
    ("attempt", "status", "last"),
    [(2, "running", 1), (3, "completed", 1), (2, "completed", 2), (1, "completed", 1), (1, "running", 1)],
)
def test_an_attempt_that_does_not_follow_is_refused(attempt: int, status: str, last: int) -> None:
    decision = decide(
        started(attempt=attempt), HASH, {SessionOf(KEY): session(status=status, attempt=last)}, NOW
    )
    assert isinstance(decision, tuple)
    (explained,) = decision
    assert isinstance(explained, Explain)
    assert explained.verdict == "refused"


def test_a_later_attempt_of_an_unknown_session_is_refused() -> None:
    decision = decide(started(attempt=2), HASH, {SessionOf(KEY): None}, NOW)
    assert isinstance(decision, tuple)
    assert [type(effect) for effect in decision] == [Explain]
