"""A document that somebody wrote, as plain data that still knows the place of each of its values."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import MAX_PROBLEMS, Complaint, Location, Place, Problem


class Mark(NamedTuple):
    """Where a value is, and where its key is if it has one."""

    value: Place
    key: Place | None = None


class Document(NamedTuple):
    """A parsed text: `root` is its plain data, `name` the file it came from."""

    name: str
    root: JsonValue
    marks: Mapping[Location, Mark]

    def place(self, loc: Location, key: bool = False) -> Place | None:
        """Where the value at `loc` is, or its key. None if the document has no places.

        Parts that the document doesn't have are skipped: pydantic puts a union's tag among them, and a
        missing value is best shown at the table it is missing from.
        """
        known: Location = ()
        for part in loc:
            known = (*known, part) if (*known, part) in self.marks else known
        mark = self.marks.get(known)
        if mark is None:
            return None
        missing = not loc or known[-1:] != loc[-1:]
        return mark.key if mark.key is not None and (key or missing) else mark.value

    def problem(self, complaint: Complaint) -> Problem:
        """The complaint with its place in this document."""
        return complaint.problem(self.name, self.place(complaint.loc, complaint.at_key))

    def problems(self, complaints: Iterable[Complaint]) -> tuple[Problem, ...]:
        """The complaints with their places, in the order of the text. Of too many, errors are kept before warnings."""
        found = sorted(complaints, key=lambda complaint: complaint.severity)[:MAX_PROBLEMS]
        problems = [self.problem(complaint) for complaint in found]
        return tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))


class Lines:
    """Turns an offset in a text into its line and column, as editors count them."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        position = text.find("\n")
        while position != -1:
            self._starts.append(position + 1)
            position = text.find("\n", position + 1)

    def place(self, offset: int) -> Place:
        """Line and column, both from 1, of the character at `offset`."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1
