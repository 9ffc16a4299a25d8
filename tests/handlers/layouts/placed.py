"""Lines with their places, and what a layout's reader of calls tells of them."""

from collections.abc import Iterator, Sequence

from runward.handlers.calls import Told
from runward.handlers.layouts.call_readers import PlacedLine
from runward.handlers.layouts.layout import declared
from runward.handlers.model.sessions import Document


def placed(contents: Sequence[bytes]) -> Iterator[PlacedLine]:
    """These lines as they stand one after the other in a file."""
    start = 0
    for number, content in enumerate(contents, 1):
        yield PlacedLine(number, start, content)
        start += len(content) + 1


def told(layout: str, name: str, contents: Sequence[bytes], *documents: Document) -> list[Told]:
    """What the reader tells of a session's only log, and of its documents before it."""
    reader = declared(layout).calls.start(name, lambda name: ())
    seen = [each for document in documents for each in reader.see(document)]
    return [*seen, *reader.take(name, placed(contents))]


def told_in_halves(layout: str, name: str, contents: Sequence[bytes], first: int) -> list[Told]:
    """The same, where the lines come in two portions."""
    lines = list(placed(contents))
    reader = declared(layout).calls.start(name, lambda name: ())
    return [*reader.take(name, lines[:first]), *reader.take(name, lines[first:])]
