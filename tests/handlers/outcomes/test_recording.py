"""What is kept of a session's outcomes, and what of them may meet its contract."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.handlers.examples import KEY, session

from runward.handlers.asking import TryLater
from runward.handlers.outcomes.facts import FinalMessageOf, OutcomeFile, OutcomesIn
from runward.handlers.outcomes.recording import Recorded, recorded
from runward.handlers.unreadable import Unreadable

CLAUDE = session(None, key="claude-code:a", layout="claude-code", path="/p/a.jsonl")
CODEX = session(None, key="codex:b", layout="codex", path="/c/rollout-b.jsonl")
RUN = session(None)


def lint(summary: str, **changed: object) -> str:
    return json.dumps({"outcome_kind": "lint_result", "summary": summary, **changed})


def play(known: Mapping[Any, object], *arguments: Any, **options: Any) -> Recorded:
    """What is recorded with these answers, all of which must be asked for."""
    asking, left = recorded(*arguments, **options), dict(known)
    try:
        question = next(asking)
        while True:
            question = asking.send(left.pop(question))
    except StopIteration as stopped:
        assert not left
        found: Recorded = stopped.value
        return found


def test_a_foreign_session_is_judged_by_its_own_last_message_and_its_files_are_left_alone() -> None:
    known = {FinalMessageOf("claude-code", "/p/a.jsonl"): lint("clean", passed=True)}
    found = play(known, CLAUDE, 5.0, (), (CLAUDE,), reads_files=False)
    assert [each.outcome.summary for each in found.read] == ["clean"]
    (kept,) = found.kept
    assert (kept.session_key, kept.name, kept.passed, kept.file_path) == (
        "claude-code:a",
        "final_message",
        True,
        None,
    )


def test_what_agents_said_last_comes_after_a_runs_files_and_meets_no_contract_of_the_run() -> None:
    known = {
        OutcomesIn(RUN.path, RUN.artifacts_path): (OutcomeFile("outcome.json", lint("file").encode()),),
        FinalMessageOf("claude-code", "/p/a.jsonl"): lint("first"),
        FinalMessageOf("codex", "/c/rollout-b.jsonl"): lint("second", errors=-1),
    }
    found = play(known, RUN, 5.0, (), (CLAUDE, CODEX))
    assert [each.outcome.summary for each in found.read] == ["file"]
    assert [(each.session_key, each.name, each.summary, each.place) for each in found.kept] == [
        (KEY, "outcome", "file", 0),
        (KEY, "final_message", "first", 1),
    ]
    (problems,) = found.invalid.values()
    assert list(found.invalid) == ["final message of codex:b"]
    assert "errors: " in str(problems)


def test_of_two_last_messages_of_one_kind_and_name_the_later_counts() -> None:
    known = {
        OutcomesIn(RUN.path, RUN.artifacts_path): (
            OutcomeFile("outcome.json", lint("file", name="lint").encode()),
        ),
        FinalMessageOf("claude-code", "/p/a.jsonl"): lint("said", name="lint"),
    }
    (kept,) = play(known, RUN, 5.0, (), (CLAUDE,)).kept
    assert (kept.name, kept.summary) == ("lint", "said")


def test_a_last_message_that_cannot_be_read_now_is_read_later() -> None:
    known = {FinalMessageOf("codex", "/c/rollout-b.jsonl"): Unreadable("Input/output error")}
    with pytest.raises(TryLater, match="the last message of codex:b can't be read: Input/output error"):
        play(known, CODEX, 5.0, (), (CODEX,), reads_files=False)


def test_a_layout_whose_last_messages_nobody_reads_is_asked_for_none() -> None:
    other = session(None, key="lionagi:x", layout="lionagi")
    assert play({}, other, 5.0, (), (other,), reads_files=False) == Recorded((), (), {})
