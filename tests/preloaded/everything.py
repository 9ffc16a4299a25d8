"""Does once what each command would do only when it comes to it, and judges at once runs that tests wrote by hand.

That is to import modules, and to make an empty store by the migrations.
"""

import sqlite3
from contextlib import closing
from importlib import import_module
from typing import Final

from runward.daemon.cli.commands import COMMANDS
from runward.daemon.store import reading, schema
from runward.handlers.sessions import late

_LATE: Final = (
    "anyio._backends._asyncio",
    "anyio._core._signals",
    "encodings.unicode_escape",
    "importlib.readers",
    "re2",
    "runward.config.expression_filters",
    "runward.config.outcome",
    "runward.config.settings_layers",
    "runward.config.toml_document",
    "runward.config.yaml_document",
    "runward.daemon.cli.entry",
    "runward.daemon.cli",
    "runward.daemon.host.attention",
    "runward.daemon.host.service",
    "runward.daemon.log",
    "runward.daemon.web.sockets",
    "runward.handlers.bundle.edits",
    "runward.handlers.bundle.replay",
    "tzlocal",
)

for _name in (*_LATE, *(f"runward.daemon.cli.{module}" for module, _ in COMMANDS.values())):
    import_module(_name)

with closing(sqlite3.connect(":memory:")) as _store:
    schema.make_empty(_store)
    assert schema.difference(_store, schema.migrations()[-1].number) is None
reading._nothing()

late.QUIET = 0.0  # type: ignore[misc] # runs that tests write are complete; test_arriving.py is about those that are not
