"""What needs a person: in which order, how badly, and what each is about."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.daemon.cli.calling import SETTINGS, Place
from tests.daemon.cli.conftest import place
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript

from runward.config.json_value import JsonValue
from runward.daemon.cli.status import lines_of
from runward.daemon.views.needs import ASKED, attention, needs

__all__ = ["place"]

_CLAUDE = '[[roots]]\nname = "claude"\npath = ".claude/projects"\nlayout = "claude-code"\nhistory = "live"\n'


def _ago(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))


@pytest.fixture
def status(place: Place) -> dict[str, JsonValue]:
    """The status of a daemon in which everything that there is goes wrong at once."""
    approval: JsonValue = {"chain": "merge", "step": "ship", "chain_run_id": "cr_1"}
    agent: JsonValue = {"key": "claude-code:claude/x", "session_id": "x"}
    failures: list[JsonValue] = [
        {"key": f"native:runs/{code}", "session_id": code, "reason": {"code": code, "summary": "it ended"}}
        for code in ("run.failed.missing_artifact", "run.aborted.process_gone")
    ]
    settings = place.call("status", "--json").object()["settings"]
    assert isinstance(settings, dict)
    return {
        **place.call("status", "--json").object(),
        "running": True,
        "stalled_s": 60.0,
        "approvals": 3,
        "waiting_approvals": [approval],
        "waiting_agents": {"count": 1, "oldest": [agent]},
        "failures": {"count": 9, "newest": failures},
        "held_by_reason": {"disk full": 2},
        "requests": {"waiting": 0, "rejected": 1},
        "settings": {**settings, "changed": ["runward.toml"]},
        "roots": [
            {"name": "runs", "path": "/r", "layout": "native", "health": "missing", "problem": "it is gone"}
        ],
        "degraded": ["notices: no network"],
        "problems": [
            {"path": "/p.yaml", "line": 3, "message": "wrong", "fix": "correct it", "severity": "error"},
            {"path": "/q.yaml", "line": 3, "message": "odd", "fix": None, "severity": "warning"},
        ],
        "notices": {"pending": 0, "dead": 1},
    }


def test_those_who_wait_for_an_answer_come_before_failures_and_these_before_all_else(
    status: Mapping[str, JsonValue],
) -> None:
    assert [(each.kind, each.level, each.subject, each.number) for each in needs(status, "/state")] == [
        ("daemon", "critical", None, 1),
        ("approval", "warning", "cr_1", 1),
        ("approval", "warning", None, 2),
        ("agent", "warning", "claude-code:claude/x", 1),
        ("failure", "critical", "native:runs/run.failed.missing_artifact", 1),
        ("failure", "error", "native:runs/run.aborted.process_gone", 1),
        ("failure", "error", None, 7),
        ("queue", "error", None, 1),
        ("request", "error", None, 1),
        ("settings", "warning", None, 1),
        ("root", "error", "runs", 1),
        ("degraded", "error", None, 1),
        ("file", "error", "/p.yaml", 1),
        ("notice", "error", None, 1),
    ]


class Read(dict[str, JsonValue]):
    """A status that notes which of its keys are read."""

    def __init__(self, status: Mapping[str, JsonValue]) -> None:
        super().__init__(status)
        self.keys_read: set[str] = set()

    def __getitem__(self, key: str) -> JsonValue:
        self.keys_read.add(key)
        return super().__getitem__(key)


def test_needs_asked_for_alone_are_complete(status: Mapping[str, JsonValue]) -> None:
    read = Read(status)
    list(needs(read, "/state"))
    assert read.keys_read == set(ASKED)


def test_what_waits_and_what_failed_is_counted_apart(status: Mapping[str, JsonValue]) -> None:
    found = attention(needs(status, "/state"))
    assert (found.waiting, found.failed, found.line) == (12, 9, "!12 ✗9")
    nothing = attention(())
    assert (nothing.waiting, nothing.failed, nothing.line) == (0, 0, "")


def test_people_get_one_line_for_all_approvals_and_one_for_all_failures(
    status: Mapping[str, JsonValue],
) -> None:
    page = "\n".join(lines_of(status, [], "/state", time.time(), 1000))
    assert "3 steps of chains wait for a person\n    -> `runward chain approvals`" in page
    named = "run.failed.missing_artifact (run.failed.missing_artifact), run.aborted.process_gone (run.aborted.process_gone)"
    assert f"9 sessions failed in the last 24 hours: {named} and 7 more" in page
    assert "11 things need you:" in page


def test_an_agent_that_waits_for_an_answer_needs_somebody(place: Place) -> None:
    (place.directory / "runward.toml").write_text(SETTINGS + _CLAUDE)
    path: Path = place.directory / f".claude/projects/-app/{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    transcript = Transcript(now=time.time())
    transcript.prompt("Deploy with password=hunter2hunter2")
    path.write_bytes(transcript.content())
    place.daemon_once()
    place.change_store("update cursors set activity = 'waiting'")
    (need,) = place.call("status", "--json").items("needs")
    key = f"claude-code:{SESSION}"
    assert (need["kind"], need["subject"], need["text"]) == ("agent", key, f"{SESSION} waits for an answer")
    status = place.call("status", "--json").object()
    agents = status["waiting_agents"]
    assert status["waiting"] == 1
    assert "hunter2hunter2" not in str(agents)
    assert "Deploy with" in str(agents)
    assert f"! {SESSION} waits for an answer" in place.call("status").out


def test_a_run_without_a_required_artifact_is_critical(place: Place) -> None:
    contract: JsonValue = {"expected": [{"id": "r", "path": "r.md", "required": True, "source": "playbook"}]}
    place.add_run("silent", exit_code=0, contract=contract, started_at=_ago(60), finished_at=_ago(50))
    place.daemon_once()
    (need,) = place.call("status", "--json").items("needs")
    assert (need["kind"], need["level"], need["subject"]) == ("failure", "critical", "native:runs/silent")
    assert "r (r.md)" in str(need["text"])
