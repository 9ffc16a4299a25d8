"""The lives of a store: one ends where a backup is put in its place. What is gone with it is kept here for the laws."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any, Final

from tests.simulation.kernel import Node

LINES: Final = (
    "select l.directory, l.name, coalesce(a.content, l.content) from journal_lines l"
    " left join adopted_lines a on a.id = l.id where l.content is not null"
)
"""Our lines as they stand, or are to stand, in each journal."""

_HOW_LATE: Final = ("hash", "ts", "t", "basis")
"""What the same fact may be told with otherwise when it is told again."""

Told = dict[tuple[str, str], Counter[str]]
"""How often each fact is told in each journal."""


class Lives:
    """What the store forgot at each restore.

    `told` are the lines that were owed in the lives that are over, `journals` those that had lines by then, `starts` the
    keys of the starts that were known.
    """

    def __init__(self) -> None:
        self.over = 0
        self.told: list[Told] = []
        self.journals: list[Node] = []
        self.starts: set[str] = set()

    def end(self, rows: list[tuple[Any, ...]], journals: Collection[Node], starts: Collection[str]) -> None:
        """A life is over, in which these `rows` of `LINES` were owed."""
        self.over += 1
        self.told.append(tellings(rows))
        self.journals += journals
        self.starts |= set(starts)


def tellings(rows: list[tuple[Any, ...]]) -> Told:
    """How often the lines of these rows tell each fact."""
    found: Told = defaultdict(Counter)
    for directory, name, content in rows:
        found[directory, name].update(map(fact, content.splitlines()))
    return found


def fact(line: bytes) -> str:
    """What a line of ours says, however late it was noticed."""
    value = json.loads(line)
    return json.dumps(
        [value] if not isinstance(value, dict) else {k: v for k, v in value.items() if k not in _HOW_LATE}
    )
