"""Reading the texts of a session's conversation from its log, one by one."""

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

from runward.daemon.rundir.opening import DIRECTORY, NotRegular, held, open_regular, opened, opened_below
from runward.daemon.rundir.session_files import LARGEST_DOCUMENT
from runward.daemon.rundir.session_logs import UNREAD, CannotUnpack, PlacedLines, TooLong
from runward.daemon.rundir.session_places import log_at, made_log
from runward.handlers.layouts.places import PACKED, named, unpacked_name
from runward.handlers.layouts.transcript import Said


class PlacedText(NamedTuple):
    """A text, and the byte at which its line begins in the log; of a document, in the lines that were made of it."""

    start: int
    said: Said


def messages_of(layout: str, path: str) -> Iterator[PlacedText]:
    """The texts of the session at `path`, in the order of its log. None if the layout has no texts, or the log can't be read.

    Who reads the session's calls learns of the same log why it can't be read (`call_reading.told_by`).
    """
    from runward.handlers.layouts.registry import MESSAGES

    message_in = MESSAGES.get(layout)
    if message_in is None:
        return
    made = made_log(layout, path)
    if made is not None:
        try:
            yield from _texts(PlacedLines(made, UNREAD), message_in)
        except (OSError, CannotUnpack):
            pass
        return
    file = conversation_file(layout, os.path.basename(path))
    directory, name = os.path.split(path) if file is None else (path, file)
    *parents, last = name.split("/")
    try:
        with opened(directory or "/", DIRECTORY) as top, opened_below(top, parents) as within:
            log_file = log_at(within, unpacked_name(last))
            if log_file is None:
                return
            with held(as_log(layout, open_regular(within, log_file[0]))) as descriptor:
                lines = PlacedLines(descriptor, UNREAD, is_packed=log_file[0].endswith(PACKED))
                yield from _texts(lines, message_in)
    except (OSError, NotRegular, CannotUnpack):
        return


def conversation_file(layout: str, name: str) -> str | None:
    """The file with the conversation in the directory of a session called so; None if the session itself is the log."""
    from runward.handlers.layouts.registry import conversation_in

    conversation = conversation_in(layout)
    return None if conversation is None else named((conversation.file,), name)[0]


def as_log(layout: str, descriptor: int) -> int:
    """The file with the conversation as a log, which a document is made into; the descriptor that is given is used up.

    Raises `OSError`.
    """
    from runward.handlers.layouts.registry import conversation_in

    conversation = conversation_in(layout)
    if conversation is None or conversation.lines is None:
        return descriptor
    with open(descriptor, "rb") as document, tempfile.TemporaryFile() as file:
        content = document.read(LARGEST_DOCUMENT + 1)
        if len(content) <= LARGEST_DOCUMENT:
            file.writelines(line + b"\n" for line in conversation.lines(content))
        file.flush()
        return os.dup(file.fileno())


def _texts(lines: PlacedLines, message_in: Callable[[bytes], Said | None]) -> Iterator[PlacedText]:
    for line in lines.lines():
        said = None if isinstance(line, TooLong) else message_in(line.content)
        if said is not None and not isinstance(line, TooLong):
            yield PlacedText(line.start, said)
