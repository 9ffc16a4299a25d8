"""Which session lies at a place."""

import json
import os
from codecs import BOM_UTF8
from pathlib import Path

import pytest
import zstandard
from tests.daemon.rundir.looking_on import append, lines
from tests.handlers.layouts import claude_code_lines, codex_lines, lionagi_lines
from tests.handlers.layouts.tiny import begin, layouts

from runward.daemon.rundir import session_reading
from runward.daemon.rundir.session_reading import Identity, identify
from runward.handlers.layouts.layout import Layouts
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.model.files import Unreadable

TINY = layouts()
LOGS = Layouts(TINY.logs)
DIRECTORIES = Layouts((), TINY.directories)


def named(root: Path, place: str, known: Layouts = TINY) -> tuple[str, str, bool]:
    identity = identify(str(root), place, known)
    assert isinstance(identity, Identity)
    status = (root / place).stat() if (root / place).exists() else (root / f"{place}.zst").stat()
    assert (identity.device, identity.inode) == (status.st_dev, status.st_ino)
    return identity.layout.name, identity.session_id, identity.is_subagent


def test_a_session_is_known_by_the_id_in_its_log_else_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/a.jsonl").write_bytes(lines(begin(id="one")) + lines({"work": True}) * 100_000)
    (tmp_path / "b.jsonl").write_bytes(lines(begin()))
    (tmp_path / "c.jsonl").write_bytes(lines(begin(of="a")))
    (tmp_path / "d.jsonl.zst").write_bytes(zstandard.compress(lines(begin(id="four"))))
    assert named(tmp_path, "p/a.jsonl") == ("claude-code", "one", False)
    assert named(tmp_path, "b.jsonl") == ("claude-code", "b", False)
    assert named(tmp_path, "c.jsonl") == ("claude-code", "c", True)
    assert named(tmp_path, "d.jsonl", LOGS) == ("claude-code", "four", False)


def test_what_is_no_session_yet_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "other.jsonl").write_bytes(b'{"type": "other"}\n')
    (tmp_path / "torn.jsonl").write_bytes(b'{"be')
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to("/etc/passwd")
    (tmp_path / "empty").mkdir()
    (tmp_path / "native").mkdir()
    (tmp_path / "native/run.json").write_text('{"schema": "runward-run-v1"}')
    for place in (*os.listdir(tmp_path), "nowhere.jsonl", "nowhere/a.jsonl"):
        assert identify(str(tmp_path), place, TINY) is None, place
    append(tmp_path / "torn.jsonl", b'gin": true}\n')
    (tmp_path / "torn.jsonl").write_bytes(lines(begin()))
    assert named(tmp_path, "torn.jsonl")[1] == "torn"


def test_a_packed_log_that_is_broken_is_what_usually_lies_there(tmp_path: Path) -> None:
    for name in ("known-a.jsonl.zst", "other.jsonl.zst"):
        (tmp_path / name).write_bytes(b"no zstd")
    assert named(tmp_path, "known-a.jsonl") == ("claude-code", "known-a", False)
    assert identify(str(tmp_path), "other.jsonl", TINY) is None


def test_a_log_with_a_byte_order_mark_is_the_same_session(tmp_path: Path) -> None:
    claude = claude_code_lines.headless_run().content()
    codex = b"".join(line.content + b"\n" for line in codex_lines.ok().lines())
    (tmp_path / f"{claude_code_lines.SESSION}.jsonl").write_bytes(BOM_UTF8 + claude)
    (tmp_path / codex_lines.NAME).write_bytes(BOM_UTF8 + codex)
    assert named(tmp_path, f"{claude_code_lines.SESSION}.jsonl", LAYOUTS)[0] == "claude-code"
    assert named(tmp_path, codex_lines.NAME, LAYOUTS) == ("codex", codex_lines.THREAD, False)


def test_a_directory_is_known_by_its_name_where_its_files_name_no_session(tmp_path: Path) -> None:
    (tmp_path / "run/inner").mkdir(parents=True)
    (tmp_path / "run/status.json").write_text('{"status": "tiny"}')
    assert named(tmp_path, "run") == ("ctcp", "run", False)
    (tmp_path / "run/events.jsonl").write_bytes(lines(begin(id="named")))
    assert named(tmp_path, "run", DIRECTORIES) == ("ctcp", "named", False)
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert identify(str(tmp_path), "link", DIRECTORIES) is None


def test_what_cannot_be_read_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(begin()))

    def refused(within: int, name: str) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(session_reading, "open_regular", refused)
    assert identify(str(tmp_path), "a.jsonl", LOGS) == Unreadable("Permission denied")


def test_sessions_of_the_real_layouts_are_known(tmp_path: Path) -> None:
    claude = f"{claude_code_lines.SESSION}.jsonl"
    (tmp_path / claude).write_bytes(claude_code_lines.headless_run().content())
    assert named(tmp_path, claude, LAYOUTS) == ("claude-code", claude_code_lines.SESSION, False)
    for log in (codex_lines.ok(), codex_lines.bare_ok()):
        rollout = b"".join(line.content + b"\n" for line in log.lines())
        for name in (codex_lines.NAME, "renamed.jsonl"):
            (tmp_path / name).write_bytes(rollout)
            assert named(tmp_path, name, LAYOUTS) == ("codex", codex_lines.THREAD, False)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text(json.dumps(lionagi_lines.run_json()))
    assert named(tmp_path, "run", LAYOUTS) == ("lionagi", lionagi_lines.RUN_ID, False)
    assert identify(str(tmp_path), "run", LAYOUTS.only("ctcp")) is None
