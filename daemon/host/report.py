"""The running daemon's report about itself: `<state>/status.json`, for `runward status` to read."""

import errno
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.problem import Severity
from runward.daemon.processes.heartbeat import stalled_s
from runward.daemon.sandbox.isolated import KilledWorkers
from runward.daemon.watch.hints import Coverage
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
