"""The daemon follows foreign sessions, as a user sees it: real files, real processes, a real daemon."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from tests.handlers.layouts import codex_lines, ctcp_lines
from tests.handlers.layouts.claude_code_lines import Transcript, good_turn
from tests.handlers.usage.naive import claude_code_replies, codex_replies
from tests.handlers.usage.test_counting import of_replies, summed
from tests.proof.homes import BEGAN, Homes, add, rollout
from tests.proof.place import NEVER_SCANNED, Place
from tests.proof.processes import Forks
from tests.waiting import wait_for

from runward.daemon.watch.remembered import load_remembered
from runward.handlers.usage.counting import Counted

pytestmark = pytest.mark.prove

SESSION = "5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b11"
THREAD = codex_lines.THREAD
RUN = "run-7"
SUPERSEDED = 75
OK = ("completed", "run.completed.ok")
RUNNING = ("running", "run.started.ok")
RESUMED = ("running", "run.started.resumed")


@pytest.fixture
def homes(place: Place) -> Homes:
    return Homes(place)


def good(homes: Homes, now: float | None = None) -> Transcript:
    """A headless session that was asked once and ended well."""
    transcript = homes.transcript(SESSION, now)
    good_turn(transcript)
    return transcript


def grown(homes: Homes, path: Path, lines: list[bytes]) -> None:
    """Write a log line by line; it is followed as running before its last line comes."""
    session = THREAD if homes.codex in path.parents else SESSION
    add(path, lines[:-2])
    homes.wait_standing(session, *RUNNING)
    add(path, lines[-2:-1])
    add(path, lines[-1:])


def test_a_session_that_grows_is_running_and_then_judged(homes: Homes) -> None:
    with homes.place.serving():
        grown(homes, homes.log_of(SESSION), good(homes).lines)
        grown(homes, homes.rollout_of(THREAD), rollout(THREAD))
        homes.wait_standing(SESSION, *OK, 1)
        homes.wait_standing(THREAD, *OK, 1)


@pytest.mark.prove
def test_a_session_whose_process_is_killed_is_aborted(homes: Homes) -> None:
    with homes.place.serving(), homes.process_of(SESSION) as process, homes.holder_of(THREAD) as holder:
        add(homes.log_of(SESSION), good(homes).lines[:-1])
        add(homes.rollout_of(THREAD), rollout(THREAD, codex_lines.killed_in_tool))
        homes.wait_standing(SESSION, *RUNNING)
        homes.wait_standing(THREAD, *RUNNING)
        for each in (process, holder):
            each.kill()
            each.wait()
        homes.wait_standing(SESSION, "aborted", "run.aborted.process_gone", 1)
        homes.wait_standing(THREAD, "aborted", "run.aborted.process_gone", 1)


def test_a_session_that_is_resumed_after_its_end_has_a_second_attempt(homes: Homes) -> None:
    with homes.place.serving():
        transcript = good(homes)
        add(homes.log_of(SESSION), transcript.lines)
        lines = rollout(THREAD, codex_lines.resumed)
        first = len(rollout(THREAD))
        add(homes.rollout_of(THREAD), lines[:first])
        homes.wait_standing(SESSION, *OK, 1)
        homes.wait_standing(THREAD, *OK, 1)
        before = len(transcript.lines)
        transcript.prompt("go on")
        add(homes.log_of(SESSION), transcript.lines[before:])
        add(homes.rollout_of(THREAD), lines[first:-1])
        homes.wait_standing(SESSION, *RESUMED, 2)
        homes.wait_standing(THREAD, *RESUMED, 2)
        transcript.api_error()
        add(homes.log_of(SESSION), transcript.lines[-1:])
        add(homes.rollout_of(THREAD), lines[-1:])
        homes.wait_standing(SESSION, "failed", "run.failed.api_error", 2)
        homes.wait_standing(THREAD, *OK, 2)
    assert homes.attempts(SESSION) == [(1, "completed"), (2, "failed")]


def test_a_session_that_is_moved_while_it_is_open_stays_the_same(homes: Homes) -> None:
    lines, archived = rollout(THREAD), homes.codex / "archived_sessions"
    archived.mkdir()
    elsewhere = homes.projects / "-home-dev-elsewhere"
    elsewhere.mkdir()
    transcript = good(homes)
    with homes.place.serving():
        add(homes.rollout_of(THREAD), lines[:-1])
        add(homes.log_of(SESSION), transcript.lines[:-1])
        homes.wait_standing(THREAD, *RUNNING)
        homes.wait_standing(SESSION, *RUNNING)
        there = homes.rollout_of(THREAD).rename(archived / homes.rollout_of(THREAD).name)
        gone_on = homes.log_of(SESSION).rename(elsewhere / f"{SESSION}.jsonl")
        wait_for(lambda: homes.path(THREAD) == str(there), "the place that it was moved to")
        wait_for(lambda: homes.path(SESSION) == str(gone_on), "the place that it was moved to")
        add(there, lines[-1:])
        add(gone_on, transcript.lines[-1:])
        homes.wait_standing(THREAD, *OK, 1)
        homes.wait_standing(SESSION, *OK, 1)
    assert homes.attempts(THREAD) == [(1, "completed")]


def test_a_session_that_is_put_away_and_packed_after_its_end_is_still_the_same(homes: Homes) -> None:
    archived = homes.codex / "archived_sessions"
    archived.mkdir()
    with homes.place.serving():
        add(homes.rollout_of(THREAD), rollout(THREAD))
        homes.wait_standing(THREAD, *OK, 1)
        before = homes.events()
        there = homes.rollout_of(THREAD).rename(archived / homes.rollout_of(THREAD).name)
        wait_for(lambda: homes.path(THREAD) == str(there), "the place that it was moved to")
        packed = there.with_name(there.name + ".zst")
        packed.write_bytes(zstandard.compress(there.read_bytes()))
        there.unlink()
        _let_pass(homes)
        assert homes.events()[: len(before)] == before
        assert homes.attempts(THREAD) == [(1, "completed")]
        assert homes.standing(THREAD) == (*OK, 1)


def test_a_session_that_is_packed_while_it_is_open_goes_on(homes: Homes) -> None:
    lines, log = rollout(THREAD), homes.rollout_of(THREAD)
    packed = log.with_name(log.name + ".zst")
    with homes.place.serving():
        add(log, lines[:-1])
        homes.wait_standing(THREAD, *RUNNING)
        packed.write_bytes(zstandard.compress(log.read_bytes()))
        log.unlink()
        packed.write_bytes(zstandard.compress(b"".join(line + b"\n" for line in lines)))
        homes.wait_standing(THREAD, *OK, 1)
    assert homes.attempts(THREAD) == [(1, "completed")]


def test_a_session_that_is_seen_under_two_roots_is_one(homes: Homes) -> None:
    other = homes.place.directory / "copies"
    (other / "-home-dev-app").mkdir(parents=True)
    homes.set_up(("claude", "claude-code", homes.projects), ("copies", "claude-code", other))
    transcript = good(homes)
    copy = other / "-home-dev-app" / f"{SESSION}.jsonl"
    with homes.place.serving():
        for path in (homes.log_of(SESSION), copy):
            add(path, transcript.lines[:-1])
        homes.wait_standing(SESSION, *RUNNING)
        for path in (homes.log_of(SESSION), copy):
            add(path, transcript.lines[-1:])
        homes.wait_standing(SESSION, *OK, 1)
        _let_pass(homes)
        assert homes.attempts(SESSION) == [(1, "completed")]


def test_a_copy_that_outlives_its_original_is_followed_on(homes: Homes) -> None:
    other = homes.place.directory / "copies"
    (other / "-home-dev-app").mkdir(parents=True)
    homes.set_up(("claude", "claude-code", homes.projects), ("copies", "claude-code", other))
    transcript = good(homes)
    copy = other / "-home-dev-app" / f"{SESSION}.jsonl"
    with homes.place.serving():
        add(homes.log_of(SESSION), transcript.lines[:-1])
        homes.wait_standing(SESSION, *RUNNING)
        add(copy, transcript.lines[:-1])
        _let_pass(homes)
        homes.log_of(SESSION).unlink()
        add(copy, transcript.lines[-1:])
        homes.wait_standing(SESSION, *OK, 1)
    assert homes.path(SESSION) == str(copy)
    assert homes.attempts(SESSION) == [(1, "completed")]


def test_a_session_whose_end_is_torn_is_judged_once_its_line_is_whole(homes: Homes) -> None:
    transcript = good(homes)
    last = transcript.lines[-1]
    with homes.place.serving():
        add(homes.log_of(SESSION), transcript.lines[:-1])
        homes.wait_standing(SESSION, *RUNNING)
        with homes.log_of(SESSION).open("ab") as file:
            file.write(last[: len(last) // 2])
        _let_pass(homes)
        assert homes.standing(SESSION) == (*RUNNING, 1)
        with homes.log_of(SESSION).open("ab") as file:
            file.write(last[len(last) // 2 :] + b"\n")
        homes.wait_standing(SESSION, *OK, 1)


def test_a_session_whose_transcript_is_written_anew_stays_the_same(homes: Homes) -> None:
    transcript = good(homes)
    with homes.place.serving():
        add(homes.log_of(SESSION), transcript.lines)
        homes.wait_standing(SESSION, *OK, 1)
        before = homes.events()
        new = homes.place.directory / "new.jsonl"
        add(new, transcript.lines)
        new.rename(homes.log_of(SESSION))
        _let_pass(homes)
        wait_for(lambda: _inode_read(homes) == homes.log_of(SESSION).stat().st_ino, "the new file")
    assert [row for row in homes.events() if str(row[0]).startswith("claude")] == before


def _inode_read(homes: Homes) -> int:
    ((state,),) = homes.place.rows("select state from cursors where session_key like 'claude-code:%'")
    return load_remembered(str(state)).read.logs[0].cursor.inode


def test_a_rule_holds_for_a_session_whose_directory_comes_with_a_later_line(homes: Homes) -> None:
    (homes.place.directory / "playbooks").mkdir()
    playbook = homes.place.directory / "playbooks/review.playbook.yaml"
    playbook.write_text("artifacts:\n  expected:\n    - {id: review, path: review.md}\n")
    homes.settle = "2s"
    rule = '[[contracts]]\nmatch = {cwd = "/home/dev/app"}\nplaybook = "review"\n'
    homes.set_up(("claude", "claude-code", homes.projects), contracts=rule)
    lines = good(homes).lines
    with homes.place.serving():
        add(homes.log_of(SESSION), lines[:2])
        wait_for(lambda: _read_to(homes) > 0, "the first lines")
        add(homes.log_of(SESSION), lines[2:])
        homes.wait_standing(SESSION, "failed", "run.failed.missing_artifact", 1)


@pytest.mark.prove
def test_a_session_whose_file_is_removed_while_it_is_open_has_vanished(homes: Homes) -> None:
    with homes.place.serving():
        add(homes.log_of(SESSION), good(homes).lines[:-1])
        homes.wait_standing(SESSION, *RUNNING)
        homes.log_of(SESSION).unlink()
        homes.wait_standing(SESSION, "aborted", "run.aborted.vanished", 1)


@pytest.mark.prove
def test_a_session_whose_process_was_killed_while_the_daemon_was_down_is_aborted(homes: Homes) -> None:
    with homes.process_of(SESSION) as process, homes.holder_of(THREAD) as holder:
        with homes.place.serving():
            add(homes.log_of(SESSION), good(homes).lines[:-1])
            add(homes.rollout_of(THREAD), rollout(THREAD, codex_lines.killed_in_tool))
            homes.wait_standing(SESSION, *RUNNING)
            homes.wait_standing(THREAD, *RUNNING)
        for each in (process, holder):
            each.kill()
            each.wait()
        for swept in (*homes.claude.glob("sessions/*"), *homes.codex.glob("thread-writer-locks/*")):
            swept.unlink()
        with homes.place.serving():
            homes.wait_standing(SESSION, "aborted", "run.aborted.process_gone", 1)
            homes.wait_standing(THREAD, "aborted", "run.aborted.process_gone", 1)


@pytest.mark.prove
def test_a_killed_session_that_another_process_resumes_has_a_second_attempt(homes: Homes) -> None:
    transcript = good(homes)
    there = len(transcript.lines)
    with homes.place.serving():
        with homes.process_of(SESSION):
            add(homes.log_of(SESSION), transcript.lines[:-1])
            homes.wait_standing(SESSION, *RUNNING)
        homes.wait_standing(SESSION, "aborted", "run.aborted.process_gone", 1)
        with homes.process_of(SESSION):
            transcript.prompt("go on")
            add(homes.log_of(SESSION), transcript.lines[there:])
            homes.wait_standing(SESSION, *RESUMED, 2)
            transcript.text("Done.")
            add(homes.log_of(SESSION), transcript.lines[-1:])
            homes.wait_standing(SESSION, *OK, 2)


@pytest.mark.prove
def test_a_session_whose_file_went_while_the_daemon_was_down_has_vanished(homes: Homes) -> None:
    with homes.place.serving():
        add(homes.log_of(SESSION), good(homes).lines[:-1])
        homes.wait_standing(SESSION, *RUNNING)
    homes.log_of(SESSION).unlink()
    with homes.place.serving():
        homes.wait_standing(SESSION, "aborted", "run.aborted.vanished", 1)


def test_an_open_session_whose_whole_directory_moves_while_the_daemon_is_down_stays_the_same(
    homes: Homes,
) -> None:
    transcript, elsewhere = good(homes), homes.projects / "-home-dev-elsewhere"
    gone_on = elsewhere / f"{SESSION}.jsonl"
    with homes.place.serving():
        add(homes.log_of(SESSION), transcript.lines[:-1])
        homes.wait_standing(SESSION, *RUNNING)
    homes.project.rename(elsewhere)
    with homes.place.serving():
        wait_for(lambda: homes.path(SESSION) == str(gone_on), "the place that it was moved to")
        add(gone_on, transcript.lines[-1:])
        homes.wait_standing(SESSION, *OK, 1)
    assert homes.attempts(SESSION) == [(1, "completed")]


def test_an_open_session_whose_whole_directory_moves_stays_the_same(homes: Homes) -> None:
    elsewhere = homes.projects / "-home-dev-elsewhere"
    with homes.place.serving():
        add(homes.log_of(SESSION), good(homes).lines[:-1])
        homes.wait_standing(SESSION, *RUNNING)
        homes.project.rename(elsewhere)
        wait_for(lambda: homes.path(SESSION) == str(elsewhere / f"{SESSION}.jsonl"), "its new place")
    assert homes.attempts(SESSION) == [(1, "running")]


def test_a_packed_session_that_is_unpacked_and_resumed_has_a_second_attempt(homes: Homes) -> None:
    log, lines = homes.rollout_of(THREAD), rollout(THREAD, codex_lines.resumed)
    first = len(rollout(THREAD))
    packed = log.with_name(log.name + ".zst")
    with homes.place.serving():
        add(log, lines[:first])
        homes.wait_standing(THREAD, *OK, 1)
        packed.write_bytes(zstandard.compress(log.read_bytes()))
        log.unlink()
        _let_pass(homes)
        log.write_bytes(zstandard.decompress(packed.read_bytes()))
        packed.unlink()
        add(log, lines[first:])
        homes.wait_standing(THREAD, *OK, 2)
    assert homes.attempts(THREAD) == [(1, "completed"), (2, "completed")]


def test_a_session_that_moves_to_another_root_stays_the_same(homes: Homes) -> None:
    other = homes.place.directory / "kept"
    (other / "-home-dev-app").mkdir(parents=True)
    homes.set_up(("claude", "claude-code", homes.projects), ("kept", "claude-code", other))
    transcript = good(homes)
    there = other / "-home-dev-app" / f"{SESSION}.jsonl"
    with homes.place.serving():
        add(homes.log_of(SESSION), transcript.lines[:-1])
        homes.wait_standing(SESSION, *RUNNING)
        homes.log_of(SESSION).rename(there)
        wait_for(lambda: homes.path(SESSION) == str(there), "the place that it was moved to")
        add(there, transcript.lines[-1:])
        homes.wait_standing(SESSION, *OK, 1)
    assert homes.attempts(SESSION) == [(1, "completed")]


def test_a_link_that_takes_the_place_of_an_open_transcript_is_not_followed(homes: Homes) -> None:
    transcript, secret = good(homes), homes.place.directory / "secret.jsonl"
    secret.write_bytes(transcript.content())
    with homes.place.serving():
        add(homes.log_of(SESSION), transcript.lines[:-1])
        homes.wait_standing(SESSION, *RUNNING)
        homes.log_of(SESSION).unlink()
        homes.log_of(SESSION).symlink_to(secret)
        wait_for(lambda: homes.place.rows("select 1 from problems"), "the problem")
        _let_pass(homes)
    assert homes.place.rows("select path, message from problems") == [
        (str(homes.log_of(SESSION)), "is not a regular file")
    ]
    assert homes.standing(SESSION) == (*RUNNING, 1)


def _let_pass(homes: Homes) -> None:
    """Until the daemon has looked at everything that was put there before: a run that came later is judged."""
    name = f"later-{time.monotonic_ns()}"
    homes.place.finished_run(name)
    wait_for(lambda: homes.place.statuses().get(name) == "completed", "the run that came later")


# A history in chapters: a daemon that is killed anywhere in it leaves what an undisturbed one leaves.

Chapter = Callable[[Homes], None]


def _began(homes: Homes) -> None:
    _set(homes, homes.log_of(SESSION), good(homes, BEGAN).lines[:-1])
    _set(homes, homes.rollout_of(THREAD), rollout(THREAD)[:-1])
    homes.place.finished_run("native")


def _ended(homes: Homes) -> None:
    _set(homes, homes.log_of(SESSION), good(homes, BEGAN).lines)
    _set(homes, homes.rollout_of(THREAD), rollout(THREAD))


def _resumed(homes: Homes) -> None:
    transcript = good(homes, BEGAN)
    transcript.prompt("go on")
    _set(homes, homes.log_of(SESSION), transcript.lines)
    archived = homes.codex / "archived_sessions"
    archived.mkdir()
    homes.rollout_of(THREAD).rename(archived / homes.rollout_of(THREAD).name)


def _ended_again(homes: Homes) -> None:
    transcript = good(homes, BEGAN)
    transcript.prompt("go on")
    transcript.api_error()
    _set(homes, homes.log_of(SESSION), transcript.lines)
    there = homes.codex / "archived_sessions" / homes.rollout_of(THREAD).name
    _set(homes, there, rollout(THREAD, codex_lines.resumed))


CHAPTERS: tuple[Chapter, ...] = (_began, _ended, _resumed, _ended_again)


def _set(homes: Homes, path: Path, lines: list[bytes]) -> None:
    """Have a log grow to these lines, written at a time that says nothing of this machine."""
    there = len(path.read_bytes().splitlines()) if path.exists() else 0
    add(path, lines[there:], at=BEGAN + len(lines))


def _played(place: Place, skipped: int | None = None, fault: tuple[int, str] | None = None) -> bool:
    """Play the history; a daemon runs to its end after each chapter but the skipped. Whether one was killed."""
    homes, killed = Homes(place, history="live"), False
    for number, chapter in enumerate(CHAPTERS):
        chapter(homes)
        if number == skipped:
            continue
        if fault is not None and fault[0] == number:
            killed = place.once(fault[1]) == -signal.SIGKILL
        assert place.once() == 0, place.started[-1].said()
    return killed


def _told(place: Place) -> list[tuple[object, ...]]:
    where = str(place.directory)
    rows = Homes(place, history="live").events()
    return [tuple(str(each).replace(where, "<place>") for each in row) for row in rows]


@pytest.fixture(scope="module")
def undisturbed(in_memory: Path, forks: Forks) -> Iterator[tuple[list[tuple[object, ...]], list[int]]]:
    """What is told of the history if nobody disturbs it, and how many points each chapter has."""
    place = Place(in_memory / "undisturbed", forks)
    homes, points = Homes(place, history="live"), []
    for chapter in CHAPTERS:
        chapter(homes)
        assert place.once("list") == 0, place.started[-1].said()
        points.append(sum(line.startswith("point ") for line in place.started[-1].said().splitlines()))
    yield _told(place), points
    place.close()


def test_the_history_of_followed_sessions_has_every_attempt(
    undisturbed: tuple[list[tuple[object, ...]], list[int]],
) -> None:
    keys = {str(row[0]) for row in undisturbed[0]}
    for key in (f"claude-code:{SESSION}", f"codex:{THREAD}"):
        assert {f"{key}#1/started", f"{key}#1/ended", f"{key}#2/started", f"{key}#2/ended"} <= keys
        assert not any(each.startswith(f"{key}#3") for each in keys)
    assert min(undisturbed[1]) > 5


@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_a_daemon_that_was_down_tells_of_every_attempt_afterwards(
    place: Place, undisturbed: tuple[list[tuple[object, ...]], list[int]], skipped: int
) -> None:
    _played(place, skipped)
    assert _keys(_told(place)) == _keys(undisturbed[0])


@pytest.mark.parametrize("chapter", range(len(CHAPTERS)))
def test_a_daemon_that_is_killed_while_it_follows_tells_the_same_afterwards(
    in_memory: Path, forks: Forks, undisturbed: tuple[list[tuple[object, ...]], list[int]], chapter: int
) -> None:
    count = undisturbed[1][chapter]
    for number in sorted({1, 2, count // 3, count // 2, count - 1}):
        _kill(Place(in_memory / f"some-{chapter}-{number}", forks), chapter, number, undisturbed[0])


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("chapter", range(len(CHAPTERS)))
@pytest.mark.longest
def test_a_daemon_that_is_killed_at_every_point_while_it_follows_tells_the_same_afterwards(
    in_memory: Path, forks: Forks, undisturbed: tuple[list[tuple[object, ...]], list[int]], chapter: int
) -> None:
    number = 1
    while _kill(Place(in_memory / f"every-{chapter}-{number}", forks), chapter, number, undisturbed[0]):
        number += 1
    assert number > undisturbed[1][chapter] - 2, "the sweep ended before the chapter did"


def _kill(place: Place, chapter: int, number: int, expected: list[tuple[object, ...]]) -> bool:
    killed = _played(place, fault=(chapter, f"kill@{number}"))
    assert _told(place) == expected, f"killed at {number} of chapter {chapter}"
    _check_usage(place, f"killed at {number} of chapter {chapter}")
    return killed


@pytest.mark.parametrize(
    ("chapter", "point"),
    [(0, "commit.turn.begin"), (1, "commit.turn.after"), (2, "commit.turn.after"), (3, "commit.turn.begin")],
)
def test_a_daemon_that_is_frozen_while_it_follows_and_its_successor_count_each_reply_once(
    in_memory: Path, forks: Forks, chapter: int, point: str
) -> None:
    place = Place(in_memory / f"frozen-{chapter}-{point}", forks)
    homes = Homes(place, history="live")
    for number, each in enumerate(CHAPTERS):
        each(homes)
        if number != chapter:
            assert place.once() == 0, place.started[-1].said()
            continue
        zombie = place.daemon("--once", fault=f"stop@{point}")
        assert zombie.wait_stopped(), zombie.said()
        (place.state / "lock").unlink()
        assert place.once() == 0, place.started[-1].said()
        zombie.go_on()
        assert zombie.wait() == SUPERSEDED, zombie.said()
    _check_usage(place, f"frozen at {point} of chapter {chapter}")


def _check_usage(place: Place, told: str) -> None:
    """What is stored at the end of the history is what a naive reader finds in the files."""
    homes = Homes(place, history="live")
    (rollout_file,) = homes.codex.rglob(f"rollout-*{THREAD}.jsonl")
    in_files = {
        f"claude-code:{SESSION}": claude_code_replies(
            SESSION, homes.log_of(SESSION).read_bytes().splitlines()
        ),
        f"codex:{THREAD}": codex_replies(rollout_file.read_bytes().splitlines()),
    }
    fields = ", ".join(Counted._fields)
    for key, replies in in_files.items():
        rows = place.rows(f"select {fields} from usage where session_key = ?", key)
        stored = summed(Counted(*row) for row in rows)  # type: ignore[arg-type] # the columns are its fields
        assert stored == of_replies(replies) != {}, f"{told}: {key}"


def _keys(told: list[tuple[object, ...]]) -> list[object]:
    return [row[0] for row in told if "/verdict" not in str(row[0])]


def test_a_daemon_that_began_after_everything_tells_of_every_attempt(
    place: Place, undisturbed: tuple[list[tuple[object, ...]], list[int]]
) -> None:
    homes = Homes(place, history="live")
    for chapter in CHAPTERS:
        chapter(homes)
    assert place.once() == 0
    assert _keys(_told(place)) == _keys(undisturbed[0])


def test_a_daemon_that_is_killed_while_a_session_grows_finds_its_end(homes: Homes) -> None:
    transcript = good(homes)
    daemon = homes.place.daemon()
    homes.place.wait_ready(daemon)
    for line in transcript.lines[:-1]:
        add(homes.log_of(SESSION), [line])
    homes.wait_standing(SESSION, *RUNNING)
    daemon.kill()
    add(homes.log_of(SESSION), transcript.lines[-1:])
    with homes.place.serving():
        homes.wait_standing(SESSION, *OK, 1)
    assert homes.attempts(SESSION) == [(1, "completed")]


# What is there at first sight, and what can't be read.


@pytest.mark.prove
def test_a_home_of_old_transcripts_is_history_and_sets_off_nothing(homes: Homes) -> None:
    names = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(200)]
    at = time.time() - 10 * 86_400
    for number, name in enumerate(names):
        transcript = homes.transcript(name, at)
        good_turn(transcript)
        lines = transcript.lines if number % 4 else transcript.lines[:-1]
        add(homes.log_of(name), lines, at=at + 60)
    with homes.place.serving():
        wait_for(lambda: homes.place.ended() == 200, "200 ends")
        _let_pass(homes)
    origins = homes.place.rows("select origin, count(*) from sessions where layout != 'native' group by 1")
    assert origins == [("history", 200)]
    assert homes.journals() == []
    finished = homes.place.rows(
        "select count(*) from events where type = 'SessionFinished' and key like 'claude%'"
        " and json_extract(payload, '$.origin') = 'live'"
    )
    assert finished == [(0,)]
    statuses = homes.place.rows("select status, count(*) from sessions where layout != 'native' group by 1")
    assert statuses == [("aborted", 50), ("completed", 150)]


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_verdicts_on_native_runs_stay_quick_while_a_large_transcript_is_read(homes: Homes) -> None:
    with homes.place.serving():
        alone = [_verdict(homes, f"alone-{number}") for number in range(20)]
        size = _put_large(homes)
        busy: list[float] = []
        while _read_to(homes) < size:
            busy.append(_verdict(homes, f"busy-{len(busy)}"))
        wait_for(
            lambda: homes.standing(SESSION) == (*RUNNING, 1), "its opening, which is decided after the look"
        )
    assert len(busy) > 2, "it was read before a verdict could be measured"
    assert max(busy) < max(10 * max(alone), 0.25), f"{max(busy):.3f} s, and {max(alone):.3f} s without it"


def _put_large(homes: Homes) -> int:
    """Put 60 MB of Claude Code's session, whose turn is open, at once; returns the size."""
    transcript = good(homes)
    opening = len(transcript.lines) - 1
    transcript.result(transcript.call(), "x" * 4000)
    round_of_the_tool = b"".join(line + b"\n" for line in transcript.lines[-2:])
    large = homes.place.directory / "large.jsonl"
    add(large, transcript.lines[:opening])
    with large.open("ab") as file:
        file.write(round_of_the_tool * ((60 << 20) // len(round_of_the_tool)))
    return large.rename(homes.log_of(SESSION)).stat().st_size


@pytest.mark.prove
def test_a_daemon_that_is_killed_in_the_middle_of_a_large_transcript_reads_on(homes: Homes) -> None:
    daemon = homes.place.daemon(fault="kill@commit.turn.after")
    homes.place.wait_ready(daemon)
    size = _put_large(homes)
    assert daemon.wait() == -signal.SIGKILL
    read = _read_to(homes)
    assert 0 < read < size
    add(homes.log_of(SESSION), good(homes).lines[-1:])
    with homes.place.serving():
        homes.wait_standing(SESSION, *OK, 1)
    assert _read_to(homes) == homes.log_of(SESSION).stat().st_size
    assert homes.attempts(SESSION) == [(1, "completed")]


def _verdict(homes: Homes, name: str) -> float:
    """The seconds from a run's end to its verdict."""
    began = time.monotonic()
    homes.place.finished_run(name)
    wait_for(lambda: name in homes.place.statuses(), "its verdict")
    return time.monotonic() - began


def _read_to(homes: Homes) -> int:
    """The bytes of Claude Code's session that were read so far."""
    rows = homes.place.rows("select state from cursors where session_key like 'claude-code:%'")
    return sum(log.cursor.offset for (state,) in rows for log in load_remembered(str(state)).read.logs)


def test_a_packed_transcript_that_is_broken_is_shown_and_harms_no_other(homes: Homes) -> None:
    log = homes.rollout_of(THREAD)
    packed = zstandard.compress(b"".join(line + b"\n" for line in rollout(THREAD)) + os.urandom(100_000))
    log.with_name(log.name + ".zst").write_bytes(packed[: len(packed) // 2])
    nonsense = homes.rollout_of("01a1fd0b-54e7-7290-883d-4a336c7e24d9")
    nonsense.with_name(nonsense.name + ".zst").write_bytes(b"this is not a zstd file at all")
    with homes.place.serving():
        add(homes.log_of(SESSION), good(homes).lines)
        homes.wait_standing(SESSION, *OK, 1)
        wait_for(
            lambda: homes.place.rows("select 1 from problems where path like ?", f"%{nonsense.stem}%"),
            "the problem",
        )


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "socket"])
def test_what_is_no_regular_file_is_no_transcript_and_holds_nobody_up(homes: Homes, kind: str) -> None:
    odd = homes.log_of("00000000-0000-4000-8000-00000000000d")
    secret = homes.place.directory / "secret.jsonl"
    other = homes.transcript(odd.stem)
    good_turn(other)
    secret.write_bytes(other.content())
    match kind:
        case "fifo":
            os.mkfifo(odd)
        case "link":
            odd.symlink_to(secret)
        case "directory":
            odd.mkdir()
        case _:
            os.mknod(odd, 0o140600)
    with homes.place.serving():
        add(homes.log_of(SESSION), good(homes).lines)
        homes.wait_standing(SESSION, *OK, 1)
        _let_pass(homes)
        assert homes.standing(odd.stem) is None


def test_a_transcript_that_may_not_be_read_is_shown_and_followed_once_it_may(homes: Homes) -> None:
    log = homes.log_of(SESSION)
    log.write_bytes(good(homes).content())
    log.chmod(0)
    daemon = homes.place.daemon(unprivileged=True)
    homes.place.wait_ready(daemon)
    wait_for(lambda: homes.place.log("run.unreadable"), "the warning")
    log.chmod(0o600)
    homes.wait_standing(SESSION, *OK, 1)
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0


def test_sessions_of_several_tools_in_one_root_are_told_apart_as_they_come(homes: Homes) -> None:
    root = homes.place.directory / "agents"
    (root / "laptop").mkdir(parents=True)
    homes.set_up(("agents", "auto", root))
    homes.place.settings.write_text(f"{NEVER_SCANNED}\n{homes.place.settings.read_text()}")
    transcript, lines = good(homes), rollout(THREAD)
    log = root / "laptop/projects/-home-dev-app" / f"{SESSION}.jsonl"
    day = root / "laptop/sessions/2026/11/21" / homes.rollout_of(THREAD).name
    run = root / "ci/nightly/7"
    with homes.place.serving():
        for each in (log, day, run / "artifacts/notes"):
            each.parent.mkdir(parents=True)
        add(log, transcript.lines[:-1])
        add(day, lines[:-1])
        add(run / "events.jsonl", ctcp_lines.beginning())
        (run / "RUN.json").write_text(json.dumps(ctcp_lines.run_json("running")))
        homes.wait_standing(SESSION, *RUNNING)
        homes.wait_standing(THREAD, *RUNNING)
        homes.wait_standing(RUN, *RUNNING)
        add(log, transcript.lines[-1:])
        add(day, lines[-1:])
        (run / "new").write_text(json.dumps(ctcp_lines.run_json("pass")))
        (run / "new").rename(run / "RUN.json")
        for session in (SESSION, THREAD, RUN):
            homes.wait_standing(session, *OK, 1)
    layouts = homes.place.rows("select layout from sessions order by layout")
    assert layouts == [("claude-code",), ("codex",), ("ctcp",)]
