"""Reading large reports of runs: a program of its own, a process for each run, which the daemon never waits for.

A report may have 64 MiB, and a hostile one needs seconds. So `Reports` starts the process in a thread and says at once how
long it has been going on; the handler that asked puts its job off and asks again. What was read is valid as long as the files are
the ones that were opened, unchanged. A run that keeps changing its reports gets a problem instead.
"""

import errno
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.outcomes.findings import NotAReport
from runward.handlers.outcomes.report import outcomes_of

LARGEST_REPORT: Final = 64 << 20
"""Bytes of a report."""

CPU_S: Final = 120
MEMORY: Final = 1 << 30
PATIENCE_S: Final = 600.0
"""How long the process may take for all reports of a run: its processor time is limited, but the machine may be busy."""

SMALL: Final = 16 << 20
"""Bytes of a run's reports up to which they are not held up by those of a run with more."""

MOST_TRIES: Final = 3
"""How often the reports of a run are read if they change meanwhile."""

MOST_REMEMBERED: Final = 16
"""Runs whose reports were read, and are remembered until their verdict asks for them again."""

_CHUNK: Final = 1 << 18
_DISK_FAILED: Final = 74

Read: TypeAlias = Mapping[str, JsonValue] | str
"""The outcomes that a report can become, by kind; or what is wrong with it."""


class LargeReport(NamedTuple):
    """An open file, and what distinguishes its state from the next: device, inode, size and times."""

    path: str
    descriptor: int
    state: tuple[int, ...]
    size: int


Reader: TypeAlias = Callable[[str, Sequence[LargeReport]], "list[Read] | float"]
"""Reads the reports of the run in this directory; a number says for how many seconds that has been going on."""


def read_here(run: str, reports: Sequence[LargeReport]) -> list[Read]:
    """Read the reports in this process, and wait for it. Raises `OSError`."""
    return [read_report(each.path, each.descriptor) for each in reports]


def read_report(path: str, descriptor: int) -> Read:
    """Read an open report, a part after the other. Raises `OSError`."""
    try:
        return outcomes_of(path, lambda: _pieces(descriptor))
    except NotAReport as error:
        return str(error)


def _pieces(descriptor: int) -> Iterator[bytes]:
    at = 0
    while piece := os.pread(descriptor, _CHUNK, at):
        at += len(piece)
        if at > LARGEST_REPORT:
            raise NotAReport(f"is larger than a report may be ({LARGEST_REPORT >> 20} MiB)")
        yield piece


@dataclass(slots=True)
class _Run:
    """The reports of one run: in which states they were opened, and what they say, once that is known."""

    states: tuple[tuple[int, ...], ...]
    tries: int
    began: float
    read: list[Read] | OSError | None = None
    """What they say, or why that is not known."""


@dataclass(slots=True)
class Reports:
    """The reports that are being read or were, by run directory. Any thread may ask."""

    read: Callable[[Sequence[LargeReport]], list[Read]] = field(default=lambda reports: read_apart(reports))
    _runs: dict[str, _Run] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _places: Mapping[bool, threading.Lock] = field(
        default_factory=lambda: {True: threading.Lock(), False: threading.Lock()}
    )
    """One process at a time for small reports, and one for large ones."""

    def __call__(self, run: str, reports: Sequence[LargeReport]) -> list[Read] | float:
        """What the reports say, or for how many seconds they have been read. Raises `OSError`, once for each try."""
        states = tuple(each.state for each in reports)
        now = time.monotonic()
        with self._lock:
            known = self._runs.get(run)
            tries = 1
            if known is not None:
                if known.read is None:
                    return now - known.began
                if isinstance(known.read, OSError):
                    del self._runs[run]
                    raise known.read
                if known.states == states:
                    # The same files, unchanged since they were opened: what they said still holds.
                    known.tries = 0
                    return known.read
                tries += known.tries
            if tries > MOST_TRIES:
                # Else a run could keep its verdict waiting for ever.
                del self._runs[run]
                return ["changes again and again while it is read"] * len(reports)
            self._runs.pop(run, None)
            begun = self._runs[run] = _Run(states, tries, now)
            self._forget()
        # The caller closes its descriptors as soon as it has this answer.
        own = [each._replace(descriptor=os.dup(each.descriptor)) for each in reports]
        try:
            threading.Thread(target=self._carry_out, args=(begun, own), daemon=True).start()
        except RuntimeError:  # the machine has no thread left
            _close(own)
            with self._lock:
                self._runs.pop(run, None)
        return 0.0

    def _carry_out(self, run: _Run, reports: Sequence[LargeReport]) -> None:
        read: list[Read] | OSError
        try:
            with self._places[sum(each.size for each in reports) <= SMALL]:
                read = self.read(reports)
        except OSError as error:
            read = error
        finally:
            _close(reports)
        with self._lock:
            run.read = read

    def _forget(self) -> None:
        over = [each for each, run in self._runs.items() if run.read is not None]
        for each in over[: max(0, len(over) - MOST_REMEMBERED)]:
            del self._runs[each]


def _close(reports: Sequence[LargeReport]) -> None:
    for each in reports:
        os.close(each.descriptor)


def read_apart(reports: Sequence[LargeReport]) -> list[Read]:
    """Read the reports in a process of its own. Raises `OSError`."""
    words = [sys.executable, "-P", "-m", __name__]
    words += [word for each in reports for word in (str(each.descriptor), each.path)]
    descriptors = [each.descriptor for each in reports]
    try:
        ran = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            # Opened already: what has these names by now may be other files.
            pass_fds=descriptors,
            timeout=PATIENCE_S,
            check=False,
        )
        if ran.returncode == _DISK_FAILED:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        output = ran.stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    read: list[Read] = [json.loads(line) for line in output.split(b"\n")[:-1]]
    within = f"could not be read within {CPU_S} s of processor time and {MEMORY >> 30} GiB of memory"
    return read + [within] * (len(reports) - len(read))


def main(words: Sequence[str]) -> None:
    """Read the reports whose descriptors and paths these are; print a line of JSON for each."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(10)  # verdicts come first
    for descriptor, path in zip(words[::2], words[1::2], strict=True):
        try:
            read = read_report(path, int(descriptor))
        except OSError:
            sys.exit(_DISK_FAILED)
        sys.stdout.write(json.dumps(read) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
