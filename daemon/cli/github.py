"""A run in GitHub Actions: its command can't speak to the runner, and the runner is told how the run ended.

A runner reads commands in what a step prints: lines that begin with `::`, and lines with `##[` anywhere. Who may print can
thus set outputs, mask words or forge an error. So what the command prints stands between two lines with a word that it can't
know: in between, the runner obeys nothing else.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from runward.config.problem import printable
from runward.daemon.disk.durable import write_all
from runward.handlers.bundle.summary import plain

if TYPE_CHECKING:
    from runward.daemon.cli.run_report import RunReport
    from runward.daemon.views.checks import Check

MOST_ERRORS: Final = 10
"""Annotations that GitHub shows of a step."""
LARGEST_SUMMARY: Final = 64 << 10
"""Bytes of what is added to the summary of the step."""
_SIGNS: Final = {"passed": "✓", "failed": "✗", "skipped": "-"}


class Runner:
    """The runner that reads what this process prints."""

    def __init__(self) -> None:
        self._word: str | None = None

    @contextmanager
    def deaf_to_others(self) -> Iterator[None]:
        """From `stop`, which is called in here, to the end, the runner obeys nothing."""
        # The runner reads two pipes, each at its own pace: an error that was written to one before the last word on the other
        # may be read after it. In one pipe, the order is the order.
        os.dup2(1, 2)
        try:
            yield
        finally:
            if self._word is not None:
                # On a line of its own: the command's last line may have no end.
                _print(f"\n::{self._word}::")

    def stop(self, _is_recorded: bool = False) -> None:
        """From here on the runner obeys nothing. To be called right before the command is released. Raises `OSError`."""
        # Made so late: the command is forked already, and has no copy of it. It can't read our memory either, which the
        # launcher has closed (`hide_memory`).
        self._word = os.urandom(32).hex()
        write_all(1, f"::stop-commands::{self._word}\n".encode())

    def annotate(self, checks: Sequence[Check]) -> None:
        """An error for each artifact that was not delivered; the last one says how many more there are."""
        missing = [each for each in checks if each.kind == "artifact" and each.state == "failed"]
        shown = missing if len(missing) <= MOST_ERRORS else missing[: MOST_ERRORS - 1]
        for each in shown:
            _print(error("Runward: not delivered", f"{each.name}: {each.why}"))
        if len(shown) < len(missing):
            _print(error("Runward: not delivered", f"{len(missing) - len(shown)} more artifacts"))


def error(title: str, message: str) -> str:
    """The command that shows an error, whatever the two texts are."""
    # The runner takes %25 apart last, so it must be made first.
    data = printable(message).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    title = printable(title).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::error title={title}::{data}"


def tell(report: RunReport, environment: Mapping[str, str]) -> Iterator[str]:
    """Write the outputs of the step, and add to its summary, where the environment names their files; yields what went wrong."""
    for name, text in (("GITHUB_OUTPUT", outputs(report)), ("GITHUB_STEP_SUMMARY", summary(report))):
        path = environment.get(name)
        try:
            if path:
                _append(path, text)
        except OSError as error:
            yield f"{name} can't be written: {path}: {error.strerror}"


def outputs(report: RunReport) -> str:
    """The outputs, each between two lines with a word of its own."""
    values = {
        "session": report.session_id,
        "status": report.status,
        "delivery": report.delivery or "",
        "receipt-hash": report.receipt_hash or "",
    }
    # What the command left in the file may lack an end.
    lines = ["\n"]
    for name, value in values.items():
        word = os.urandom(16).hex()
        lines.append(f"{name}<<{word}\n{printable(value)}\n{word}\n")
    return "".join(lines)


def summary(report: RunReport) -> str:
    """The result as Markdown, at most `LARGEST_SUMMARY` bytes."""
    facts = (
        report.session_id,
        report.status,
        report.delivery or "-",
        f"{report.took_s:.1f} s",
        report.reason,
    )
    lines = [
        "\n### Runward\n\n| Session | Status | Delivery | Took | Reason |\n| -- | -- | -- | -- | -- |\n",
        _row(*facts),
        "\n| | Check | Why |\n| -- | -- | -- |\n" if report.checks else "",
    ]
    room = LARGEST_SUMMARY - sum(len(line.encode()) for line in lines) - _ROOM_FOR_THE_REST
    for number, check in enumerate(report.checks):
        line = _row(_SIGNS[check.state], check.name, check.why)
        room -= len(line.encode())
        if room < 0:
            lines.append(_row("", f"and {len(report.checks) - number} more", ""))
            break
        lines.append(line)
    return "".join(lines)


_ROOM_FOR_THE_REST: Final = 100


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(plain, cells))} |\n"


def _append(path: str, text: str) -> None:
    # The command may have put anything in its place: a link that leads elsewhere, or a pipe that nobody reads.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        write_all(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _print(line: str) -> None:
    try:
        write_all(1, f"{line}\n".encode())
    except OSError:
        pass  # nobody can read it; what counts is in the run directory and in the exit code
