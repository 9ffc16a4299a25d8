"""What follows when an agent's hook speaks: who speaks is noted, and a first prompt opens the session."""

from dataclasses import replace

import pytest
from tests.handlers.examples import HASH, NOW, session

from runward.handlers.effects import Emit, Explain, NoteHook
from runward.handlers.events import AttemptStarted, HookKind, HookSpoke, SessionDeclaration
from runward.handlers.facts import Answer, CoveringRoot, Need, Question, RootOf, SessionOf, UnexpectedAnswer
from runward.handlers.layouts.scanner import RecordedProcess
from runward.handlers.sessions.hooked import decide

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
)
NOTE = NoteHook(
    "claude-code:id",
    100.0,
    "prompted",
    (RecordedProcess(7, 70, "b-0"), RecordedProcess(1, 3, "b-0")),
    "night",
)
ASKED = RootOf("claude-code", PATH)


CLAUDE = CoveringRoot("claude")


def facts(root: Answer = CLAUDE, known: Answer = None) -> dict[Question, Answer]:
    return {SessionOf("claude-code:id"): known, ASKED: root}


def test_the_first_prompt_of_a_session_that_a_root_watches_opens_it() -> None:
    assert decide(PROMPT, HASH, {}, NOW) == Need((SessionOf("claude-code:id"),))
    assert decide(PROMPT, HASH, {SessionOf("claude-code:id"): None}, NOW) == Need((ASKED,))
    said = SessionDeclaration(
        "id", "claude-code", "claude", PATH, "agent", "/src", cwd="/src", prompt="fix it"
    )
    decided = decide(PROMPT, HASH, facts(), NOW)
    assert not isinstance(decided, Need)
    note, emitted, explained = decided
    assert note == NOTE
    assert emitted == Emit(AttemptStarted("claude-code:id", 1, 100.0, said, declared_by="hook"))
    assert isinstance(explained, Explain)
    assert explained.verdict == "decided"


def test_its_key_is_that_of_the_files_own_start() -> None:
    decided = decide(PROMPT, HASH, facts(), NOW)
    assert not isinstance(decided, Need)
    (emitted,) = [each for each in decided if isinstance(each, Emit)]
    assert emitted.event.key == AttemptStarted("claude-code:id", 1, 99.0, None).key


@pytest.mark.parametrize("kind", ["started", "turn_ended", "turn_failed", "ended"])
def test_what_else_a_hook_says_is_only_noted(kind: HookKind) -> None:
    spoke = replace(PROMPT, kind=kind)
    assert decide(spoke, HASH, facts(), NOW) == (NOTE._replace(kind=kind),)


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
    known: dict[Question, Answer] = {SessionOf(spoke.session_key): None, ASKED: root}
    decided = decide(spoke, HASH, known, NOW)
    assert not isinstance(decided, Need)
    note, explained = decided
    assert isinstance(note, NoteHook)
    assert isinstance(explained, Explain)
    assert (explained.verdict, explained.subject) == ("refused", spoke.session_key)
    assert why in explained.summary


def test_a_hook_whose_clock_is_ahead_is_believed_no_further_than_now() -> None:
    decided = decide(replace(PROMPT, at=NOW + 1e6), HASH, facts(), NOW)
    assert not isinstance(decided, Need)
    (emitted,) = [each for each in decided if isinstance(each, Emit)]
    assert emitted.event.at == NOW


def test_a_wrong_answer_is_our_own_mistake() -> None:
    with pytest.raises(UnexpectedAnswer):
        decide(PROMPT, HASH, facts(7), NOW)
