"""Reading a whole session: its log, or the files of its directory."""

import json
import os
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from tests.handlers.layouts.test_conversations import EACH, Agent
from tests.handlers.layouts.tiny import END, begin, layouts

from runward.config.json_value import JsonValue
from runward.daemon.rundir import session_files, session_logs
from runward.daemon.rundir.session_files import LARGEST_DOCUMENT
from runward.daemon.rundir.session_reading import MOST_RETRIES, read_session
from runward.handlers.layouts.layout import DirectoryLayout
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.model.sessions import Complaint

(LOG,) = layouts().logs
(DIRECTORY,) = layouts().directories


def lines(*records: dict[str, JsonValue]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_a_log_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines(begin(), END) + b'{"begin"')
    os.utime(path, (1000, 1000))
    read = read_session(LOG, str(path))
    assert (read.told.session_id, read.told.turn, read.told.counts.events) == ("a", "closed", 2)
    assert (read.changed_at, [each.file for each in read.obstacles]) == (1000, ["a.jsonl"])


def test_a_packed_log_tells_the_same(tmp_path: Path) -> None:
    work: list[dict[str, JsonValue]] = [{"work": number} for number in range(100_000)]
    content = lines(begin(), *work, END)
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(content))
    plain = read_session(LOG, str(tmp_path / "a.jsonl"))
    packed = read_session(LOG, str(tmp_path / "a.jsonl.zst"))
    assert plain.told == packed.told
    assert plain.told.counts.events == 100_002


def test_a_log_that_cannot_be_read_is_a_problem_of_its_session(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(lines(begin())) + b"no further frame")
    os.mkfifo(tmp_path / "pipe.jsonl")
    read = read_session(LOG, str(tmp_path / "a.jsonl.zst"))
    assert read.told.session_id == "a"
    (said,) = read.obstacles
    assert said.message.startswith("can't be unpacked")
    assert read_session(LOG, str(tmp_path / "pipe.jsonl")).obstacles == (
        Complaint("pipe.jsonl", None, "is not a regular file", None),
    )
    (gone,) = read_session(LOG, str(tmp_path / "gone.jsonl")).obstacles
    assert gone.message == "can't be read: No such file or directory"


def test_the_logs_beside_a_transcript_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(begin()))
    (tmp_path / "a/agents").mkdir(parents=True)
    for name in ("1.jsonl", "2.jsonl", "3.txt"):
        (tmp_path / "a/agents" / name).write_bytes(lines({"work": True}) * 1000)
    read = read_session(replace(LOG, beside=("{name}/agents/*.jsonl",)), str(tmp_path / "a.jsonl"))
    assert read.told.counts.events == 2001
    assert read_session(LOG, str(tmp_path / "a.jsonl")).told.counts.events == 1


def test_the_documents_beside_a_log_are_those_of_its_name_alone(tmp_path: Path) -> None:
    layout = replace(LOG, documents=("{name}.status.json",))
    for name in ("a", "*"):
        (tmp_path / f"{name}.jsonl").write_bytes(lines(begin()))
    (tmp_path / "a.status.json").write_text('{"status": "done"}')
    assert read_session(layout, str(tmp_path / "a.jsonl")).told.declared
    assert not read_session(layout, str(tmp_path / "*.jsonl")).told.declared
    (tmp_path / "a.status.json").write_bytes(b" " * (LARGEST_DOCUMENT + 1))
    (said,) = read_session(layout, str(tmp_path / "a.jsonl")).told.complaints
    assert said == Complaint("a.status.json", None, f"is larger than {LARGEST_DOCUMENT} bytes", None)


def test_the_files_of_a_directory_are_read_where_they_are_its_own(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "inner").mkdir(parents=True)
    (run / "events.jsonl").write_bytes(lines(begin()))
    (run / "inner/status.json").write_text('{"status": "done"}')
    (run / "inner/link.json").symlink_to("/etc/passwd")
    os.utime(run / "events.jsonl", (1000, 1000))
    os.utime(run / "inner/status.json", (2000, 2000))
    os.utime(run / "inner/link.json", (500, 500), follow_symlinks=False)
    read = read_session(DIRECTORY, str(run))
    assert (read.told.session_id, read.told.declared, read.told.attempt) == ("run", True, 1)
    assert read.told.complaints == (Complaint("inner/link.json", None, "is not a regular file", None),)
    assert read.changed_at == 2000


def test_a_directory_inside_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/status.json").write_text('{"status": "done"}')
    (tmp_path / "run").mkdir()
    (tmp_path / "run/inner").symlink_to(tmp_path / "elsewhere")
    read = read_session(DIRECTORY, str(tmp_path / "run"))
    assert (read.told.attempt, read.changed_at) == (0, None)


def _run_with(path: Path, status: str) -> Path:
    run = path / "run"
    run.mkdir()
    (run / "status.json").write_text(status)
    return run


def test_a_document_that_is_just_being_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run_with(tmp_path, '{"status": "do')
    monkeypatch.setattr(time, "sleep", lambda seconds: (run / "status.json").write_text('{"status": "done"}'))
    assert read_session(DIRECTORY, str(run)).told.declared


def test_a_document_that_stays_broken_is_read_again_only_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    run = _run_with(tmp_path, "{")
    assert not read_session(DIRECTORY, str(run)).told.declared
    assert len(slept) == MOST_RETRIES
    os.utime(run / "status.json", (1000, 1000))
    read_session(DIRECTORY, str(run))
    assert len(slept) == MOST_RETRIES, "an old one isn't being written"


@EACH
def test_a_huge_log_of_any_agent_is_read_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: Agent
) -> None:
    monkeypatch.setattr(session_logs, "LONGEST_KEPT", 1 << 16)
    monkeypatch.setattr(session_files, "MOST_BYTES", 1 << 16)
    log = agent.lines.Log()
    for number in range(300):
        log.prompt("p" * 10_000).call(f"call_{number}", command="c" * 10_000).result(f"call_{number}")
    written = b"".join(line + b"\n" for line in log.prompt("p" * 6_000_000).say().lines())
    layout, path = LAYOUTS.named(agent.layout.LAYOUT), tmp_path / agent.lines.NAME
    file = path / layout.logs[0] if isinstance(layout, DirectoryLayout) else path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(written)
    tracemalloc.start()
    try:
        told = read_session(layout, str(path)).told
        assert tracemalloc.get_traced_memory()[1] < 2_000_000 < len(written)
    finally:
        tracemalloc.stop()
    assert (told.turn, told.counts.tool_calls) == ("closed", 300)
