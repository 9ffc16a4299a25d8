"""What begins to wait for a person while `runward top` is open."""

from collections.abc import Sequence

from runward.daemon.views.rows import Row


class Waiting:
    """Tells of each wait once. What waits at the first look is on the screen already."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str | None]] | None = None

    def began(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that wait now and did not at the last look. A chain run that asks for another step waits anew."""
        waiting = [row for row in rows if row.state == "waiting"]
        known, self._known = self._known, {(row.key, row.approval) for row in waiting}
        return [] if known is None else [row for row in waiting if (row.key, row.approval) not in known]
