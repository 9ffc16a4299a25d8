"""What a session's files say about its calls, from the beginning, with whatever could not be read in its place."""

from collections.abc import Callable, Iterator

from runward.daemon.ports.files import CannotReadNow
from runward.daemon.rundir.call_reading import CallReading
from runward.handlers.bundle.calls import Place, Told, Unusable


def told_by(layout: str, path: str, go_on: Callable[[int], bool], *, waits: bool = False) -> Iterator[Told]:
    """What the files of the session at `path` say, in their order; what could not be read comes last.

    `go_on` gets the number of bytes of each piece that is read, whether or not anything in it is about a call, and says
    whether to continue. Raises `Halted` if it says no.
    With `waits` it raises `CannotReadNow` if a later try may read more.
    """
    reading = CallReading(layout, path, go_on)
    yield from reading.told()
    if waits and reading.may_pass is not None:
        raise CannotReadNow(reading.may_pass)
    for each in reading.obstacles:
        yield Unusable(Place(each.file, 0, 0, 0), each.message)
