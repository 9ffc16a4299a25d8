"""Notes whenever a process of Python reaches for the network: each address that it writes to, and each name that it looks up.

A process whose environment has `VARIABLE` begins with it: one that the server forks, and, with `SITE` on PYTHONPATH, one
that such a process starts.
"""

import os
import socket
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Final

VARIABLE: Final = "TESTS_NOTE_REACHING"
"""Names the file that gets a line each time."""

SITE: Final = str(Path(__file__).with_name("noting"))

_WRITES: Final = ("socket.connect", "socket.sendto", "socket.sendmsg")
_LOOKS_UP: Final = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")


def note_if_asked() -> None:
    """Do so if the environment says it, for the rest of this process: a hook can't be taken away."""
    file = os.environ.get(VARIABLE)
    if file:
        sys.addaudithook(lambda event, words: _note(file, event, words))


def _note(file: str, event: str, words: tuple[object, ...]) -> None:
    if event in _WRITES:
        at, address = words
        is_reached = isinstance(at, socket.socket) and at.family in (socket.AF_INET, socket.AF_INET6)
    elif event in _LOOKS_UP:
        address = words[0]
        is_reached = not _is_number(address)
    else:
        return
    if is_reached:
        with open(file, "a") as noted:
            noted.write(f"{event} {address} by {' '.join(sys.orig_argv)[-200:]!r}\n")


def _is_number(host: object) -> bool:
    """Whether it is an address already: it is then only written otherwise."""
    try:
        ip_address(str(host))
    except ValueError:
        return host in (None, "", b"")
    return True
