"""A session bus of our own making, as far as somebody who asks for a notification service can tell."""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

NOTIFICATIONS: Final = "org.freedesktop.Notifications"
_ANSWERS: Final = {"returns": 2, "fails": 3}


@contextmanager
def session_bus(path: Path, does: str = "returns") -> Iterator[dict[str, str]]:
    """A bus at this path, and the variables that name it. Anyone who asks for the service finds that it `returns`, `fails` or is
    `silent`; or the bus `refuses` everybody, or says `nonsense`.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()
        threading.Thread(target=_serve, args=(listening, does), daemon=True).start()
        yield {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={path}"}
        listening.shutdown(socket.SHUT_RDWR)


def _serve(listening: socket.socket, does: str) -> None:
    with suppress(OSError):
        while True:
            stream, _ = listening.accept()
            threading.Thread(target=_answer, args=(stream, does), daemon=True).start()


def _answer(stream: socket.socket, does: str) -> None:
    with stream, stream.makefile("rb") as file, suppress(OSError, struct.error):
        expected = b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n"
        assert file.readline() == expected
        if does == "refuses":
            stream.sendall(b"REJECTED EXTERNAL\r\n")
            return
        if does == "nonsense":
            stream.sendall(b"HTTP/1.1 400 Bad Request\r\n" + b"x" * 10_000)
            return
        stream.sendall(b"OK 1234deadbeef\r\n")
        assert file.readline() == b"BEGIN\r\n"
        while True:
            order, kind, _, version, body, serial, length = struct.unpack("<cBBBIII", file.read(16))
            assert (order, kind, version, body) == (b"l", 1, 1, 0)
            fields = _fields(file.read(length + -length % 8)[:length])
            assert set(fields) == {1, 2, 3, 6}
            if fields[3] == "Hello":
                assert fields[6] == "org.freedesktop.DBus"
                stream.sendall(_message(4, 1, serial, ":1.7") + _message(2, 2, serial, ":1.7"))
                continue
            assert (fields[6], fields[3]) == (NOTIFICATIONS, "GetServerInformation")
            if does == "silent":
                file.read(1)
                return
            stream.sendall(_message(_ANSWERS[does], 3, serial, "a desktop"))


def _fields(content: bytes) -> dict[int, str]:
    """The header fields of a message by their numbers; all of these are texts."""
    found, at = {}, 0
    while at < len(content):
        at += -at % 8
        number, size, kind = struct.unpack_from("<BB2s", content, at)
        assert (size, kind in (b"o\0", b"s\0")) == (1, True)
        (length,) = struct.unpack_from("<I", content, at + 4)
        found[number] = content[at + 8 : at + 8 + length].decode()
        assert content[at + 8 + length] == 0
        at += 9 + length
    return found


def _message(kind: int, serial: int, answers: int, text: str) -> bytes:
    """A message in the other byte order, as some machines write it: its fields are a number and a signature."""
    fields = struct.pack(">BB2sI", 5, 1, b"u\0", answers) + struct.pack(">BB2sB2s", 8, 1, b"g\0", 1, b"s\0")
    body = struct.pack(">I", len(text)) + text.encode() + b"\0"
    header = struct.pack(">cBBBIII", b"B", kind, 0, 1, len(body), serial, len(fields))
    return header + fields + b"\0" * (-len(fields) % 8) + body
