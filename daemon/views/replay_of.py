"""The replay of a session for the commands that read it: as the daemon wrote it, else as the session's files tell it."""

import os
import sqlite3
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.rundir.bundle_on_demand import lines_on_demand
from runward.daemon.rundir.opening import DIRECTORY, REGULAR, opened
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.store.reading_told_actions import told_actions
from runward.daemon.views.bundle_on_demand import order_on_demand
from runward.daemon.views.bundles import session_bundle
from runward.handlers.bundle.parts import RECEIPT, REPLAY, part_name
from runward.handlers.bundle.told_calls import ToldReplay, costs_of, told_replay

LONGEST_LINE: Final = 64 << 20
"""Bytes of a line that is read."""

_LARGEST_RECEIPT: Final = 256 << 20


class ReadReplay(NamedTuple):
    """The calls of an attempt, and the tokens that they cost, by their ids."""

    told: ToldReplay
    costs: dict[str, JsonValue]


def replay_of(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, attempt: int | None = None
) -> ReadReplay:
    """What the replay of an attempt, by default the last one, says about its calls."""
    number = row.attempt if attempt is None else attempt
    bundle = session_bundle(connection, settings, row, number)
    if bundle is not None and bundle.state == "written":
        try:
            told = told_replay(_lines(bundle.directory, part_name(REPLAY, number)))
            return ReadReplay(told, costs_of(_receipt(bundle.directory, part_name(RECEIPT, number))))
        except OSError:
            pass  # a part was removed: the session's own files may still tell
    order = order_on_demand(connection, settings, row, number)
    if order is None:
        return ReadReplay(ToldReplay([]), {})
    replay, lines = lines_on_demand(order, told_actions(connection, order.key, order.actions))
    return ReadReplay(told_replay(lines), {each.id: each.cost_tokens for each in replay.calls.values()})


def _lines(directory: str, name: str) -> Iterator[bytes]:
    with _opened(directory, name) as file:
        while line := file.readline(LONGEST_LINE):
            yield line


def _receipt(directory: str, name: str) -> bytes:
    with _opened(directory, name) as file:
        return file.read(_LARGEST_RECEIPT)


def _opened(directory: str, name: str) -> BinaryIO:
    """A part of a bundle, opened without following a link."""
    with opened(directory, DIRECTORY) as within:
        return os.fdopen(os.open(name, REGULAR, dir_fd=within), "rb")
