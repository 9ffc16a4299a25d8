"""`receipt chain`: whether every receipt in the store follows from the one before it."""

import sqlite3

import click

from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import GOOD, NOT_SO
from runward.daemon.cli.terminal.output import coloured, print_json, safe
from runward.daemon.store.reading_bundles import chain


def print_chain(connection: sqlite3.Connection, as_json: bool) -> int:
    """Print the result of following the chain; returns the exit code."""
    head: str | None = None
    receipts = 0
    problems: list[JsonValue] = []
    for row in chain(connection):
        if row.receipt_hash is None:
            continue
        receipts += 1
        if row.prev != head:
            message = f"its receipt (attempt {row.attempt}) names {row.prev} before it, and {head} is"
            problems.append({"session": row.session_key, "message": message})
        head = row.receipt_hash
    if as_json:
        print_json({"valid": not problems, "receipts": receipts, "head": head, "problems": problems})
    else:
        for each in problems:
            assert isinstance(each, dict)
            click.echo(safe(f"{each['session']}: {each['message']}"))
        word = coloured("invalid") if problems else coloured("ok", "valid")
        click.echo(f"{word}: {counted(receipts, 'receipt', 'receipts')}, head {head or 'none'}")
    return NOT_SO if problems else GOOD
