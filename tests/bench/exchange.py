"""What intents cost that runs write. The yardstick is a program that reads the lines and writes the same rows, 256 in a commit."""

import hashlib
import json
import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from tests.bench.acting_runs import STALLED_S, begin, counted, say, until
from tests.bench.figure import (
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    of_ratio,
    percentile,
)
from tests.bench.latency import latencies
from tests.bench.product import DaemonFailed, daemon
from tests.bench.scratch import scratch

_INTENTS: Final = Figure(
    "exchange",
    "10,000 reads and writes of 8 runs",
    "x baseline",
    Goal("at least", 0.25),
    "an action is events, lines of two journals and a decision; the bare program writes only rows",
)
_READABLE: Final = Figure(
    "exchange-readable", "a line's result readable, p50", "x a verdict", Goal("at most", 3.0)
)
_SELDOM: Final = 10
"""Ends a second, so few that each is judged alone."""
_RUNS: Final = 8
_BATCH: Final = 256


def _lines(run: int, count: int) -> list[str]:
    """Reads and writes in turn."""
    return [
        json.dumps(
            {"action_type": "write_artifact", "artifact_id": f"note-{run}", "content": f"text {number}", "reasoning": "to keep it"}
            if number % 2 == 0
            else {"action_type": "read_artifact", "artifact_id": f"note-{run}", "reasoning": "to see it"}
        )
        for number in range(count)
    ]  # fmt: skip


def _intents(conditions: Conditions) -> list[Measured]:
    count = conditions.size(10_000, 400)
    each = count // _RUNS
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(conditions.repeats):
        theirs.append(count / _bare_s(conditions.disk, each))
        ours.append(count / _daemon_s(conditions.disk, each))
    beside = f"{percentile(ours, 0.5):,.0f}/s against {percentile(theirs, 0.5):,.0f}/s"
    return [of_ratio(_INTENTS, ours, theirs, beside)]


def _readable(conditions: Conditions) -> list[Measured]:
    """How long a run waits for a line's result, against a verdict."""
    problems: list[str] = []
    lines: list[float] = []
    verdicts: list[float] = []
    count = conditions.size(80, 20)
    for _ in range(conditions.repeats):
        verdicts.append(percentile(latencies(conditions.disk, _SELDOM, count, problems), 0.5))
        lines.append(percentile(_lines_ms(conditions.disk, count), 0.5))
    beside = f"{percentile(lines, 0.5):.2f} ms against {percentile(verdicts, 0.5):.2f}"
    return [of_ratio(_READABLE, lines, verdicts, beside, problems)]


def _daemon_s(disk: Path, each: int) -> float:
    """Seconds from the moment at which the lines are there until each has its result in the store."""
    with scratch(disk) as place:
        with daemon(place):
            for run in range(_RUNS):
                begin(place, f"run-{run}", f"agent-{run}")
            until(lambda: counted(place, "select count(*) from sessions") == _RUNS, "the runs to be seen")
            began = time.monotonic()
            for run in range(_RUNS):
                lines = "".join(f"{line}\n" for line in _lines(run, each))
                (place.runs / f"run-{run}/intents.jsonl").write_text(lines)
            wanted = _RUNS * each
            last, moved_at = -1, began
            while (done := counted(place, "select count(*) from actions")) < wanted:
                if done != last:
                    last, moved_at = done, time.monotonic()
                if time.monotonic() > moved_at + STALLED_S:
                    raise DaemonFailed(
                        f"{done} of {wanted} intents have a result, and no further one for {STALLED_S:.0f} s"
                    )
                time.sleep(0.01)
            taken = time.monotonic() - began
        if (failed := counted(place, "select count(*) from actions where not is_success")) or done != wanted:
            raise DaemonFailed(f"{failed} intents failed, and {done} of {wanted} have a result")
        return taken  # fmt: skip


