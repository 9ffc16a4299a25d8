"""Whether a desktop would show a notice: `notify-send` is there, and on the session's bus a notification service answers.

It is asked who it is (`GetServerInformation` of the Desktop Notifications Specification), which shows nothing. A service that the bus
starts when it is needed is started by that, as by a notice. The bus's own protocol is spoken here, since no program for it is
everywhere: D-Bus Specification 0.43, authentication and message format.
"""

import os
import shutil
import socket
import struct
import time
from collections.abc import Mapping
from typing import Final, Self
from urllib.parse import unquote_to_bytes

PROGRAM: Final = "notify-send"
PATIENCE_S: Final = 2.0

_SERVICE: Final = "org.freedesktop.Notifications"
_BUS: Final = "org.freedesktop.DBus"
_RETURNED, _FAILED = 2, 3
_FIXED: Final = 16
"""Bytes of a message before its header fields."""

_MOST_BYTES: Final = 1 << 16
"""Of a message from the bus. None of these is nearly as long."""

_ENDIAN: Final = {b"l": "<", b"B": ">"}


class _NoAnswer(Exception):
    """Nobody answers, and why."""


def why_no_desktop(environment: Mapping[str, str], patience_s: float = PATIENCE_S) -> str | None:
    """Why no desktop would show a notice now; None if one would. It takes no longer than the patience."""
    if shutil.which(PROGRAM, path=environment.get("PATH")) is None:
        return f"there is no program {PROGRAM}"
    try:
        with _connected(environment, time.monotonic() + patience_s) as bus:
            bus.call(_BUS, "/org/freedesktop/DBus", "Hello")
            bus.call(_SERVICE, "/org/freedesktop/Notifications", "GetServerInformation")
    except _NoAnswer as error:
        return f"no notification service answers: {error}"
    except OSError as error:
        return f"no notification service answers: {error.strerror or 'it takes too long'}"
    return None


class _Connection:
    """A connection to a bus. Every call ends at the deadline."""

    def __init__(self, stream: socket.socket, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline
        self._serial = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def authenticate(self) -> None:
        """Say who is calling; the socket proves it."""
        self._send(b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n")
        said = b""
        while not said.endswith(b"\r\n"):
            said += self._receive(1)
            if len(said) > _FIXED * 16:
                raise _NoAnswer("the bus says something else")
        if not said.startswith(b"OK "):
            raise _NoAnswer("the bus refuses the connection")
        self._send(b"BEGIN\r\n")

    def call(self, service: str, path: str, method: str) -> None:
        """Call a method without parameters, and wait until it returns."""
        self._serial += 1
        fields = b"".join(
            _padded(struct.pack("<BB2sI", code, 1, kind, len(value)) + value.encode() + b"\0")
            for code, kind, value in (
                (1, b"o\0", path),
                (2, b"s\0", service),
                (3, b"s\0", method),
                (6, b"s\0", service),
            )
        )
        # The last field has no padding of its own in the length, but what follows begins at a multiple of eight.
        length = len(fields.rstrip(b"\0")) + 1
        self._send(struct.pack("<cBBBIII", b"l", 1, 0, 1, 0, self._serial, length) + fields)
        while True:
            kind = self._message()
            if kind == _RETURNED:
                return
            if kind == _FAILED:
                raise _NoAnswer("there is none" if service == _SERVICE else "the bus refuses the connection")

    def _message(self) -> int:
        """Read one message, and say of which type it is."""
        fixed = self._receive(_FIXED)
        endian = _ENDIAN.get(fixed[:1])
        if endian is None:
            raise _NoAnswer("the bus says something else")
        kind = fixed[1]
        body, fields = struct.unpack(f"{endian}I", fixed[4:8])[0], struct.unpack(f"{endian}I", fixed[12:])[0]
        if body + fields > _MOST_BYTES:
            raise _NoAnswer("the bus says too much")
        self._receive(fields + -fields % 8 + body)
        return kind

    def _send(self, content: bytes) -> None:
        self._stream.settimeout(self._left())
        self._stream.sendall(content)

    def _receive(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            self._stream.settimeout(self._left())
            more = self._stream.recv(count - len(content))
            if not more:
                raise _NoAnswer("the bus ends the connection")
            content += more
        return content

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 8)


def _connected(environment: Mapping[str, str], deadline: float) -> _Connection:
    why: Exception = _NoAnswer("the environment names no bus")
    for address in _addresses(environment):
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection = _Connection(stream, deadline)
        try:
            stream.settimeout(max(0.0, deadline - time.monotonic()))
            stream.connect(address)
            connection.authenticate()
        except (_NoAnswer, OSError) as error:
            stream.close()
            why = error
        else:
            return connection
    raise why


def _addresses(environment: Mapping[str, str]) -> list[bytes]:
    """The sockets at which the session's bus may be, as notify-send looks for it."""
    named = environment.get("DBUS_SESSION_BUS_ADDRESS")
    if not named:
        runtime = environment.get("XDG_RUNTIME_DIR")
        return [os.path.join(os.fsencode(runtime), b"bus")] if runtime else []
    found = []
    for address in named.split(";"):
        transport, _, rest = address.partition(":")
        keys = dict(each.partition("=")[::2] for each in rest.split(","))
        if transport == "unix" and "path" in keys:
            found.append(unquote_to_bytes(keys["path"]))
        elif transport == "unix" and "abstract" in keys:
            found.append(b"\0" + unquote_to_bytes(keys["abstract"]))
    return found
