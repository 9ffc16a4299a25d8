"""Which session a path belongs to, without opening anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts.tiny import layouts

from runward.handlers.layouts.places import (
    LEVELS,
    DirectoryShape,
    Shape,
    beside,
    directory_shape,
    is_glob,
    log_shape,
    mixed_shape,
    shape_of,
    unpacked_name,
)
from runward.handlers.layouts.registry import LAYOUTS

BY_NAME: dict[str, Shape] = {each.name: shape_of(each) for each in LAYOUTS.logs}
BY_NAME |= {each.name: shape_of(each) for each in LAYOUTS.directories}
BY_NAME["auto"] = mixed_shape(LAYOUTS)
SESSION = "-home-me/0f5c0e6e-1111-4222-8333-000000000001"
ROLLOUT = "sessions/2026/01/02/rollout-2026-01-02T03-04-05-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl"


@pytest.mark.parametrize(
    ("layout", "path", "place"),
    [
        ("claude-code", f"{SESSION}.jsonl", f"{SESSION}.jsonl"),
        ("claude-code", f"{SESSION}.jsonl.zst", f"{SESSION}.jsonl"),
        ("claude-code", f"{SESSION}/subagents/agent-a1.jsonl", f"{SESSION}.jsonl"),
        ("claude-code", f"{SESSION}/subagents", f"{SESSION}.jsonl"),
        ("claude-code", f"{SESSION}/subagents/agent-a1.meta.json", None),
        ("claude-code", f"{SESSION}/subagents/further/agent-a1.jsonl", None),
        ("claude-code", "subagents/agent-a1.jsonl", None),
        ("claude-code", f"{SESSION}/tool-results/out.txt", None),
        ("claude-code", "-home-me/agent-1234.jsonl", None),
        ("claude-code", "-home-me", None),
        ("claude-code", "-home-me/sessions-index.json", None),
        ("claude-code", ".hidden/a.jsonl", None),
        ("claude-code", "-home-me/.a.jsonl", None),
        ("claude-code", "-home-me/a.jsonl.tmp", None),
        ("claude-code", "-home-me/../a.jsonl", None),
        ("claude-code", "-home-me/\udcff.jsonl", None),
        ("codex", ROLLOUT, ROLLOUT),
        ("codex", f"{ROLLOUT}.zst", ROLLOUT),
        ("codex", "a/" * LEVELS + "x.jsonl", "a/" * LEVELS + "x.jsonl"),
        ("codex", "a/" * (LEVELS + 1) + "x.jsonl", None),
        ("codex", "config.toml", None),
        ("droid", "-home-me/1f.settings.json", "-home-me/1f.jsonl"),
        ("droid", "-home-me/.settings.json", None),
        ("droid", "-home-me/1f.settings.json.bak", None),
        ("qwen", "-home-me/subagents/1f/agent-a.meta.json", "-home-me/subagents/1f/agent-a.jsonl"),
        ("cline", "17_a/agent_1.messages.json", "17_a"),
        ("ctcp", "run", "run"),
        ("ctcp", "run/RUN.json", "run"),
        ("ctcp", "run/artifacts", "run"),
        ("ctcp", "run/artifacts/verify_report.json", "run"),
        ("ctcp", "run/artifacts/anything.json", None),
        ("ctcp", "run/RUN.json.tmp", None),
        ("ctcp", ".cache/RUN.json", None),
        ("ctcp", "run\udcff/RUN.json", None),
        ("ctcp", "", None),
        ("adjutant", "s1/REPLAY.jsonl", "s1"),
        ("adjutant", "s1/notes.md", None),
        ("lionagi", "r/branches/b.json", "r"),
        ("lionagi", "r/branches/further/b.json", None),
        ("lionagi", "r/stream", "r"),
        ("lionagi", "r/stream/b.buffer.jsonl", "r"),
        ("lionagi", "r/artifacts/a.md", None),
        ("auto", f"claude/projects/{SESSION}.jsonl.zst", f"claude/projects/{SESSION}.jsonl"),
        ("auto", f"projects/{SESSION}/subagents/agent-a1.jsonl", f"projects/{SESSION}.jsonl"),
        ("auto", f"projects/{SESSION}/subagents/workflows/r/agent-a1.jsonl", None),
        ("auto", "-home-me/agent-1234.jsonl", None),
        ("auto", "q/-home-me/subagents/1f/agent-a.jsonl", "q/-home-me/subagents/1f/agent-a.jsonl"),
        ("auto", "q/-home-me/subagents/1f/agent-a.meta.json", "q/-home-me/subagents/1f/agent-a.jsonl"),
        ("auto", "q/-home-me/subagents/1f/journal.jsonl", None),
        ("auto", "q/-home-me/subagents/.1f/agent-a.jsonl", None),
        ("auto", ROLLOUT, ROLLOUT),
        ("auto", "ci/7/RUN.json", "ci/7"),
        ("auto", "ci/7/events.jsonl", "ci/7"),
        ("auto", "ci/7/artifacts", "ci/7"),
        ("auto", "ci/7/artifacts/verify_report.json", "ci/7"),
        ("auto", "ci/7/branches/run.json", "ci/7"),
        ("auto", "flows/r/stream/b.buffer.jsonl", "flows/r"),
        ("auto", "flows/r/stream/other.txt", None),
        ("auto", "d/" * LEVELS + "RUN.json", "d/" * (LEVELS - 1) + "d"),
        ("auto", "d/" * (LEVELS + 1) + "RUN.json", None),
        ("auto", "RUN.json", None),
        ("auto", "events.jsonl", "events.jsonl"),
        ("auto", "a.jsonl/RUN.json", None),
        ("auto", ".adjutant/sessions/1/REPLAY.jsonl", None),
        ("auto", "ci/7", None),
        ("auto", "ci//RUN.json", None),
        ("auto", "", None),
    ],
)
def test_a_path_belongs_to_a_place_or_to_none(layout: str, path: str, place: str | None) -> None:
    assert BY_NAME[layout].place_of(path) == place


@pytest.mark.parametrize("layout", [*(each.name for each in LAYOUTS.logs), "auto"])
@given(st.text("ab./-\0é\udcff", max_size=30))
def test_a_place_of_a_log_is_its_own_place(layout: str, path: str) -> None:
    shape = BY_NAME[layout]
    place = shape.place_of(path + ".jsonl")
    assert place is None or (shape.place_of(place) == place and place.encode())


def test_of_a_session_of_files_those_are_told_that_tell_of_it() -> None:
    assert shape_of(layouts().directories[0]) == DirectoryShape(
        ("status.json", "inner/*.json", "events.jsonl", "inner/status.json")
    )
    assert directory_shape(layouts().directories[0]).beneath("x") == (
        "status.json",
        "inner",
        "events.jsonl",
        "inner/status.json",
    )


def test_what_lies_in_a_sessions_own_directory_is_not_looked_through() -> None:
    claude, codex, *_ = (log_shape(each) for each in LAYOUTS.logs)
    assert not claude.is_entered("subagents")
    assert codex.is_entered("subagents")
    assert not claude.is_entered(".git")
    assert claude.is_log("a.jsonl")
    assert not claude.is_log("agent-a.jsonl")
    assert codex.is_log("agent-a.jsonl.zst")


def test_where_one_agent_keeps_what_belongs_to_a_session_another_may_have_sessions() -> None:
    logs = mixed_shape(LAYOUTS).logs
    entered = ["p/subagents", "p/subagents/1f", "p/subagents/workflows"]
    assert [
        each for each in (*entered, "p/subagents/1f/x", "p/subagents/.1f") if logs.is_entered(each)
    ] == entered
    listed = ["p/subagents/1f/agent-a.jsonl"]
    others = [
        "p/agent-a.jsonl",
        "p/subagents/agent-a.jsonl",
        "p/subagents/1f/a.jsonl",
        "p/subagents/1f/.agent-a.jsonl",
    ]
    assert [each for each in (*listed, *others) if logs.is_log(each)] == listed


def test_the_logs_beside_a_log_are_found_by_its_name() -> None:
    assert beside(LAYOUTS.logs[0], "a.b.jsonl.zst") == (
        "a.b/subagents/*.jsonl",
        "a.b/subagents/workflows/*/agent-*.jsonl",
    )
    assert unpacked_name("x.jsonl.zst") == "x.jsonl"
    assert not is_glob("a*/b.json")
    assert is_glob("a/b?.json")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("wd_a", None),
        ("wd_a/session_1", "wd_a/session_1"),
        ("wd_a/session_1/agents/main", "wd_a/session_1"),
        ("wd_a/session_1/agents/main/wire.jsonl", "wd_a/session_1"),
        ("wd_a/session_1/agents/agent-0/wire.jsonl", "wd_a/session_1"),
        ("wd_a/session_1/agents/agent-0", "wd_a/session_1"),
        ("wd_a/session_1/agents", "wd_a/session_1"),
        ("wd_a/session_1/agents/agent-0/further/wire.jsonl", None),
        ("wd_a/session_1/agents/agent-0/other.jsonl", None),
        ("wd_a/.hidden/agents/main/wire.jsonl", None),
        (".hidden/session_1/agents/main/wire.jsonl", None),
        ("agents/main/wire.jsonl", None),
    ],
)
def test_directories_may_be_several_levels_below_the_root(path: str, place: str | None) -> None:
    assert BY_NAME["kimi"].place_of(path) == place
