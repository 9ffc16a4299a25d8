"""`kill -9` of the daemon at every point of a scripted history: what is left is what an undisturbed run leaves.

A point stands before and after every commit, every row of the outbox and every write to a journal. The points are
taken one after the other until the history runs through without being killed.
"""

import random
from pathlib import Path

import pytest
from tests.proof.account import Account, account, difference
from tests.proof.history import CHAPTERS
from tests.proof.place import Place
from tests.proof.processes import Forks

KILLED = -9
SAMPLE = 72
"""In the default run every so many points are taken and one of every other name, each time other ones."""

PARTS = 6
"""The exhaustive sweep of a chapter is dealt out in so many tests: a slow machine does each within its time."""


@pytest.fixture(scope="module")
def undisturbed(in_memory: Path, forks: Forks) -> tuple[Account, list[list[str]]]:
    """The account of a history that nobody disturbed, and the names of its points by chapter."""
    place = Place(in_memory / "undisturbed", forks)
    points = []
    for chapter in CHAPTERS:
        chapter(place)
        assert place.once("list") == 0
        said = place.started[-1].said()
        points.append([line.split()[1] for line in said.splitlines() if line.startswith("point ")])
    return account(place), points


def test_the_history_has_every_end_and_every_kind_of_point(
    undisturbed: tuple[Account, list[list[str]]],
) -> None:
    told, points = undisturbed
    reasons = {line.split(" | ")[12] for line in told["sessions"]}
    assert reasons == {
        "run.completed.ok",
        "run.failed.missing_artifact",
        "run.failed.signal",
        "run.failed.exit_nonzero",
        "run.started.ok",
    }
    assert len(told["problems"]) == 0, "the ill-formed end was fixed"
    kinds = {"commit", "outbox", "journal", "sweep", "start", "bundle", "replay"}
    assert {name.split(".")[0] for name in points[0]} == kinds
    assert {"start.before", "start.after", "commit.start.before"} <= set(points[0])
    assert [line.split(" | ")[-3:] for line in told["starts"]] == [["begun", "None", "0"]]
    assert sum(" | requests/play | " in line for line in told["decisions"]) == 3
    assert any('"produced":[{"id":"ran","path":"ran","size":4}]' in line for line in told["sessions"]), "once"
    assert {"cancel.before", "cancel.after", "commit.cancel.before"} <= set(points[1])
    assert len(told["cancellations"]) == 1
    assert {"compare.before", "commit.journals.before", "commit.stop.after"} <= set(points[2])
    assert sum(" | JournalDamaged | " in line for line in told["events"]) == 3
    assert sum(" | requests/cancel | " in line for line in told["decisions"]) == 3
    assert len(told["files"]) == 14, "every produced file of every attempt"
    assert all(line.endswith(" | None") for line in told["files"]), "each with its hash and no problem"
    assert min(len(each) for each in points) > 40
    assert told["inbox"] == []
    assert told["rejected"] == ["not-a-request.json"]


@pytest.mark.longest
@pytest.mark.timeout(900)  # over a hundred daemons, each at the mercy of a loaded machine
def test_a_daemon_killed_at_any_point_leaves_what_an_undisturbed_one_leaves(
    undisturbed: tuple[Account, list[list[str]]], in_memory: Path, forks: Forks
) -> None:
    expected, points = undisturbed
    for chapter, number in _sampled(points):
        _kill_and_compare(Place(in_memory / f"{chapter}-{number}", forks), chapter, [number], expected)


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("chapter", [0, 1, 2])
@pytest.mark.longest
def test_a_daemon_killed_at_every_single_point_leaves_what_an_undisturbed_one_leaves(
    undisturbed: tuple[Account, list[list[str]]], in_memory: Path, forks: Forks, chapter: int, part: int
) -> None:
    expected, points = undisturbed
    number, killed = 1 + part, True
    while killed:
        place = Place(in_memory / f"every-{chapter}-{number}", forks)
        killed = _kill_and_compare(place, chapter, [number], expected)
        number += PARTS
    assert number - PARTS >= len(points[chapter]) - 1, "the sweep ended before the history did"


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(5))
def test_a_daemon_that_is_killed_again_and_again_while_it_recovers_leaves_the_same(
    undisturbed: tuple[Account, list[list[str]]], in_memory: Path, forks: Forks, part: int
) -> None:
    expected, points = undisturbed
    for seed in range(8 * part, 8 * part + 8):
        chance = random.Random(seed)
        chapter = chance.randrange(3)
        numbers = [chance.randint(1, len(points[chapter])) for _ in range(6)]
        place = Place(in_memory / f"again-{seed}", forks)
        _kill_and_compare(place, chapter, numbers, expected, f"seed {seed}: ")


def test_without_looking_for_what_stands_already_a_killed_daemons_line_is_doubled(place: Place) -> None:
    place.finished_run("delivers")
    assert place.once("kill@journal.append.after") == KILLED
    assert place.once(fences_out=["look for lines"]) == 0
    assert place.journal("delivers").count("session_started") == 2
    with pytest.raises(AssertionError, match="lines of ours"):
        account(place)


def _sampled(points: list[list[str]]) -> list[tuple[int, int]]:
    """Chapter and number of the points of the default run."""
    every = [
        (chapter, number, name)
        for chapter, names in enumerate(points)
        for number, name in enumerate(names, start=1)
    ]
    random.shuffle(every)
    of_every_name = {name: (chapter, number) for chapter, number, name in every}
    of_some_names = random.sample(sorted(of_every_name.values()), len(of_every_name) // 2)
    return sorted({*of_some_names, *((chapter, number) for chapter, number, _ in every[::SAMPLE])})


def _kill_and_compare(
    place: Place, chapter: int, numbers: list[int], expected: Account, told: str = ""
) -> bool:
    """Play the history, killing a daemon of `chapter` at each of the points in turn; whether the first was killed."""
    killed = False
    for current, prepare in enumerate(CHAPTERS):
        prepare(place)
        for position, number in enumerate(numbers if current == chapter else []):
            code = place.once(f"kill@{number}")
            assert code in (KILLED, 0), place.started[-1].said()
            killed = killed or (position == 0 and code == KILLED)
        assert place.once() == 0, place.started[-1].said()
    parted = difference(expected, account(place))
    assert not parted, f"{told}killed at {numbers} of chapter {chapter}:\n{parted}"
    return killed
