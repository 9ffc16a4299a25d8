"""A large transcript of an agent that still works: its first reading, a further line, and what everything else notices of it."""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

from pydantic import BaseModel
from tests.bench.ends import beside_readings
from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_ratio, of_samples
from tests.bench.logs import Log, begin, on_the_disk
from tests.bench.product import Daemon, daemon, further_root
from tests.bench.scratch import scratch

from runward.daemon.rundir.session_reading import read_session
from runward.handlers.layouts.claude_code_counts import Tally
from runward.handlers.layouts.layout import LogLayout
from runward.handlers.layouts.registry import LAYOUTS

HERE = Path(__file__).parent
_SPEED: Final = Figure(
    "transcript-first",
    "transcript of 200 MB, first reading",
    "x bare json.loads",
    Goal("at least", 2.0),
    "reading and cutting lines, and turns with transactions of their own, beside interpreting the records",
)
_LINE: Final = Figure(
    "transcript-line", "transcript of 200 MB, a further line", "ms of processor time", Goal("at most", 5.0)
)
_BLOCKED: Final = Figure(
    "transcript-blocked", "transcript of 200 MB, loop blocked at most", "ms", Goal("at most", 20.0)
)
_LATENCY: Final = Figure(
    "transcript-latency", "transcript of 200 MB, others' p50 at 50/s", "x usual", Goal("at most", 2.0)
)
_COUNTS: Final = Figure(
    "transcript-counts",
    "transcript of 200 MB, read with the counts of `usage`, processor time",
    "x without",
    Goal("at most", 1.05),
    "each reply is added to a sum, and to what its later lines may correct; the lines are dense with replies",
)
_MEGABYTES: Final = 200
_LINE_POLL_S: Final = 0.002
_REST_S: Final = 3.0
"""Seconds after which a daemon that has read has nothing left to do; with a heartbeat in it, it is never quiet."""


class BareReport(BaseModel):
    """What bare_json.py prints."""

    lines: int
    cpu_s: float


class Taken(NamedTuple):
    """Processor seconds of the daemon from READY on, and how long that was."""

    cpu_s: float
    seconds: float


class Blocked(NamedTuple):
    """Milliseconds for which the loop was blocked at most while the transcript was read, and for as long afterwards."""

    reading: float
    usual: float


def _transcript(conditions: Conditions) -> list[Measured]:
    """All figures about one transcript, and a further line of it."""
    disk = conditions.disk
    with scratch(disk) as place:
        root = place.fresh("projects")
        writing, name = begin(root, seed=1)
        writing.write(conditions.size(_MEGABYTES, 20) * 1_000_000)
        on_the_disk(root)
        log = Log(name, writing.size)
        bare, ours, late = [], [], []
        for _ in range(conditions.repeats):
            bare.append(_bare(root / name))
            ours.append(_first_reading(disk, root, log))
            late.append(_blocked(disk, root, log))
        per_line = []
        with daemon(place, further_root(root, "live")) as running:
            running.wait_read(name, writing.size)
            running.settle()  # what a line costs is all that the daemon takes then
            for _ in range(conditions.size(200, 20)):
                before = running.cpu_s()
                with (root / name).open("ab") as file:
                    file.write(writing.line())
                running.wait_read(name, writing.size, _LINE_POLL_S)
                per_line.append((running.cpu_s() - before) * 1e3)
    return [_of_speed(log, bare, ours), _of_lines(per_line), _of_blocked(late)]


def _of_speed(log: Log, bare: list[BareReport], ours: list[Taken]) -> Measured:
    taken, parsed = [each.cpu_s for each in ours], [each.cpu_s for each in bare]
    beside = (
        f"daemon {statistics.median(taken):.3f} s of processor time, json.loads {statistics.median(parsed):.3f} s,"
        f" {bare[0].lines:,} lines, {log.size / bare[0].lines / 1e3:.1f} kB each;"
        f" it was read {statistics.median(each.seconds for each in ours):.2f} s after READY"
    )
    # A speed: the yardstick's time by ours.
    return of_ratio(_SPEED, parsed, taken, beside)


def _of_lines(per_line: list[float]) -> Measured:
    mean = statistics.mean(per_line)
    beside = f"mean of {len(per_line)}, median {statistics.median(per_line):.2f} ms"
    spread = (min(per_line), max(per_line))
    return Measured(_LINE, mean, spread, beside, (), {"measured": per_line})


def _of_blocked(late: list[Blocked]) -> Measured:
    usual = statistics.median(each.usual for each in late)
    beside = f"for as long without reading: {usual:.1f} ms at most"
    return of_samples(_BLOCKED, [each.reading for each in late], beside)


