"""Finding sessions under a path, and by what they are recognised."""

import json
import os
from pathlib import Path

import pytest
import zstandard
from tests.handlers.layouts.tiny import begin, layouts

from runward.config.json_value import JsonValue
from runward.daemon.rundir import session_places as finding
from runward.daemon.rundir.session_places import CannotList, Obstacle, sessions_under
from runward.handlers.layouts.layout import Layouts
from runward.handlers.layouts.places import PACKED

BEGIN = json.dumps(begin()).encode() + b"\n"


def log(path: Path, content: bytes = BEGIN) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.compress(content) if path.suffix == PACKED else content)
    return path


def run(path: Path, name: str = "status.json", **said: JsonValue) -> Path:
    path.mkdir(parents=True)
    (path / name).write_text(json.dumps(said))
    return path


def found(path: Path, known: Layouts | None = None) -> list[tuple[str, str]]:
    """The layouts and paths of what is found, the paths relative to the one that was asked about."""
    answers = []
    for each in sessions_under(str(path), layouts() if known is None else known):
        assert not isinstance(each, Obstacle), each
        name = each.layout if isinstance(each.layout, str) else each.layout.name
        answers.append((name, os.path.relpath(each.path, path)))
    return answers


def obstacles(path: Path) -> list[Obstacle]:
    return [each for each in sessions_under(str(path), layouts()) if isinstance(each, Obstacle)]


def test_a_transcript_is_itself(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl")
    assert found(path) == [("claude-code", ".")]
    log(tmp_path / "b.jsonl")
    assert found(path) == [("claude-code", ".")]


def test_every_transcript_of_a_home_is_found_in_order(tmp_path: Path) -> None:
    for name in (
        "sessions/2026/11/21/rollout-b.jsonl",
        "sessions/2026/11/03/rollout-c.jsonl.zst",
        "sessions/2025/12/31/rollout-a.jsonl",
        "archived_sessions/rollout-d.jsonl",
    ):
        log(tmp_path / name)
    log(tmp_path / "history.jsonl", b'{"text": "hello"}\n')
    assert [path for _, path in found(tmp_path)] == [
        "archived_sessions/rollout-d.jsonl",
        "sessions/2025/12/31/rollout-a.jsonl",
        "sessions/2026/11/03/rollout-c.jsonl.zst",
        "sessions/2026/11/21/rollout-b.jsonl",
    ]


def test_what_lies_in_a_sessions_own_directory_belongs_to_it(tmp_path: Path) -> None:
    log(tmp_path / "projects/app/s1.jsonl")
    log(tmp_path / "projects/app/s1/subagents/agent-1.jsonl")
    run(tmp_path / "runs/r", tool="tiny")
    log(tmp_path / "runs/r/artifacts/copied.jsonl")
    assert found(tmp_path) == [("claude-code", "projects/app/s1.jsonl"), ("ctcp", "runs/r")]


def test_run_directories_of_several_tools_stand_beside_each_other(tmp_path: Path) -> None:
    run(tmp_path / "b", tool="tiny")
    run(tmp_path / "a", "run.json", schema="runward-run-v1")
    run(tmp_path / "c", "run.json", broken=True)
    run(tmp_path / "none", "other.json")
    assert found(tmp_path) == [("native", "a"), ("ctcp", "b"), ("native", "c")]
    assert found(tmp_path / "b") == [("ctcp", ".")]
    assert found(tmp_path, layouts().only("ctcp")) == [("native", "a"), ("ctcp", "b"), ("native", "c")]


def test_a_run_that_looks_like_another_tools_is_native_by_its_schema(tmp_path: Path) -> None:
    path = run(tmp_path / "a", "run.json", schema="runward-run-v1")
    (path / "status.json").write_text('"tiny"')
    assert found(path) == [("native", ".")]


def test_a_file_of_a_run_stands_for_the_run(tmp_path: Path) -> None:
    path = run(tmp_path / "a", tool="tiny")
    (path / "stdout.log").write_text("hello")
    assert found(path / "stdout.log") == [("ctcp", "..")]


def test_what_a_program_printed_is_in_no_layout(tmp_path: Path) -> None:
    log(tmp_path / "a.jsonl")
    printed = log(tmp_path / "a.stream.jsonl", b'{"type": "system"}\n')
    assert found(printed) == []
    assert found(tmp_path) == [("claude-code", "a.jsonl")]


def test_links_that_are_found_are_not_followed_and_one_that_is_named_is(tmp_path: Path) -> None:
    log(tmp_path / "real/a.jsonl")
    (tmp_path / "place").mkdir()
    (tmp_path / "place/link.jsonl").symlink_to(tmp_path / "real/a.jsonl")
    (tmp_path / "place/directory").symlink_to(tmp_path / "real")
    assert found(tmp_path / "place") == []
    assert found(tmp_path / "place/link.jsonl") == [("claude-code", "../../real/a.jsonl")]
    assert found(tmp_path / "place/directory") == [("claude-code", "../../real/a.jsonl")]


def test_hidden_names_are_passed_over_but_not_when_one_is_named(tmp_path: Path) -> None:
    log(tmp_path / ".claude/a.jsonl")
    assert found(tmp_path) == []
    assert found(tmp_path / ".claude") == [("claude-code", "a.jsonl")]


def test_pipes_sockets_and_damaged_files_hinder_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "damaged.jsonl.zst").write_bytes(b"no zstd")
    (tmp_path / "known-damaged.jsonl.zst").write_bytes(b"no zstd")
    log(tmp_path / "a.jsonl")
    answers = list(sessions_under(str(tmp_path), layouts()))
    assert [os.path.basename(each.path) for each in answers] == [
        "a.jsonl",
        "damaged.jsonl.zst",
        "known-damaged.jsonl.zst",
    ]
    assert [isinstance(each, Obstacle) for each in answers] == [False, True, False]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_listed_is_said(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    assert obstacles(tmp_path) == [Obstacle(str(tmp_path / "closed"), "can't be listed: Permission denied")]
    with pytest.raises(CannotList):
        found(tmp_path / "closed")


def test_a_missing_path_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        found(tmp_path / "nowhere")


def test_a_walk_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "/".join("abcdefg") / "deep.jsonl"
    log(deep)
    log(tmp_path / "b/c/d/e/other.jsonl")
    assert len(found(tmp_path)) == 1
    assert len(found(tmp_path / "a")) == 1
    monkeypatch.setattr(finding, "MOST_ENTRIES", 3)
    (said,) = obstacles(tmp_path)
    assert said.path == str(tmp_path / "a/b")
