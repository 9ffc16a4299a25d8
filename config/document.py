"""A document as plain data that still knows the place of each of its values; and strict JSON."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple, NoReturn, TypeVar

from runward.config.json_value import MAX_BYTES, MAX_INTEGER, JsonValue, not_plain
from runward.config.problem import (
    MAX_PROBLEMS,
    Complaint,
    Location,
    Parsed,
    Place,
    Problem,
    has_errors,
    quoted,
)

PLAYBOOK_SUFFIX: Final = ".playbook.yaml"
AGENT_SUFFIX: Final = ".md"
CHAIN_SUFFIX: Final = ".yaml"
# Not in the modules of these documents: commands that only list names import none of those.

T = TypeVar("T")


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
        """Where the value at `loc` is, or its key. None if the document has no places."""
        # Parts that the document doesn't have are skipped: a missing value is best shown at the table that it is missing from.
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
        # "error" sorts before "warning". Many warnings must not push out the error that makes the text unusable.
        kept = sorted(complaints, key=lambda complaint: complaint.severity)[:MAX_PROBLEMS]
        problems = [self.problem(complaint) for complaint in kept]
        return tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))

    def parsed(self, value: T | None, complaints: Iterable[Complaint]) -> Parsed[T]:
        """What was read from this document, with the complaints about it. No value if one of them is an error."""
        problems = self.problems(complaints)
        return Parsed(None if has_errors(problems) else value, problems)


def name_from_file(file: str, suffixes: Iterable[str]) -> str:
    """What a document that states no name is called: its file's name without one of the suffixes."""
    base = file.rsplit("/", 1)[-1]
    for suffix in suffixes:
        if base.endswith(suffix) and base != suffix:
            return base.removesuffix(suffix)
    return base


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


_MAX_DIGITS: Final = 400


def read_json(text: str, name: str) -> Parsed[Document]:
    """The JSON in `text`, which came from `name`, or what is wrong with it. It has no places. Never raises."""
    import json  # settings without a file don't need it

    if len(text) > MAX_BYTES:
        return refused(name, f"is larger than {MAX_BYTES >> 20} MiB", "split it")
    try:
        root = json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=_table,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=float,
        )
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg}"
        return Parsed(None, (Problem(name, error.lineno, error.colno, message, "write it as JSON"),))
    except _RefusedError as error:
        return refused(name, str(error), "write each key once and finite numbers only")
    except RecursionError:
        return refused(name, "is nested too deeply to be read", "nest less")
    document = Document(name, root, {})
    faults = list(islice(not_plain(root), MAX_PROBLEMS))
    return Parsed(None, document.problems(faults)) if faults else Parsed(document)


class _RefusedError(Exception):
    """JSON that Python's reader would accept, but that is ambiguous."""


def _table(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in table if keys.count(key) > 1)
        raise _RefusedError(f"key {quoted(twice)} appears twice")
    return table


def _constant(word: str) -> NoReturn:
    raise _RefusedError(f"{word} is not JSON")


def _integer(digits: str) -> int:
    # Reading digits takes the square of their number, and this many are too large anyway.
    return int(digits) if len(digits) <= _MAX_DIGITS else MAX_INTEGER + 1


def refused(name: str, message: str, fix: str) -> Parsed[Document]:
    """A document that can't be read at all, and why."""
    return Parsed(None, (Problem(name, None, None, message, fix),))
