"""Tables and texts that fit the terminal, whatever is in them.

A table cuts its last column, and leaves columns out; it never wraps. Text is broken between words.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import click

from runward.daemon.cli.terminal.output import width

_GAP: Final = "  "
_LEAST: Final = 12
"""Columns that the last column of a table has at least, before others are left out."""


class Column(NamedTuple):
    """A column of a table: its head and its cells, whose text is safe to show and may be coloured.

    `order` says when it is left out: the highest first, those with 0 never.
    """

    head: str
    cells: Sequence[str]
    order: int = 0


def chosen(columns: Sequence[Column], heads: Sequence[str]) -> list[Column]:
    """The columns of these names, in their order, none of which is left out; all if none is named."""
    known = {each.head.strip(): each for each in columns}
    return [known[head]._replace(order=0) for head in heads] or list(columns)


def table_lines(columns: Sequence[Column], room: int, ellipsis: str, *, is_wide: bool = False) -> list[str]:
    """The table as lines, its heads first; none is wider than `room`, unless it is to be wide."""
    shown = list(columns) if is_wide else those_that_fit(columns, room)
    widths = [max(map(width, (each.head, *each.cells))) for each in shown]
    if not is_wide:
        widths = _within(widths, room)
    heads = [
        _cell(click.style(each.head, bold=True), room, ellipsis)
        for each, room in zip(shown, widths, strict=True)
    ]
    rows = zip(
        *(
            [_cell(cell, room, ellipsis) for cell in each.cells]
            for each, room in zip(shown, widths, strict=True)
        ),
        strict=True,
    )
    lines = [_GAP.join(row).rstrip() for row in (heads, *rows)]
    return lines if is_wide else [cut_to(line, room, ellipsis) for line in lines]


def table_rows(columns: Sequence[Column], room: int, ellipsis: str) -> list[str]:
    """The lines of a table without its heads."""
    return table_lines(columns, room, ellipsis)[1:]


def those_that_fit(columns: Sequence[Column], room: int) -> list[Column]:
    """Without as many columns as must go, so that the last one keeps something of its text."""
    shown = list(columns)
    while any(each.order for each in shown):
        widths = [max(map(width, (each.head, *each.cells))) for each in shown]
        least = [*widths[:-1], min(widths[-1], _LEAST)]
        if sum(least) + len(_GAP) * (len(least) - 1) <= room:
            break
        shown.remove(max(shown, key=lambda each: each.order))
    return shown


def _within(widths: Sequence[int], room: int) -> list[int]:
    """Widths that fit: the last column gives first, then whichever is widest."""
    fitting = list(widths)
    room -= len(_GAP) * (len(widths) - 1)
    over = sum(fitting) - room
    if over > 0:
        given = min(over, max(0, fitting[-1] - _LEAST))
        fitting[-1] -= given
        # Then a column of the terminal at a time: they are few by now, and each keeps as much as the others.
        for _ in range(over - given):
            fitting[max(range(len(fitting)), key=fitting.__getitem__)] -= 1
    return fitting


def _cell(text: str, room: int, ellipsis: str) -> str:
    shown = cut_to(text, room, ellipsis)
    return shown + " " * (room - width(shown))


def cut_to(text: str, room: int, ellipsis: str) -> str:
    """The text in at most `room` columns, its end replaced by the ellipsis; a coloured text that is cut loses its colour."""
    if width(text) <= room:
        return text
    plain, end = click.unstyle(text), ellipsis[: max(0, room)]
    kept, taken = [], len(end)
    for character in plain:
        taken += width(character)
        if taken > room:
            break
        kept.append(character)
    return "".join(kept).rstrip() + end


def flowed(text: str, first: str, rest: str, room: int) -> Iterator[str]:
    """The text in lines that are no wider than `room`: the first behind `first`, the others behind `rest`.

    It is broken between words, a path at a `/`, and only a longer word inside it.
    """
    if width(first) + width(text) <= room:
        yield f"{first}{text}"  # as it is, with all its blanks
        return
    lead, line = first, ""
    for word in text.split(" "):
        for number, part in enumerate(_parts(word, max(1, room - max(width(first), width(rest))))):
            joined = part if not line else f"{line} {part}" if number == 0 else f"{line}{part}"
            if line and width(lead) + width(joined) > room:
                yield f"{lead}{line}"
                lead, line = rest, part
            else:
                line = joined
    yield f"{lead}{line}"


_COLUMN: Final = re.compile(r"(?:^| ) +(?=\S)")
"""What stands before a column of a line."""


def folded(line: str, room: int) -> Iterator[str]:
    """The line in lines that are no wider than `room`, the further ones below its last column.

    It loses its colours if a word of it is broken, or has a tab.
    """
    if width(line) <= room and "\t" not in line:
        yield line
        return
    plain = click.unstyle(line).expandtabs()
    at = max((each.end() for each in _COLUMN.finditer(plain) if each.end() <= room // 2), default=0)
    is_kept = "\t" not in line and all(width(each) <= room - at for each in plain.split(" "))
    lead, text = _parted(line, at) if is_kept else (plain[:at], plain[at:])
    yield from map(str.rstrip, flowed(text, lead, " " * width(lead), room))


_ESCAPE: Final = re.compile(r"(\x1b\[[0-9;]*m)")


def _parted(line: str, at: int) -> tuple[str, str]:
    """The coloured line before and from this character on."""
    begin = ""
    for each in _ESCAPE.split(line):
        if not _ESCAPE.match(each):
            if len(each) > at:
                break
            at -= len(each)
        begin += each
    else:
        return line, ""
    begin += each[:at]
    return begin, line[len(begin) :]


class Part(NamedTuple):
    """The first lines of a text, and whether there is more of it; then the last of them ends with the ellipsis."""

    lines: list[str]
    is_cut: bool


def flowed_part(text: str, first: str, rest: str, room: int, most: int, ellipsis: str) -> Part:
    """The text as `flowed` has it, in at most so many lines."""
    lines = list(flowed(text, first, rest, room))
    if len(lines) <= most:
        return Part(lines, is_cut=False)
    last = " ".join([lines[most - 1], *(each.strip() for each in lines[most:])])
    return Part([*lines[: most - 1], cut_to(last, room, ellipsis)], is_cut=True)


def flowed_rows(rows: Sequence[Sequence[str]], room: int) -> Iterator[str]:
    """The rows with aligned columns, the last of which is broken under itself; where little is left for it, under the row."""
    widths = [max(map(width, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    widest = sum(widths) + len(_GAP) * len(widths)
    is_narrow = room - widest < _LEAST
    for row in rows:
        cells = [cell + " " * (most - width(cell)) for cell, most in zip(row, widths, strict=False)]
        lead = "".join(f"{cell}{_GAP}" for cell in cells)
        if is_narrow:
            lines = flowed(f"{click.unstyle(lead).strip()} {row[-1]}", "", "    ", room)
        else:
            lines = flowed(row[-1], lead, " " * widest, room)
        yield from map(str.rstrip, lines)


def _parts(word: str, room: int) -> Iterator[str]:
    """The word, or the pieces of one that is wider than a line."""
    if width(word) <= room:
        yield word
        return
    piece, taken, slash = "", 0, 0
    for character in word:
        needed = width(character)
        if piece and taken + needed > room:
            # At the last slash of the line, if that leaves not too little of it.
            end = slash or len(piece)
            yield piece[:end]
            piece = piece[end:]
            taken, slash = width(piece), 0
        piece += character
        taken += needed
        if character == "/":
            slash = len(piece)
    if piece:
        yield piece
