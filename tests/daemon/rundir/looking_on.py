"""Somebody who looks at one session again and again, with nothing but what is stored in between."""

import json
import time
from pathlib import Path

from runward.config.json_value import JsonValue
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.session_files import NOTHING_READ
from runward.daemon.rundir.session_reading import SessionSight, look_at_session
from runward.daemon.watch.remembered import Remembered, dump_remembered, load_remembered
from runward.handlers.layouts.layout import DirectoryLayout, LogLayout
from runward.handlers.model.files import Unreadable

LONG_AFTER = 1000.0
"""Seconds after which everything that a test wrote counts as settled."""


class Onlooker:
    """`lines` and `documents` are all that was given since the session was last read anew, by file."""

    def __init__(self, root: Path, place: str, layout: LogLayout | DirectoryLayout) -> None:
        self.root, self.place, self.layout = root, place, layout
        self.known = NOTHING_READ
        self.lines: dict[str, list[bytes]] = {}
        self.documents: dict[str, list[bytes]] = {}

    def answer(
        self, *, most_bytes: int = 4 << 20, now: float | None = None
    ) -> SessionSight | Unreadable | Gone:
        """One look, as it was answered; nothing is kept of it."""
        at = time.time() + LONG_AFTER if now is None else now
        return look_at_session(str(self.root), self.place, self.layout, self.known, most_bytes, at)

    def look(self, *, most_bytes: int = 4 << 20, now: float | None = None) -> SessionSight:
        """One look at what is there, and all it gave is kept."""
        sight = self.answer(most_bytes=most_bytes, now=now)
        assert isinstance(sight, SessionSight), sight
        self.known = load_remembered(dump_remembered(Remembered("runs", self.place, read=sight.read))).read
        assert self.known == sight.read
        if sight.anew:
            self.lines, self.documents = {}, {}
        for document in sight.documents:
            self.documents.setdefault(document.name, []).append(document.content)
        for portion in sight.portions:
            kept = self.lines.setdefault(portion.name, [])
            if portion.lines[0].number == 1:
                kept.clear()  # a log that comes and goes came again
            assert [line.number for line in portion.lines] == list(
                range(len(kept) + 1, len(kept) + 1 + len(portion.lines))
            )
            kept += [line.content for line in portion.lines]
        return sight

    def all(self, *, most_bytes: int = 4 << 20, now: float | None = None) -> SessionSight:
        """Looks until there is no more."""
        anew = False
        for _ in range(100_000):
            sight = self.look(most_bytes=most_bytes, now=now)
            anew = anew or sight.anew
            if not sight.more:
                return sight._replace(anew=anew)
        raise AssertionError("there is always more")


def lines(*records: dict[str, JsonValue]) -> bytes:
    """Records as the lines of a log."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def append(path: Path, content: bytes) -> None:
    """Write more to a file."""
    with path.open("ab") as file:
        file.write(content)
