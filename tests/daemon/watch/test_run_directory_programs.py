"""Random programs of file-system operations on run directories: the store and the journals against a plain model.

The real look, put and work run in this process over a real store after every step, across restarts and crashes.
Nobody watches: the scan is the truth.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.watch.run_directory_model import Contract
from tests.daemon.watch.run_directory_programs import Machine, Step, programs
from tests.daemon.without_threads import without_threads

from runward.daemon.store.hash_chain import ChainedEvent, Head, follow
from runward.daemon.store.journals import STOPPED_CLEANLY
from runward.daemon.watch.hints import Why
from runward.daemon.watch.look import Looker

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_corrected() -> Iterator[None]:
    """The model has no files that arrive after the verdict: tests/daemon/watch/test_arriving.py is about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Looker, "_corrected", lambda _self, _root, _directory, _key, watched, _lacking: (watched, ())
        )
        yield


Journals: TypeAlias = list[dict[str, list[str]]]


async def play(program: list[Step]) -> tuple[Journals, Journals]:
    """Play a program against the model; the journals as they are at its end, and as they should be."""
    with TemporaryDirectory(dir=IN_MEMORY) as directory, without_threads():
        base = Path(directory)
        (base / "runs").mkdir()
        machine = Machine(base, StillClock(), ToldProcesses())
        left = list(program)
        while left:
            async with daemon(base, machine.clock, machine.processes) as running:
                machine.restart = machine.crash = False
                await running.work()  # what an earlier daemon owed
                await one_step(machine, running, left.pop(0), first=True)
                while left and not machine.restart:
                    await one_step(machine, running, left.pop(0), first=False)
                if not machine.crash:
                    await running.supervisor.assembly.outbox.sweep()
                await compare_the_record(machine, running)
                # These programs take journals away on purpose; what follows from that is test_journal_repair's subject.
                await running.store.run([STOPPED_CLEANLY], "stop")
        return journals(machine)


async def one_step(machine: Machine, running: Daemon, step: Step, first: bool) -> None:
    operations, seconds = step
    # What a crash leaves owed is restored to the directory that stands there then, so nothing is owed while one changes.
    await running.supervisor.assembly.outbox.sweep()
    for operation in operations:
        machine.do(operation)
    machine.clock.move(seconds)
    hinted = machine.hinted()
    running.supervisor.assembly.hints.add(machine.notified, Why.WATCH)
    machine.notified.clear()
    await running.settle()
    machine.look(first, hinted)
    await compare_the_sessions(machine, running)


async def compare_the_sessions(machine: Machine, running: Daemon) -> None:
    found = await running.rows(
        "select key, attempt, status, reason_code, ended_by, delivery, artifact_contract_json, contract_basis"
        " from sessions order by key"
    )
    assert [(*row[:6], contract_in(row[6]), row[7]) for row in found] == [
        (
            f"native:runs/{name}",
            len(story.attempts),
            story.attempts[-1].status,
            story.history[-1][2],
            story.attempts[-1].ended_by,
            story.attempts[-1].delivery,
            story.contract,
            story.basis if story.contract is not None else None,
        )
        for name, story in sorted(machine.stories.items())
        if story.attempts
    ]


def contract_in(text: object) -> Contract | None:
    if text is None:
        return None
    assert isinstance(text, str)
    return tuple((each["path"], each["required"]) for each in json.loads(text)["expected"])


async def compare_the_record(machine: Machine, running: Daemon) -> None:
    """Every attempt and every change of status, once; nothing held, nothing refused; the chain unbroken."""
    stories = {f"native:runs/{name}": story for name, story in machine.stories.items()}
    attempts = await running.rows("select session_key, attempt, status, ended_by from attempts order by 1, 2")
    assert attempts == [
        (key, number, attempt.status, attempt.ended_by)
        for key, story in sorted(stories.items())
        for number, attempt in enumerate(story.attempts, 1)
    ]
    history = await running.rows(
        "select session_key, attempt, status, reason_code from status_history order by session_key, id"
    )
    assert history == [(key, *change) for key, story in sorted(stories.items()) for change in story.history]
    assert await running.rows("select * from jobs where state != 'done'") == []
    assert running.supervisor.assembly.queue.tally.refused == []
    keys = await running.rows("select key from events")
    ends = sum(attempt.ended_by is not None for story in stories.values() for attempt in story.attempts)
    assert len(set(keys)) == len(keys) == len(attempts) + 2 * ends
    await verify_the_chain(running)


async def verify_the_chain(running: Daemon) -> None:
    rows = await running.rows(
        "select seq, hash, key, type, version, recorded_at, cause, depth, payload from events order by seq"
    )
    end = follow(ChainedEvent(*row) for row in rows)  # type: ignore[arg-type] # the schema's own types
    assert isinstance(end, Head), end


def journals(machine: Machine) -> tuple[Journals, Journals]:
    """The events of each journal, and each exactly once and in order where its directory stood when it was owed."""
    standing = [(machine.root / name, place) for name, place in machine.places.items()]
    moved = [(machine.base / "moved" / name, place) for name, place in machine.moved.items()]
    found = [
        {
            file.name: [json.loads(line)["event"] for line in file.read_bytes().splitlines()]
            for file in directory.iterdir()
            if file.name.endswith(".jsonl")
        }
        for directory, _ in standing + moved
    ]
    return found, [place.journals for _, place in standing + moved]


@pytest.mark.prove
@given(programs)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_after_any_program_the_record_is_the_models(program: list[Step]) -> None:
    found, expected = anyio.run(play, program)
    assert found == expected


@pytest.mark.sweep
@pytest.mark.timeout(1500)
@given(programs)
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
def test_after_each_of_a_thousand_programs_the_record_is_the_models(program: list[Step]) -> None:
    found, expected = anyio.run(play, program)
    assert found == expected
