"""The answer when the world could not be read, which is never the same as nothing. It imports nothing of ours."""

from typing import NamedTuple


class Unreadable(NamedTuple):
    """An answer that couldn't be had, and why. Trying again later may help."""

    why: str
