"""Reading the calls of a session out of its files: whole, in portions, and when the files are not what they were."""

import json
import os
from pathlib import Path

import pytest
import zstandard
from tests.handlers.layouts import test_claude_code_cost
from tests.handlers.layouts.claude_code_lines import BEGAN, PARENT, SESSION, Transcript

from runward.daemon.rundir import session_logs
from runward.daemon.rundir.call_reading import CallReading, told_by
from runward.daemon.rundir.opening import Halted
from runward.handlers.calls import Called, Paid, Returned, Told, Unusable

CALL = b'{"event":"ToolCall","id":"%d","tool":"x"}'


def run_with(directory: Path, content: bytes) -> str:
    (directory / "trace.jsonl").write_bytes(content)
    return str(directory)


def read(path: str, layout: str = "native") -> tuple[list[Told], CallReading]:
    reading = CallReading(layout, path)
    return list(reading.told()), reading


def ids(found: list[Told]) -> list[str]:
    return [each.id for each in found if isinstance(each, Called)]


def transcript(calls: int) -> Transcript:
    log = Transcript()
    log.prompt("go")
    for number in range(calls):
        log.result(log.call(command=f"echo {number}"), "x" * number)
    return log


@pytest.mark.parametrize("name", [f"{SESSION}.jsonl", f"{SESSION}.jsonl.zst"])
def test_each_call_has_the_place_of_its_line(tmp_path: Path, name: str) -> None:
    content = transcript(30).content()
    packed = zstandard.compress(content) if name.endswith(".zst") else content
    (tmp_path / name).write_bytes(packed)
    found, reading = read(str(tmp_path / f"{SESSION}.jsonl"), layout="claude-code")
    assert len(found) == 60
    assert reading.obstacles == []
    for each in found:
        line = content[each.place.start : each.place.start + each.place.length]
        assert content.splitlines()[each.place.line - 1] == line
        assert isinstance(each, Called | Returned)
        assert each.id in line.decode()


def test_reading_on_after_every_byte_tells_each_call_once(tmp_path: Path) -> None:
    content = transcript(2).content()
    file = tmp_path / f"{SESSION}.jsonl"
    file.write_bytes(content)
    whole, _ = read(str(file), layout="claude-code")
    with file.open("wb", buffering=0) as growing:
        found: list[Told] = []
        reading = CallReading("claude-code", str(file))
        for byte in range(len(content)):
            growing.write(content[byte : byte + 1])
            if byte % 7 == 0 or content[byte : byte + 1] in b"}\n":
                found += reading.told()
                assert reading.changed == []
    assert found == whole


def test_a_last_line_without_its_newline_counts_once_it_is_whole(tmp_path: Path) -> None:
    path = run_with(tmp_path, CALL % 1 + b"\n" + (CALL % 2)[:-1])
    found, reading = read(path)
    assert ids(found) == ["1"]
    run_with(tmp_path, CALL % 1 + b"\n" + CALL % 2)
    assert ids(list(reading.told())) == ["2"]
    run_with(tmp_path, CALL % 1 + b"\n" + CALL % 2 + b"\n" + CALL % 3 + b"\n")
    found = list(reading.told())
    assert [(each.place.line, each.place.start) for each in found] == [(3, 2 * len(CALL % 1) + 2)]
    assert list(reading.told()) == []


def test_after_so_many_bytes_the_rest_is_left_for_the_next_reading(tmp_path: Path) -> None:
    path = run_with(tmp_path, b"".join(CALL % number + b"\n" for number in range(40_000)))
    reading = CallReading("native", path)
    first = ids(list(reading.told(most_bytes=1 << 19)))
    assert 0 < len(first) < 40_000
    assert first + ids(list(reading.told())) == [str(number) for number in range(40_000)]


@pytest.mark.parametrize("change", ["rewritten", "truncated", "replaced", "gone"])
def test_a_file_that_is_not_what_was_read_is_named_and_tells_nothing(tmp_path: Path, change: str) -> None:
    path = run_with(tmp_path, CALL % 1 + b"\n")
    _, reading = read(path)
    file = tmp_path / "trace.jsonl"
    if change == "rewritten":
        with file.open("r+b") as opened:
            opened.write((CALL % 7) + b"\n" + CALL % 8 + b"\n")
    elif change == "truncated":
        os.truncate(file, 10)
    elif change == "replaced":
        other = tmp_path / "other"
        other.write_bytes(CALL % 1 + b"\n" + CALL % 2 + b"\n")
        other.rename(file)
    else:
        file.unlink()
    assert (list(reading.told()), reading.changed) == ([], ["trace.jsonl"])


