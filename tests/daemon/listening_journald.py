"""Somebody who listens where journald would, and reads entries as its protocol's page tells."""

import socket
import struct
from pathlib import Path


class Journald:
    """Somebody who listens where journald would."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "journal"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.setblocking(False)

    def entries(self) -> list[dict[str, list[str]]]:
        """What came since the last call."""
        found = []
        while True:
            try:
                found.append(decoded(self.socket.recv(1 << 20)))
            except BlockingIOError:
                return found


def decoded(entry: bytes) -> dict[str, list[str]]:
    """An entry's fields, read as the protocol's page tells."""
    fields: dict[str, list[str]] = {}
    while entry:
        head, _, entry = entry.partition(b"\n")
        name, equals, value = head.partition(b"=")
        if not equals:
            (length,) = struct.unpack("<Q", entry[:8])
            value, newline, entry = entry[8 : 8 + length], entry[8 + length : 9 + length], entry[9 + length :]
            assert newline == b"\n"
        assert name
        assert not name.startswith(b"_")
        assert len(name) <= 64
        assert all(each in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_" for each in name)
        fields.setdefault(name.decode(), []).append(value.decode())
    return fields
