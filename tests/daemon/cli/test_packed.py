"""Commands over packed sessions: they say word for word what they said before."""

import asyncio
import re
import time
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.cli.calling import Place

from runward.daemon.store import packing
from runward.daemon.store.connection import connect
from runward.daemon.store.packing import FIRST_TO_PACK
from runward.daemon.store.store import Store
from runward.daemon.store.transaction import Statement

NEVER_PACKED: Final = "open"
"""It runs. What becomes of its bundle depends on its root, which the packed place does not have."""

SESSIONS: Final = ("delivered", "careless", "silent", "crashed", "plain", NEVER_PACKED)
COMMANDS: Final = (
    ("session", "list"),
    ("session", "list", "--json"),
    ("session", "list", "--json", "--limit", "2"),
    ("status", "--json"),
    *((*command, name) for name in SESSIONS for command in (
        ("session", "show"),
        ("session", "show", "--json"),
        ("session", "verify"),
        ("session", "verify", "--json"),
        ("session", "tail", "--json"),
        ("why",),
        ("why", "--json"),
        ("log", "--session"),
    ) if name != NEVER_PACKED or command[:2] != ("session", "show")),
)  # fmt: skip


def pack(place: Place) -> int:
    """Pack all that may be packed of a place in which no daemon runs; returns how many sessions are packed."""

    async def all_of_it() -> int:
        store = Store(await connect(place.state / "runward.db"))
        await store.take_over()
        later = time.time() + 10 * 86_400.0
        await store.run(
            [Statement("update daemon set settled = (select max(id) from journal_lines)", [()])], "test"
        )
        found = await packing.sessions_to_pack(store, FIRST_TO_PACK, later, 1000, later)
        await store.run(found.statements, "pack")
        await store.run([Statement("update daemon set epoch = epoch - 1, stopped_cleanly = 1", [()])], "test")
        await store.close()
        return len(found.keys)

    return asyncio.run(all_of_it())


def _without_ages(text: str) -> str:
    """Output without what changes from one call to the next."""
    without = re.sub(r'"checked_at": [^,}]*|\b\d+(\.\d+)?[smhd]\b( ago)?', "", text)
    return re.sub(" +", " ", without)


@pytest.fixture(scope="module")
def packed(recorded: Place, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The recorded place, with every session packed that may be."""
    place = recorded.copy_to(tmp_path_factory.mktemp("packed"))
    assert pack(place) == 5
    assert place.rows("select distinct lane from events") == [("native:runs/open",)]
    return place


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_says_what_it_said_before(recorded: Place, packed: Place, command: tuple[str, ...]) -> None:
    before, after = recorded.call(*command), packed.call(*command)
    assert after.code == before.code
    said = [
        _without_ages(each.out)
        .replace(str(packed.directory), "PLACE")
        .replace(str(recorded.directory), "PLACE")
        for each in (before, after)
    ]
    assert said[1] == said[0]
    assert after.err == before.err


def test_a_packed_event_that_somebody_changed_is_found_by_its_lines(packed: Place, tmp_path: Path) -> None:
    from runward.daemon.store.packed_document import pack as bytes_of
    from runward.daemon.store.packed_document import unpack

    place = packed.copy_to(tmp_path)
    ((content,),) = place.rows("select document from packed where session_key = 'native:runs/delivered'")
    assert isinstance(content, bytes)
    document = unpack(content)
    events = [list(row) for row in document.rows["events"]]
    events[-1][9] = str(events[-1][9]).replace("completed", "cancelled")
    changed = document._replace(rows={**document.rows, "events": [tuple(row) for row in events]})
    place.change_store(
        "update packed set document = ? where session_key = 'native:runs/delivered'", bytes_of(changed)
    )
    record = place.call("session", "verify", "delivered", "--json").object()["record"]
    assert isinstance(record, dict)
    assert record["broken_event"] is not None
