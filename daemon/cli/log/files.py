"""The daemon's log in the state directory: `log/runward.jsonl`, and before it the rotated files."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from runward.config.json_value import JsonValue
from runward.daemon.cli.terminal import following
from runward.daemon.log.daemon_log import LOG, SET_ASIDE, aside
from runward.daemon.rundir.tailing import Line, Tail


class LogFiles:
    """The files of one state directory, read from the oldest line on and then as they grow."""

    def __init__(self, state_dir: str) -> None:
        self._path = Path(state_dir, LOG)
        self._newest: Tail | None = None

    @property
    def is_there(self) -> bool:
        return self._path.exists()

    def so_far(self) -> Iterator[dict[str, JsonValue]]:
        """What they say up to now."""
        yield from _values(self._lines_so_far())

    def added(self) -> Iterator[dict[str, JsonValue]]:
        """What was added since the last call of this or of `so_far`."""
        if self._newest is None:
            self._newest = self._open(0)
        if self._newest is not None:
            yield from _values(self._newest.lines())
            while self._newest.moved_on():
                yield from _values(self._newest.lines())

    def _lines_so_far(self) -> Iterator[Line]:
        # From the newest on, as files only ever grow older: a file rotated meanwhile is met twice, and not missed.
        tails = [self._open(number) for number in range(SET_ASIDE + 1)]
        self._newest = tails[0]
        seen = {tails[0].identity} if tails[0] is not None else set()
        older: list[Tail] = []
        for tail in tails[1:]:
            if tail is not None and tail.identity not in seen:
                seen.add(tail.identity)
                older.append(tail)
        for tail in reversed(older):
            yield from following.once(tail, None)
            tail.close()
        if self._newest is not None:
            yield from self._newest.lines()

    def _open(self, number: int) -> Tail | None:
        path = aside(self._path, number)
        try:
            return Tail(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return None


def _values(lines: Iterable[Line]) -> Iterator[dict[str, JsonValue]]:
    """The values in the lines; a line that a full disk tore has none."""
    for line in lines:
        try:
            value = json.loads(line.content)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value
