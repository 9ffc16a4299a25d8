"""The daemon's report on where it listens, and where it serves the Studio."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpReport:
    """Where the daemon listens: the URL of its address, and the path of its socket in the file system."""

    address: str | None
    socket: str | None


@dataclass(frozen=True, slots=True)
class StudioReport:
    """Where the daemon serves the Studio: the URL with its own name."""

    address: str
