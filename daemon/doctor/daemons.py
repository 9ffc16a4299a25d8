"""The running daemon: exactly one, alive and not stalled, of this program's version."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon import __version__
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.doctor.unit import how_to
from runward.daemon.host.report import Report, read_report
from runward.daemon.store.ownership import LOCK, holder, how_to_start_daemon
from runward.daemon.store.reading import STORE

_WRITING: Final = os.O_WRONLY | os.O_RDWR
_TWICE_S: Final = 1.0


class Opened(NamedTuple):
    """A process that has a state directory's files open: the lock, the store to write to it."""

    pid: int
    has_lock: bool
    writes: bool


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Who has the lock, who has the store open, and when the daemon last gave a sign of life."""
    state = installation.state
    pid = holder(state)
    for other in _others(state, pid, patience):
        yield _second(other, pid)
    if pid is None:
        unit = how_to("start", installation, patience)
        alone = how_to_start_daemon(installation.settings.state_dir)
        fix = f"start the unit: {unit}" if unit else f"start `{alone}`"
        yield Finding("warning", f"no daemon runs over {state}", fix)
        return
    yield _of_running(pid, read_report(state), installation, patience)


def _others(state: Path, pid: int | None, patience: Patience) -> list[Opened]:
    """Who else could write. Checked twice, because a process that can't get the lock has it open for a moment."""
    seen = [_writers(state, pid, patience)]
    if seen[0]:
        patience.pause(_TWICE_S)
        seen.append(_writers(state, pid, patience))
    return [each for each in seen[-1] if each in seen[0]]


def _writers(state: Path, pid: int | None, patience: Patience) -> list[Opened]:
    found = [each for each in _openers(state, patience) if each.pid not in (pid, os.getpid())]
    return [each for each in found if each.writes or each.has_lock]


def _second(other: Opened, pid: int | None) -> Finding:
    how = f"alongside daemon {pid}" if pid else "without the lock"
    return Finding(
        "failed",
        f"process {other.pid} has the store open to write to it, {how}",
        f"see what it is (`ps -p {other.pid} -f`) and end it; the epoch keeps an older daemon from writing",
    )


def _of_running(pid: int, report: Report | None, installation: Installation, patience: Patience) -> Finding:
    who = f"daemon {pid}" if pid else "a daemon"
    if report is None or report.pid != pid:
        return Finding("warning", f"{who} has the lock but has not reported yet", "wait, then try again")
    stalled = report.stalled_s()
    if stalled is None and report.version == __version__:
        said = f"{who} is the only one running, with epoch {report.epoch} and this program's version {__version__}"
        return Finding("ok", said)
    unit = how_to("restart", installation, patience, pid)
    restart = f"restart it: {unit}" if unit else "end it and start it again, by what started it"
    if stalled is not None:
        said = f"{who} has the lock but has not responded for {stalled:.0f} s: it is stopped, or stuck"
        return Finding("failed", said, f"see `runward log`; {restart}")
    return Finding("warning", f"{who} is Runward {report.version}, this program is {__version__}", restart)


def _openers(state: Path, patience: Patience) -> list[Opened]:
    """The processes that have the lock or the store open, as far as they may be looked into."""
    wanted = (str(state.resolve() / LOCK), str(state.resolve() / STORE))
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        patience.left()
        lock, store = _flags(pid, wanted)
        if lock is not None or store is not None:
            found.append(Opened(int(pid), (lock or 0) & _WRITING != 0, (store or 0) & _WRITING != 0))
    return found


def _flags(pid: str, wanted: Sequence[str]) -> list[int | None]:
    """The open(2) flags with which a process has each of these files open; None if it hasn't."""
    found: dict[str, int] = {}
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = os.readlink(f"/proc/{pid}/fd/{name}")
            if path in wanted:
                found[path] = found.get(path, 0) | _flags_of(f"/proc/{pid}/fdinfo/{name}")
    except OSError:
        pass  # gone or closed meanwhile, or another user's: what was seen until then counts
    return [found.get(path) for path in wanted]


def _flags_of(path: str) -> int:
    with open(path, encoding="ascii") as file:
        line = next((each for each in file if each.startswith("flags:")), "flags: 0")
    return int(line.split()[1], 8)
