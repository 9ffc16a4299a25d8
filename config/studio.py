"""`[studio]` in the settings: where the daemon serves the Studio, its pages for a browser."""

import re
from typing import Annotated, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.listening import TcpAddress, address_of
from runward.config.problem import Complaint, Location, quoted
from runward.config.shape import Complain, Text, TrueOrFalse

_SITE: Final = r"^https?://[^/?#\s@]+/?$"


class _Loopback(Text):
    """A loopback address and a port."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
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


class _Site(Text):
    """`http://` or `https://` and a host, perhaps with a port; read without a trailing slash."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        if re.fullmatch(_SITE, text) is None:
            fix = "write the scheme and the host alone, as in https://studio.example"
            complain(Complaint(loc, f"{quoted(text)} is not the address of a site", fix))
            return None
        return text.rstrip("/")

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "pattern": _SITE}


class StudioSettings(NamedTuple):
    """Pages that show and control runs in a browser. With this table, the daemon serves them."""

    listen: Annotated[
        str,
        _Loopback(
            "A loopback address and a port. Port 0: any free one, and the same one again if it is still free.",
            4096,
        ),
    ] = "127.0.0.1:0"
    url: Annotated[
        str | None, _Site("The address through a reverse proxy: scheme and host, without a path.", 4096)
    ] = None
    read_only: Annotated[bool, TrueOrFalse("Whether the pages only show, and change nothing.")] = False
    metrics: Annotated[bool, TrueOrFalse("Whether /metrics answers without a login.")] = False

    @property
    def address(self) -> TcpAddress:
        """What `listen` says."""
        address = address_of(self.listen)
        assert isinstance(address, TcpAddress), "the settings were checked"
        return address
