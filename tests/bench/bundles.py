"""What bundles cost: verdicts during them, the bundles of a burst, and one of a large transcript.

Daemons with and without bundles are measured in turn, as is a bare program that writes and syncs as many files.
"""

import hashlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.figure import (
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    names,
    of_ratio,
    of_samples,
    percentile,
)
from tests.bench.fixtures import lacks_nothing, make
from tests.bench.logs import begin, on_the_disk
from tests.bench.product import Daemon, daemon, further_root
from tests.bench.record import waits_ms
from tests.bench.scratch import scratch
from tests.bench.yardstick import fixture

from runward.daemon.rundir.bundle_verifying import verify_bundle
from runward.handlers.bundle.parts import PARTS, REPLAY

RATE: Final = 50
"""Ends a second."""
_LATENCY: Final = Figure(
    "bundle-latency", "p50 of a verdict at 50/s, with bundles", "x without bundles", Goal("at most", 1.2)
)
_BURST: Final = Figure(
    "bundle-burst-rate",
    "a burst of 1,000, verdicts a second with bundles",
    "x without bundles",
    Goal("at least", 0.9),
    "without bundles a run costs less since no jobs are written for them; with them, 0.1 ms a run for the jobs remains",
)
_WRITING: Final = Figure(
    "bundle-burst",
    "bundles of a burst of 1,000",
    "x bare files",
    Goal("at most", 2.0),
    "each is three files and a row, all synced, and a receipt that names the one before it; the yardstick writes the files alone",
)
_OF: Final = "bundle of 10,000 calls in 199 MB"
_LARGE: Final = Figure(
    "bundle-large",
    f"{_OF}, from an unknown transcript to the receipt",
    "x yardstick",
    Goal("at most", 2.0),
    "reading and decoding, the search for secrets, canonical texts and their hashes, and Python itself",
)
_VERIFIED: Final = Figure(
    "bundle-verify",
    f"{_OF}, `receipt verify`",
    "x yardstick",
    Goal("at most", 2.0),
    "Python between the hashes: 0.69 s, of which the hashes are 0.33",
)
_MEMORY: Final = Figure("bundle-memory", f"{_OF}, memory of the daemon", "MB", Goal("at most", 200.0))
_BLOCKED: Final = Figure("bundle-blocked", f"{_OF}, loop blocked at most", "ms", Goal("at most", 50.0))
_LONG_RESULTS: Final = (35, 45, 20)
"""With these shares 10,000 calls make a transcript of 200 MB."""
_BEATING: Final = Path(__file__).parent / "beating.py"


def _latency(conditions: Conditions) -> list[Measured]:
    problems: list[str] = []
    with_bundles, without = [], []
    count = RATE * conditions.size(10, 2)
    for _ in range(conditions.repeats):
        without.append(percentile(_waits(conditions.disk, count, False, problems), 0.5))
        with_bundles.append(percentile(_waits(conditions.disk, count, True, problems), 0.5))
    beside = f"with {statistics.median(with_bundles):.2f} ms, without {statistics.median(without):.2f} ms, n = {count}"
    return [of_ratio(_LATENCY, with_bundles, without, beside, problems)]


def _waits(disk: Path, count: int, has_bundles: bool, problems: list[str]) -> list[float]:
    """Milliseconds from each end to its verdict."""
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        with daemon(place, bundles=has_bundles) as running:
            running.wait_running(count)
            began = time.time()
            renamed_at = fixture("finish", place.runs, count, rate=RATE)
            running.wait_judged(count)
            running.settle()
            committed_at = running.record.log(since=began).committed_at
            problems += _lacking(running, count if has_bundles else 0)
        problems += running.record.problems(names(count))
    return waits_ms(renamed_at, committed_at)


class _Burst(NamedTuple):
    """Verdicts a second, and the seconds from the last verdict until the last bundle was in its place."""

    rate: float
    bundles_s: float


def _burst(conditions: Conditions) -> list[Measured]:
    problems: list[str] = []
    ours, without, bare = [], [], []
    disk, count = conditions.disk, conditions.size(1_000, 100)
    for _ in range(conditions.repeats):
        without.append(_one_burst(disk, count, False, problems)[0].rate)
        burst, sizes = _one_burst(disk, count, True, problems)
        ours.append(burst)
        bare.append(_bare_writing(disk, sizes))
    rates, writing = [each.rate for each in ours], [each.bundles_s for each in ours]
    beside = f"with {statistics.median(rates):,.0f}/s, without {statistics.median(without):,.0f}/s"
    files = f"{statistics.median(writing):.2f} s from the last verdict to the last bundle, bare {statistics.median(bare):.2f} s"
    return [
        of_ratio(_BURST, rates, without, beside, problems),
        of_ratio(_WRITING, writing, bare, files),
    ]