def _others(conditions: Conditions) -> list[Measured]:
    problems: list[str] = []
    megabytes = conditions.size(_MEGABYTES, 20)
    samples = [beside_readings(conditions.disk, megabytes, problems) for _ in range(conditions.repeats)]
    beside = [statistics.median(sample.beside) for sample in samples]
    usual = [statistics.median(sample.usual) for sample in samples]
    count = sum(len(sample.beside) for sample in samples)
    text = f"beside {statistics.median(beside):.2f} ms, usual {statistics.median(usual):.2f} ms, n = {count}"
    return [of_ratio(_LATENCY, beside, usual, text, problems)]


def _counts(conditions: Conditions) -> list[Measured]:
    """One file read again and again in this process, in turn with and without what counts replies.

    Without, nothing is done with what a reply says that it used; the fields are decoded all the same.
    """
    layout = LAYOUTS.named("claude-code")
    assert isinstance(layout, LogLayout)
    counting: list[float] = []
    without: list[float] = []
    with scratch(conditions.disk) as place:
        root = place.fresh("projects")
        writing, name = begin(root, seed=1)
        writing.write(conditions.size(_MEGABYTES, 20) * 1_000_000)
        on_the_disk(root)
        for _ in range(3 * conditions.repeats):
            counting.append(_read_s(layout, root / name, replies=True))
            with mock.patch.multiple(Tally, note_cost=_nothing, add_cost=_nothing, end_run=_nothing):
                without.append(_read_s(layout, root / name, replies=False))
    beside = f"{statistics.median(counting):.3f} s against {statistics.median(without):.3f} s"
    return [of_ratio(_COUNTS, counting, without, beside)]


def _nothing(*_: object, **__: object) -> None:
    """Stands for what counts."""


def _read_s(layout: LogLayout, path: Path, *, replies: bool) -> float:
    """Processor seconds of one reading."""
    begin = time.process_time()
    found = read_session(layout, str(path)).told
    taken = time.process_time() - begin
    assert found.counts.tool_calls
    assert any(each.replies for each in found.counted) == replies
    return taken


def _bare(path: Path) -> BareReport:
    done = subprocess.run(
        [sys.executable, str(HERE / "bare_json.py"), str(path)], stdout=subprocess.PIPE, check=True
    )
    return BareReport.model_validate_json(done.stdout)


def _first_reading(disk: Path, root: Path, log: Log) -> Taken:
    """What a daemon takes until it has read the transcript, beyond what one without any takes in the same time."""
    with scratch(disk) as place, daemon(place, further_root(root, "live")) as running:
        running.wait_read(log.place, log.size)
        read = _since_ready(running)
    with scratch(disk) as place, daemon(place, further_root(place.fresh("projects"), "live")) as running:
        time.sleep(max(0.0, running.ready_at + read.seconds - time.time()))
        idle = _since_ready(running)
    return Taken(read.cpu_s - idle.cpu_s, read.seconds)


def _since_ready(running: Daemon) -> Taken:
    return Taken(running.cpu_s() - running.ready_cpu_s, time.time() - running.ready_at)


def _blocked(disk: Path, root: Path, log: Log) -> Blocked:
    with scratch(disk) as place:
        file = place.directory / "beats"
        command = [sys.executable, str(HERE / "beating.py"), str(file)]
        with daemon(place, further_root(root, "live"), command) as running:
            running.wait_read(log.place, log.size)
            read_at = time.time()
            time.sleep(_REST_S)
            rested_at = time.time()
            time.sleep(read_at - running.ready_at)
            end = time.time()
        beats = [(float(at), float(late)) for at, late in map(str.split, file.read_text().splitlines())]
    # A beat that was asked for in the stretch may come after it.
    reading = [late for at, late in beats if running.ready_at <= at and at - late <= read_at]
    usual = [late for at, late in beats if rested_at <= at <= end]
    return Blocked(max(reading) * 1e3, max(usual) * 1e3)


MEASUREMENTS: Final = (
    Measurement(
        "transcript",
        "the first reading of a transcript of 200 MB against `json.loads` over its lines, and a further line",
        (_SPEED, _LINE, _BLOCKED),
        _transcript,
    ),
    Measurement(
        "transcript-counts",
        "the reading of a transcript of 200 MB in one process, with the counts of `usage` and without",
        (_COUNTS,),
        _counts,
    ),
    Measurement(
        "transcript-latency",
        "verdicts of runs that end while transcripts of 200 MB are read, against those at other times",
        (_LATENCY,),
        _others,
    ),
)
