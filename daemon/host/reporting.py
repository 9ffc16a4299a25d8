"""The daemon's report: put together from its parts, and kept current in `status.json`."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import anyio.to_thread
import structlog

from runward.daemon import __version__
from runward.daemon.configuration.complaints import Wrong
from runward.daemon.host.report import (
    ConfigurationProblem,
    Report,
    RootReport,
    SettingsReport,
    percentile,
    write_report,
)
from runward.daemon.parts.log_lines import Verdicts
from runward.daemon.processes.heartbeat import BEAT
from runward.daemon.queue.queue import Queue
from runward.daemon.sandbox.isolated import KilledWorkers
from runward.daemon.store.store import Store
from runward.daemon.watch.hints import Coverage
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.web.sockets import HttpReport, StudioReport
from runward.daemon.worker.turn import Worker

PROGRESS_PERIOD: Final = 5
"""Reports between two lines in the log about the same long reading."""

FEW: Final = 100
"""Places that are read before progress is reported."""


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
    log: structlog.typing.FilteringBoundLogger
    wrong: Callable[[], Sequence[Wrong] | None] = lambda: None
    http: Callable[[], HttpReport | None] = lambda: None
    killed: Callable[[], KilledWorkers | None] = lambda: None
    studio: Callable[[], StudioReport | None] = lambda: None
    _last: Report | None = None
    _told_at: float = 0.0
    _untold: int = 0
    _is_long: bool = False
    _lags: tuple[float | None, float | None, float | None, float | None] = (None, None, None, None)
    """p50 and p99 (seconds) of the latest verdicts' lag, and of that of runs that were waited for."""
    _measured_at: int = -1
    """How many verdicts there were when these were measured."""

    async def tell(self) -> None:
        """Update `status.json` if there is something new, or to give a sign of life."""
        report = self.report()
        self._tell_progress(report.coverage.unread)
        now = time.monotonic()
        if self.state is None or (report == self._last and now < self._told_at + BEAT):
            return
        try:
            await anyio.to_thread.run_sync(write_report, self.state, replace(report, told_at=now))
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
            configuration=_configuration(self.wrong()),
            http=self.http(),
            studio=self.studio(),
            workers_killed=self.killed(),
        )

    def _measure_lags(self) -> None:
        if self._measured_at == self.verdicts.count:
            return
        at_once, awaited = sorted(self.verdicts.lag), sorted(self.verdicts.lag_of_awaited)
        self._lags = (
            *(percentile(at_once, 0.5), percentile(at_once, 0.99)),
            *(percentile(awaited, 0.5), percentile(awaited, 0.99)),
        )
        self._measured_at = self.verdicts.count


def _configuration(found: Sequence[Wrong] | None) -> tuple[ConfigurationProblem, ...] | None:
    if found is None:
        return None
    return tuple(
        ConfigurationProblem(
            each.problem.file, each.problem.line, each.message(), each.problem.fix, each.problem.severity
        )
        for each in found
    )
