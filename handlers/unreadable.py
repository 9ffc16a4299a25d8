"""The answer when something could not be read. It never means the same as an empty answer. Imports nothing of Runward."""

from typing import NamedTuple


class Unreadable(NamedTuple):
    """An answer that couldn't be had, and why. Trying again later may help."""

    why: str