def test_a_line_that_is_too_long_is_a_problem_and_later_lines_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_logs, "LONGEST_LINE", 3 << 20)
    long = b'{"event":"ToolCall","id":"long","tool":"x","params":"' + b"x" * (4 << 20) + b'"}'
    path = run_with(tmp_path, CALL % 1 + b"\n" + long + b"\n" + CALL % 2 + b"\n")
    found, reading = read(path)
    assert [type(each) for each in found] == [Called, Unusable, Called]
    bad = found[1]
    assert (bad.place.line, bad.place.length) == (2, len(long))
    assert (tmp_path / "trace.jsonl").read_bytes()[found[2].place.start :] == CALL % 2 + b"\n"
    assert list(reading.told()) == []
    assert reading.changed == []


def test_a_hole_of_a_terabyte_is_passed_over(tmp_path: Path) -> None:
    path = run_with(tmp_path, CALL % 1 + b"\n")
    with (tmp_path / "trace.jsonl").open("r+b") as file:
        file.seek(1 << 40)
        file.write(b"\n" + CALL % 2 + b"\n")
    found, _ = read(path)
    assert [type(each) for each in found] == [Called, Unusable, Called]
    assert [each.place.line for each in found] == [1, 2, 3]


@pytest.mark.parametrize("what", ["link", "directory", "pipe"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, what: str) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    outside.write_bytes(CALL % 1 + b"\n")
    trace = run / "trace.jsonl"
    if what == "link":
        trace.symlink_to(outside)
    elif what == "directory":
        trace.mkdir()
    else:
        os.mkfifo(trace)
    found, reading = read(str(run))
    assert found == []
    assert [each.file for each in reading.obstacles] == ["trace.jsonl"]


def test_a_run_without_a_trace_has_no_calls_and_no_problem(tmp_path: Path) -> None:
    found, reading = read(str(tmp_path))
    assert (found, reading.obstacles, reading.changed) == ([], [], [])


def test_a_session_that_is_gone_is_told(tmp_path: Path) -> None:
    assert read(str(tmp_path / "gone"), layout="native")[1].obstacles
    assert read(str(tmp_path / "gone.jsonl"), layout="claude-code")[1].obstacles


def test_the_zone_of_a_ctcp_run_s_times_is_learnt_from_its_own_file(tmp_path: Path) -> None:
    run = {"schema_version": "ctcp-run-v1", "status": "running", "updated_at": "2026-03-01T12:00:00"}
    (tmp_path / "RUN.json").write_text(json.dumps(run))
    os.utime(tmp_path / "RUN.json", (1_772_359_200, 1_772_359_200))  # 10:00 UTC
    line = {"ts": "2026-03-01T12:00:01", "event": "patch_apply", "role": "x", "path": "", "rc": 0}
    (tmp_path / "events.jsonl").write_text(json.dumps(line) + "\n")
    found, _ = read(str(tmp_path), layout="ctcp")
    assert isinstance(found[0], Called)
    assert found[0].at == 1_772_359_201


def test_what_says_nothing_about_a_call_counts_as_read_and_reading_it_can_be_halted(tmp_path: Path) -> None:
    log = tmp_path / "5d0f8a52-1c7e-4b7b-9a63-000000000001.jsonl"
    log.write_bytes(b'{"type": "noise"}\n' * 50_000 + b"x" * (1 << 20))
    read: list[int] = []

    def stop_after_some(count: int) -> bool:
        read.append(count)
        return sum(read) < 1 << 18

    with pytest.raises(Halted):
        list(told_by("claude-code", str(log), stop_after_some))
    assert 1 << 18 <= sum(read) < 1 << 19


@pytest.mark.parametrize("suffix", ["", ".zst"])
def test_the_origin_of_a_fork_is_read_beside_it_to_tell_what_the_fork_cost(
    tmp_path: Path, suffix: str
) -> None:
    origin, fork = test_claude_code_cost.origin(), test_claude_code_cost.fork(BEGAN + 60)
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(fork.content())

    def costs() -> list[float | None]:
        found = told_by("claude-code", str(path), lambda read: True)
        return [each.usd for each in found if isinstance(each, Paid)]

    assert costs() == [None], "its origin was deleted"
    beside = tmp_path / f"{PARENT}.jsonl{suffix}"
    beside.write_bytes(zstandard.compress(origin.content()) if suffix else origin.content())
    assert costs() == [0.75]
    beside.write_bytes(b"\x28\xb5\x2f\xfd torn")
    assert costs() == [None]
    beside.unlink()
    beside.symlink_to("/dev/zero")
    assert costs() == [None], "a link is not followed"
