"""The bundle of a session as commands find it: written by the daemon, still being made, or to be made on demand."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.configuration.settings import bundle_rules
from runward.daemon.rundir.parts_standing import parts_stand
from runward.daemon.store.tables.receipts import BundleRow, bundle_of, job_state
from runward.daemon.store.tables.replays import growing
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.views.text import fields
from runward.handlers.journal.place import journal_directory

if TYPE_CHECKING:
    from runward.handlers.bundle.verify import SignatureState


BundleState: TypeAlias = Literal["on_demand", "growing", "pending", "written", "failed"]

MOST_HASHED: Final = 256 << 20
"""Bytes of parts that are hashed to say whether they are as recorded."""


class SessionBundle(NamedTuple):
    """The state of an attempt's bundle. `row` is what the store recorded, `directory` where the parts are."""

    state: BundleState
    attempt: int
    directory: str
    row: BundleRow | None = None
    problem: str | None = None


def session_bundle(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, attempt: int | None = None
) -> SessionBundle | None:
    """The bundle of an attempt, by default of the last one; None while that attempt runs."""
    number = row.attempt if attempt is None else attempt
    if row.not_judged_yet or (number == row.attempt and row.status == "running"):
        return None
    place = os.path.join(settings.state_dir, journal_directory(row.layout, row.key, row.path))
    recorded = bundle_of(connection, row.key, number)
    if recorded is not None:
        directory = os.path.join(settings.state_dir, recorded.directory)
        if recorded.receipt_hash is None:
            return SessionBundle("failed", number, directory, recorded, recorded.problem)
        if recorded.placed_at is None:
            return SessionBundle(
                "pending", number, directory, recorded, recorded.place_problem or recorded.problem
            )
        problem = "; ".join(each for each in (recorded.problem, recorded.place_problem) if each) or None
        return SessionBundle("written", number, directory, recorded, problem)
    # Nothing is recorded: whether that is still to come depends on the job.
    job = job_state(connection, row.key, number)
    is_begun, _ = growing(connection, row.key, number)
    has_none = bundle_rules(settings, row.layout, row.path) is None and not is_begun
    if has_none or job in (None, "done", "discarded"):
        return SessionBundle("on_demand", number, place)
    if job == "held":
        return SessionBundle("failed", number, place, None, "its job is held: `runward queue list`")
    return SessionBundle("pending", number, place)


def shown_bundle(connection: sqlite3.Connection, settings: Settings, row: SessionRow) -> SessionBundle | None:
    """The bundle of the last attempt. While that runs, its replay grows, if the daemon writes one."""
    bundle = session_bundle(connection, settings, row)
    if bundle is not None or row.not_judged_yet or row.origin != "live":
        return bundle
    begun, problem = growing(connection, row.key, row.attempt)
    if not begun and bundle_rules(settings, row.layout, row.path) is None:
        return None
    place = os.path.join(settings.state_dir, journal_directory(row.layout, row.key, row.path))
    return SessionBundle("growing", row.attempt, place, None, problem)


def bundle_json(bundle: SessionBundle | None, settings: Settings, report: Callable[[str], None]) -> JsonValue:
    """The bundle as `session show --json` prints it. `report` takes what keeps signatures from being checked."""
    if bundle is None:
        return None
    row = bundle.row
    return {
        **fields(bundle, "state attempt directory"),
        "parts": []
        if row is None
        else [
            {"name": each.name, "size": each.size, "sha256": f"sha256:{each.sha256}"} for each in row.parts
        ],
        "receipt_hash": None if row is None else row.receipt_hash,
        "prev": None if row is None else row.prev,
        "valid": is_valid(bundle),
        "signature": _signature(bundle, settings, report),
        "problem": bundle.problem,
        "summary": _summary(row),
    }


def bundle_text(bundle: SessionBundle) -> str:
    """The bundle in one line, for people."""
    names = "" if bundle.row is None else ", ".join(each.name for each in bundle.row.parts)
    words = {
        "on_demand": "on demand: `runward session export ID --output DIRECTORY`",
        "growing": "its replay grows",
        "pending": "is being made",
        "failed": "there is none",
        "written": names,
    }[bundle.state]
    valid = is_valid(bundle)
    as_recorded = {True: ", as recorded", False: ", NOT as recorded: `runward receipt verify ID`", None: ""}[
        valid
    ]
    problem = f" ({bundle.problem})" if bundle.problem else ""
    return f"{words}{as_recorded}{problem}"


CALLS_STORED: Final = slice(14, 16)
"""Where a stored summary has its calls, and how many failed. The types of all of it cost a command a tenth of its start."""


def calls_text(bundle: SessionBundle) -> str | None:
    """How many calls the bundle's replay has, in words for people; None if it has none, or that is not known."""
    if bundle.row is None or bundle.row.summary is None:
        return None
    try:
        stored = json.loads(bundle.row.summary)
    except ValueError:
        return None  # another version of Runward wrote it
    match stored[CALLS_STORED] if isinstance(stored, list) else None:
        case [int(calls), int(failed)] if calls:
            return f"{calls}, {failed} failed" if failed else str(calls)
    return None


def is_valid(bundle: SessionBundle) -> bool | None:
    """Whether the parts now have the recorded sizes and hashes; None if unknown."""
    row = bundle.row
    # Hashing much would keep a person waiting who only wants to see a session; `receipt verify` does it.
    if bundle.state != "written" or row is None or sum(each.size for each in row.parts) > MOST_HASHED:
        return None
    return parts_stand(bundle.directory, row.parts)


def _signature(
    bundle: SessionBundle, settings: Settings, report: Callable[[str], None]
) -> "SignatureState | None":
    """The validity of the signature of the receipt there; None without a receipt, or a library that checks it."""
    from runward.daemon.disk.receipt_keys import own_keys_that_count
    from runward.daemon.rundir.bundle_verifying import receipt_fields
    from runward.handlers.bundle.signatures import NoLibrary, signature_state

    if bundle.state != "written":
        return None
    try:
        receipt = receipt_fields(bundle.directory, bundle.attempt)
        if receipt is None:
            return None
        is_signed = receipt.get("signature") is not None
        if not is_signed:
            return signature_state(receipt, ())
        return signature_state(
            receipt, own_keys_that_count(settings.state_dir, report).union(settings.bundle.authorized_keys)
        )
    except (NoLibrary, OSError):
        return None


def _summary(row: BundleRow | None) -> JsonValue:
    if row is None or row.summary is None:
        return None

    from runward.handlers.bundle.summary import load_summary, summary_json

    try:
        return summary_json(load_summary(row.summary))
    except ValueError:
        return None  # another version of Runward wrote it


def recorded_names(row: BundleRow) -> Iterator[tuple[str, str]]:
    """The parts of a recorded bundle: the plain name of each, and the one that it has on the disk."""
    from runward.handlers.bundle.parts import PARTS, part_name

    known = {part_name(plain, row.attempt): plain for plain in PARTS}
    for each in row.parts:
        yield known[each.name], each.name


def journal_place(state: str, row: SessionRow) -> str:
    """The directory of the session's journal, absolute; `state` is the state directory."""
    return os.path.join(state, journal_directory(row.layout, row.key, row.path))
