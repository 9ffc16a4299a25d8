"""What a foreign session is about: its directory, first prompt, model and tokens, wherever it is shown."""

import json
import sqlite3
import time
from pathlib import Path

import pytest
from tests.daemon.cli.calling import SETTINGS, Place
from tests.handlers.layouts.claude_code_lines import MODEL, SESSION, Transcript

from runward.daemon.watch.remembered import LONGEST_PROMPT, about
from runward.handlers.layouts.transcript import Told, Usage

_ROOT = '[[roots]]\nname = "claude"\npath = ".claude/projects"\nlayout = "claude-code"\nhistory = "live"\n'
_KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def claude(place: Place) -> Place:
    """A place whose only root is Claude Code's."""
    (place.directory / "runward.toml").write_text(SETTINGS + _ROOT)
    return place


def record(place: Place, prompt: str) -> None:
    """A session that answered this prompt."""
    path: Path = place.directory / f".claude/projects/-app/{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    transcript = Transcript(now=time.time() - 100)
    transcript.prompt(prompt)
    transcript.text("Done.")
    path.write_bytes(transcript.content())
    place.daemon_once()


def test_list_and_show_say_what_it_is_about(claude: Place) -> None:
    record(claude, "Fix the parser\nand its tests, please: it fails on empty files")
    (listed,) = claude.call("session", "list", "--json").objects()
    shown = claude.call("session", "show", SESSION, "--json").object()
    for told in (listed, shown):
        assert told["cwd"] == "/home/dev/app"
        assert told["prompt"] == "Fix the parser and its tests, please: it fails on empty files"
        assert told["model"] == MODEL
        assert told["usage"] == {
            "input_tokens": 111,
            "output_tokens": 20,
            "cache_read_tokens": 1,
            "cache_write_tokens": 10,
            "cost_usd": 0.001063,
            "cost_is_estimate": True,
            "unpriced_tokens": 0,
        }
    lines = claude.call("session", "show", SESSION).out.splitlines()
    facts = {line.partition(":")[0]: line.partition(":")[2].strip() for line in lines}
    assert facts["Cwd"] == "/home/dev/app"
    assert facts["Prompt"].startswith("Fix the parser and its tests")
    assert (facts["Model"], facts["Tokens"]) == (MODEL, "111 in, 20 out")
    assert facts["Cost"].startswith("~$0.0011 at list prices of ")
    head, row = claude.call("session", "list").out.splitlines()
    assert head.split()[-4:] == ["CWD", "MODEL", "TOKENS", "PROMPT"]
    assert "Fix the parser and its tests, p…" in row


def test_a_prompt_steers_no_terminal_and_its_secrets_are_neither_shown_nor_stored_for_it(
    claude: Place,
) -> None:
    record(claude, f"\x1b[2J\x1b]0;owned\x07 use {_KEY} and password=hunter2hunter2")
    for arguments in (("list",), ("list", "--json"), ("show", SESSION), ("show", SESSION, "--json")):
        out = claude.call("session", *arguments).out
        assert "\x1b[2J" not in out
        assert "\x07" not in out
        assert _KEY not in out
        assert "hunter2" not in out
    (prompt,) = [each["prompt"] for each in claude.call("session", "list", "--json").objects()]
    assert str(prompt).endswith("use [redacted] and password=[redacted]")
    with sqlite3.connect(claude.state / "runward.db") as store:
        ((kept,),) = store.execute("select json_extract(state, '$[10]') from cursors").fetchall()
    assert _KEY not in kept


def test_what_a_run_wrote_is_shown_without_secrets(place: Place) -> None:
    run = place.add_run("leaky")
    outcome = {"outcome_kind": "note", "summary": f"use {_KEY} and DB_PASS=xyzzy"}
    (run / "outcomes").mkdir()
    (run / "outcomes/note.json").write_text(json.dumps(outcome))
    end = {"exit_code": 3, "cause": "exited", "error": f"{_KEY} and DB_PASS=xyzzy are wrong"}
    (run / "exit.json").write_text(json.dumps(end))
    place.daemon_once()
    for arguments in (("session", "show"), ("session", "show", "--json"), ("why",), ("why", "--json")):
        out = place.call(*arguments, "leaky").out
        assert _KEY not in out
        assert "xyzzy" not in out
    assert "use [redacted] and DB_PASS=[redacted]" in place.call("session", "show", "leaky").out
    assert "[redacted] and DB_PASS=[redacted] are wrong" in place.call("why", "leaky").out


def test_a_native_run_has_none_of_it(recorded: Place) -> None:
    for each in recorded.call("session", "list", "--json").objects():
        assert (each["cwd"], each["prompt"], each["model"], each["usage"]) == (None, None, None, None)
    assert "PROMPT" not in recorded.call("session", "list").out


def test_what_is_kept_is_small_whatever_an_agent_wrote() -> None:
    told = Told(cwd="/" + "ä" * 10**5, prompt="x y\n" * 10**5, model="m" * 10**5, usage=Usage(2**53, 2**53))
    kept = about(told)
    assert kept.prompt is not None
    assert (len(kept.prompt), kept.prompt[-1]) == (LONGEST_PROMPT, "…")
    assert len(json.dumps(kept, ensure_ascii=False)) < 5000
    assert about(Told()) == (None, None, None, None, None)
