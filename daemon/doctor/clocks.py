"""Clocks and zones: wall time against the time since boot, against files' times, against the network's."""

import ctypes
import os
import time
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.processes.identity import booted_at, current_boot_id

_WATCHED_S: Final = 0.25
_DRIFT_S: Final = 0.02
"""Seconds that wall time and the time since boot may drift apart in `_WATCHED_S`; slewing stays far below."""

_FILE_TIME_S: Final = 2.0
"""Seconds that a new file's time may differ from the wall clock: as coarse as any file system's times are."""

_DAY_S: Final = 86400.0
_READINGS: Final = 50
_TIMEX_BYTES: Final = 1024
"""More than struct timex has on any platform; all zero asks and sets nothing (adjtimex(2))."""

_TIME_ERROR: Final = 5
_SYNCHRONISE: Final = "synchronise it: `timedatectl set-ntp true`"


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Each clock against another one, then the zones."""
    yield from _wall_clock(patience)
    yield _boot()
    yield from _files_clock(installation)
    yield _zones()


def _wall_clock(patience: Patience) -> Iterator[Finding]:
    began = _offset()
    patience.pause(_WATCHED_S)
    drift = abs(_offset() - began)
    now = time.time()
    made = os.stat(__file__).st_mtime
    at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if now < made - _DAY_S:
        yield Finding("failed", f"the wall clock says {at}, before this program was installed", _SYNCHRONISE)
    elif drift > _DRIFT_S:
        yield Finding(
            "warning", f"the wall clock was set by {drift:.3f} s while it was watched", _SYNCHRONISE
        )
    else:
        yield Finding("ok", f"the wall clock ({at}) runs like the time since boot")
    if _is_unsynchronised():
        yield Finding("warning", "nothing synchronises the wall clock", _SYNCHRONISE)


def _offset() -> float:
    """Wall time minus time since boot, by the two readings that were closest to each other (seconds)."""
    best = (float("inf"), 0.0)
    for _ in range(_READINGS):
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        wall = time.time()
        after = time.clock_gettime(time.CLOCK_BOOTTIME)
        best = min(best, (after - before, wall - (before + after) / 2))
    return best[1]


def _is_unsynchronised() -> bool:
    """Whether the kernel was never given a correct time; False if the kernel can't be asked."""
    asked = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return bool(asked == _TIME_ERROR)


def _boot() -> Finding:
    boot, since = current_boot_id(), booted_at()
    suspended = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
    if since is None:
        return Finding("warning", "when the machine was started can't be read", "mount /proc")
    at = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    slept = f", suspended for {suspended:.0f} s since" if suspended >= 1 else ""
    return Finding("ok", f"the machine was started at {at}{slept} (boot {boot[:8]})")


def _files_clock(installation: Installation) -> Iterator[Finding]:
    with installation.scratch() as scratch:
        before = time.time()
        (scratch / "file").touch()
        at = (scratch / "file").stat().st_mtime
        after = time.time()
    away = max(before - at, at - after, 0.0)
    if away > _FILE_TIME_S:
        said = f"new files in {scratch.parent} have times that differ by {away:.1f} s from the wall clock"
        yield Finding("warning", said, "synchronise the clocks of this machine and of its file server")
    else:
        yield Finding("ok", f"new files in {scratch.parent} have the wall clock's time")


def _zones() -> Finding:
    try:
        winter = datetime(2026, 1, 15, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    except zoneinfo.ZoneInfoNotFoundError:
        return Finding(
            "warning", "there is no time zone data: only UTC is known", "install the package tzdata"
        )
    hours = {winter.utcoffset(), winter.replace(month=7).utcoffset()}
    if len(hours) != 2:
        return Finding(
            "failed", "the time zone data has no daylight saving time", "reinstall the package tzdata"
        )
    local = "/".join(time.tzname) if time.daylight else time.tzname[0]
    return Finding("ok", f"the time zone data is there; local time is {local}")
