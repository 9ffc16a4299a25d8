"""What commands begin with: the settings in force, and the store to read."""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.cli.exits import WRONG_SETTINGS
from runward.daemon.cli.output import complain, note
from runward.daemon.settings import load_settings
from runward.daemon.store import reading


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
    """The store as it stands now, the daemon up or down; empty, and said so, before the first daemon.

    Raises `StoreUnreadable`.
    """
    if not reading.exists(settings.state_dir):
        note(f"no daemon has run in {settings.state_dir} yet")
    with reading.reading(settings.state_dir) as connection:
        yield connection
