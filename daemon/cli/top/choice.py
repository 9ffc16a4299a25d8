"""Which rows of `runward top` are shown, and which one is selected: it stays on its session, whatever comes and goes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from runward.daemon.views.rows import Row


class Choice(NamedTuple):
    """The filter and the selected row, by its key; `place` is where it was, for when it is gone."""

    key: str | None = None
    place: int = 0
    filter: str = ""

    def shown(self, rows: Sequence[Row], cells: Callable[[Row], Sequence[str]]) -> list[Row]:
        """The rows in which every word of the filter occurs, as they are shown or as they are called."""
        words = self.filter.lower().split()
        if not words:
            return list(rows)
        return [row for row in rows if all(word in "\n".join(cells(row)).lower() for word in words)]

    def settled(self, rows: Sequence[Row]) -> Self:
        """On its session; if that is gone, on what took its place; on nothing if there is nothing."""
        for place, row in enumerate(rows):
            if row.key == self.key:
                return self._replace(place=place)
        if not rows:
            return self._replace(key=None)
        place = min(self.place, len(rows) - 1)
        return self._replace(key=rows[place].key, place=place)

    def moved(self, rows: Sequence[Row], by: int) -> Self:
        """So many rows further down."""
        if not rows:
            return self
        place = max(0, min(len(rows) - 1, self.settled(rows).place + by))
        return self._replace(key=rows[place].key, place=place)
