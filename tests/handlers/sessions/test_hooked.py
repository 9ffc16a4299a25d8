"""What follows when an agent's hook speaks: who speaks is noted, and at a first prompt what is declared for the session."""

import pytest
from msgspec.structs import replace
from tests.handlers.examples import HASH, NOW, session
from tests.handlers.played import Answer, AnyQuestion, Need, played

from runward.config.contract import ExpectedArtifact
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.model.contracts import Declarations, DeclaredContract, Ruled, RuledPlaybook
from runward.handlers.model.effects import Explain
from runward.handlers.model.processes import RecordedProcess, Whereabouts
from runward.handlers.model.sessions import (
    CoveringRoot,
    HookDeclaration,
    HookKind,
    HookSpoke,
    NoteHook,
    RootOf,
    SessionOf,
)
from runward.handlers.sessions import opened as handler

decide = played(handler.note_hook)
PATH = "/home/ann/.claude/projects/-src/id.jsonl"
PROMPT = HookSpoke(
    "r",
    100.0,
    "claude-code",
    "id",
    "prompted",
    "/src",
    PATH,
    "fix it",
    None,
    "b-0",
    ((7, 70), (1, 3)),
    "night",
    machine="m",
    namespace=4_026_532_100,
)
NOTE = NoteHook(
    "claude-code:id",
    100.0,
    "prompted",
    (RecordedProcess(7, 70, "b-0"), RecordedProcess(1, 3, "b-0")),
    "night",
    Whereabouts("m", "b-0", 4_026_532_100),
)
ASKED = RootOf("claude-code", PATH)


CLAUDE = CoveringRoot("claude")
RULE = RuledPlaybook("claude-code", "/src", None, "fix it")
DECLARED = DeclaredContract("feature", None)
REVIEW = ExpectedArtifact("review", "review.md")


def facts(
    root: Answer = CLAUDE,
    known: Answer = None,
    ruled: Answer = Ruled("feature", None, "f:1:1"),  # noqa: B008 - a value
    declared: Answer = Declarations((REVIEW,), None),  # noqa: B008 - a value
) -> dict[AnyQuestion, Answer]:
    return {SessionOf("claude-code:id"): known, ASKED: root, RULE: ruled, DECLARED: declared}


def test_at_the_first_prompt_of_a_session_that_a_root_watches_what_is_declared_for_it_is_fixed() -> None:
    given: dict[AnyQuestion, Answer] = {}
    for question in (SessionOf("claude-code:id"), ASKED, RULE, DECLARED):
        assert decide(PROMPT, HASH, given, NOW) == Need(question)
        given[question] = facts()[question]
    decided = decide(PROMPT, HASH, given, NOW)
    assert isinstance(decided, tuple)
    note, explained = decided
    assert isinstance(note, NoteHook)
    assert replace(note, declared=None) == NOTE
    assert note.declared is not None
    assert note.declared._replace(contract_json=None) == HookDeclaration(
        100.0, "feature", None, None, "f:1:1"
    )
    assert stored_contract(note.declared.contract_json or "").expected[0].path == "review.md"
    assert isinstance(explained, Explain)
    assert explained.verdict == "decided"
    assert "a contract of 1 artifact is fixed" in explained.summary


@pytest.mark.parametrize(
    ("ruled", "declared", "noted", "said"),
    [
        (Ruled(), None, HookDeclaration(100.0), "nothing is declared for it"),
        (
            Ruled("gone", None, "f:1:1"),
            Declarations(None, None, "there is no playbook 'gone'"),
            HookDeclaration(
                100.0, "gone", None, "there is no playbook 'gone' (named by the rule at f:1:1)", "f:1:1"
            ),
            "no contract: there is no playbook 'gone'",
        ),
    ],
    ids=["no rule", "a wrong playbook"],
)
def test_what_is_not_declared_or_wrong_is_noted_as_that(
    ruled: Ruled, declared: Answer, noted: HookDeclaration, said: str
) -> None:
    given = facts(ruled=ruled) | {DeclaredContract(ruled.playbook, None): declared}
    decided = decide(PROMPT, HASH, given, NOW)
    assert isinstance(decided, tuple)
    note, explained = decided
    assert isinstance(note, NoteHook)
    assert note.declared == noted
    assert isinstance(explained, Explain)
    assert said in explained.summary


@pytest.mark.parametrize("kind", ["started", "turn_ended", "turn_failed", "ended"])
def test_what_else_a_hook_says_is_only_noted(kind: HookKind) -> None:
    spoke = replace(PROMPT, kind=kind)
    assert decide(spoke, HASH, facts(), NOW) == (replace(NOTE, kind=kind),)


def test_a_further_prompt_is_only_noted() -> None:
    assert decide(PROMPT, HASH, facts(known=session(key="claude-code:id")), NOW) == (NOTE,)


@pytest.mark.parametrize(
    ("spoke", "root", "why"),
    [
        (PROMPT, None, f"no root watches {PATH}; add one to runward.toml"),
        (replace(PROMPT, transcript_path=None), CoveringRoot("c"), "no transcript"),
        (replace(PROMPT, cwd=None), CoveringRoot("c"), "no working directory"),
        (replace(PROMPT, session_id="other"), CoveringRoot("c"), "another session's transcript"),
    ],
)
def test_a_prompt_that_is_not_enough_is_refused_with_the_reason(
    spoke: HookSpoke, root: Answer, why: str
) -> None:
    known: dict[AnyQuestion, Answer] = {SessionOf(spoke.session_key): None, ASKED: root}
    decided = decide(spoke, HASH, known, NOW)
    assert isinstance(decided, tuple)
    note, explained = decided
    assert isinstance(note, NoteHook)
    assert isinstance(explained, Explain)
    assert (explained.verdict, explained.subject) == ("refused", spoke.session_key)
    assert why in explained.summary


def test_a_hook_whose_clock_is_ahead_is_believed_no_further_than_now() -> None:
    decided = decide(replace(PROMPT, at=NOW + 1e6), HASH, facts(), NOW)
    assert isinstance(decided, tuple)
    note = decided[0]
    assert isinstance(note, NoteHook)
    assert note.declared is not None
    assert (note.at, note.declared.at) == (NOW, NOW)
