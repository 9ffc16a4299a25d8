"""How what is wrong with a fleet is worded, for `status`."""

from collections.abc import Sequence
from typing import Final

OF_FLEET: Final = "fleet: "
"""What a problem of the fleet begins with, among those of a host."""

_MOST_NAMED: Final = 20


def named(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
