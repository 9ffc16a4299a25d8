"""`kill -9` of the daemon at every point of two scripted histories: what is left is what an undisturbed run leaves.

One history is of runs, the other of chain runs, with an approval, a timer, notices and a worktree.

A point stands before and after every commit, every row of the outbox and every write to a journal. The points are
taken one after the other until the history runs through without being killed.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.proof import chain_runs, history
from tests.proof.account import Account, account, difference
from tests.proof.place import Place
from tests.proof.processes import Forks

KILLED = -9
SAMPLE = 200
"""CI takes every so many points, and one of every fourth name."""

PARTS = 6
"""The exhaustive sweep of a chapter is dealt out in so many tests: a slow machine does each within its time."""


HISTORIES: Final[Mapping[str, Sequence[Callable[[Place], None]]]] = {
    "runs": history.CHAPTERS,
    "chain runs": chain_runs.CHAPTERS,
}
EVERY_CHAPTER: Final = [
    (name, number) for name, chapters in HISTORIES.items() for number in range(len(chapters))
]


class Undisturbed(NamedTuple):
    """The account of a history that nobody disturbed, and the names of its points by chapter."""

    account: Account
    points: list[list[str]]


@pytest.fixture(scope="module")
def undisturbed(in_memory: Path, forks: Forks) -> dict[str, Undisturbed]:
    """Each history, as it is when nobody disturbs it."""
    found = {}
    for name, chapters in HISTORIES.items():
        place = Place(in_memory / f"undisturbed {name}", forks)
        points = []
        for chapter in chapters:
            chapter(place)
            assert place.once("list") == 0
            said = place.started[-1].said()
            points.append([line.split()[1] for line in said.splitlines() if line.startswith("point ")])
        found[name] = Undisturbed(_account(place, name), points)
    return found


@pytest.mark.prove
def test_the_history_of_runs_has_every_end_and_every_kind_of_point(
    undisturbed: dict[str, Undisturbed],
) -> None:
    told, points = undisturbed["runs"]
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
    assert {"start.before", "start.after", "start.recorded"} <= set(points[0])
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


@pytest.mark.prove
def test_the_history_of_chain_runs_has_every_kind_of_point(undisturbed: dict[str, Undisturbed]) -> None:
    asked, approved, built, published = undisturbed["chain runs"].points
    assert {"notice.before", "notice.after", "commit.notice.before"} <= set(asked) & set(published)
    assert {"start.before", "start.after", "start.recorded"} <= set(approved) & set(built)
    assert {"worktree.before", "worktree.after", "commit.worktree.before"} <= set(built)
    events = undisturbed["chain runs"].account["events"]
    for kind in ("TimerRang", "ApprovalWanted", "ApprovalDecided", "ChainFired", "ChainRunFinished"):
        assert sum(f" | {kind} | " in line for line in events) == (1 if kind == "TimerRang" else 2), kind


@pytest.mark.prove
@pytest.mark.longest
@pytest.mark.timeout(900)  # over a hundred daemons, each at the mercy of a loaded machine
def test_a_daemon_killed_at_any_point_leaves_what_an_undisturbed_one_leaves(
    undisturbed: dict[str, Undisturbed], in_memory: Path, forks: Forks
) -> None:
    for name, chapter, number in _sampled(undisturbed):
        place = Place(in_memory / f"{name}-{chapter}-{number}", forks)
        _kill_and_compare(place, name, chapter, [number], undisturbed[name].account)


def test_a_daemon_killed_where_a_step_has_just_begun_leaves_what_an_undisturbed_one_leaves(
    undisturbed: dict[str, Undisturbed], in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "begun", forks)
    points = ["start.after", "start.recorded"]
    assert _kill_and_compare(place, "chain runs", 1, points, undisturbed["chain runs"].account)


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("name", "chapter"), EVERY_CHAPTER)
@pytest.mark.longest
def test_a_daemon_killed_at_every_single_point_leaves_what_an_undisturbed_one_leaves(
    undisturbed: dict[str, Undisturbed], in_memory: Path, forks: Forks, name: str, chapter: int, part: int
) -> None:
    expected, points = undisturbed[name]
    number, killed = 1 + part, True
    while killed:
        place = Place(in_memory / f"every-{name}-{chapter}-{number}", forks)
        killed = _kill_and_compare(place, name, chapter, [number], expected)
        number += PARTS
    assert number - PARTS >= len(points[chapter]) - 1, "the sweep ended before the history did"


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.sweep) for part in range(1, 10))])
def test_a_daemon_that_is_killed_again_and_again_while_it_recovers_leaves_the_same(
    undisturbed: dict[str, Undisturbed], in_memory: Path, forks: Forks, part: int
) -> None:
    for seed in range(4 * part, 4 * part + 4):
        chance = random.Random(seed)
        name, chapter = EVERY_CHAPTER[seed % len(EVERY_CHAPTER)]
        expected, points = undisturbed[name]
        numbers = [chance.randint(1, len(points[chapter])) for _ in range(6)]
        place = Place(in_memory / f"again-{seed}", forks)
        _kill_and_compare(place, name, chapter, numbers, expected, f"seed {seed}: ")


def test_without_looking_for_what_stands_already_a_killed_daemons_line_is_doubled(place: Place) -> None:
    place.finished_run("delivers")
    assert place.once("kill@journal.append.after") == KILLED
    assert place.once(fences_out=["look for lines"]) == 0
    assert place.journal("delivers").count("session_started") == 2
    with pytest.raises(AssertionError, match="lines of ours"):
        account(place)


def _sampled(undisturbed: Mapping[str, Undisturbed]) -> list[tuple[str, int, int]]:
    """History, chapter and number of the points that CI takes."""
    every = [
        (name, chapter, number, point)
        for name, (_, points) in undisturbed.items()
        for chapter, passed in enumerate(points)
        for number, point in enumerate(passed, start=1)
    ]
    random.shuffle(every)
    of_every_name = {point: (name, chapter, number) for name, chapter, number, point in every}
    of_some_names = random.sample(sorted(of_every_name.values()), len(of_every_name) // 4)
    return sorted({*of_some_names, *(at[:3] for at in every[::SAMPLE])})


def _account(place: Place, name: str) -> Account:
    if name == "chain runs":
        chain_runs.check(place)
    return account(place)


def _kill_and_compare(
    place: Place, name: str, chapter: int, points: Sequence[int | str], expected: Account, told: str = ""
) -> bool:
    """Play a history, killing a daemon of `chapter` at each of the points in turn; whether the first was killed."""
    killed = False
    for current, prepare in enumerate(HISTORIES[name]):
        prepare(place)
        for position, point in enumerate(points if current == chapter else []):
            code = place.once(f"kill@{point}")
            assert code in (KILLED, 0), place.started[-1].said()
            killed = killed or (position == 0 and code == KILLED)
        assert place.once() == 0, place.started[-1].said()
    parted = difference(expected, _account(place, name))
    assert not parted, f"{told}killed at {points} of chapter {chapter} of {name}:\n{parted}"
    return killed
