"""The sockets that the daemon listens on: opened before it says that it is ready."""

import errno
import os
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.listening import SocketPath, TcpAddress, address_of

BACKLOG: Final = 64
"""Connections that may wait until they are accepted."""


class CannotListen(Exception):
    """An address can't be listened on, or what is needed for listening is missing; the message says what to do."""


class Opened(NamedTuple):
    """Sockets that listen: the TCP addresses as URLs, and the paths in the file system."""

    sockets: tuple[socket.socket, ...]
    urls: tuple[str, ...]
    paths: tuple[str, ...]

    @property
    def url(self) -> str | None:
        """The first TCP address."""
        return next(iter(self.urls), None)

    @property
    def path(self) -> str | None:
        """The first path."""
        return next(iter(self.paths), None)

    def close(self) -> None:
        """Close them, and remove those in the file system. Anyone who served them may have closed them already."""
        for each in self.sockets:
            each.close()
        for path in self.paths:
            _remove(path)


def open_sockets(addresses: Sequence[str]) -> Opened:
    """Listen on all of these addresses, or on none. Raises `CannotListen`."""
    sockets: list[socket.socket] = []
    urls: list[str] = []
    paths: list[str] = []
    try:
        for text in addresses:
            address = address_of(text)
            assert address is not None, "the settings were checked"
            if isinstance(address, TcpAddress):
                sockets.append(_tcp(address))
                urls.append(address._replace(port=sockets[-1].getsockname()[1]).url)
            else:
                sockets.append(_in_file_system(address))
                paths.append(address.path)
    except OSError as error:
        Opened(tuple(sockets), (), tuple(paths)).close()
        raise CannotListen(_why_not(text, error, "http.listen")) from error
    return Opened(tuple(sockets), tuple(urls), tuple(paths))


def open_tcp(address: TcpAddress, setting: str) -> socket.socket:
    """Listen on this address. `setting` is what says so. Raises `CannotListen`."""
    try:
        return _tcp(address)
    except OSError as error:
        raise CannotListen(_why_not(address.url.removeprefix("http://"), error, setting)) from error


def _tcp(address: TcpAddress) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if made.family == socket.AF_INET6:
            # Else `::` would take the address of IPv4 as well, which the settings may name separately.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address.host, address.port))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _in_file_system(address: SocketPath) -> socket.socket:
    """A socket in the file system. One that a killed daemon left behind is replaced."""
    _make_way(address.path)
    return listen_at(address.path)


def listen_at(path: str) -> socket.socket:
    """A socket at this path, where nothing may be, to which only this user may connect. Raises `OSError`."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(
            made.fileno(), 0o600
        )  # before it has a name: there is no moment at which others may connect
        made.bind(path)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _make_way(path: str) -> None:
    """Remove a socket on which nobody listens. Raises `OSError` if something else is there."""
    try:
        # Only a socket is ever removed, and a link is not followed.
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "something other than a socket is there")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            # Nobody listens on a socket that a killed daemon left. Any other answer means that it is in use.
            asking.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass  # somebody listens, and is busy
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _why_not(address: str, error: OSError, setting: str) -> str:
    table = setting.partition(".")[0]
    if error.errno == errno.EADDRINUSE:
        fix = f"stop the program that listens there (`ss -ltnxp` names it), or write another address in [{table}] listen"
        return f"{setting}: {address} is taken by another program: {fix}"
    if error.errno == errno.EACCES:
        fix = "use a port of 1024 or higher, or a path in a directory of your own"
        return f"{setting}: this user may not listen on {address}: {fix}"
    return f"{setting}: nothing can listen on {address}: {error.strerror}; write another address in [{table}] listen"


@dataclass(frozen=True, slots=True)
class HttpReport:
    """Where the daemon listens: the URL of its address, and the path of its socket in the file system."""

    address: str | None
    socket: str | None


@dataclass(frozen=True, slots=True)
class StudioReport:
    """Where the daemon serves the Studio: the URL with its own name."""

    address: str
