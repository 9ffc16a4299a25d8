"""Machines of a fleet: each has a home of its own."""

import shlex
from pathlib import Path

from tests.daemon.cli.calling import Place


def new_place(directory: Path) -> Place:
    """A machine on which nothing ran yet."""
    directory.mkdir()
    made = Place(directory)
    made.furnish()
    return made


def invited(office: Place, name: str, *options: str) -> str:
    """The invitation of a host."""
    told = office.call("fleet", "invite", name, *options)
    assert told.code == 0, told.err
    words = shlex.split(told.out)
    assert words[:3] == ["runward", "fleet", "join"]
    return words[3]


def joined(office: Place, place: Place, name: str) -> Place:
    """The place, which has joined under this name."""
    told = place.call("fleet", "join", invited(office, name))
    assert told.code == 0, told.err
    return place
