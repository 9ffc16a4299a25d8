"""Libraries that Runward needs only for some purposes, such as the one of the MCP server, and how to install them."""

from importlib.util import find_spec
from typing import Final

from runward.config.listening import Http


def how_to_install(extra: str) -> str:
    """What to do where the libraries of an extra are missing."""
    return f"in Runward's checkout, run pipx install --force '.[{extra}]' (or the same with uv or pip)"


NO_SIGNING: Final = f"signing needs more libraries: {how_to_install('sign')}"
_OF_SCHEME: Final = {"ed25519": "cryptography", "nostr": "coincurve"}


def why_not_signed(scheme: str | None) -> str | None:
    """Why receipts can't be signed in this way; None if nothing hinders that."""
    if scheme is None or find_spec(_OF_SCHEME[scheme]) is not None:
        return None
    return f"bundle.sign: {NO_SIGNING}"


NO_LIBRARY: Final = f"the MCP server needs one more library: {how_to_install('mcp')}"
_LIBRARY: Final = ("mcp", "mcp_types")
"""The second one came with version 2."""

FIX: Final = "install it, or leave http.mcp out"


def has_library() -> bool:
    """Whether it is installed."""
    return all(find_spec(each) is not None for each in _LIBRARY)


def why_not_over_http(http: Http | None) -> str | None:
    """Why tools can't be served although `http.mcp` asks for it; None if nothing hinders that."""
    return f"http.mcp: {NO_LIBRARY}" if http is not None and http.mcp and not has_library() else None


NO_FLEET: Final = f"a fleet's database needs one more library: {how_to_install('fleet')}"
FLEET_FIX: Final = "install it, or leave [fleet] out"


def has_fleet() -> bool:
    """Whether the library for a fleet's database is installed. Asking this doesn't import it."""
    return find_spec("psycopg") is not None
