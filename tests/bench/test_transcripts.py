"""What is measured over transcripts is worth something only where they are what they say, and so is what is read off a daemon."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.bench.bare_json import main as bare_json
from tests.bench.ends import Ends, Stretch
from tests.bench.fixtures import make, run_name
from tests.bench.logs import begin, make_finished
from tests.bench.product import DaemonFailed, daemon, further_root
from tests.bench.scratch import scratch
from tests.bench.usage import exact_cpu_s, peak_mb

from runward.daemon.rundir.session_logs import UNREAD, Growing
from runward.handlers.layouts.layout import LogLayout, Scan
from runward.handlers.layouts.registry import LAYOUTS

SIZE = 300_000


def scanned(file: Path) -> Scan:
    layout = LAYOUTS.named("claude-code")
    assert isinstance(layout, LogLayout)
    with file.open("rb") as opened:
        portion = Growing(opened.fileno(), UNREAD).portion()
    scan, _ = layout.start(file.name).feed(file.name, portion.lines)
    assert scan.tell().complaints == ()
    return scan


def test_a_transcript_has_the_size_that_was_asked_for_and_ends_well(tmp_path: Path) -> None:
    log = make_finished(tmp_path, seed=3, size=SIZE)
    assert SIZE <= log.size == (tmp_path / log.place).stat().st_size < 1.5 * SIZE
    told = scanned(tmp_path / log.place).tell()
    assert told.session_id == Path(log.place).stem
    assert (told.turn, told.close is not None) == ("closed", True)


def test_no_two_transcripts_have_a_session_or_a_long_line_in_common(tmp_path: Path) -> None:
    one, other = (make_finished(tmp_path, seed, SIZE) for seed in (1, 2))
    assert Path(one.place).name != Path(other.place).name
    lines = [set((tmp_path / each.place).read_bytes().splitlines()) for each in (one, other)]
    assert lines[0] & lines[1] == set()


def test_its_lines_are_of_many_sizes(tmp_path: Path) -> None:
    log = make_finished(tmp_path, seed=1, size=2_000_000)
    sizes = sorted(len(line) for line in (tmp_path / log.place).read_bytes().splitlines())
    assert sizes[len(sizes) // 2] < 2_000
    assert sizes[-1] > 50_000


def test_a_further_line_goes_on_in_an_open_turn(tmp_path: Path) -> None:
    writing, place = begin(tmp_path, seed=1)
    writing.write(SIZE)
    before = scanned(tmp_path / place).tell()
    for _ in range(4):
        with (tmp_path / place).open("ab") as file:
            file.write(writing.line())
        assert writing.size == (tmp_path / place).stat().st_size
    after = scanned(tmp_path / place).tell()
    assert (before.turn, after.turn) == ("open", "open")
    assert (tmp_path / place).read_bytes().count(b"\n") == len((tmp_path / place).read_bytes().splitlines())


def test_the_yardstick_parses_every_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = make_finished(tmp_path, seed=1, size=SIZE)
    bare_json(str(tmp_path / log.place))
    told = json.loads(capsys.readouterr().out)
    assert told["lines"] == (tmp_path / log.place).read_bytes().count(b"\n")
    assert told["cpu_s"] > 0


def test_runs_are_told_apart_by_when_they_ended(tmp_path: Path) -> None:
    make(str(tmp_path), range(3))
    ends = Ends(tmp_path, 3)
    ends.join()
    first, second, third = (ends.renamed_at[run_name(index)] / 1e9 for index in range(3))
    committed_at = {run_name(0): first + 0.5, run_name(1): second + 0.25, run_name(2): third + 0.125}
    waits = ends.waits(committed_at, [Stretch(first, first)], [Stretch(second, second)])
    assert waits.beside == pytest.approx([500.0], abs=0.01)
    assert waits.usual == pytest.approx([125.0], abs=0.01)
    del committed_at[run_name(2)]
    assert ends.waits(committed_at, [Stretch(first, first)]).usual[-1] == float("inf")
    with pytest.raises(DaemonFailed, match="0 runs ended beside it"):
        ends.waits(committed_at, [])


def test_a_daemon_tells_how_far_it_has_read_and_what_it_took(tmp_path: Path) -> None:
    with scratch(tmp_path) as place:
        log = make_finished(place.fresh("projects"), seed=1, size=SIZE)
        with daemon(place, further_root(place.directory / "projects", "record")) as running:
            running.wait_read(log.place, log.size)
            running.wait_judged(1)
            assert running.record.read_to("another.jsonl") == 0
            assert running.cpu_s() > running.ready_cpu_s > 0
            assert running.peak_mb() > 10
            scan = running.wait_scanned()
            assert scan.last_scan_at is not None
            # When READY came is this process's own time, which may be later than the first scan.
            assert running.started_at < min(running.ready_at, scan.last_scan_at)
            assert max(running.ready_at, scan.last_scan_at) < time.time()
        assert running.record.transcript_problems(1) == []
        assert running.record.transcript_problems(2) != []
        assert running.record.problems([]) == []  # it is not a native run


def test_a_daemon_with_a_heartbeat_is_the_daemon(tmp_path: Path) -> None:
    with scratch(tmp_path) as place:
        log = make_finished(place.fresh("projects"), seed=1, size=SIZE)
        beats = place.directory / "beats"
        command = [sys.executable, str(Path(__file__).parent / "beating.py"), str(beats)]
        with daemon(place, further_root(place.directory / "projects", "live"), command) as running:
            running.wait_read(log.place, log.size)
        told = [(float(at), float(late)) for at, late in map(str.split, beats.read_text().splitlines())]
    assert len(told) > 10
    assert min(late for _, late in told) > -0.001
    assert any(at > running.ready_at for at, _ in told)


def test_processor_time_and_memory_are_those_of_the_process() -> None:
    program = "x = b'x' * 50_000_000; sum(range(3_000_000)); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        taken, most = exact_cpu_s(process.pid), peak_mb(process.pid)
        process.communicate(b"\n")
    assert 0.01 < taken < 60
    assert most > 50
    assert exact_cpu_s(os.getpid()) == pytest.approx(time.process_time(), abs=1.0)
