"""An answer that couldn't be had. It imports little, because commands start with it."""

from typing import NamedTuple


class Unreadable(NamedTuple):
    """An answer that couldn't be had, and why. Trying again later may help."""

    why: str
