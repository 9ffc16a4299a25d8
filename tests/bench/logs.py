"""Claude Code transcripts to measure with: lines as long as an agent's, different in each file.

What tools give back is cut from this project's own sources, so that it has the line breaks, quotes and letters that real
output has, which a parser pays for.
"""

import os
import random
import subprocess
import time
import uuid
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.handlers.layouts.claude_code_lines import Transcript

_SOURCES = Path(__file__).parents[2]
_DAYS_S = 86_400.0
_KEPT_LINES = 256
"""Lines that are kept before they are written."""


class Log(NamedTuple):
    """A transcript's place, relative to its root, and its bytes."""

    place: str
    size: int


class Writing:
    """A transcript that goes on in a turn which doesn't end until `finish`.

    `results` are the shares (percent) of short, middling and long results of tools.
    """

    def __init__(
        self, file: Path, session: str, seed: int, began: float, results: tuple[int, int, int] = (70, 26, 4)
    ) -> None:
        self._file = file
        self._random = random.Random(seed)
        self._made = Transcript(session=session, now=began)
        self._made.prompt(f"do task {seed}")
        self._call: str | None = None
        self._results = results
        self.size = 0

    def write(self, size: int) -> None:
        """Append until at least so many bytes are there."""
        with self._file.open("ab") as file:
            while self.size < size:
                self._go_on()
                if (
                    len(self._made.lines) >= _KEPT_LINES
                    or self.size + sum(map(len, self._made.lines)) >= size
                ):
                    self.size += file.write(self._taken())

    def write_calls(self, calls: int) -> None:
        """Append this many calls with their results."""
        with self._file.open("ab") as file:
            for _ in range(calls):
                self._go_on()
                if len(self._made.lines) >= _KEPT_LINES:
                    self.size += file.write(self._taken())
            self.size += file.write(self._taken())

    def line(self) -> bytes:
        """A further line, for somebody to append: a call, or its result."""
        if self._call is None:
            self._call = self._made.call(command=self._text(20, 200))
        else:
            self._give_back(self._call)
            self._call = None
        content = self._taken()
        self.size += len(content)
        return content

    def finish(self) -> None:
        """End as `claude -p` does."""
        self._made.text("Done.")
        self._made.last_prompt()
        with self._file.open("ab") as file:
            self.size += file.write(self._taken())

    def _go_on(self) -> None:
        reply = self._made.text(self._text(50, 2_000), stop="tool_use")
        self._give_back(self._made.call(reply=reply, command=self._text(20, 600)))

    def _give_back(self, call: str) -> None:
        """A result stands in its line twice: as the model gets it, and as the program had it."""
        longest = self._random.choices((1_000, 8_000, 60_000), self._results)[0]
        text = self._text(0, longest)
        self._made.result(call, text, toolUseResult={"stdout": text, "stderr": "", "interrupted": False})

    def _text(self, least: int, most: int) -> str:
        pool = _pool()
        length = self._random.randint(least, most)
        start = self._random.randrange(len(pool) - length)
        return pool[start : start + length]

    def _taken(self) -> bytes:
        content = self._made.content()
        self._made.lines.clear()
        return content


def begin(
    root: Path,
    seed: int,
    project: int = 0,
    began: float | None = None,
    results: tuple[int, int, int] = (70, 26, 4),
) -> tuple[Writing, str]:
    """Begin a transcript below a root, by default five days ago; what writes it, and its place."""
    session = str(uuid.UUID(int=random.Random(seed).getrandbits(128), version=4))
    place = f"-home-dev-project-{project}/{session}.jsonl"
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    moment = time.time() - 5 * _DAYS_S if began is None else began
    return Writing(root / place, session, seed, moment, results), place


def make_finished(root: Path, seed: int, size: int, project: int = 0) -> Log:
    """A transcript that ended a month ago."""
    ended = time.time() - 30 * _DAYS_S
    writing, place = begin(root, seed, project, ended - _DAYS_S)
    writing.write(size)
    writing.finish()
    os.utime(root / place, (ended, ended))
    return Log(place, writing.size)


def on_the_disk(root: Path) -> None:
    """Have all be written out before anything is measured."""
    subprocess.run(["sync", "-f", str(root)], check=True)


@cache
def _pool() -> str:
    sources = sorted(
        each for name in ("config", "daemon", "handlers", "docs") for each in (_SOURCES / name).rglob("*")
    )
    return "".join(each.read_text() for each in sources if each.suffix in (".py", ".md", ".sql"))
