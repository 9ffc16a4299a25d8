"""What the machine gives: file systems, locks, durable writes, clocks, SQLite, notifications of file changes."""

import ctypes
import fcntl
import os
import sqlite3
import sys
import threading
import time
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from runward.config.root import NATIVE, Root
from runward.daemon.disk.file_systems import IN_MEMORY, Mount, limit_of, mount_of, mounts, space_of
from runward.daemon.doctor.findings import Ended, Finding, Installation, Patience, end_of
from runward.daemon.host.report import read_report
from runward.daemon.processes.proc import booted_at, current_boot_id
from runward.daemon.rundir.opening import held
from runward.daemon.store.ownership import holder
from runward.daemon.store.schema import can_write_ahead
from runward.daemon.watch.directories import Directories
from runward.daemon.watch.notifications import LIMITS, watch_limit

SHORT: Final = 2
"""Free space below this multiple of `low_disk` is little."""

_MIB: Final = 1 << 20


def examine_file_systems(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """That of the state directory first, then those of the roots."""
    known = mounts()
    settings = installation.settings
    yield _of_state(settings.state_dir, mount_of(settings.state_dir, known))
    if (room := _room(installation.state, settings.low_disk)) is not None:
        yield room
    for root in settings.roots:
        patience.left()
        yield _of_root(root, mount_of(root.path, known), settings.scan.period)


def _of_state(path: str, mount: Mount | None) -> Finding:
    if mount is None:
        return Finding("warning", f"can't tell which file system {path} is on", "mount /proc")
    message = f"{path} is on {mount.kind} ({mount.place})"
    move = "put state_dir on a local disk"
    if mount.is_read_only:
        return Finding("failed", f"{message}, which is mounted read-only", f"mount it read-write, or {move}")
    if mount.is_remote:
        return Finding("warning", f"{message}: only one machine may use it, and its locks must work", move)
    if mount.kind in IN_MEMORY:
        return Finding("warning", f"{message}: all records are lost when the machine restarts", move)
    return Finding("ok", message)


def _room(state: Path, low_disk: int) -> Finding | None:
    """How much more the state directory's file system takes; None if that doesn't exist yet."""
    try:
        space = space_of(state)
    except FileNotFoundError:
        return None
    limit = limit_of(space, low_disk)
    message = f"{state} has {space.free / _MIB:,.0f} MiB free (low_disk: {limit / _MIB:,.0f} MiB)"
    if space.no_files:
        return Finding(
            "failed", f"{message}, but no file can be created there (no inodes left)", "remove files there"
        )
    if space.free < limit:
        return Finding("failed", f"{message}: no run is looked at until there is more", "free space there")
    if space.free < SHORT * limit:
        return Finding("warning", f"{message}: soon no run will be looked at", "free space there")
    return Finding("ok", message)


def _of_root(root: Root, mount: Mount | None, period: float) -> Finding:
    if mount is None:
        return Finding("warning", f"can't tell which file system root {root.name} is on", "mount /proc")
    message = f"root {root.name} is on {mount.kind} ({mount.place})"
    if mount.is_read_only and root.layout == NATIVE:
        return Finding(
            "warning",
            f"{message}, which is mounted read-only: runs there get no journals",
            "mount it read-write",
        )
    if mount.is_remote:
        return Finding(
            "warning",
            f"{message}: changes by other machines or by its program are not reported; only the scans find them,"
            f" every {period:g} s",
            "run the daemon where the runs are written, or live with the delay (`scan.period`)",
        )
    return Finding("ok", message)


_EXCLUDED: Final = 7
_ASK: Final = (
    "import fcntl, sys\n"
    "file = open(sys.argv[1])\n"
    "try:\n    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    f"except BlockingIOError:\n    sys.exit({_EXCLUDED})\n"
)
_TO_EXCLUDE: Final = "put state_dir on a local file system: two daemons could run there at once"


def examine_lock(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Hold a lock next to the daemon's, and have another process ask for it, then once more when it is free."""
    with installation.scratch() as scratch:
        path = scratch / "lock"
        with held(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process, as a second daemon would be: some file systems give a lock to everybody who asks. Two daemons
            # over one store would both judge each run.
            taken = _ask(path, installation, patience)
        free = _ask(path, installation, patience)
    if taken.code == 0:
        yield Finding("failed", f"a lock in {scratch.parent} doesn't keep another process out", _TO_EXCLUDE)
    elif taken.code != _EXCLUDED or free.code != 0:
        yield Finding("failed", f"locks in {scratch.parent} don't work: {taken.err or free.err}", _TO_EXCLUDE)
    else:
        yield Finding(
            "ok",
            f"a lock in {scratch.parent} keeps another process out, and is released when its holder ends",
        )


def _ask(path: Path, installation: Installation, patience: Patience) -> Ended:
    """Another process tries to take the lock."""
    words = [sys.executable, "-I", "-S", "-c", _ASK, str(path)]
    return end_of(words, installation.environment, patience, patience.seconds)


WRITES: Final = 7
SLOW_S: Final = 0.1
"""Seconds from which on a durable write is slow: each verdict waits for two."""

_PAGE: Final = b"runward\n" * 512


def examine_durability(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Write, sync, rename, sync the directory, read back; several times."""
    took: list[float] = []
    with installation.scratch() as scratch:
        for number in range(WRITES):
            patience.left()
            began = time.monotonic()
            _write(scratch, number)
            took.append(time.monotonic() - began)
            if (scratch / "file").read_bytes() != _PAGE + b"%d" % number:
                yield Finding(
                    "failed",
                    f"{scratch.parent} returned something other than what was written",
                    "replace the disk",
                )
                return
    usual = median(took)
    message = f"a write in {scratch.parent} is durable after {usual * 1000:.1f} ms (the slowest: {max(took) * 1000:.1f} ms)"
    if usual < SLOW_S:
        yield Finding("ok", message)
    else:
        yield Finding("warning", f"{message}: each verdict waits for two", "put state_dir on a faster disk")


def _write(scratch: Path, number: int) -> None:
    # The daemon's own order. Without the second sync, a power failure may take the name of a file that is on the disk.
    with held(os.open(scratch / "new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)) as new:
        os.write(new, _PAGE + b"%d" % number)
        os.fsync(new)
    (scratch / "new").rename(scratch / "file")
    # Not `sync_directory`: it accepts a file system that can't do it, and people must know of that one.
    with held(os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        os.fsync(directory)


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


def examine_clocks(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Each clock against another one, then the zones."""
    yield from _wall_clock(patience)
    yield _boot()
    yield from _files_clock(installation)
    yield _zones()


def _wall_clock(patience: Patience) -> Iterator[Finding]:
    began = _offset()
    patience.pause(_WATCHED_S)
    # A clock that is set while runs go on gives them ends before their starts; slewing, which is fine, stays far below.
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
    # A file server stamps files by its own clock. `stale_after` and the order of events compare those times with ours.
    with installation.scratch() as scratch:
        before = time.time()
        (scratch / "file").touch()
        at = (scratch / "file").stat().st_mtime
        after = time.time()
    away = max(before - at, at - after, 0.0)
    if away > _FILE_TIME_S:
        message = f"new files in {scratch.parent} have times that differ by {away:.1f} s from the wall clock"
        yield Finding("warning", message, "synchronise the clocks of this machine and of its file server")
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


OLDEST: Final = (3, 37, 0)
"""The first with STRICT tables."""

WAL_RESET_FIXED: Final = ((3, 44, 6), (3, 45, 0)), ((3, 50, 7), (3, 51, 0)), ((3, 51, 3), (4, 0, 0))
"""The versions, from and up to, in which a checkpoint and a commit at the same instant can't damage a database.

https://sqlite.org/wal.html#walresetbug
"""


def examine_database(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """A database is made next to the store, and read while it is written."""
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        yield Finding("failed", f"SQLite is {version}", f"use a Python with SQLite {wanted} or newer")
        return
    # Without the log that is written ahead, each command that reads would keep the daemon from writing. It needs memory
    # that processes share, which network file systems don't have.
    with installation.scratch() as scratch:
        try:
            works = can_write_ahead(scratch / "store.db")
        except sqlite3.Error as error:
            yield Finding(
                "failed", f"SQLite {version} can't write in {scratch.parent}: {error}", _TO_HAVE_LOG
            )
            return
        if works:
            yield Finding(
                "ok", f"SQLite {version}: a store in {scratch.parent} can be read while it is being written"
            )
            yield from _of_version(sqlite3.sqlite_version_info)
        else:
            yield Finding("failed", f"SQLite {version} can't have a log in {scratch.parent}", _TO_HAVE_LOG)


def _of_version(version: tuple[int, ...]) -> Iterator[Finding]:
    """The one fault of SQLite that is known to concern a store."""
    if not any(first <= version < beyond for first, beyond in WAL_RESET_FIXED):
        yield Finding(
            "ok", "this SQLite has the WAL-reset bug; the daemon starts no checkpoint that could hit it"
        )


_TO_HAVE_LOG: Final = "put state_dir on a local file system with enough space, and check its permissions"


INSTANCES: Final = Path("/proc/sys/fs/inotify/max_user_instances")
NARROW: Final = 0.8
"""The share of what may be taken from which on it is said that it runs short."""

INSTANCES_NEEDED: Final = 2
"""A daemon has one, and two for a moment while its watch is set up again."""

_NOTICED_WITHIN: Final = 10.0


def examine_notifications(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """A file is made and must be reported; then the limits are compared with the current use."""
    yield _comes(installation)
    yield from _have_come(installation)
    limit = watch_limit()
    if limit is None:
        yield Finding(
            "skipped", f"{', '.join(map(str, LIMITS.values()))} can't be read: the limits are not known"
        )
        return
    yield from _watches(installation, *limit, patience)
    yield _instances(installation, patience)


def _comes(installation: Installation) -> Finding:
    # Tried, because some file systems accept a watch and never report anything. Then only scans find runs.
    with installation.scratch() as scratch:
        try:
            watcher = Directories([str(scratch)])
        except OSError as error:
            return Finding(
                "failed",
                f"nothing can be watched: {error}",
                "raise fs.inotify.max_user_instances and max_user_watches (sysctl), or stop the programs that use them",
            )
        try:
            (scratch / "file").touch()
            changes = watcher.wait(_NOTICED_WITHIN, 0.005, 0.02, threading.Event())
        finally:
            watcher.close()
        if not changes:
            return Finding(
                "warning",
                f"no notification came for a new file in {scratch.parent}",
                "put state_dir on a local file system: requests and runs there are only found by scans",
            )
        return Finding("ok", f"the notification for a new file in {scratch.parent} comes at once")


def _have_come(installation: Installation) -> Iterator[Finding]:
    """What the running daemon has seen of it."""
    report = read_report(installation.state) if holder(installation.state) is not None else None
    if report is None:
        return
    lost, missed = report.coverage.overflows, report.coverage.found_by_scan
    if lost or missed:
        message = f"since the daemon started, notifications were lost {lost} times, and {missed} changes only found by scans"
        fix = "nothing is lost; `runward log` says why (watch.gap): a machine that slept, a root without notifications"
        yield Finding("warning", message, fix)
    else:
        yield Finding("ok", "since the daemon started, every change was notified before a scan found it")


def _watches(installation: Installation, limit: int, setting: str, patience: Patience) -> Iterator[Finding]:
    settings = installation.settings
    allowed = int(limit * settings.watch.limit_share)
    needed = {root.name: _directories(root.path, patience) for root in settings.roots}
    total = sum(needed.values())
    each = ", ".join(f"{name} {count:,}" for name, count in needed.items())
    message = f"the roots have {total:,} directories ({each}) of the {allowed:,} that may be watched (limit {limit:,})"
    raise_it = f"sysctl {setting}={max(2 * limit, 4 * total)}, or raise watch.limit_share"
    if total > allowed:
        yield Finding("warning", f"{message}: not all of them, so the rest waits for scans", raise_it)
    elif total > NARROW * allowed:
        yield Finding("warning", f"{message}: few more", raise_it)
    else:
        yield Finding("ok", message)


def _directories(path: str, patience: Patience) -> int:
    """How many directories there are from `path` down, following no link. Raises `OutOfTime`."""
    count, waiting = 0, [path]
    while waiting:
        patience.left()
        try:
            with os.scandir(waiting.pop()) as entries:
                waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # gone or forbidden: nothing to watch there; the roots' own check names such a root
        count += 1
    return count


def _instances(installation: Installation, patience: Patience) -> Finding:
    used = _instances_in_use(patience)
    try:
        limit = int(INSTANCES.read_text())
    except (OSError, ValueError):
        return Finding("skipped", "the limit of inotify instances per user is unknown")
    message = f"this user has {used} of {limit} inotify instances"
    # Editors and file managers take from the same few. The running daemon's are among those in use.
    needed = 0 if holder(installation.state) is not None else INSTANCES_NEEDED
    if used + needed > limit:
        fix = f"stop programs that watch files, or set sysctl fs.inotify.max_user_instances={2 * limit}"
        return Finding("warning", f"{message}: a daemon needs {INSTANCES_NEEDED}", fix)
    return Finding("ok", message)


def _instances_in_use(patience: Patience) -> int:
    """How many inotify instances the processes of this user hold, as far as they may be looked into."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        patience.left()
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                continue
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue  # gone, or another user's
        count += sum(_link(f"/proc/{pid}/fd/{name}") == "anon_inode:inotify" for name in names)
    return count


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # closed meanwhile
