"""What is kept of a session's outcomes, and what of them may meet its contract."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.handlers.examples import KEY, session

from runward.handlers.model.asking import NotYet, TryLater
from runward.handlers.model.files import Unreadable
from runward.handlers.model.outcomes import BeingRead, FinalMessageOf, OutcomeFile, OutcomesIn
from runward.handlers.model.sessions import WorkingDirectoryOf
from runward.handlers.outcomes.recording import Recorded, recorded

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


def test_while_large_reports_are_read_the_session_waits_and_asks_again() -> None:
    for seconds, pause in ((0.0, 0.05), (2.0, 0.5), (60.0, 1.0)):
        with pytest.raises(NotYet) as raised:
            play({OutcomesIn(RUN.path, RUN.artifacts_path): BeingRead(seconds)}, RUN, 5.0)
        assert raised.value.until == 5.0 + pause


def test_absolute_places_of_findings_are_relative_to_the_sessions_working_directory() -> None:
    place = {"artifactLocation": {"uri": "file:///w/app/src/a.py"}, "region": {"startLine": 3}}
    log = {"runs": [{"results": [{"level": "error", "locations": [{"physicalLocation": place}]}]}]}
    known = {
        OutcomesIn(RUN.path, RUN.artifacts_path): (
            OutcomeFile("outcomes/a.sarif", json.dumps(log).encode()),
        ),
        WorkingDirectoryOf(RUN.key): "/w/app",
    }
    (kept,) = play(known, RUN, 5.0).kept
    assert isinstance(kept.content, dict)
    assert kept.content["findings"] == [
        {"severity": "high", "category": "unknown", "description": "", "file": "src/a.py", "line": 3}
    ]


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
