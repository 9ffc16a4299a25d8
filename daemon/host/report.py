"""The running daemon's report about itself: put together from its parts, and kept current in `<state>/status.json`."""

import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import anyio.to_thread

from runward.config.json_value import JsonValue
from runward.config.problem import Severity
from runward.daemon import __version__
from runward.daemon.configuration.complaints import Wrong
from runward.daemon.engine.queue import Queue
from runward.daemon.engine.turn import Worker
from runward.daemon.log import Log
from runward.daemon.parts.actions_with_code import KilledWorkers
from runward.daemon.parts.log_lines import Verdicts
from runward.daemon.store.store import Store
from runward.daemon.views.daemon_report import BEAT, stalled_s
from runward.daemon.watch.hints import Coverage
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.web.sockets import HttpReport, StudioReport
from runward.handlers.model.stored import Stored, as_json

NAME: Final = "status.json"


@dataclass(frozen=True, slots=True)
class RootReport:
    """A root as the daemon sees it."""

    name: str
    path: str
    layout: str
    health: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class ConfigurationProblem:
    """Something that is wrong with what the operator wrote, and what follows."""

    path: str
    line: int | None
    message: str
    fix: str | None
    severity: Severity


@dataclass(frozen=True, slots=True)
class SettingsReport:
    """The settings in force, as `config show --json` prints them, since when, and their files with checksums.

    `absent` are the places that come before these files and had none. `origin` says where each key was set that has not
    its default, and `rules` the file, line and column of each of `contracts`. It also says when and why newer settings
    were refused since, and what to do if they are right, but the store could not take them (`store_fix`).
    """

    values: JsonValue
    files: tuple[tuple[str, int], ...]
    since: float
    absent: tuple[str, ...] = ()
    origin: dict[str, str] = field(default_factory=dict)
    rules: tuple[tuple[str, int | None, int | None], ...] = ()
    refused_at: float | None = None
    refused: tuple[str, ...] = ()
    store_fix: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A daemon's own figures. Times are Unix seconds, durations seconds."""

    pid: int
    epoch: int
    version: str
    since: float
    coverage: Coverage
    lag_p50_s: float | None
    lag_p99_s: float | None
    awaited_lag_p50_s: float | None
    awaited_lag_p99_s: float | None
    fences_refused: int
    stolen: int
    degraded: list[str]
    roots: list[RootReport]
    settings: SettingsReport | None = None
    configuration: tuple[ConfigurationProblem, ...] | None = None
    """What is wrong with all configuration; None before the first check."""
    http: HttpReport | None = None
    studio: StudioReport | None = None
    workers_killed: KilledWorkers | None = None
    """The workers of the sandbox that were killed or crashed since it started; None if there were none."""
    told_at: float | None = field(default=None, compare=False)
    """When it was written, by CLOCK_MONOTONIC, which can't be set and stops during suspend."""

    def stalled_s(self) -> float | None:
        """The seconds since the daemon's last report, if there are too many; else None."""
        return stalled_s(self.told_at, time.monotonic())


def percentile(values: list[float], share: float) -> float | None:
    """The value below which `share` of the sorted `values` are."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else None


def write_report(state: Path, report: Report) -> None:
    """Replace the last report with this one. It is a convenience, so it is not synced.

    On a full disk it overwrites the last one, whose space is already allocated, because people need it most then.
    """
    content = as_json(report).encode()
    temporary = state / f".{NAME}.tmp"
    try:
        temporary.write_bytes(content)
        temporary.chmod(0o600)
        temporary.replace(state / NAME)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _write_over(state / NAME, content)


def _write_over(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        # Blanks after a JSON value are ignored.
        os.pwrite(descriptor, content.ljust(os.fstat(descriptor).st_size), 0)
    finally:
        os.close(descriptor)


def read_report(state: Path) -> Report | None:
    """The last report of a daemon; None if there is no readable one."""
    try:
        return _STORED.load((state / NAME).read_bytes())
    except (OSError, ValueError):
        return None


_STORED: Final = Stored(Report)


PROGRESS_PERIOD: Final = 5
"""Reports between two lines in the log about the same long reading."""

FEW: Final = 100
"""Places that are read before progress is reported."""


@dataclass(slots=True)
class ForStatus:
    """What `status` shows and the daemon's parts don't know."""

    troubles: Callable[[], list[str]] = list
    """Problems with the operator's files."""
    wrong: Callable[[], Sequence[Wrong] | None] = lambda: None
    """What is wrong with all configuration; None before the first check."""
    http: Callable[[], HttpReport | None] = lambda: None
    """Where it listens."""
    killed: Callable[[], KilledWorkers | None] = lambda: None
    """The workers that were killed."""
    studio: Callable[[], StudioReport | None] = lambda: None
    """Where the Studio is served."""


