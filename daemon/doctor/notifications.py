"""Notifications: whether they arrive, the system's limits, and what these suffice for."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.host.report import read_report
from runward.daemon.store.ownership import holder
from runward.daemon.watch.directories import Directories
from runward.daemon.watch.notifications import LIMITS, watch_limit

INSTANCES: Final = Path("/proc/sys/fs/inotify/max_user_instances")
NARROW: Final = 0.8
"""The share of what may be taken from which on it is said that it runs short."""

INSTANCES_NEEDED: Final = 2
"""A daemon has one, and two for a moment while its watch is set up again."""

_NOTICED_WITHIN: Final = 10.0


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
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
    lost, found = report.coverage.overflows, report.coverage.found_by_scan
    if lost or found:
        said = f"since the daemon started, notifications were lost {lost} times, and {found} changes only found by scans"
        fix = "nothing is lost; `runward log` says why (watch.gap): a machine that slept, a root without notifications"
        yield Finding("warning", said, fix)
    else:
        yield Finding("ok", "since the daemon started, every change was notified before a scan found it")


def _watches(installation: Installation, limit: int, setting: str, patience: Patience) -> Iterator[Finding]:
    settings = installation.settings
    allowed = int(limit * settings.watch.limit_share)
    needed = {root.name: _directories(root.path, patience) for root in settings.roots}
    total = sum(needed.values())
    each = ", ".join(f"{name} {count:,}" for name, count in needed.items())
    said = f"the roots have {total:,} directories ({each}) of the {allowed:,} that may be watched (limit {limit:,})"
    raise_it = f"sysctl {setting}={max(2 * limit, 4 * total)}, or raise watch.limit_share"
    if total > allowed:
        yield Finding("warning", f"{said}: not all of them, so the rest waits for scans", raise_it)
    elif total > NARROW * allowed:
        yield Finding("warning", f"{said}: few more", raise_it)
    else:
        yield Finding("ok", said)


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
    said = f"this user has {used} of {limit} inotify instances"
    needed = 0 if holder(installation.state) is not None else INSTANCES_NEEDED
    if used + needed > limit:
        fix = f"stop programs that watch files, or set sysctl fs.inotify.max_user_instances={2 * limit}"
        return Finding("warning", f"{said}: a daemon needs {INSTANCES_NEEDED}", fix)
    return Finding("ok", said)


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
