"""Runs with journals, which somebody or something damages between two lives of a daemon."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import begin, finish

EVENTS: Final = "events.jsonl"
THEIRS: Final = b'{"ts":"2026-02-03T04:05:06.000000Z","role":"agent","event":"worked","path":""}\n'


async def live(base: Path, *, ended: bool = True, runs: int = 1) -> list[Path]:
    """A daemon's life over some runs, with every line synced and marked, that ends without a clean stop."""
    async with daemon(base, StillClock(), ToldProcesses()) as running:
        directories = [begin(base, f"run-{number:05d}") for number in range(runs)]
        await running.settle()
        for directory in directories if ended else ():
            finish(directory)
        await running.settle()
        await running.supervisor.assembly.outbox.sweep()
        assert await running.rows("select count(*) from outbox") == [(0,)]
    return directories


async def repair(base: Path, *further: Callable[[], None]) -> list[tuple[object, ...]]:
    """The next daemon's life; what it recorded as damaged: run, journal, lost, torn bytes, changed, moved."""
    async with daemon(base, StillClock(), ToldProcesses()) as running:
        await running.work()
        for deed in further:
            deed()
            await running.settle()
        await running.supervisor.assembly.outbox.sweep()
        await assert_the_store_is_right(running)
        payloads = await running.rows("select payload from events where type = 'JournalDamaged' order by seq")
    told = [json.loads(str(payload)) for (payload,) in payloads]
    return [
        (
            Path(each["directory"]).name,
            each["name"],
            each["lost"],
            each["torn_bytes"],
            each["changed"],
            each["moved"],
        )
        for each in told
    ]


async def assert_the_store_is_right(running: Daemon) -> None:
    """Nothing is owed or left to compare, and everything stands where the store says."""
    assert await running.rows("select id, name from outbox") == []
    assert await running.rows("select directory, name from uncompared") == []
    assert await running.rows("select id, state, error from jobs where state <> 'done'") == []
    rows = await running.rows(
        'select directory, name, content, "offset", places from journal_lines where "offset" is not null'
    )
    for directory, name, content, offset, places in rows:
        assert isinstance(content, bytes)
        data = (Path(str(directory)) / str(name)).read_bytes()
        pieces: list[list[int]] = json.loads(str(places or [[offset, len(content)]]))
        assert b"".join(data[start : start + length] for start, length in pieces) == content
        assert pieces[0][0] == offset


def lines_of(directory: Path, name: str = EVENTS) -> list[bytes]:
    return (directory / name).read_bytes().splitlines(keepends=True)


def cut(directory: Path, name: str, at: int, foreign: bytes = b"") -> bytes:
    """Leave the first `at` bytes of a journal, then `foreign` ones; returns what stands there now."""
    path = directory / name
    path.write_bytes(path.read_bytes()[:at] + foreign)
    return path.read_bytes()


def values(directory: Path) -> list[dict[str, object]]:
    """What of a journal is JSON."""
    found = []
    for line in lines_of(directory):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return [each for each in found if isinstance(each, dict)]
