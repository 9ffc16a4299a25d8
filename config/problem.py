"""What is wrong with a text, where, and how to fix it.

Every reader of this package returns a `Parsed`: the typed value, or all complaints at once. Nothing here
reads, prints or raises.
"""

from collections.abc import Iterable
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

Location: TypeAlias = tuple[str | int, ...]
"""The way from a document's root to a value: keys and zero-based indices."""

Place: TypeAlias = tuple[int, int]
"""Line and column, both from 1, the column in characters."""

Severity: TypeAlias = Literal["error", "warning"]

MAX_QUOTED = 60
_MOST_DIGITS: Final = 300
"""A whole number with more digits may not fit into a float."""
MAX_PROBLEMS = 100
"""A reader stops after this many complaints: nobody fixes more at once, and a hostile file can have any number."""


class Problem(NamedTuple):
    """One complaint. `line` and `column` count from 1 and are None where the text has no such place."""

    file: str
    line: int | None
    column: int | None
    message: str
    fix: str | None
    severity: Severity = "error"

    def render(self) -> str:
        """`file:line:column: message (fix)`, on one line and safe for a terminal."""
        place = "".join(f":{number}" for number in (self.line, self.column) if number is not None)
        warning = "warning: " if self.severity == "warning" else ""
        fix = f" ({self.fix})" if self.fix else ""
        return printable(f"{self.file}{place}: {warning}{self.message}{fix}")


class Complaint(NamedTuple):
    """A problem before its place is looked up: `loc` leads to the value, or to its key if `at_key`."""

    loc: Location
    message: str
    fix: str | None
    severity: Severity = "error"
    at_key: bool = False

    def problem(self, file: str, place: Place | None = None) -> Problem:
        """The complaint as a problem of `file`. Its message begins with the value's dotted name."""
        line, column = place if place is not None else (None, None)
        where = dotted(self.loc)
        message = f"{where}: {self.message}" if where else self.message
        return Problem(
            file=file, line=line, column=column, message=message, fix=self.fix, severity=self.severity
        )


class TextError(ValueError):
    """A text is not what it should be. The message says why, `fix` what to write instead."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix

    def complaint(self, loc: Location, text: str) -> Complaint:
        """The complaint about this text, which begins with it."""
        return Complaint(loc, f"{quoted(text)} {self}", self.fix)


class Parsed(NamedTuple, Generic[T]):
    """What a reader made of a text. `value` is None exactly when some problem is an error."""

    value: T | None
    problems: tuple[Problem, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that made the text unusable."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems despite which the text can be used."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")


def has_errors(problems: Iterable[Problem | Complaint]) -> bool:
    """Whether any of them is an error and not just a warning."""
    return any(problem.severity == "error" for problem in problems)


def dotted(loc: Location) -> str:
    """A location as people write it: `artifacts.expected[0].path`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{_key(part)}" for part in loc]
    return "".join(parts).removeprefix(".")


def quoted(value: object) -> str:
    """A foreign value for a message: quoted, escaped, and short however long it is."""
    match value:
        case str():
            shown = value if len(value) <= MAX_QUOTED else value[:MAX_QUOTED] + "…"
            return repr(shown)
        case bool():
            return "true" if value else "false"
        # Formatting makes a float of a whole number, and a larger one would raise OverflowError.
        case int() if abs(value) >= 10**_MOST_DIGITS:
            return f"a number of more than {_MOST_DIGITS} digits"
        case int() | float():
            return f"{value:.15g}" if abs(value) < float("inf") else str(value)
        case _:
            return kind(value)


def kind(value: object) -> str:
    """The type of a foreign value, in the words of those who write YAML, TOML and JSON."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "a table of keys"
        case _:
            return f"a {type(value).__name__}"


def printable(text: str) -> str:
    """The text, with escapes for everything that could control a terminal (or break a line)."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


SLIP: Final = 0.8
"""How similar a key and a known one must be to count as a typo, and not as another tool's key."""


def one_line(text: str) -> str:
    """A foreign text as nothing but text: without breaks, controls, and what is invisible or turns the order around."""
    return "".join(each for each in " ".join(text.split()) if each.isprintable())


def shortened(text: str, most: int) -> str:
    """The text in at most so many characters; one that is cut says so."""
    return text if len(text) <= most else f"{text[: most - 1]}…" if most > 0 else ""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that `word` was probably meant to be; `cutoff` is how alike they must be, at most 1."""
    from difflib import get_close_matches  # 2 ms, only after a mistake

    # The word is foreign and may be very long, and the comparison takes the square of its length.
    matches = get_close_matches(word[:MAX_QUOTED], list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def extra_key(loc: Location, known: Iterable[str]) -> Complaint:
    """The complaint about a key that may belong to another tool: an error if it is nearly one of the known keys."""
    known = tuple(known)
    is_a_slip = nearest(str(loc[-1]), known, cutoff=SLIP) is not None
    return unknown_key(loc, known, "error" if is_a_slip else "warning")


def unknown_key(loc: Location, known: Iterable[str], severity: Severity = "error") -> Complaint:
    """The complaint about the key at the end of `loc`, with the nearest of the known ones as its fix."""
    known = tuple(known)
    guess = nearest(str(loc[-1]), known)
    fix = f"did you mean '{guess}'?" if guess else f"known here: {', '.join(known)}"
    return Complaint(loc, "unknown key", fix, severity, at_key=True)


def wrong_kind(loc: Location, value: object, wanted: str, fix: str) -> Complaint:
    """The complaint about a value that is not even of the right kind."""
    return Complaint(loc, f"must be {wanted}, not {kind(value)}", fix)


def unknown_field(name: str, loc: Location, whose: str, known: Iterable[str]) -> Complaint:
    """The complaint about a text that names a field which `whose` doesn't have."""
    known = tuple(known)
    guess = nearest(name, known)
    fix = f"did you mean {guess!r}?" if guess else f"known here: {', '.join(known)}"
    return Complaint(loc, f"{whose} has no field {quoted(name)}", fix)


def _key(key: str) -> str:
    plain = key.replace("-", "").replace("_", "")
    return key if plain.isascii() and plain.isalnum() and len(key) <= MAX_QUOTED else quoted(key)


def counted(count: int, one: str, more: str) -> str:
    """The number with the noun for one, or with that for none or several."""
    return f"{count:,} {one if count == 1 else more}"
