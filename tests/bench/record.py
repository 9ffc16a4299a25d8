"""What the daemon recorded: its store, its log and its journals, read from outside. The one place that knows their shape.

The figures come from the log; the store and the journals are what the log is held against.
"""

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, TypeAdapter
from tests.bench.fixtures import lacks_nothing, right_verdict

from runward.daemon.store.packed_document import unpack
from runward.daemon.watch.remembered import load_remembered
from runward.handlers.foreign_json import parse_time

_ROOT = "native:runs/"
_NATIVE = "native:"
_SOON_S = 60.0


Moment = Annotated[float, BeforeValidator(parse_time)]
"""A time of the log, as Unix seconds."""


class Finished(BaseModel):
    """The log's line about a verdict; `committed_at` (Unix seconds) is after its commit returned."""

    session: str
    status: str
    reason: str
    committed_at: Moment


class Hashed(BaseModel):
    """The log's line about produced files that were hashed, `took_s` seconds before `at`."""

    at: Moment
    bytes: int
    took_s: float


class Scan(BaseModel):
    """Of `status.json`: when the last scan ended (Unix seconds), how many places are still to be looked at, and flat roots."""

    last_scan_at: float | None
    unread: int
    flat: int


class Status(BaseModel):
    """`status.json`."""

    coverage: Scan


_STATUS = TypeAdapter(Status)
_FINISHED = TypeAdapter(Finished)
_HASHED = TypeAdapter(Hashed)


@dataclass(frozen=True, slots=True)
class Log:
    """What the log says of a stretch: when each run's verdict came (Unix seconds), and hashes."""

    committed_at: dict[str, float]
    hashed: list[Hashed]


def waits_ms(renamed_at: Mapping[str, int], committed_at: Mapping[str, float]) -> list[float]:
    """Milliseconds from each rename (ns) to the durable verdict, of runs that lack nothing."""
    return [wait_ms(run, at, committed_at) for run, at in renamed_at.items() if lacks_nothing(run)]


def wait_ms(run: str, renamed_at: int, committed_at: Mapping[str, float]) -> float:
    """A verdict that the log doesn't tell counts as never."""
    return (committed_at.get(run, float("inf")) - renamed_at / 1e9) * 1e3


