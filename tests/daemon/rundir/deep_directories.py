"""Directories below each other, deeper than a path may be long."""

import os
from pathlib import Path


def dig(directory: Path, depth: int) -> str:
    """Directories called `d`, each in the one before, with an empty file in the last; the way to the file."""
    place = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=place))
    os.close(place)
    return "d/" * depth + "file"
