"""`session export`: the parts of a bundle in a directory, copied from their place or made on demand."""

import os
import sqlite3
from typing import NoReturn

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.terminal.output import fail, print_json, safe
from runward.daemon.rundir.bundle_parts import (
    CannotMake,
    clear_parts,
    copy_part,
    exists_otherwise,
    make_on_demand,
    put_over,
)
from runward.daemon.store.reading_bundles import told_actions
from runward.daemon.store.reading_sessions import SessionRow
from runward.daemon.views.bundles import (
    SessionBundle,
    recorded_names,
    session_bundle,
)
from runward.daemon.views.replay import order_on_demand
from runward.daemon.views.text import size
from runward.handlers.bundle.parts import PARTS
from runward.handlers.model.part import Part


def export_bundle(
    connection: sqlite3.Connection,
    settings: Settings,
    row: SessionRow,
    attempt: int | None,
    directory: str,
    force: bool,
    as_json: bool,
) -> None:
    """Put the parts into the directory; ends the program if that can't be done."""
    bundle = session_bundle(connection, settings, row, attempt)
    name = safe(row.session_id)
    if bundle is None:
        fail(f"session {name} is still running: its bundle is made when it is over", NOT_SO)
    if not 1 <= bundle.attempt <= row.attempt:
        fail(f"session {name} has no attempt {bundle.attempt}", NOT_FOUND)
    if bundle.state == "pending":
        fail(f"the bundle of {name} is still being made: try again", TRY_AGAIN)
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        fail(f"{safe(directory)}: {error.strerror}", WRONG_USAGE)
    try:
        parts, problem = _parts(connection, settings, row, bundle, directory)
        _place(directory, parts, force)
    except CannotMake as error:
        _give_up(directory, f"the bundle of {name} can't be exported: {error}")
    except OSError as error:
        _give_up(directory, f"{safe(directory)}: {error.strerror or error}")
    _say(row, bundle, directory, parts, problem, as_json)


def _parts(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, bundle: SessionBundle, directory: str
) -> tuple[tuple[Part, ...], str | None]:
    """The parts under temporary names in the directory, and what is wrong with them."""
    if bundle.state == "written" and bundle.row is not None:
        clear_parts(directory, PARTS)
        found: list[Part] = []
        for plain, name in recorded_names(bundle.row):
            part = copy_part(bundle.directory, name, directory, plain)
            if not isinstance(part, Part):
                raise CannotMake(f"{name}: {getattr(part, 'why', 'it is gone')}")
            found.append(part)
        return tuple(found), bundle.problem
    if bundle.state == "failed":
        raise CannotMake(bundle.problem or "there is none")
    order = order_on_demand(connection, settings, row, bundle.attempt)
    if order is None:
        raise CannotMake(f"there is no attempt {bundle.attempt}")
    made = make_on_demand(order, told_actions(connection, order.key, order.actions), directory)
    return made.parts, made.problem


def _place(directory: str, parts: tuple[Part, ...], force: bool) -> None:
    differing = [] if force else exists_otherwise(directory, parts)
    if differing:
        raise CannotMake(f"{', '.join(differing)} in {directory} differs; --force replaces it")
    put_over(directory, parts)


def _give_up(directory: str, why: str) -> NoReturn:
    clear_parts(directory, PARTS)
    fail(why, NOT_SO)


def _say(
    row: SessionRow,
    bundle: SessionBundle,
    directory: str,
    parts: tuple[Part, ...],
    problem: str | None,
    as_json: bool,
) -> None:
    if as_json:
        told: list[JsonValue] = [
            {"name": each.name, "size": each.size, "sha256": f"sha256:{each.sha256}"} for each in parts
        ]
        print_json(
            {
                "session_id": row.session_id,
                "attempt": bundle.attempt,
                "directory": os.path.abspath(directory),
                "on_demand": bundle.state == "on_demand",
                "parts": told,
                "problem": problem,
            }
        )
        return
    for each in parts:
        click.echo(f"{safe(os.path.join(directory, each.name))}  {size(each.size)}")
    if problem is not None:
        click.echo(f"runward: {safe(problem)}", err=True)
