"""What commands begin with: the settings in force, and the store to read."""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, TRY_AGAIN, WRONG_SETTINGS
from runward.daemon.cli.output import complain, fail
from runward.daemon.settings import load_settings

STORE = "runward.db"


def read_settings_of(config: str | None) -> Parsed[Settings]:
    """The settings that this process would run under, or everything that is wrong with them."""
    return load_settings(config, os.environ, os.getcwd())


def settings_in_force(context: click.Context) -> Settings:
    """The settings, or exit 78 with every complaint."""
    parsed = read_settings_of(context.find_root().obj["config"])
    complain(parsed.problems)
    if parsed.value is None:
        sys.exit(WRONG_SETTINGS)
    return parsed.value


@contextmanager
def store_to_read(settings: Settings) -> Iterator[sqlite3.Connection]:
    """A read-only connection to the store, the daemon up or down."""
    path = Path(settings.state_dir) / STORE
    if not path.exists():
        fail(f"there is no store in {settings.state_dir} yet: start `runward daemon` first", NOT_FOUND)
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=5)
        connection.row_factory = sqlite3.Row
        connection.execute("select 1 from daemon").fetchone()
    except sqlite3.Error as error:
        fail(f"{path} can't be read: {error}", TRY_AGAIN)
    try:
        yield connection
    finally:
        connection.close()
