"""The page of `runward top`: a line of figures, the list, why the selected row is as it is, and the keys."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import click

from runward.daemon.cli.answering import cause_lines, sentence_lines
from runward.daemon.cli.session.table import columns_of, that_say_something, what_of
from runward.daemon.cli.terminal.output import coloured, width
from runward.daemon.cli.terminal.signs import Terminal
from runward.daemon.cli.terminal.tables import cut_to, flowed, table_lines
from runward.daemon.cli.top.choice import Choice
from runward.daemon.cli.top.looking import Seen
from runward.daemon.views.answers import Answer
from runward.daemon.views.rows import Row
from runward.daemon.views.text import age

_MARKS: Final = ("> ", "  ")
_LEAST_ROWS: Final = 3
"""Rows that the list has at least, before why is shown."""

_LEAST_WHY: Final = 4
_FRAME: Final = 6
"""Lines that are neither rows nor why: the figures, the heads, the keys, and three empty ones."""


class Key(NamedTuple):
    """Keys that do the same: how they are called, also in ASCII, and in a word and in a sentence what they do."""

    name: str
    plain: str
    word: str
    sentence: str


class Shown(NamedTuple):
    """What the page is made of. `line` takes the place of the keys, and of the empty line above them if it is long: a message, or what is being typed."""

    seen: Seen
    rows: list[Row]
    choice: Choice
    line: str | None


def cells_of(row: Row, terminal: Terminal) -> Sequence[str]:
    """The texts of a row, in which a filter looks."""
    return (
        row.state,
        row.id,
        row.key,
        row.purpose or "",
        row.directory or "",
        what_of(row, terminal, has_directory=True),
    )


def page(
    shown: Shown,
    answer: Callable[[Row], Answer | None],
    cleaned: Callable[[str], str],
    keys: Sequence[Key],
    terminal: Terminal,
) -> list[str]:
    """As many lines as the terminal has, none wider than it."""
    last = ["", key_line(keys, terminal)] if shown.line is None else _said(shown.line, terminal)
    room = terminal.rows - _FRAME
    if room < _LEAST_ROWS:
        lines = [headline(shown.seen, terminal), *_list(shown, max(0, terminal.rows - 3), terminal)]
        return [*_filled(lines, terminal.rows - 1, terminal), last[-1]][-terminal.rows :]
    most = (
        room if room < _LEAST_ROWS + _LEAST_WHY else max(_LEAST_ROWS, room - max(_LEAST_WHY, room * 2 // 5))
    )
    rows = _list(shown, min(most, max(1, len(shown.rows))), terminal)
    lines = [headline(shown.seen, terminal), "", *rows, ""]
    return [*_filled([*lines, *_why(shown, answer, cleaned, terminal)], terminal.rows - 2, terminal), *last]


def _said(line: str, terminal: Terminal) -> list[str]:
    """A message in two lines."""
    first, *rest = flowed(line, "", "", terminal.columns)
    if not rest:
        return ["", first]
    return [first, cut_to(" ".join(rest), terminal.columns, terminal.ellipsis)]


def _filled(lines: Sequence[str], count: int, terminal: Terminal) -> list[str]:
    """So many lines. Where there are more, the last one ends with the ellipsis: Enter shows all."""
    if not 0 < count < len(lines):
        return [*lines[:count], *[""] * (count - len(lines))]
    end = terminal.ellipsis
    return [*lines[: count - 1], f"{cut_to(lines[count - 1], terminal.columns - width(end), '')}{end}"]


def headline(seen: Seen, terminal: Terminal) -> str:
    """Whether the daemon runs, how many there are of each state that matters, and what replies of today cost."""
    if not seen.is_up:
        daemon = coloured("failed", "not running")
    elif seen.is_stalled:
        daemon = coloured("failed", "stalled")
    else:
        daemon = "running" if seen.since is None else f"up {age(seen.since, terminal.now)}"
    counts = [
        f"{number} {word}"
        for word in ("waiting", "working", "idle", "unknown")
        if (number := seen.count(word))
    ]
    if seen.failed:
        counts.append(f"{seen.failed} failed")
    line = f"{click.style('Runward', bold=True)}  {daemon}   {'  '.join(counts)}".rstrip()
    spent = seen.used_today or ""
    gap = terminal.columns - width(line) - width(spent)
    return (
        line + " " * gap + spent if spent and gap > 2 else cut_to(line, terminal.columns, terminal.ellipsis)
    )


def _list(shown: Shown, most: int, terminal: Terminal) -> list[str]:
    """The heads, and as many rows as there is room for, among them the selected one, and what waits for a person."""
    if shown.seen.trouble is not None:
        return [cut_to(terminal.text(shown.seen.trouble), terminal.columns, terminal.ellipsis)]
    if not shown.rows:
        nothing = f"nothing matches {shown.choice.filter}" if shown.choice.filter else "no sessions"
        return [cut_to(terminal.text(nothing), terminal.columns, terminal.ellipsis)]
    columns = columns_of(shown.rows, terminal)
    room = terminal.columns - width(_MARKS[0])
    heads, *lines = table_lines(that_say_something(columns), room, terminal.ellipsis)
    chosen = shown.choice.place
    # What waits comes first, and stays in sight however far down the selection is.
    kept = min(sum(row.state == "waiting" for row in shown.rows), most // 2)
    # The selected row is never at the edge, where there is more beyond it.
    first = max(kept, min(chosen - (most - kept) // 2, len(lines) - (most - kept)))
    marked = [
        click.style(_MARKS[0] + click.unstyle(line), bold=True) if number == chosen else _MARKS[1] + line
        for number, line in enumerate(lines)
    ]
    return [_MARKS[1] + heads, *marked[:kept], *marked[first : first + most - kept]]


def _why(
    shown: Shown,
    answer: Callable[[Row], Answer | None],
    cleaned: Callable[[str], str],
    terminal: Terminal,
) -> list[str]:
    if not shown.rows or shown.seen.trouble is not None:
        return []
    told = answer(shown.rows[shown.choice.place])
    if told is None:
        return []
    return [*sentence_lines(told, terminal, cleaned), *cause_lines(told, terminal, cleaned).lines]


def key_line(keys: Sequence[Key], terminal: Terminal) -> str:
    """The keys in a line, as many as fit; the last two, which explain the others and end it, are always there."""
    words = [f"{each.name if terminal.has_utf8 else each.plain} {each.word}".rstrip() for each in keys]
    shown, last = words[:-2], words[-2:]
    while shown and width("  ".join((*shown, *last))) > terminal.columns:
        shown.pop()
    return "  ".join((*shown, *last))


def key_page(keys: Sequence[Key], terminal: Terminal) -> list[str]:
    """What each key does."""
    names = [each.name if terminal.has_utf8 else each.plain for each in keys]
    longest = max(map(width, names))
    lines = [
        f"  {name}{' ' * (longest - width(name))}  {each.sentence}"
        for name, each in zip(names, keys, strict=True)
    ]
    return [cut_to(line, terminal.columns, terminal.ellipsis) for line in lines]
