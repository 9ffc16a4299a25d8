"""`[http]` and `[webhooks]` in the settings: where the daemon listens, and whose deliveries it accepts."""

import re
from typing import Annotated, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, quoted
from runward.config.shape import Complain, ListOf, Path, Start, Text, TrueOrFalse
from runward.config.table import Table

UNIX: Final = "unix:"
"""The prefix of the address of a socket in the file system; its path follows."""

DEFAULT_LISTEN: Final = "127.0.0.1:8460"

LONGEST_SOCKET_PATH: Final = 107
"""Bytes: the kernel's limit."""

_TCP: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)):([0-9]{1,5})")
_FIX: Final = f'write an address and a port, as in "{DEFAULT_LISTEN}" or "[::1]:8460", or "{UNIX}PATH"'


class TcpAddress(NamedTuple):
    """An IP address and a port; port 0 is any free one."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as a client on this machine writes it."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


class SocketPath(NamedTuple):
    """A socket in the file system."""

    path: str


def address_of(text: str) -> TcpAddress | SocketPath | None:
    """The address in a text of `listen`. None if there is none."""
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        return SocketPath(path) if path else None
    match = _TCP.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        return None
    from ipaddress import ip_address  # loaded only for listeners

    host = match[1] or match[2]
    try:
        is_six = ip_address(host).version == 6
    except ValueError:
        return None
    return TcpAddress(host, int(match[3])) if is_six == (match[1] is not None) else None


class _Address(Text):
    """An address to listen on; the path of a socket in the file system is read as an absolute one."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        if address_of(text) is None:
            complain(Complaint(loc, f"{quoted(text)} is not an address to listen on", _FIX))
            return None
        return text

    def with_whole_paths(
        self, value: JsonValue, loc: Location, start: Start, complain: Complain
    ) -> JsonValue:
        if not isinstance(value, str) or not value.startswith(UNIX):
            return value
        path = start.absolute(value.removeprefix(UNIX), loc, complain)
        if path is not None and len(path.encode()) > LONGEST_SOCKET_PATH:
            message = f"the path of a socket may have {LONGEST_SOCKET_PATH} bytes, and {path} has more"
            complain(Complaint(loc, message, "put it into a directory with a shorter path"))
        return None if path is None else f"{UNIX}{path}"


class _Addresses(ListOf):
    """One address to listen on, or a list of them; read as a list."""

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if not isinstance(value, str | list):
            complain(Complaint(loc, f"must be an address or a list of them, not {kind(value)}", _FIX))
            return None
        if isinstance(value, str):
            address = self.item.check(value, loc, complain)
            return None if address is None else [address]
        if not 0 < len(value) <= self.longest:
            fix = "leave [http] out if the daemon must not listen"
            complain(Complaint(loc, f"must have 1 to {self.longest} addresses", fix))
            return None
        checked = [self.item.check(each, (*loc, i), complain) for i, each in enumerate(value)]
        return None if None in checked else checked

    def with_whole_paths(
        self, value: JsonValue, loc: Location, start: Start, complain: Complain
    ) -> JsonValue:
        if not isinstance(value, list):
            return None
        return [self.item.with_whole_paths(each, loc, start, complain) for each in value]

    def json_schema(self) -> dict[str, JsonValue]:
        address = self.item.json_schema()
        return {
            "anyOf": [address, {"type": "array", "minItems": 1, "maxItems": self.longest, "items": address}]
        }


class _Url(Text):
    """The beginning of addresses: `http://` or `https://`, a host, perhaps a path; read without a trailing slash."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        if re.fullmatch(r"https?://[^/?#\s]+(/[^?#\s]*)?", text) is None:
            fix = "write the whole address without ? and #, as in https://runward.example"
            complain(Complaint(loc, f"{quoted(text)} is not an address that links can begin with", fix))
            return None
        return text.rstrip("/")

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "pattern": "^https?://[^/?#\\s]+(/[^?#\\s]*)?$"}


class Http(NamedTuple):
    """Where the daemon listens. Without this table it does not listen."""

    listen: Annotated[
        tuple[str, ...],
        _Addresses(
            "An IP address and a port, or unix:PATH; or a list of these. Port 0: any free one. "
            f"Default: {DEFAULT_LISTEN}.",
            _Address("", 4096),
            8,
        ),
    ] = (DEFAULT_LISTEN,)
    url: Annotated[
        str | None,
        _Url(
            "The address that others use to reach it, for links in notices. Default: where it listens.", 4096
        ),
    ] = None
    mcp: Annotated[
        bool, TrueOrFalse("Whether it serves agents' tools there, over the Model Context Protocol.")
    ] = False


class Github(NamedTuple):
    """Deliveries of GitHub, to POST /webhooks/github."""

    secret_file: Annotated[
        str, Path("A file with the secret in its first line, which only its owner may read.")
    ]


class Webhooks(NamedTuple):
    """Services that send events to the daemon."""

    github: Annotated[Github | None, Table(Github, is_one_value=True)] = None
