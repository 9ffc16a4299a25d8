"""Paths on the command line: whether they can be read, with the exit code for that; and files that are read whole, up to a size (`-` is stdin)."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import BinaryIO, Final

import click

from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.terminal.output import fail, safe

LEADS_NOWHERE: Final = "the working directory is gone: cd to one that exists, or write an absolute path"


class NamedPath(click.Path):
    """A path that names something: an empty one is wrong usage, and never the current directory.

    So is a relative one where the working directory was deleted.
    """

    def convert(
        self,
        value: str | PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | PathLike[str]:
        if not str(value):
            self.fail("an empty path names nothing", param, ctx)
        if leads_nowhere(str(value)):
            self.fail(LEADS_NOWHERE, param, ctx)
        return super().convert(value, param, ctx)


def leads_nowhere(path: str) -> bool:
    """Whether a path is relative to a working directory that was deleted."""
    if os.path.isabs(path):
        return False
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


_STDIN: Final = "-"
_OPEN_ALREADY: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""What a shell names if it passes a pipe, as in `<(command)`: somebody writes to it."""


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """A file, open to read. Exits 2 if it is not a regular file, and 3 if it can't be read.

    A pipe may have no writer, and a device no end. One that the command was given open is read all the same.
    """
    try:
        # Without waiting; O_NONBLOCK changes nothing for a regular file.
        flags = 0 if file.startswith(_OPEN_ALREADY) else os.O_NONBLOCK
        with open(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | flags), "rb") as stream:
            if flags and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                fail(f"{safe(file)} is not a regular file", WRONG_USAGE)
            yield stream
    except OSError as error:
        fail(f"{safe(file)} can't be read: {error.strerror}", NOT_FOUND)


def content_of(file: str, most: int) -> bytes:
    """The content of a file. Exits as `opened` does, and 2 if it has more than `most` bytes, which are whole MiB."""
    if file == _STDIN:
        content = sys.stdin.buffer.read(most + 1)
    else:
        with opened(file) as stream:
            content = stream.read(most + 1)
    if len(content) > most:
        fail(f"{safe(file)} is larger than {most >> 20} MiB", WRONG_USAGE)
    return content


def text_of(file: str, most: int) -> str:
    """The text of a file. Exits as `content_of` does, and 2 if it is not UTF-8."""
    try:
        return content_of(file, most).decode()
    except UnicodeDecodeError:
        fail(f"{safe(file)} is not UTF-8", WRONG_USAGE)
