"""What is watched in addition to the roots."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class WatchedDirectories:
    """Directories that the watcher watches for somebody else, flat, and whom it notifies of a change there."""

    paths: frozenset[str] = frozenset()
    changed: Callable[[], None] = lambda: None
