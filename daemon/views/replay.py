"""The replay of a session for the commands that read it: as the daemon wrote it, else as the session's files tell it."""

import json
import os
import sqlite3
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.rundir.bundle_parts import lines_on_demand
from runward.daemon.rundir.opening import DIRECTORY, REGULAR, opened
from runward.daemon.store.tables.artifacts import Wanted, artifacts
from runward.daemon.store.tables.receipts import finished_hash
from runward.daemon.store.tables.replays import actions_taken, attempts_of, told_actions
from runward.daemon.store.tables.sessions import SessionRow, status_history
from runward.daemon.views.bundles import session_bundle
from runward.handlers.bundle.orders import next_steps
from runward.handlers.bundle.parts import RECEIPT, REPLAY, part_name
from runward.handlers.bundle.replay_view import ToldReplay, costs_of, told_replay
from runward.handlers.calls import stretch_of
from runward.handlers.model.bundle import BundleOrder, Verdict


def order_on_demand(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, attempt: int
) -> BundleOrder | None:
    """What a bundle is made from if the daemon doesn't write it; None if there is no such attempt."""
    attempts = attempts_of(connection, row.key)
    stretch = stretch_of(attempts, attempt)
    if stretch is None:
        return None
    changes = tuple(
        each.summary for each in reversed(artifacts(connection, Wanted(session=row.key))) if each.summary
    )
    cwd, usage = _about(row)
    status, code, summary = _end_of(connection, row, attempt)
    ended_at = stretch.ended_at if stretch.ended_at is not None else stretch.started_at
    return BundleOrder(
        key=row.key,
        session_id=row.session_id,
        layout=row.layout,
        path=row.path,
        directory="",
        attempt=attempt,
        stretch=stretch,
        verdict=Verdict(
            at=ended_at,
            status=status,  # type: ignore[arg-type] # the schema's own words
            reason_code=code,
            reason_summary=summary,
            delivery=row.delivery if attempt == row.attempt else None,  # type: ignore[arg-type] # likewise
            hash=finished_hash(connection, row.key, attempt),
        ),
        rules=settings.bundle.rules,
        changes=changes,
        next_steps=next_steps(status, code, row.session_id),  # type: ignore[arg-type] # likewise
        usage=usage,
        cwd=cwd,
        actions=actions_taken(connection, row.key),
        estimate=None if usage is None else _estimate(connection, settings, row.key),
    )


def _estimate(connection: sqlite3.Connection, settings: Settings, key: str) -> str | None:
    from runward.daemon.views.usage import estimate_of  # most runs name no tokens

    return estimate_of(connection, settings, key)


def _end_of(connection: sqlite3.Connection, row: SessionRow, attempt: int) -> tuple[str, str, str]:
    """Status, reason and its summary of an attempt."""
    if attempt == row.attempt:
        return row.status, row.reason_code, row.reason_summary
    changes = [each for each in status_history(connection, row.key) if each.attempt == attempt]
    return changes[-1].status, changes[-1].reason_code, changes[-1].reason_summary


def _about(row: SessionRow) -> tuple[str | None, tuple[int, int] | None]:
    if row.about is None:
        return None, None
    cwd, _, _, given, made = json.loads(row.about)
    return cwd, None if given is None or made is None else (given, made)


LONGEST_LINE: Final = 64 << 20
"""Bytes of a line that is read."""

_LARGEST_RECEIPT: Final = 256 << 20


class ReadReplay(NamedTuple):
    """The calls of an attempt, and the tokens that they cost, by their ids."""

    replay: ToldReplay
    costs: dict[str, JsonValue]


def replay_of(connection: sqlite3.Connection, settings: Settings, row: SessionRow) -> ReadReplay:
    """What the replay of the last attempt says about its calls."""
    number = row.attempt
    bundle = session_bundle(connection, settings, row)
    if bundle is not None and bundle.state == "written":
        try:
            replay_told = told_replay(_lines(bundle.directory, part_name(REPLAY, number)))
            return ReadReplay(replay_told, costs_of(_receipt(bundle.directory, part_name(RECEIPT, number))))
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
