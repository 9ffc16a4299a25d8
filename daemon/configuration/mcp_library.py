"""The library that the MCP server needs: an extra, which may not be installed."""

from importlib.util import find_spec
from typing import Final

from runward.config.listening import Http
from runward.daemon.configuration.extras import how_to_install

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
