"""Whether a process that can't be found is dead.

A process number means something only in the PID namespace of one boot of one machine, and a home may be shared with
other machines and with containers. So a missing process proves nothing by itself. It proves death if this machine saw
exactly that process alive, or if a hook from here named it. It also proves death if nobody else can be writing there.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # commands import this page, and most of them need no events
    from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.processes import FIRST_NAMESPACE, NO_TICKS, Whereabouts


class MissingProcess(NamedTuple):
    """A process that a native run names, and that can't be found here by its number.

    `is_ours`: this daemon's own launcher recorded it, or it was seen alive where its number is still valid.
    `has_namespace`: the run names the PID namespace of the number, and that is the daemon's. `is_nowhere` and `is_local`
    as in `Absence`.
    """

    boot_id: str
    is_ours: bool
    has_namespace: bool
    is_nowhere: Callable[[], bool]
    is_local: Callable[[], bool]

    def is_dead(self, here: Whereabouts) -> bool:
        """Whether it can't be alive elsewhere. Hosts may share a directory, and a name: only a boot is one of a kind."""
        is_of_this_boot = self.boot_id == here.boot_id != ""
        if self.is_ours or (is_of_this_boot and self.has_namespace):
            return True
        if here.namespace != FIRST_NAMESPACE:
            return False
        return self.is_nowhere() if is_of_this_boot else self.is_local()


class Absence(NamedTuple):
    """What this machine can say about the processes that a session's files name, none of which it finds.

    `named` is empty if the files name none, like a lock that nobody holds. `is_in_first_namespace`: all processes of the
    machine have a number here. `is_local`: only this machine's kernel writes the file system with the files.
    `is_nowhere`: no process of the machine has that start with that number in any namespace.
    """

    named: "tuple[RecordedProcess, ...]"
    is_in_first_namespace: bool
    is_local: bool
    is_nowhere: bool

    def proves_death(self, *, grew_elsewhere: bool) -> bool:
        """Whether nobody else can be writing. `grew_elsewhere`: a session in that home grew without a process here."""
        return self.is_in_first_namespace and self.is_local and self.is_nowhere and not grew_elsewhere

    def is_about(self, known: "Sequence[RecordedProcess]") -> bool:
        """Whether each process that the files name is one of these."""
        return all(any(is_same(each, process) for process in known) for each in self.named)


def is_same(named: "RecordedProcess", known: "RecordedProcess") -> bool:
    """Whether a file names this process: maybe by its number in another namespace, and without its boot."""
    if named.start_ticks == NO_TICKS:
        return named.pid == known.pid
    return named.start_ticks == known.start_ticks
