"""Imports what a command imports only when it comes to it, and judges at once runs that tests wrote by hand."""

from importlib import import_module
from typing import Final

from runward.daemon.cli.commands import COMMANDS
from runward.handlers.sessions import late

_LATE: Final = (
    "anyio._backends._asyncio",
    "anyio._core._signals",
    "importlib.readers",
    "re2",
    "runward.config.toml_document",
    "runward.daemon.cli.entry",
    "runward.daemon.cli",
    "runward.daemon.host.service",
    "runward.daemon.log",
    "runward.daemon.web.sockets",
)

for _name in (*_LATE, *(f"runward.daemon.cli.{module}" for module, _ in COMMANDS.values())):
    import_module(_name)

late.QUIET = 0.0  # type: ignore[misc] # runs that tests write are complete; test_arriving.py is about those that are not
