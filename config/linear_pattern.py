"""Regular expressions whose time is linear in the text, whatever the two are: RE2's.

For texts that agents wrote, and expressions that an operator wrote. RE2 has no look-around and no back references.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol, cast, overload


class BadPattern(ValueError):
    """A regular expression that RE2 doesn't take."""


class LinearMatch(Protocol):
    """The part of a match in UTF-8 that is used. Group 0 is the whole match."""

    def __getitem__(self, group: int) -> bytes: ...

    def groups(self) -> Sequence[bytes | None]:
        """The groups from 1 on; None for each that takes no part in the match."""
        ...

    def start(self, group: int = 0) -> int:
        """Where the group begins in the text."""
        ...

    def end(self, group: int = 0) -> int:
        """Where the group ends in the text."""
        ...


class LinearPattern(Protocol):
    """The part of a compiled expression that is used; the package has no types."""

    @overload
    def sub(self, repl: str, text: str) -> str: ...

    @overload
    def sub(self, repl: Callable[[LinearMatch], bytes], text: bytes) -> bytes: ...

    def sub(self, repl: Any, text: Any) -> Any:
        """The text, or its UTF-8, with each match replaced."""
        ...


class LinearPatterns(Protocol):
    """Several expressions that are searched for at once."""

    def Match(self, text: str | bytes) -> Sequence[int] | None:
        """Which of them are in the text, by their numbers from 0 on. None if none is."""
        ...


@cache
def compiled(pattern: str) -> LinearPattern:
    """The expression in RE2's syntax. Raises `BadPattern`."""
    import re2  # loaded only for a search: most commands never need it

    options = re2.Options()
    # RE2 would write a bad pattern to stderr.
    options.log_errors = False
    try:
        return cast("LinearPattern", re2.compile(pattern, options))
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise BadPattern(
            reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        ) from None
    except UnicodeEncodeError:
        raise BadPattern("it contains half a character") from None


@cache
def compiled_together(patterns: tuple[str, ...]) -> LinearPatterns:
    """The expressions, each of which `compiled` accepts, as one."""
    import re2

    options = re2.Options()
    options.log_errors = False
    # The question is only which ones match, and without groups the search is faster.
    options.never_capture = True
    together = re2.Set.SearchSet(options)
    for pattern in patterns:
        together.Add(pattern)
    together.Compile()
    return cast("LinearPatterns", together)