class Record:
    """The state directory of a daemon, running or not."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._store = sqlite3.connect(f"file:{state}/runward.db?mode=ro", uri=True, isolation_level=None)

    def running(self) -> int:
        """How many sessions have begun and not ended."""
        return self._count("select coalesce(sum(sessions), 0) from session_counts where status = 'running'")

    def close(self) -> None:
        """Let go of the store, so that it may be changed."""
        self._store.close()

    def events(self) -> int:
        """How many events are recorded."""
        ((count,),) = self._store.execute("select count(*) from events")
        return int(count)

    def judged(self) -> int:
        """How many sessions have a verdict."""
        return self._count("select coalesce(sum(sessions), 0) from session_counts where status <> 'running'")

    def packed(self) -> int:
        """How many sessions are packed."""
        return self._count("select count(*) from packed")

    def owed(self) -> int:
        """How many rows of the outbox are not carried out, and how many jobs of the next minute are not done."""
        soon = time.time() + _SOON_S
        return self._count(
            "select (select count(*) from outbox) + (select count(*) from jobs where state = 'running')"
            f" + (select count(*) from jobs where state in ('waiting', 'held') and run_after < {soon})"
        )

    def owed_to_fleet(self) -> int:
        """How many rows the fleet's database doesn't have yet."""
        return self._count("select count(*) from fleet_outbox")

    def placed(self) -> dict[str, float]:
        """When each session's bundle was in its place (Unix seconds); a run goes by its name."""
        query = "select session_key, placed_at from receipts where placed_at is not null"
        return {key.removeprefix(_ROOT): float(at) for key, at in self._store.execute(query).fetchall()}

    def bundle_directories(self) -> list[Path]:
        """Where the bundles are."""
        return [self._state / found for (found,) in self._store.execute("select directory from receipts")]

    def read_to(self, place: str) -> int:
        """How many bytes of the transcript at this place of its root are read and recorded."""
        rows = self._store.execute("select state from cursors where directory = ?", (place,)).fetchall()
        logs = [log for (state,) in rows for log in load_remembered(state).read.logs]
        return sum(log.cursor.offset for log in logs)

    def scan(self) -> Scan | None:
        """What the daemon last said of its scans; None where it has said nothing."""
        try:
            return _STATUS.validate_json((self._state / "status.json").read_bytes()).coverage
        except FileNotFoundError:
            return None

    def flat(self) -> int:
        """How many roots are watched flat."""
        said = self.scan()
        return 0 if said is None else said.flat

    def log(self, since: float) -> Log:
        """What was logged from this time (Unix seconds) on."""
        committed_at: dict[str, float] = {}
        hashed: list[Hashed] = []
        for file in sorted((self._state / "log").glob("runward.jsonl*"), reverse=True):
            for line in file.read_bytes().splitlines():
                if b'"session.finished"' in line:
                    finished = _FINISHED.validate_json(line)
                    if finished.committed_at >= since:
                        run = finished.session.removeprefix(_ROOT)
                        committed_at[run] = max(finished.committed_at, committed_at.get(run, 0.0))
                elif b'"files.hashed"' in line:
                    each = _HASHED.validate_json(line)
                    if each.at >= since:
                        hashed.append(each)
        return Log(committed_at, hashed)

    def problems(self, runs: list[str], but: Collection[str] = ()) -> list[str]:
        """What is lost, doubled or wrong among these runs, in the store. No native ones are expected `but` these."""
        if self._text("pragma journal_mode") != "wal":
            return ["the store is not in WAL mode"]
        rows = self._store.execute("select key, status, reason_code from sessions").fetchall()
        told = {
            key.removeprefix(_ROOT): (status, reason)
            for key, status, reason in rows
            if key.startswith(_NATIVE)
        }
        wrong = {run for run in runs if run in told and told[run] != right_verdict(run)}
        verdicts = Counter(
            lane.removeprefix(_ROOT)
            for (lane,) in self._store.execute(
                "select lane from events where type = 'SessionFinished'"
            ).fetchall()
            if lane.startswith(_NATIVE)
        )
        return [
            *_named("lost", set(runs) - told.keys()),
            *_named("not asked for", told.keys() - set(runs) - set(but)),
            *_named("judged wrongly", wrong),
            *_named("without a SessionFinished event", set(runs) - verdicts.keys()),
            *_named("doubled", {run for run, count in verdicts.items() if count > 1}),
        ]

    def misjudged(self, runs: Sequence[str]) -> list[str]:
        """Which of these runs don't have the verdict that they should have."""
        query = "select status, reason_code from sessions where key = ?"
        return [
            run
            for run in runs
            if self._store.execute(query, (_ROOT + run,)).fetchall() != [right_verdict(run)]
        ]

    def transcript_problems(self, count: int) -> list[str]:
        """What is lost, doubled or wrong among so many transcripts of runs that all ended well, and of nothing else."""
        rows = self._store.execute("select status, origin, count(*) from sessions group by 1, 2").fetchall()
        found = {(str(status), str(origin)): int(many) for status, origin, many in rows}
        verdicts = self._count("select count(*) from events where type = 'SessionFinished'")
        for (document,) in self._store.execute(
            "select document from packed"
        ):  # what is long over is packed at once
            verdicts += sum(row[2] == "SessionFinished" for row in unpack(document).rows["events"])
        return [
            *([] if found == {("completed", "history"): count} else [f"{count} transcripts became {found}"]),
            *([] if verdicts == count else [f"{verdicts} SessionFinished events of {count} transcripts"]),
        ]

    def journal_problems(self, root: Path, runs: list[str]) -> list[str]:
        """Which of these runs' own journals do not tell one start and one end."""
        right = Counter(("session_started", "session_finished"))
        wrong = set()
        for run in runs:
            journal = root / run / "events.jsonl"
            lines = (
                [json.loads(line) for line in journal.read_bytes().splitlines()] if journal.exists() else []
            )
            if Counter(line["event"] for line in lines if line["event"] in right) != right:
                wrong.add(run)
        return [
            *_named("with a wrong journal", wrong),
            *([f"{self.owed()} still owed after the stop"] if self.owed() else []),
        ]

    def _count(self, query: str) -> int:
        return int(self._store.execute(query).fetchall()[0][0])

    def _text(self, query: str) -> str:
        return str(self._store.execute(query).fetchall()[0][0])


def _named(what: str, runs: set[str]) -> list[str]:
    return [f"{len(runs)} runs {what}: {', '.join(sorted(runs)[:3])}"] if runs else []
