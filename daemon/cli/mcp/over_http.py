"""The server of the Model Context Protocol over HTTP, which the daemon starts: `over_http STATE DESCRIPTOR`.

DESCRIPTOR is a socket that listens, to which only the daemon connects. The daemon checked each request, and names the
principal in a header. Nothing is remembered between two requests.
"""

import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from runward.daemon.processes.client_gone import end_with_client

if TYPE_CHECKING:
    from starlette.requests import Request

    from runward.daemon.cli.mcp.serving import Tool

PATIENCE_S: Final = 25.0
"""Seconds for which a call waits for its result: the daemon gives a connection 30 in all."""


def main(state: str, descriptor: int) -> None:
    """Serve until the daemon has ended, or ends this process."""
    end_with_client()  # before the library is imported, which takes longer than a stop may
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    from runward.daemon.cli.mcp.serving import instructions, server_of
    from runward.daemon.web.mcp import MOST

    app = server_of(
        lambda request: _tools(state, request), instructions("You act as the principal of your token.")
    ).streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=MOST,
        # The daemon is the only one that can connect, and it has checked Host and Origin.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    config = uvicorn.Config(app, ws="none", lifespan="on", log_config=None, access_log=False)
    with socket.socket(fileno=descriptor) as listening:
        uvicorn.Server(config).run([listening])


def _tools(state: str, request: "Request | None") -> "Sequence[Tool]":
    """The tools for the principal that makes the request, under the settings that the daemon uses now."""
    from runward.daemon.cli.mcp.tools import ByInbox, action_tools, reading_tools, tools_about_sessions
    from runward.daemon.store.ownership import holder
    from runward.daemon.views.daemon_report import report_of, settings_in_report
    from runward.daemon.web.mcp import PRINCIPAL

    assert request is not None, "it came over HTTP"
    principal = unquote(request.headers[PRINCIPAL])
    settings = settings_in_report(report_of(state, holder(Path(state))))
    assert settings is not None, "the daemon that passed the request on has reported them"
    return [
        *action_tools(ByInbox(settings, principal, PATIENCE_S)),
        *reading_tools(settings, lambda: principal),
        *tools_about_sessions(settings, None),
    ]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
