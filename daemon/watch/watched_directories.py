"""Directories that are watched in addition to the roots."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class WatchedDirectories:
    """Directories that the watcher watches flat for another part, and the function to call after a change there."""

    paths: frozenset[str] = frozenset()
    changed: Callable[[], None] = lambda: None
