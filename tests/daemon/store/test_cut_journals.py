"""Journals cut at every byte of their last records while the daemon is down, and written to by others after that."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.daemon.store.damaged_journals import EVENTS, THEIRS, cut, lines_of, live, repair, values

WRITERS: Final[dict[str, bytes]] = {
    "nobody": b"",
    "a line": THEIRS,
    "two lines": THEIRS * 2,
    "a torn line": THEIRS[:31],
    "a brace": b"{",
    "no text": b"\xff\x00",
    "a line and a torn one": THEIRS + THEIRS[:9],
}
"""What another writer has appended to a journal where a power cut had cut it."""


class Case(NamedTuple):
    """A run whose journal is cut, and after how many bytes; then a writer goes on in it."""

    events_at: int
    foreign: bytes


def cuts(lines: list[bytes]) -> range:
    """Every place in the last two records, and the end."""
    end = sum(map(len, lines))
    return range(end - sum(map(len, lines[-2:])), end + 1)


def cases(events: list[bytes]) -> Iterator[Case]:
    """Every cut of the journal, with every writer."""
    for foreign in WRITERS.values():
        for at in cuts(events):
            yield Case(at, foreign)


async def wrong_repairs(
    base: Path, choose: Callable[[list[Case]], list[Case]], *, ended: bool
) -> list[tuple[Case, str]]:
    """Cut journals, have them repaired twice, and tell what does not hold then, of each case."""
    sample = (await live(base / "sample", ended=ended))[0]
    chosen = choose(list(cases(lines_of(sample))))
    directories = await live(base, ended=ended, runs=len(chosen))
    ours = [lines_of(each) for each in directories]
    left = [
        cut(each, EVENTS, case.events_at, case.foreign)
        for each, case in zip(directories, chosen, strict=True)
    ]
    await repair(base)
    again = [lines_of(each) for each in directories]
    wrong = [
        (case, what)
        for directory, case, lines, before in zip(directories, chosen, ours, left, strict=True)
        for what in wrong_with(directory, case, lines, before)
    ]
    await repair(base)
    later = [lines_of(each) for each in directories]
    wrong += [
        (case, "once was not enough")
        for case, one, other in zip(chosen, again, later, strict=True)
        if one != other
    ]
    return wrong


def wrong_with(directory: Path, case: Case, lines: list[bytes], before: bytes) -> Iterator[str]:
    """Every line of ours exists once, in order, no byte that was there is gone, and the repair is told."""
    content = (directory / EVENTS).read_bytes()
    if not content.startswith(before):
        yield "a byte is gone"
    if [line for line in content.splitlines(keepends=True) if line in lines] != lines:
        yield "each line does not stand once, in order"
    told = [each for each in values(directory) if each.get("event") == "journal_repaired"]
    lost = [EVENTS] if case.events_at < sum(map(len, lines)) else []
    if [str(each["path"]) for each in told] != lost:
        yield f"{lost} was cut, and it is told: {told}"
    if not all(each["role"] == "runward" and each["lines_written_again"] in (1, 2) for each in told):
        yield f"not one or two lines were written again: {told}"
    if any(each["lines_changed"] for each in told):
        yield f"nobody changed anything: {told}"


async def test_journals_that_were_cut_in_their_last_two_records_are_repaired(tmp_path: Path) -> None:
    sample = random.Random(1).sample
    assert await wrong_repairs(tmp_path, lambda every: sample(every, 120), ended=True) == []


def after_whole_lines(every: list[Case]) -> list[Case]:
    """Those after which no living run is in the middle of a line."""
    return [each for each in every if each.foreign in (b"", THEIRS, THEIRS * 2)]


async def test_journals_of_living_runs_that_were_cut_are_repaired(tmp_path: Path) -> None:
    sample = random.Random(2).sample
    assert (
        await wrong_repairs(tmp_path, lambda every: sample(after_whole_lines(every), 60), ended=False) == []
    )


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ended", [True, False])
async def test_journals_cut_at_every_byte_of_their_last_two_records_are_repaired(
    tmp_path: Path, ended: bool
) -> None:
    choose = (lambda every: every) if ended else after_whole_lines
    assert await wrong_repairs(tmp_path, choose, ended=ended) == []
