"""A whole daemon, stopped by SIGSTOP at any point, goes on after a successor finished the work: one effect.

The points are those of the history of runs, and those that only chain runs have: approvals, timers, notices, worktrees.

The frozen daemon's lock file is unlinked meanwhile, or no successor could start. With a fence taken out the same
history must show two effects, or fail otherwise: so each of these proofs can fail.

Inside a transaction the frozen one holds the database, and inside a journal's lock that journal: there the successor
can't finish, says so, and nobody is harmed.
"""

import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.proof import chain_runs
from tests.proof.account import Account, account, difference
from tests.proof.history import first_chapter, let_go
from tests.proof.place import Place
from tests.proof.processes import Forks, Process
from tests.waiting import wait_for

IN_LOCK = ("journal.append.before", "journal.append.after")
SUPERSEDED = 75
OF_A_START = ("epoch of the start", "lock of the start", "mark of the start", "run.json of the start")
NO_EPOCH = ("epoch of the store", "epoch of the files", "look at the epoch")
PARTS = 4
"""The sweep is dealt out in so many tests: a slow machine does each within its time."""

SAMPLE = 2
"""CI takes every so many kinds of points, `make sweep` every point."""


OF_CHAIN_RUNS: Final = (
    "notice.",
    "start.",
    "worktree.",
    "commit.notice.",
    "commit.start.",
    "commit.worktree.",
    "commit.apply.",
    "commit.finish.",
)
"""The beginnings of the names of what chain runs wait for, or have done outside."""


@pytest.fixture(scope="module")
def undisturbed(in_memory: Path, forks: Forks) -> tuple[Account, list[str]]:
    """The account of a history that nobody disturbed, and the names of its points in order."""
    place = Place(in_memory / "undisturbed", forks)
    first_chapter(place)
    assert place.once("list") == 0
    said = place.started[-1].said()
    points = [line.split()[1] for line in said.splitlines() if line.startswith("point ")]
    let_go(place)
    return account(place), points


class ChainRuns(NamedTuple):
    """The account of the history of chain runs, and the names of its points by chapter."""

    account: Account
    points: list[list[str]]


@pytest.fixture(scope="module")
def undisturbed_chains(in_memory: Path, forks: Forks) -> ChainRuns:
    """The history of chain runs, as it is when nobody disturbs it."""
    place = Place(in_memory / "undisturbed chain runs", forks)
    points = []
    for chapter in chain_runs.CHAPTERS:
        chapter(place)
        assert place.once("list") == 0
        said = place.started[-1].said()
        points.append([line.split()[1] for line in said.splitlines() if line.startswith("point ")])
    chain_runs.check(place)
    return ChainRuns(account(place), points)


def _in_transaction(point: str) -> bool:
    """Whether a daemon that is frozen at this point holds the database."""
    return point.startswith("commit.") and point.endswith(".before")


def _frozen(
    place: Place,
    point: int | str,
    fences_out: Sequence[str] = (),
    chapter: Callable[[Place], None] = first_chapter,
) -> Process:
    """A daemon that stands still at a point of the history; nobody knows its lock any more."""
    chapter(place)
    zombie = place.daemon("--once", fault=f"stop@{point}", fences_out=fences_out)
    assert zombie.wait_stopped(), f"it never came to {point}:\n{zombie.said()}"
    (place.state / "lock").unlink()
    return zombie


def _judged_by_a_successor(place: Place, point: int | str, fences_out: Sequence[str] = ()) -> Process:
    """The zombie, after a successor did all the work and the zombie went on to its own end."""
    zombie = _frozen(place, point, fences_out)
    assert place.once() == 0, place.started[-1].said()
    zombie.go_on()
    zombie.wait()
    let_go(place)
    return zombie


