"""`[http]` and `[webhooks]` in the settings: where the daemon listens, and whose deliveries it accepts."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, quoted
from runward.config.shape import Complain, Table, Text, TrueOrFalse

UNIX: Final = "unix:"
"""The prefix of the address of a socket in the file system; its path follows."""

DEFAULT_LISTEN: Final = "127.0.0.1:8460"

LONGEST_SOCKET_PATH: Final = 107
"""Bytes: the kernel's limit."""

_MOST: Final = 8
_LONGEST: Final = 4096
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


class Http(NamedTuple):
    """Where the daemon listens, as written (paths are absolute), and the address that others use to reach it.

    `mcp` says whether it also serves agents' tools there.
    """

    listen: tuple[str, ...] = (DEFAULT_LISTEN,)
    url: str | None = None
    mcp: bool = False


def address_of(text: str) -> TcpAddress | SocketPath | None:
    """The address in a text of `listen`. None if there is none."""
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        return SocketPath(path) if path else None
    found = _TCP.fullmatch(text)
    if found is None or int(found[3]) > 65535:
        return None
    from ipaddress import ip_address  # loaded only for listeners

    host = found[1] or found[2]
    try:
        is_six = ip_address(host).version == 6
    except ValueError:
        return None
    return TcpAddress(host, int(found[3])) if is_six == (found[1] is not None) else None


class _Listen(NamedTuple):
    """One address to listen on, or a list of them; read as a list."""

    description: str

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if not isinstance(value, str | list):
            complain(Complaint(loc, f"must be an address or a list of them, not {kind(value)}", _FIX))
            return None
        if isinstance(value, list) and not 0 < len(value) <= _MOST:
            complain(
                Complaint(
                    loc, f"must have 1 to {_MOST} addresses", "leave [http] out if the daemon must not listen"
                )
            )
            return None
        items = (
            [(value, loc)] if isinstance(value, str) else [(each, (*loc, i)) for i, each in enumerate(value)]
        )
        checked = [self._address(each, place, complain) for each, place in items]
        return None if None in checked else checked

    def _address(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        text = Text(self.description, _LONGEST).check(value, loc, complain)
        if not isinstance(text, str):
            return None
        if address_of(text) is None:
            complain(Complaint(loc, f"{quoted(text)} is not an address to listen on", _FIX))
            return None
        return text

    def json_schema(self) -> dict[str, JsonValue]:
        address: dict[str, JsonValue] = {"type": "string", "minLength": 1, "maxLength": _LONGEST}
        return {"anyOf": [address, {"type": "array", "minItems": 1, "maxItems": _MOST, "items": address}]}


class _Url(NamedTuple):
    """The beginning of addresses: `http://` or `https://`, a host, perhaps a path; read without a trailing slash."""

    description: str

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        text = Text(self.description, _LONGEST).check(value, loc, complain)
        if not isinstance(text, str):
            return None
        if re.fullmatch(r"https?://[^/?#\s]+(/[^?#\s]*)?", text) is None:
            fix = "write the whole address without ? and #, as in https://runward.example"
            complain(Complaint(loc, f"{quoted(text)} is not an address that links can begin with", fix))
            return None
        return text.rstrip("/")

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "pattern": "^https?://[^/?#\\s]+(/[^?#\\s]*)?$"}


HTTP: Final = Table(
    "Where the daemon listens. Without this table it does not listen.",
    {
        "listen": _Listen(
            f"An IP address and a port, or unix:PATH; or a list of these. Port 0: any free one. Default: {DEFAULT_LISTEN}."
        ),
        "url": _Url(
            "The address that others use to reach it, for links in notices. Default: where it listens."
        ),
        "mcp": TrueOrFalse(
            "Whether it serves agents' tools there, over the Model Context Protocol. Default: false."
        ),
    },
    some=True,
)
"""The shape of `[http]`."""

WEBHOOKS: Final = Table(
    "Services that send events to the daemon.",
    {
        "github": Table(
            "Deliveries of GitHub, to POST /webhooks/github.",
            {
                "secret_file": Text(
                    "A file with the secret in its first line, which only its owner may read.", _LONGEST
                )
            },
            required=("secret_file",),
        )
    },
)
"""The shape of `[webhooks]`."""


def http_of(values: Mapping[str, JsonValue]) -> Http | None:
    """The valid keys of `[http]`. None if there are none."""
    listen, url, mcp = values.get("listen"), values.get("url"), values.get("mcp")
    if listen is None and url is None and mcp is None:
        return None
    addresses = tuple(str(each) for each in listen) if isinstance(listen, list) else (DEFAULT_LISTEN,)
    return Http(addresses, url if isinstance(url, str) else None, mcp is True)


def http_to_json(http: Http | None) -> JsonValue:
    """What `http_of` reads."""
    return None if http is None else {"listen": list(http.listen), "url": http.url, "mcp": http.mcp}


def github_secret_file_of(value: JsonValue) -> str | None:
    """The file of `[webhooks.github]`."""
    file = value.get("secret_file") if isinstance(value, dict) else None
    return file if isinstance(file, str) else None