def _lines_ms(disk: Path, count: int) -> list[float]:
    """From the moment at which a run appends a line until its result can be read, for one line after another."""
    taken: list[float] = []
    with scratch(disk) as place, daemon(place):
        run = begin(place, "run", "agent")
        results = run / "results.jsonl"
        for number in range(count + 1):
            began = time.perf_counter()
            say(run, {"action_type": "write_artifact", "artifact_id": "note", "content": str(number)})
            until(partial(_has_lines, results, number + 1), "a result")
            taken.append((time.perf_counter() - began) * 1e3)
            time.sleep(0.02)  # so that each line is a batch of its own
    return taken[1:]  # the first had to wait until the run was seen


def _has_lines(file: Path, count: int) -> bool:
    return file.exists() and file.read_bytes().count(b"\n") == count


_SCHEMA: Final = """
create table events (seq integer primary key, key text unique, type text, at real, payload text, prev text, hash text) strict;
create table actions (seq integer primary key, key text unique, at real, principal text, session_key text, line integer,
    action_type text, artifact_id text, intent text, result text, is_success integer, scrip_after integer) strict;
create table contents (hash text primary key, content text) strict;
create table artifacts (id text primary key, content text, owner text, updated_at real, version integer) strict;
create table versions (id text, version integer, at real, content text, primary key (id, version)) strict;
"""


def _bare_s(disk: Path, each: int) -> float:
    """Seconds of a program that reads the lines and writes two events, an action, and of a write its content and version."""
    with scratch(disk) as place:
        for run in range(_RUNS):
            (place.directory / f"{run}.jsonl").write_text("".join(f"{line}\n" for line in _lines(run, each)))
        with closing(sqlite3.connect(place.directory / "bare.db", isolation_level=None)) as store:
            store.execute("pragma journal_mode = wal")
            store.execute("pragma synchronous = full")
            store.executescript(_SCHEMA)
            began = time.monotonic()
            store.execute("begin")
            waiting = 0
            previous = ""
            for run in range(_RUNS):
                for number, line in enumerate((place.directory / f"{run}.jsonl").read_text().splitlines()):
                    previous = _bare_row(store, run, number, line, previous)
                    waiting += 1
                    if waiting % _BATCH == 0:
                        store.execute("commit")
                        store.execute("begin")
            store.execute("commit")
            return time.monotonic() - began


def _bare_row(store: sqlite3.Connection, run: int, number: int, line: str, previous: str) -> str:
    intent = json.loads(line)
    now, key = time.time(), f"run-{run}#{number}"
    for kind in ("intent", "action"):
        digest = hashlib.sha256(f"{previous}{line}".encode()).hexdigest()
        row = (f"{key}/{kind}", kind, now, line, previous, digest)
        store.execute(
            "insert into events (key, type, at, payload, prev, hash) values (?, ?, ?, ?, ?, ?)", row
        )
        previous = digest
    if intent["action_type"] == "write_artifact":
        content = hashlib.sha256(intent["content"].encode()).hexdigest()
        store.execute("insert or ignore into contents values (?, ?)", (content, intent["content"]))
        store.execute(
            "insert into artifacts values (?, ?, ?, ?, 1) on conflict (id) do update set content = excluded.content,"
            " updated_at = excluded.updated_at, version = version + 1",
            (intent["artifact_id"], content, f"agent-{run}", now),
        )
        store.execute(
            "insert into versions select id, version, updated_at, content from artifacts where id = ?",
            (intent["artifact_id"],),
        )
    else:
        store.execute("select * from artifacts where id = ?", (intent["artifact_id"],)).fetchone()
    store.execute(
        "insert into actions (key, at, principal, session_key, line, action_type, artifact_id, intent, result, is_success,"
        " scrip_after) values (?, ?, ?, ?, ?, ?, ?, ?, '{}', 1, 0)",
        (key, now, f"agent-{run}", f"run-{run}", number, intent["action_type"], intent["artifact_id"], line),
    )
    return previous


MEASUREMENTS: Final = (
    Measurement(
        "exchange",
        "intents a second against a program that reads the lines and writes the same rows, 256 in a commit",
        (_INTENTS,),
        _intents,
    ),
    Measurement(
        "exchange-readable",
        "from the moment at which a run appends a line until its result can be read, against a verdict",
        (_READABLE,),
        _readable,
    ),
)
