"""A part of a bundle, as it is recorded and found. It imports little, because commands start with it."""

import json
from typing import NamedTuple


class Part(NamedTuple):
    """A part of a bundle that has a `temporary` name, in the directory where it will get its `name`."""

    name: str
    size: int
    sha256: str
    temporary: str


def load_parts(text: str) -> tuple[Part, ...]:
    """The parts of a bundle, as a row of the store."""
    return tuple(Part(*each) for each in json.loads(text))