def _one_burst(disk: Path, count: int, has_bundles: bool, problems: list[str]) -> tuple[_Burst, list[int]]:
    """One burst, and the sizes of the bundles' parts."""
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        with daemon(place, bundles=has_bundles) as running:
            running.wait_running(count)
            began = time.time()
            first = min(fixture("finish", place.runs, count).values()) / 1e9
            running.wait_judged(count)
            running.settle()
            verdicts = running.record.log(since=began).committed_at
            placed = running.record.placed()
            problems += _lacking(running, count if has_bundles else 0)
        problems += running.record.problems(names(count))
        timed = [at for run, at in verdicts.items() if lacks_nothing(run)]
        last_bundle = max((at for run, at in placed.items() if lacks_nothing(run)), default=max(timed))
        sizes = (
            [part.stat().st_size for part in place.runs.glob("*/*") if part.name in PARTS]
            if has_bundles
            else []
        )
    return _Burst(len(timed) / (max(timed) - first), last_bundle - max(timed)), sizes


def _lacking(running: Daemon, count: int) -> list[str]:
    found = len(running.record.placed())
    return [] if found == count else [f"{found} bundles are in place, not {count}"]


def _bare_writing(disk: Path, sizes: list[int]) -> float:
    """Seconds that a program takes that does nothing but write and sync files of these sizes, three to a directory."""
    with scratch(disk) as place:
        runs = [place.runs / name for name in names(len(sizes) // len(PARTS))]
        for run in runs:
            run.mkdir()
        began = time.perf_counter()
        for number, size in enumerate(sizes):
            file = runs[number // len(PARTS)] / f"{number % len(PARTS)}"
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(descriptor, b"x" * size)
            os.fsync(descriptor)
            os.close(descriptor)
        return time.perf_counter() - began


class _Large(NamedTuple):
    """Of one transcript: processor seconds of the yardstick, of the daemon and of the verification, and more."""

    yardstick: float
    made: float
    yardstick_of_replay: float
    verified: float
    memory: float
    blocked: float


def _large(conditions: Conditions) -> list[Measured]:
    disk = conditions.disk
    with scratch(disk) as place:
        hidden = place.fresh("hidden")
        writing, name = begin(hidden, seed=1, results=_LONG_RESULTS)
        writing.write_calls(conditions.size(10_000, 1_000))
        writing.finish()
        on_the_disk(hidden)
        samples = [_one_large(disk, hidden / name, name) for _ in range(conditions.repeats)]
    yardstick, made = [each.yardstick for each in samples], [each.made for each in samples]
    of_replay, verified = [each.yardstick_of_replay for each in samples], [each.verified for each in samples]
    beside = f"daemon {statistics.median(made):.2f} s of processor time, yardstick {statistics.median(yardstick):.2f} s"
    checked = (
        f"{statistics.median(verified):.2f} s of processor time; the yardstick over the replay's own bytes is"
        f" {statistics.median(of_replay):.2f} s"
    )
    return [
        of_ratio(_LARGE, made, yardstick, beside),
        of_ratio(_VERIFIED, verified, of_replay, checked),
        of_samples(_MEMORY, [each.memory for each in samples]),
        of_samples(_BLOCKED, [each.blocked for each in samples]),
    ]


def _one_large(disk: Path, transcript: Path, name: str) -> _Large:
    yardstick = _yardstick(transcript)
    with scratch(disk) as place:
        root, beats = place.fresh("projects"), place.directory / "beats"
        (root / name).parent.mkdir()
        command = [sys.executable, str(_BEATING), str(beats)]
        with daemon(place, further_root(root, "live"), command) as running:
            before, began = running.usage().cpu_s, time.time()
            os.link(transcript, root / name)
            running.wait_placed(1)
            # The process that makes the bundle counts, too.
            made, ended = running.usage().cpu_s - before, time.time()
            memory = running.peak_of_family_mb()
            (directory,) = running.record.bundle_directories()
        late = [
            float(late)
            for at, late in map(str.split, beats.read_text().splitlines())
            if began <= float(at) <= ended
        ]
        return _Large(yardstick, made, *_verifying(directory), memory, max(late) * 1e3)


def _verifying(directory: Path) -> tuple[float, float]:
    """Processor seconds of the yardstick over the replay, and of the verification."""
    yardstick, began = _yardstick(directory / REPLAY), time.process_time()
    answer = verify_bundle(str(directory), 1, frozenset)
    assert answer is not None
    assert answer.valid, answer
    return yardstick, time.process_time() - began


def _yardstick(file: Path) -> float:
    """Processor seconds of SHA-256 over the bytes and `json.loads` of each line."""
    began, digest = time.process_time(), hashlib.sha256()
    with file.open("rb") as lines:
        for line in lines:
            digest.update(line)
            json.loads(line)
    return time.process_time() - began


MEASUREMENTS: Final = (
    Measurement(
        "bundle-latency",
        "verdicts on runs that end 50 a second, by daemons that write bundles and daemons that don't",
        (_LATENCY,),
        _latency,
    ),
    Measurement(
        "bundle-burst",
        "a burst with bundles and without, and its bundles against a bare program that writes and syncs files of these sizes",
        (_BURST, _WRITING),
        _burst,
    ),
    Measurement(
        "bundle-large",
        "processor time of one large bundle against SHA-256 over the transcript and `json.loads` of each line",
        (_LARGE, _VERIFIED, _MEMORY, _BLOCKED),
        _large,
    ),
)
