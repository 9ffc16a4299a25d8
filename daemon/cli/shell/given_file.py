"""Files that are named on the command line: read whole, up to a size. `-` is stdin."""

import sys

from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.terminal.output import fail, safe

_STDIN = "-"


def content_of(file: str, most: int) -> bytes:
    """The content of a file. Exits 2 if it has more than `most` bytes, which are whole MiB, and 3 if it can't be read."""
    try:
        if file == _STDIN:
            content = sys.stdin.buffer.read(most + 1)
        else:
            with open(file, "rb") as opened:
                content = opened.read(most + 1)
    except OSError as error:
        fail(f"{safe(file)} can't be read: {error.strerror}", NOT_FOUND)
    if len(content) > most:
        fail(f"{safe(file)} is larger than {most >> 20} MiB", WRONG_USAGE)
    return content


def text_of(file: str, most: int) -> str:
    """The text of a file. Exits as `content_of` does, and 2 if it is not UTF-8."""
    try:
        return content_of(file, most).decode()
    except UnicodeDecodeError:
        fail(f"{safe(file)} is not UTF-8", WRONG_USAGE)