@dataclass(slots=True)
class Reporting:
    """The report comes from these parts; each of `troubles` says what is degraded, in this order."""

    state: Path | None
    since: float
    store: Store
    queue: Queue
    worker: Worker
    verdicts: Verdicts
    coverage: Coverage
    roots: dict[str, WatchedRoot]
    settings: Callable[[], SettingsReport]
    troubles: Iterable[Callable[[], list[str]]]
    log: Log
    for_status: ForStatus
    changes: int = 0
    """How often something new was told."""
    _last: Report | None = None
    _told_at: float = 0.0
    _untold: int = 0
    _is_long: bool = False
    _lags: tuple[float | None, float | None, float | None, float | None] = (None, None, None, None)
    """p50 and p99 (seconds) of the latest verdicts' lag, and of that of runs that were waited for."""
    _measured_at: int = -1
    """How many verdicts there were when these were measured."""
    _rendered: tuple[Sequence[Wrong] | None, tuple[ConfigurationProblem, ...] | None] = (None, None)
    """What is wrong with the configuration, and how the report says it."""

    async def tell(self) -> None:
        """Update `status.json` if there is something new, or to give a sign of life."""
        report = self.report()
        self._tell_progress(report.coverage.unread)
        now = time.monotonic()
        if self.state is None or (report == self._last and now < self._told_at + BEAT):
            return
        try:
            await anyio.to_thread.run_sync(write_report, self.state, replace(report, told_at=now))
            self.changes += report != self._last
            self._last, self._told_at = report, now
        except OSError as error:
            self.log.warning("report.not_written", why=error.strerror)

    def _tell_progress(self, unread: int) -> None:
        """From time to time, log the progress of a long reading, and its end."""
        self._untold = self._untold + 1 if unread else 0
        if self._untold % PROGRESS_PERIOD == 1 and unread > FEW:
            self.log.info("transcripts.reading", left=unread)
            self._is_long = True
        elif not unread and self._is_long:
            self.log.info("transcripts.read")
            self._is_long = False

    def report(self) -> Report:
        """The daemon's current report about itself."""
        self._measure_lags()
        return Report(
            os.getpid(),
            self.store.epoch,
            __version__,
            self.since,
            replace(self.coverage, unread=self.worker.hints.backlog),
            *self._lags,
            self.store.fences_refused,
            self.queue.tally.stolen,
            [trouble for troubles in self.troubles for trouble in troubles()],
            [
                RootReport(root.name, root.path, root.layout, root.health, root.trouble)
                for root in self.roots.values()
            ],
            settings=self.settings(),
            configuration=self._configuration(),
            http=self.for_status.http(),
            studio=self.for_status.studio(),
            workers_killed=self.for_status.killed(),
        )

    def _configuration(self) -> tuple[ConfigurationProblem, ...] | None:
        # The report is asked for each second, and a check replaces what is wrong as a whole.
        wrong = self.for_status.wrong()
        if wrong is not self._rendered[0]:
            self._rendered = wrong, None if wrong is None else _configuration(wrong)
        return self._rendered[1]

    def _measure_lags(self) -> None:
        if self._measured_at == self.verdicts.count:
            return
        at_once, awaited = sorted(self.verdicts.lag), sorted(self.verdicts.lag_of_awaited)
        self._lags = (
            *(percentile(at_once, 0.5), percentile(at_once, 0.99)),
            *(percentile(awaited, 0.5), percentile(awaited, 0.99)),
        )
        self._measured_at = self.verdicts.count


def _configuration(wrong: Sequence[Wrong]) -> tuple[ConfigurationProblem, ...]:
    return tuple(
        ConfigurationProblem(
            each.problem.file, each.problem.line, each.message(), each.problem.fix, each.problem.severity
        )
        for each in wrong
    )
