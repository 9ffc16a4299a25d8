from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.handlers.layouts.claude_code import PidFile, read_pid_file

WRITTEN: dict[str, JsonValue] = {
    "pid": 4711,
    "sessionId": "5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b11",
    "cwd": "/home/dev/app",
    "startedAt": 1_800_000_000_123,
    "procStart": "50333",
    "version": "2.1.197",
    "peerProtocol": 1,
    "kind": "interactive",
    "entrypoint": "cli",
    "name": "app-01",
    "status": "waiting",
    "updatedAt": 1_800_000_009_000,
    "waitingFor": "permission prompt",
}
CONTENT = msgspec.json.encode(WRITTEN)


def test_a_pid_file_names_the_process_and_what_its_session_is_about() -> None:
    assert read_pid_file(CONTENT) == PidFile(
        pid=4711,
        session_id="5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b11",
        start_ticks=50333,
        status="waiting",
        waiting_for="permission prompt",
        kind="interactive",
        entrypoint="cli",
        headless=False,
        cwd="/home/dev/app",
        version="2.1.197",
        started_at=1_800_000_000.123,
    )


def test_a_headless_sessions_pid_file_has_no_status() -> None:
    given = {key: value for key, value in WRITTEN.items() if key not in ("status", "waitingFor")}
    read = read_pid_file(msgspec.json.encode({**given, "entrypoint": "sdk-cli"}))
    assert read is not None
    assert (read.headless, read.status, read.waiting_for) == (True, None, None)


def test_half_a_character_in_a_sessions_name_hides_no_process() -> None:
    read = read_pid_file(CONTENT.replace(b"app-01", b"app \\ud83d"))
    assert read == read_pid_file(CONTENT)


def test_a_pid_file_that_is_half_written_says_nothing() -> None:
    assert read_pid_file(CONTENT) is not None
    assert [length for length in range(len(CONTENT)) if read_pid_file(CONTENT[:length]) is not None] == []


def test_a_pid_file_that_still_ends_as_the_longer_one_before_it_says_nothing() -> None:
    shorter = msgspec.json.encode({**WRITTEN, "status": "busy", "waitingFor": None})
    assert read_pid_file(shorter + CONTENT[len(shorter) :]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"pid": None},
        {"pid": True},
        {"pid": 0},
        {"pid": "4711"},
        {"pid": 2**31},
        {"sessionId": ""},
        {"sessionId": 7},
    ],
)
def test_without_a_pid_and_a_session_it_is_no_pid_file(change: dict[str, JsonValue]) -> None:
    assert read_pid_file(msgspec.json.encode({**WRITTEN, **change})) is None


@pytest.mark.parametrize("start", [None, "", "soon", -1, "9" * 19, "٣"])
def test_a_start_time_that_is_none_is_left_out(start: JsonValue) -> None:
    read = read_pid_file(
        msgspec.json.encode({**WRITTEN, "procStart": start, "startedAt": 1e300, "status": 3})
    )
    assert read is not None
    assert (read.start_ticks, read.started_at, read.status) == (None, None, None)


@given(st.binary(max_size=60))
def test_no_content_whatever_raises(content: bytes) -> None:
    assert read_pid_file(content) is None


def test_a_recorded_pid_file_is_read(material: Path) -> None:
    read = read_pid_file((material / "samples/claude-code/sessions-pidfile.json").read_bytes())
    assert read is not None
    assert (read.pid, read.start_ticks, read.headless, read.status) == (22546, 50333, True, None)
