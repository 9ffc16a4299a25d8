"""What the store says of produced files, held against what agents wrote into them and what lies there now."""

import hashlib
from typing import Final, NamedTuple

from tests.simulation.broken import Broken
from tests.simulation.kernel import Node
from tests.simulation.places import Place, Places
from tests.simulation.universe import Universe

ROWS: Final = (
    "select f.session_key, f.attempt, f.id, f.path, f.size, f.modified_ns, f.sha256, f.problem,"
    " p.value ->> 1, p.value ->> 2, p.value ->> 3 from files f"
    " left join attempts a on a.session_key = f.session_key and a.attempt = f.attempt"
    " left join json_each(a.produced) p on p.value ->> 0 = f.id"
)
"""What was recorded of each file, beside what was verified of it."""


class Look(NamedTuple):
    """A file by its path, size in bytes and time in ns."""

    path: str
    size: int
    modified_ns: int


def check_files(universe: Universe, places: Places) -> None:
    """Every hash is that of something which was written there, and is there where nobody came in between."""
    written = {hashlib.sha256(content).hexdigest() for content in places.delivered}
    for key, attempt, identifier, *row in universe.peek(ROWS):
        recorded, digest, problem, verified = Look(*row[:3]), row[3], row[4], Look(*row[5:])
        name = f"{identifier} of {key}#{attempt}"
        if recorded.path != verified.path:
            raise Broken(f"{name} was recorded as {recorded}, but {verified} was produced")
        if (recorded == verified) != (problem != "changed"):
            raise Broken(f"{name} was produced as {verified}, recorded as {recorded}: {problem}")
        if digest is not None and digest not in written:
            raise Broken(f"{name}: nobody ever wrote anything with the hash {digest}")
        place = places.by_key[key]
        lies = _lies_there(universe, place, recorded)
        if lies is None:
            continue
        if digest not in (None, hashlib.sha256(lies.data).hexdigest()):
            raise Broken(f"{name} is as it was, but has another hash than was recorded")
        # What can't be read time and again is recorded as that: disks fail in some histories.
        if digest is None and problem != "unreadable" and not (place.shaken or place.late):
            raise Broken(f"{name} is there as it was, and was recorded as {problem}")


def _lies_there(universe: Universe, place: Place, recorded: Look) -> Node | None:
    """The file where it still is as it was recorded."""
    path = f"{place.path}/artifacts/{recorded.path}"
    if not universe.kernel.exists(path):
        return None
    node = universe.kernel.node(path)
    return node if (len(node.data), node.modified_ns) == (recorded.size, recorded.modified_ns) else None
