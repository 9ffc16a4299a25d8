"""`[studio]` in the settings: where the daemon serves the Studio, its pages for a browser."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.listening import TcpAddress, address_of
from runward.config.problem import Complaint, Location, quoted
from runward.config.shape import Complain, Table, Text, TrueOrFalse

DEFAULT_LISTEN: Final = "127.0.0.1:0"
_LONGEST: Final = 4096
_SITE: Final = r"^https?://[^/?#\s@]+/?$"


class StudioSettings(NamedTuple):
    """Where the Studio is served, the address through a reverse proxy, and what it permits."""

    listen: str = DEFAULT_LISTEN
    url: str | None = None
    read_only: bool = False
    metrics: bool = False

    @property
    def address(self) -> TcpAddress:
        """What `listen` says."""
        address = address_of(self.listen)
        assert isinstance(address, TcpAddress), "the settings were checked"
        return address


class _Loopback(NamedTuple):
    """A loopback address and a port."""

    description: str

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        text = Text(self.description, _LONGEST).check(value, loc, complain)
        if not isinstance(text, str):
            return None
        address = address_of(text)
        if not isinstance(address, TcpAddress):
            fix = 'write an address and a port, as in "127.0.0.1:8461"'
            complain(Complaint(loc, f"{quoted(text)} is not an address to listen on", fix))
            return None
        from ipaddress import ip_address  # loaded only for listeners

        if not ip_address(address.host).is_loopback:
            fix = "listen on 127.0.0.1, and let others in through `ssh -L` or a reverse proxy (studio.url)"
            complain(Complaint(loc, f"{quoted(text)} can be reached from other machines, unencrypted", fix))
            return None
        return text

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "minLength": 1, "maxLength": _LONGEST}


class _Site(NamedTuple):
    """`http://` or `https://` and a host, perhaps with a port; read without a trailing slash."""

    description: str

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        text = Text(self.description, _LONGEST).check(value, loc, complain)
        if not isinstance(text, str):
            return None
        if re.fullmatch(_SITE, text) is None:
            fix = "write the scheme and the host alone, as in https://studio.example"
            complain(Complaint(loc, f"{quoted(text)} is not the address of a site", fix))
            return None
        return text.rstrip("/")

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "pattern": _SITE}


STUDIO: Final = Table(
    "Pages that show and control runs in a browser. With this table, the daemon serves them.",
    {
        "listen": _Loopback(
            f"A loopback address and a port. Port 0: any free one, and the same one again if it is still free. "
            f"Default: {DEFAULT_LISTEN}."
        ),
        "url": _Site("The address through a reverse proxy: scheme and host, without a path."),
        "read_only": TrueOrFalse("Whether the pages only show, and change nothing. Default: false."),
        "metrics": TrueOrFalse("Whether /metrics answers without a login. Default: false."),
    },
)
"""The shape of `[studio]`."""


def studio_of(values: Mapping[str, JsonValue]) -> StudioSettings:
    """The settings in the checked keys of `[studio]`."""
    listen, url = values.get("listen"), values.get("url")
    return StudioSettings(
        listen if isinstance(listen, str) else DEFAULT_LISTEN,
        url if isinstance(url, str) else None,
        values.get("read_only") is True,
        values.get("metrics") is True,
    )


def studio_to_json(studio: StudioSettings | None) -> JsonValue:
    """What `studio_of` reads; None without the table."""
    return None if studio is None else dict(studio._asdict())
