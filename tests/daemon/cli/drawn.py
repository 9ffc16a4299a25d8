"""What a command draws on a terminal of a given size, read back as a terminal shows it, at a fixed moment."""

import fcntl
import getpass
import os
import pty
import re
import struct
import sys
import termios
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn

import click
import pyte
import time_machine
from tests.daemon.cli.everyday import Everyday

from runward.daemon.cli.entry import call
from runward.daemon.cli.terminal.output import width

_FEW: Final = 300
"""Rows of the terminal that is read back: nothing scrolls off it, whatever size the command was told."""


_TO_A_ROW: Final = re.compile(r"\x1b\[[0-9]+;1H")


class Drawn(NamedTuple):
    """What is on the terminal at the end, without blanks at the ends of lines, the lines as written, and the exit code.

    A line that begins anew after a carriage return, as one does in which somebody types, is written twice.
    """

    lines: list[str]
    written: list[str]
    raw: bytes
    code: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


_GIVES_BACK: Final = b"\x1b[H\x1b[2J\x1b[?7h"
"""With this, a command that took the whole screen gives it back."""


def draw(
    place: Everyday, size: tuple[int, int], *arguments: str, keys: str = "", **environment: str
) -> Drawn:
    """Call the command in a terminal of this many columns and rows, type these keys, and wait for its end.

    Of a command that takes the whole screen, the last page before it gave it back is read.
    """
    variables = place.environment | {"TERM": "xterm", "LANG": "C.UTF-8", "PAGER": "cat"} | environment
    content, code = _played(place, size, arguments, keys, variables)
    screen = pyte.Screen(size[0], _FEW)
    pyte.ByteStream(screen).feed(content.partition(_GIVES_BACK)[0])
    # To read back each row that nothing was written to takes longer than the command.
    screen.lines = 1 + max((number for number, row in screen.buffer.items() if row), default=-1)
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    text = _TO_A_ROW.sub("\n", content.decode(errors="replace"))
    written = re.split(r"\r*\n|\r", click.unstyle(text))
    return Drawn(lines, written, content, code)


def _played(
    place: Everyday,
    size: tuple[int, int],
    arguments: tuple[str, ...],
    keys: str,
    variables: Mapping[str, str],
) -> tuple[bytes, int]:
    ready, go = os.pipe()
    pid, master = pty.fork()
    if pid == 0:
        os.read(ready, 1)
        _call(place, arguments, variables)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    os.write(master, keys.encode())
    os.write(go, b"!")
    os.close(ready)
    os.close(go)
    content = b""
    try:
        while more := os.read(master, 65536):
            content += more
    except OSError:
        pass  # the command has ended
    os.close(master)
    return content, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _call(place: Everyday, arguments: tuple[str, ...], variables: Mapping[str, str]) -> NoReturn:
    """The command in this process, a fork of the test's: it has imported everything, and nothing comes back."""
    code = 70
    try:
        os.chdir(place.directory)
        os.environ.clear()
        os.environ.update(variables)
        # All of it was today, at whatever time of the day this runs: it is always noon.
        os.environ["TZ"] = f"UTC{time.gmtime(place.now).tm_hour - 12:+d}"
        time.tzset()
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # for its life
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc] # noqa: SIM115  # as if it were its own
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # for its life
        time_machine.travel(place.now, tick=True).start()
        code = call(list(arguments))
    finally:
        os._exit(code)


def widest(drawn: Drawn) -> int:
    """The columns of the widest line as it was written: a terminal would have broken a wider one."""
    return max(map(width, drawn.written))


_IDS: Final = re.compile(r"(cr|ap)_[0-9a-f]{12}")
_CLOCK: Final = re.compile(r"\b[0-9]{2}:[0-9]{2}:[0-9]{2}\b")
_DATE: Final = re.compile(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}\b")


_WHO: Final = re.compile(rf"\b{re.escape(getpass.getuser())} asked")
_TOOK: Final = re.compile(r"\b[0-9]\.[0-9]s|\b[1-5][0-9]s (?=  )")
"""A slow machine takes more than ten seconds to look at a chain run and to approve it: in a column, that is narrower."""
_PRICES: Final = re.compile(r"(?<=prices of )20[0-9]{2}-[0-9]{2} \(genai-prices [0-9.]+\)")
_SILENT: Final = re.compile(r"(?<=silent for )[0-9]{2}m [0-9]{2}s")

_PID: Final = re.compile(r"\bpid [0-9]+\b")
_LAGS: Final = re.compile(r"[0-9.]+ ?m?s (?=after a run's end)|(?<=99 of 100 within )[0-9.]+ ?m?s")


def fixed(text: str) -> str:
    """The text with ids and times of every day's own replaced by ones of the same width."""
    seen: dict[str, str] = {}

    def identifier(match: re.Match[str]) -> str:
        return seen.setdefault(match[0], f"{match[1]}_{len(seen) + 1:012x}")

    text = _SILENT.sub("10m 36s", _WHO.sub("me asked", text))
    text = _LAGS.sub(lambda lag: "100 ms" + " " * lag[0].endswith(" "), _PID.sub("pid 4711", text))
    text = _PRICES.sub("2026-11 (genai-prices 0.2.3)", text)
    return _DATE.sub("2026-11-26", _TOOK.sub("0.4s", _CLOCK.sub("10:27:40", _IDS.sub(identifier, text))))
