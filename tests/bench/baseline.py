"""The least that any program must do about a finished run, as a yardstick for the daemon.

Notice it, read what it promised and how it ended, stat its three artifacts, commit event, job and verdict to SQLite
(WAL, `synchronous=FULL`), append a line to one journal and fsync that. It knows no hostile path, no restart, no second
attempt and no settings. Whatever has piled up (at most `--batch`) shares a transaction and an fsync.

It prints `ready` when its watch stands, and one JSON object when `--runs` runs are durable or none came for 15 s.
"""

import argparse
import json
import os
import resource
import sqlite3
import sys
import time
from pathlib import Path
from typing import NamedTuple, TypedDict

# Run as a script: the project's root is where `tests.bench` is found.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench.notice import InotifyNotice, Notice, WatchfilesNotice

_GIVE_UP_S = 15.0

_TABLES = """
create table events(id integer primary key, at integer, run text, kind text, payload text);
create table jobs(id integer primary key, run text, kind text, state text, tries int, created int, updated int,
  unique(run, kind));
create table runs(run text primary key, status text, reason text, exit_code int, verification text, finished int);
create index runs_by_status on runs(status, finished);
create index jobs_by_state on jobs(state, id);
"""
_NEW_JOB = "insert into jobs(run, kind, state, tries, created, updated) values(?, 'finish', ?, ?, ?, ?)"
_END_JOB = "update jobs set state = 'done', tries = 1, updated = ? where run = ? and kind = 'finish'"
_NEW_EVENT = "insert into events(at, run, kind, payload) values(?, ?, 'run.finished', ?)"
_NEW_VERDICT = """insert into runs values(?, ?, ?, ?, ?, ?)
  on conflict(run) do update set status = excluded.status"""


class Entry(TypedDict):
    """One artifact that a contract expects."""

    id: str
    path: str
    required: bool


class Contract(TypedDict):
    """What a run promised."""

    expected: list[Entry]


class RunFacts(TypedDict):
    """The keys of `run.json` that are needed here."""

    contract: Contract


class ExitFacts(TypedDict):
    """The keys of `exit.json` that are needed here."""

    exit_code: int | None


class Verdict(NamedTuple):
    """What became of a run."""

    run: str
    status: str
    reason: str | None
    exit_code: int | None
    verification: str


def judge(root: str, run: str) -> Verdict:
    """Read one finished run and hold it to its contract."""
    directory = f"{root}/{run}"
    with open(directory + "/run.json", "rb") as file:
        facts: RunFacts = json.loads(file.read())
    with open(directory + "/exit.json", "rb") as file:
        end: ExitFacts = json.loads(file.read())
    found, delivered = [], True
    for entry in facts["contract"]["expected"]:
        try:
            size = os.stat(f"{directory}/artifacts/{entry['path']}").st_size
        except FileNotFoundError:
            size = -1
        delivered = delivered and (size > 0 or not entry["required"])
        found.append({"id": entry["id"], "ok": size > 0, "size": size})
    if end["exit_code"] != 0:
        status, reason = "failed", "run.failed.exit_nonzero"
    elif not delivered:
        status, reason = "failed", "run.failed.missing_artifact"
    else:
        status, reason = "completed", "run.completed.ok"
    return Verdict(run, status, reason, end["exit_code"], json.dumps(found))


class Record:
    """The store and the journal in one directory; `stages` 2 makes the job durable before its work is begun."""

    def __init__(self, directory: Path, stages: int) -> None:
        self._database = sqlite3.connect(directory / "baseline.db", isolation_level=None)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = full")
        self._database.executescript(_TABLES)
        self._journal = os.open(directory / "events.jsonl", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._stages = stages
        self.commits = 0

    def add(self, root: str, runs: list[str]) -> list[Verdict]:
        """Judge these runs; what became of them is durable when this returns."""
        now = time.time_ns()
        self._database.execute("begin immediate")
        if self._stages == 2:
            self._database.executemany(_NEW_JOB, [(run, "ready", 0, now, now) for run in runs])
            self._commit()
            verdicts = [judge(root, run) for run in runs]
            self._database.execute("begin immediate")
            self._database.executemany(_END_JOB, [(now, run) for run in runs])
        else:
            verdicts = [judge(root, run) for run in runs]
            self._database.executemany(_NEW_JOB, [(run, "done", 1, now, now) for run in runs])
        self._add_verdicts(verdicts, now)
        self._commit()
        self._append(verdicts, now)
        return verdicts

    def _add_verdicts(self, verdicts: list[Verdict], now: int) -> None:
        self._database.executemany(
            _NEW_EVENT, [(now, verdict.run, verdict.verification) for verdict in verdicts]
        )
        self._database.executemany(
            _NEW_VERDICT,
            [(it.run, it.status, it.reason, it.exit_code, it.verification, now) for it in verdicts],
        )

    def _commit(self) -> None:
        self._database.execute("commit")
        self.commits += 1

    def _append(self, verdicts: list[Verdict], now: int) -> None:
        lines = [
            f'{{"ts": {now}, "run": "{verdict.run}", "event": "run.finished", "status": "{verdict.status}",'
            f' "verification": {verdict.verification}}}\n'
            for verdict in verdicts
        ]
        os.write(self._journal, "".join(lines).encode())
        os.fsync(self._journal)


def _work(root: str, record: Record, notice: Notice, runs: int, batch: int) -> dict[str, tuple[str, int]]:
    """Status of each run and the time (ns) at which it was durable."""
    done: dict[str, tuple[str, int]] = {}
    waiting: list[str] = []
    last = time.monotonic()
    while len(done) < runs and time.monotonic() - last < _GIVE_UP_S:
        waiting += notice.finished(0 if waiting else 1.0)
        if not waiting:
            continue
        taken, waiting = waiting[:batch], waiting[batch:]
        verdicts = record.add(root, taken)
        durable_at = time.time_ns()
        done.update((verdict.run, (verdict.status, durable_at)) for verdict in verdicts)
        last = time.monotonic()
    return done


def _main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", required=True, help="the directory that holds the run directories")
    parser.add_argument("--state", type=Path, required=True, help="an empty directory for store and journal")
    parser.add_argument("--runs", type=int, required=True, help="end when so many are durable")
    parser.add_argument("--watcher", choices=["inotify", "watchfiles"], default="watchfiles")
    parser.add_argument("--step", type=int, default=5)
    parser.add_argument("--debounce", type=int, default=20)
    parser.add_argument("--stages", type=int, choices=[1, 2], default=2)
    parser.add_argument("--batch", type=int, default=256)
    given = parser.parse_args()
    notice: Notice = (
        InotifyNotice(given.root)
        if given.watcher == "inotify"
        else WatchfilesNotice(given.root, given.step, given.debounce)
    )
    record = Record(given.state, given.stages)
    print("ready", flush=True)
    cpu = time.process_time()
    done = _work(given.root, record, notice, given.runs, given.batch)
    result = {
        "status": {run: status for run, (status, _) in done.items()},
        "durable_at": {run: durable_at for run, (_, durable_at) in done.items()},
        "commits": record.commits,
        "cpu_s": time.process_time() - cpu,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    _main()
