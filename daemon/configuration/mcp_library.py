"""The library that the MCP server needs: an extra, which may not be installed."""

from importlib.util import find_spec
from typing import Final

NO_LIBRARY: Final = "the MCP server needs one more library: pip install 'runward[mcp]'"
_LIBRARY: Final = ("mcp", "mcp_types")
"""The second one came with version 2."""


def has_library() -> bool:
    """Whether it is installed."""
    return all(find_spec(each) is not None for each in _LIBRARY)
