"""The receipt of a session: where it is, what is recorded about it, and whether it is valid."""

import os
import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from runward.config.settings import Settings
from runward.daemon.disk.receipt_keys import own_keys_that_count
from runward.daemon.rundir.bundle_verifying import verify_bundle
from runward.daemon.store.tables.receipts import BundleRow, bundle_of
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.views.bundles import journal_place
from runward.handlers.bundle.parts import REPLAY, SUMMARY, part_name
from runward.handlers.bundle.verify import FileFacts, Recorded, Verified


class ReceiptPlace(NamedTuple):
    """Where the parts of an attempt are, and what the store has of them."""

    directory: str
    recorded: Recorded | None


def receipt_place(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, attempt: int
) -> ReceiptPlace:
    """Where the receipt of an attempt is, or would be."""
    recorded = bundle_of(connection, row.key, attempt)
    if recorded is None:
        return ReceiptPlace(journal_place(settings.state_dir, row), None)
    # A run may have refused its bundle, which is then in the state directory.
    return ReceiptPlace(os.path.join(settings.state_dir, recorded.directory), recorded_of(recorded))


def verified_receipt(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, report: Callable[[str], None]
) -> Verified | None:
    """What `receipt verify` says of the last attempt; None if it has no receipt, or it can't be read.

    `report` takes what keeps signatures from being checked.
    """
    place = receipt_place(connection, settings, row, row.attempt)
    try:
        return verify_bundle(
            place.directory,
            row.attempt,
            lambda: own_keys_that_count(settings.state_dir, report).union(settings.bundle.authorized_keys),
            recorded_of=lambda _: place.recorded,
        )
    except OSError:
        return None


def recorded_of(row: BundleRow) -> Recorded:
    """What the store has of a bundle, as `verify_bundle` compares it."""
    if row.receipt_hash is None:
        return Recorded(None, {}, row.problem)
    plain = {part_name(name, row.attempt): name for name in (REPLAY, SUMMARY)}
    files = {plain[each.name]: FileFacts(each.sha256, each.size) for each in row.parts if each.name in plain}
    return Recorded(row.receipt_hash, files)
