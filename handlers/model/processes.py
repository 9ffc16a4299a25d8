"""Processes as files, hooks and launchers name them, and where their numbers are valid.

It imports little, because commands start with it.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

ProcessState: TypeAlias = Literal["alive", "gone", "unknown"]
"""What is known about a process that writes a session's files."""


class RecordedProcess(NamedTuple):
    """A process as a run's own file names it: by pid, start time (clock ticks) and boot.

    A launcher that may carry out several runs, one after the other, belongs to this one while it holds its `ticket`, the
    name of a file in the state directory.
    """

    pid: int
    start_ticks: int
    boot_id: str
    ticket: str = ""


_TICKET: Final = frozenset("0123456789abcdef")
_TICKET_LENGTH: Final = 32


def is_ticket(name: str) -> bool:
    """Whether this can be the name of a ticket."""
    return len(name) == _TICKET_LENGTH and _TICKET.issuperset(name)


FIRST_NAMESPACE: Final = 0xEFFFFFFC
"""The inode of a machine's first PID namespace, in which each of its processes has a number (PROC_PID_INIT_INO)."""


NO_TICKS: Final = 0
"""The start of a process whose file doesn't name it."""


class Whereabouts(NamedTuple):
    """Where process numbers are valid: a machine (its machine id, or ""), a boot, and a PID namespace (its inode).

    A namespace is None in the notes of older hooks, which don't say where they ran: they count as from here.
    """

    machine: str
    boot_id: str
    namespace: int | None

    def covers(self, here: "Whereabouts") -> bool:
        """Whether a process that was found by its number here has ended if it can't be found by it in `here`.

        Machines that start from one image may have the same machine id, and other namespaces don't outlive a boot: so
        after another boot only the first namespace counts.
        """
        if self.namespace is None or here.namespace is None:
            return here.namespace == FIRST_NAMESPACE
        if self.boot_id == here.boot_id != "":
            return self.namespace == here.namespace
        is_same = self.machine == here.machine and self.machine != ""
        return is_same and self.namespace == here.namespace == FIRST_NAMESPACE


_NAMESPACE: Final = "/pid:"
"""Separates a host's name, which has no slash, from the PID namespace there in which processes are numbered."""


def host_with_namespace(host: str | None, namespace: int | None) -> str | None:
    """The host with its PID namespace. None if no host is named."""
    return host if host is None or namespace is None else f"{host}{_NAMESPACE}{namespace}"


def has_namespace(host: str | None) -> bool:
    """Whether the host is named with a PID namespace."""
    return host is not None and _NAMESPACE in host


def bare_host(host: str) -> str:
    """The host without its PID namespace."""
    return host.partition(_NAMESPACE)[0]


def is_here(host: str | None, here: str) -> bool:
    """Whether processes of this host and namespace have the numbers that are used here. If it isn't named, they do."""
    return host is None or host in (here, bare_host(here))


class RunPlace(NamedTuple):
    """A run directory as it is: its owner's uid, which one it is, and why no note could be left in it."""

    owner: int
    device: int
    inode: int
    problem: str | None = None
