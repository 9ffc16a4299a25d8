"""Regular expressions whose time is linear in the text, whatever both are: RE2's.

For texts that agents wrote, and expressions that an operator did. RE2 has no look-around and no back references.
"""

from functools import cache
from typing import Protocol, cast


class BadPattern(ValueError):
    """A regular expression that RE2 doesn't take."""


class LinearPattern(Protocol):
    """As much of a compiled expression as is used; the package has no types."""

    def search(self, text: str) -> object | None:
        """The first match, or None."""
        ...

    def sub(self, repl: str, text: str) -> str:
        """The text with each match replaced."""
        ...


@cache
def compiled(pattern: str) -> LinearPattern:
    """The expression in RE2's syntax. Raises `BadPattern`."""
    import re2  # loaded where something is looked for: most commands never need it

    options = re2.Options()
    options.log_errors = False
    try:
        return cast("LinearPattern", re2.compile(pattern, options))
    except re2.error as error:
        said = error.args[0] if error.args else error
        raise BadPattern(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from None
    except UnicodeEncodeError:
        raise BadPattern("it holds half a character") from None
