"""Roots that lead to the same directory, or into one another, through links or mounts, whatever their paths say."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from runward.config.problem import Problem
    from runward.config.settings import Settings

    Identity: TypeAlias = tuple[int, int]


def overlapping_roots(settings: Settings) -> Iterator[Problem]:
    """A problem for each pair of roots that overlap on the disk, and for each that overlaps the state directory."""
    ways = {root.name: _way_to(root.path) for root in settings.roots}
    paths = {root.name: root.path for root in settings.roots}
    earlier: list[str] = []
    for name, way in ways.items():
        for other in earlier:
            if _overlap(way, ways[other]):
                told = f"{paths[name]!r} is, contains or is inside the root {other!r}, {paths[other]!r}"
                yield _problem(settings, name, told, "watch each directory through one root only")
        earlier.append(name)
    state = _way_to(settings.state_dir)
    for name, way in ways.items():
        if _overlap(way, state) and not _is_own_root(paths[name], settings.state_dir):
            told = f"{paths[name]!r} is, contains or is inside the state directory, {settings.state_dir!r}"
            yield _problem(settings, name, told, "keep Runward's own state out of the roots")


def _way_to(path: str) -> list[Identity | None]:
    """The directories from the file system's root down to `path`, by device and inode; None if it doesn't exist."""
    place = os.path.realpath(path)
    way: list[Identity | None] = []
    while True:
        try:
            status = os.stat(place)
        except OSError:
            way.append(None)
        else:
            way.append((status.st_dev, status.st_ino))
        if place == os.path.dirname(place):
            return way[::-1]
        place = os.path.dirname(place)


def _overlap(way: list[Identity | None], other: list[Identity | None]) -> bool:
    return (way[-1] is not None and way[-1] in other) or (other[-1] is not None and other[-1] in way)


def _is_own_root(path: str, state_dir: str) -> bool:
    from runward.config.root_rules import is_own_root

    path, state_dir = os.path.realpath(path), os.path.realpath(state_dir)
    return path.startswith(f"{state_dir}/") and is_own_root(path, state_dir)


def _problem(settings: Settings, name: str, message: str, fix: str) -> Problem:
    return settings.problem(f"roots.{name}", f"roots: {message}", fix)