@pytest.mark.prove
@pytest.mark.longest
@pytest.mark.parametrize("part", range(PARTS // SAMPLE))
def test_a_daemon_frozen_at_a_point_of_some_kinds_does_nothing_when_it_wakes_up(
    undisturbed: tuple[Account, list[str]], in_memory: Path, forks: Forks, part: int
) -> None:
    expected, points = undisturbed
    for name in [*dict.fromkeys(points)][SAMPLE * part :: PARTS]:
        if not _in_transaction(name) and name not in IN_LOCK:
            _prove_one_effect(
                Place(in_memory / f"kind-{name}", forks), points.index(name) + 1, points, expected
            )


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.longest
@pytest.mark.parametrize("part", range(PARTS))
def test_a_daemon_frozen_at_any_point_does_nothing_when_it_wakes_up(
    undisturbed: tuple[Account, list[str]], in_memory: Path, forks: Forks, part: int
) -> None:
    expected, points = undisturbed
    for index, name in [*enumerate(points)][part::PARTS]:
        if not _in_transaction(name) and name not in IN_LOCK:
            _prove_one_effect(Place(in_memory / f"every-{index}", forks), index + 1, points, expected)


@pytest.mark.prove
@pytest.mark.parametrize(("chapter", "point"), [(0, "notice.before"), (2, "worktree.before")])
def test_a_daemon_frozen_before_it_carries_out_what_a_chain_run_ordered_does_nothing_twice(
    undisturbed_chains: ChainRuns, in_memory: Path, forks: Forks, chapter: int, point: str
) -> None:
    number = undisturbed_chains.points[chapter].index(point) + 1
    _prove_chain_runs_once(Place(in_memory / f"chains-{point}", forks), chapter, number, undisturbed_chains)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.longest
@pytest.mark.parametrize("chapter", range(len(chain_runs.CHAPTERS)))
def test_a_daemon_frozen_at_any_point_of_what_chain_runs_do_does_nothing_twice(
    undisturbed_chains: ChainRuns, in_memory: Path, forks: Forks, chapter: int
) -> None:
    for index, name in enumerate(undisturbed_chains.points[chapter]):
        if name.startswith(OF_CHAIN_RUNS) and not _in_transaction(name):
            place = Place(in_memory / f"chains-{chapter}-{index}", forks)
            _prove_chain_runs_once(place, chapter, index + 1, undisturbed_chains)


def _prove_chain_runs_once(place: Place, frozen: int, point: int, undisturbed: ChainRuns) -> None:
    told = f"frozen at point {point} of chapter {frozen}, {undisturbed.points[frozen][point - 1]}"
    for number, chapter in enumerate(chain_runs.CHAPTERS):
        if number != frozen:
            chapter(place)
            assert place.once() == 0, place.started[-1].said()
            continue
        zombie = _frozen(place, point, chapter=chapter)
        assert place.once() == 0, place.started[-1].said()
        zombie.go_on()
        assert zombie.wait() == SUPERSEDED, f"{told}:\n{zombie.said()}"
        assert "Traceback" not in zombie.said(), told
    chain_runs.check(place)
    parted = difference(undisturbed.account, account(place))
    assert not parted, f"{told}:\n{parted}"


def _prove_one_effect(place: Place, point: int, points: list[str], expected: Account) -> None:
    zombie = _judged_by_a_successor(place, point)
    told = f"frozen at point {point}, {points[point - 1]}"
    parted = difference(expected, account(place))
    assert not parted, f"{told}:\n{parted}"
    if points[point - 1 :] == ["commit.stop.after"]:
        assert zombie.code == 0, f"{told}: it had nothing left to do\n{zombie.said()}"
    else:
        assert zombie.code == SUPERSEDED, f"{told}:\n{zombie.said()}"
        assert "another daemon took over the state directory" in zombie.said(), told
        assert "Traceback" not in zombie.said(), told


def _parted_after_a_freeze_in_a_transaction(place: Place, name: str, expected: Account) -> str:
    """Where the history of a daemon that held the database while it was frozen parts from what is expected."""
    zombie = _frozen(place, name)
    successor = place.daemon("--once")
    assert successor.wait() == SUPERSEDED, successor.said()
    assert "database is locked" in successor.said()
    assert "Traceback" not in successor.said()
    zombie.go_on()
    assert zombie.wait() == 0, zombie.said()
    assert place.once() == 0
    parted = difference(expected, account(place))
    let_go(place)
    return parted


def test_a_daemon_frozen_inside_a_transaction_keeps_its_successor_out_and_finishes_the_work_itself(
    undisturbed: tuple[Account, list[str]], in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "in-apply", forks)
    assert not _parted_after_a_freeze_in_a_transaction(place, "commit.finish.before", undisturbed[0])


@pytest.mark.prove
@pytest.mark.longest  # it waits for the database again and again
@pytest.mark.timeout(900)
def test_a_daemon_frozen_inside_any_transaction_keeps_its_successor_out(
    undisturbed: tuple[Account, list[str]], in_memory: Path, forks: Forks
) -> None:
    expected, points = undisturbed
    for name in filter(_in_transaction, dict.fromkeys(points)):
        place = Place(in_memory / f"in-{name}", forks)
        assert not _parted_after_a_freeze_in_a_transaction(place, name, expected), name


@pytest.mark.prove
@pytest.mark.parametrize("name", IN_LOCK)
def test_a_daemon_frozen_inside_a_journals_lock_holds_up_that_journal_and_doubles_no_line(
    undisturbed: tuple[Account, list[str]], in_memory: Path, forks: Forks, name: str
) -> None:
    assert not _parted_after_a_freeze_in_a_lock(Place(in_memory / name, forks), name, undisturbed[0])


@pytest.mark.sweep
@pytest.mark.timeout(1200)
def test_a_daemon_frozen_inside_any_journals_lock_doubles_no_line(
    undisturbed: tuple[Account, list[str]], in_memory: Path, forks: Forks
) -> None:
    expected, points = undisturbed
    for index, name in enumerate(points):
        if name in IN_LOCK:
            place = Place(in_memory / f"lock-{index}", forks)
            assert not _parted_after_a_freeze_in_a_lock(place, index + 1, expected), f"{index + 1}, {name}"


def _parted_after_a_freeze_in_a_lock(place: Place, point: int | str, expected: Account) -> str:
    """Where the history of a daemon that held a journal while it was frozen parts from what is expected."""
    zombie = _frozen(place, point)
    successor = place.daemon()
    place.wait_ready(successor)
    wait_for(lambda: place.log("journal.delayed"), f"a delayed journal; it said\n{successor.said()}")
    refused = {(each["session"], each["journal"], each["why"]) for each in place.log("journal.delayed")}
    ((_, _, why),) = refused  # every other journal goes on
    assert "another writer has its lock" in str(why)
    zombie.go_on()
    assert zombie.wait() == SUPERSEDED, zombie.said()
    # The one journal goes on after its next try.
    wait_for(lambda: place.rows("select count(*) from outbox") == [(0,)], "every line")
    successor.send(signal.SIGTERM)
    assert successor.wait() == 0, successor.said()
    parted = difference(expected, account(place))
    let_go(place)
    return parted


def test_an_idle_daemon_that_was_frozen_and_superseded_ends_by_itself(place: Place) -> None:
    place.finished_run("one")
    zombie = place.daemon()
    place.wait_ready(zombie)
    place.wait_ended(1)
    wait_for(lambda: place.rows('select 1 from journal_lines where "offset" is not null'), "the sweep")
    zombie.stop()
    (place.state / "lock").unlink()
    with place.serving():
        wait_for(lambda: place.status().get("epoch") == 2, "the successor's report")
        zombie.go_on()
        assert zombie.wait() == SUPERSEDED, zombie.said()
        assert place.log("superseded")
        assert place.status()["epoch"] == 2, "the one that was superseded says nothing of itself any more"


# With a fence taken out.


@pytest.mark.prove
def test_without_the_epoch_in_the_journals_lock_lines_are_doubled(in_memory: Path, forks: Forks) -> None:
    place = Place(in_memory / "no-epoch-in-lock", forks)
    _judged_by_a_successor(place, "outbox.before", ["epoch of the journal", "look for lines"])
    told = Counter(event for run in place.runs.iterdir() for event in place.journal_of_ours(run.name))
    assert told["session_started"] > len(place.statuses()), "two effects"
    with pytest.raises(AssertionError, match="lines of ours"):
        account(place)


@pytest.mark.prove
def test_without_the_epoch_in_transactions_a_superseded_daemon_goes_on_as_if_it_were_the_only_one(
    in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "no-epoch-in-transactions", forks)
    zombie = _judged_by_a_successor(place, "commit.turn.begin", NO_EPOCH)
    assert zombie.code == 0, zombie.said()
    assert not place.log("superseded")


@pytest.mark.prove
def test_without_the_epoch_in_transactions_the_token_refuses_a_second_completion(
    in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "only-the-token", forks)
    zombie = _judged_by_a_successor(place, "commit.finish.begin", NO_EPOCH)
    assert zombie.code not in (0, SUPERSEDED), "it fails, unexplained"
    assert "token = ?" in zombie.said()


@pytest.mark.prove
def test_without_epoch_and_token_a_job_is_completed_twice(in_memory: Path, forks: Forks) -> None:
    place = Place(in_memory / "no-token", forks)
    zombie = _judged_by_a_successor(place, "commit.finish.begin", [*NO_EPOCH, "token of the job"])
    assert zombie.code == 0, "it never learns that its time is over"
    held = place.rows("select handler from jobs where state = 'held'")
    assert held == [("requests/play",)], "what the successor had done, the zombie held"
    assert _times_run(place) == 1, "that a run is ordered once is kept by the database, too"


@pytest.mark.prove
@pytest.mark.parametrize("left", OF_A_START)
def test_any_one_fence_of_a_start_is_enough_to_have_it_started_once(
    in_memory: Path, forks: Forks, left: str
) -> None:
    place = Place(in_memory / f"only-the-{left.replace(' ', '-')}", forks)
    zombie = _judged_by_a_successor(place, "start.before", [each for each in OF_A_START if each != left])
    assert zombie.code == SUPERSEDED, zombie.said()
    assert _times_run(place) == 1


@pytest.mark.prove
def test_without_all_fences_of_a_start_it_is_started_twice(in_memory: Path, forks: Forks) -> None:
    place = Place(in_memory / "no-fence-of-a-start", forks)
    _judged_by_a_successor(place, "start.before", OF_A_START)
    wait_for(lambda: _times_run(place) == 2, "two effects")
    (run,) = place.runs.glob("played-*")
    wait_for(
        lambda: not list(run.glob(".exit.json.*")), "the end of the second run, which is written there too"
    )


@pytest.mark.prove
def test_without_all_fences_of_a_start_its_worktree_is_made_a_second_time(
    in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "no-fence-of-a-worktree", forks)
    chain_runs.report(place)
    assert place.once() == 0, place.started[-1].said()
    zombie = _frozen(place, "start.before", OF_A_START, chain_runs.approve)
    assert place.once() == 0, place.started[-1].said()
    zombie.go_on()
    zombie.wait()
    said = r"its worktree can't be made"  # git refuses, because the first one is in its place
    wait_for(lambda: any(said in each.read_text() for each in place.runs.glob("cr_*/exit.json")), said)
    chain_runs.let_go(place)


@pytest.mark.prove
def test_without_the_fence_of_worktrees_the_hooks_of_their_repository_run(
    in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "hooks-of-a-worktree", forks)
    chain_runs.report(place)
    assert place.once() == 0, place.started[-1].said()
    chain_runs.approve(place)
    assert place.once(fences_out=["no hooks in a worktree"]) == 0, place.started[-1].said()
    wait_for(chain_runs.hooked(place.directory).exists, "what the hook leaves behind")
    chain_runs.let_go(place)


def _times_run(place: Place) -> int:
    """How often the command of the run that was asked for ran."""
    (ran,) = place.runs.glob("played-*/artifacts/ran")
    return ran.read_text().count("ran\n")
