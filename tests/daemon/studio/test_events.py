"""The one stream: what it says of changes in the store, to whom, and how often."""

import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.streaming import Serving, serving, threads_that_watch
from tests.waiting import wait_for

from runward.config.studio import StudioSettings
from runward.daemon.disk.credentials import log_out_all
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.studio import events, program, session_pages
from runward.daemon.studio.events import lanes_of
from runward.daemon.views.sessions import newest_sessions
from runward.daemon.web import server

EVENT = (
    "insert into events (seq, key, type, version, lane, at, recorded_at, payload, hash)"
    " values ((select max(seq) + 1 from events), hex(randomblob(8)), 'X', 1, ?, 0, 0, '{}', 'x')"
)


def newest(place: Place) -> int:
    ((seq,),) = place.rows("select max(seq) from events")
    assert isinstance(seq, int)
    return seq


def happen(place: Place, *lanes: str) -> int:
    """An event in each of these lanes; the number of the last one."""
    for each in lanes:
        place.change_store(EVENT, each)
    return newest(place)


@pytest.fixture
def watched(ended: Place, tmp_path: Path, studio_over: Callable[[Place], Studio]) -> Iterator[Serving]:
    """A server over a copy of a place in which something was recorded."""
    studio = studio_over(ended.copy_to(tmp_path / "place"))
    with serving(studio) as made:
        yield made


@pytest.fixture
def place(watched: Serving) -> Place:
    return watched.studio.place


def test_an_event_is_reported_with_its_number_and_its_lane(watched: Serving, place: Place) -> None:
    stream = watched.stream(f"?after={newest(place)}")
    assert stream.status == 200
    seq = happen(place, "native:runs/a")
    assert stream.message() == (seq, ["native:runs/a"])


def test_a_stream_of_one_subject_is_silent_about_others(watched: Serving, place: Place) -> None:
    stream = watched.stream(f"?after={newest(place)}&lane=native%3Aruns/a")
    happen(place, "native:runs/b", "native:runs/ab")
    seq = happen(place, "files:native:runs/a#1")
    assert stream.message() == (seq, ["files:native:runs/a#1"])


@pytest.mark.parametrize(
    ("lane", "is_ours"),
    [
        ("run-1", True),
        ("files:run-1", True),
        ("files:bundle:run-1#2", True),
        ("timer:run-1/step/retry", True),
        ("run-10", False),
        ("my-run-1", False),
    ],
)
def test_work_for_a_subject_concerns_it(lane: str, is_ours: bool) -> None:
    assert bool(lanes_of("run-1").search(lane)) == is_ours


@pytest.mark.parametrize("asked", ["header", "address"])
def test_who_returns_learns_what_it_missed(watched: Serving, place: Place, asked: str) -> None:
    before = newest(place)
    seq = happen(place, "a", "b")
    if asked == "header":
        stream = watched.stream("?after=999999", last_event_id=str(before))
    else:
        stream = watched.stream(f"?after={before}")
    assert stream.message() == (seq, ["a", "b"])


@pytest.mark.parametrize("position", ["", "?after=999999"], ids=["none", "restored"])
def test_a_position_that_is_not_known_means_that_all_may_have_changed(
    watched: Serving, place: Place, position: str
) -> None:
    assert watched.stream(position).message() == (newest(place), [])
    assert watched.stream(position, last_event_id="x").message() == (newest(place), [])


def test_after_events_that_were_pruned_all_may_have_changed(watched: Serving, place: Place) -> None:
    before = newest(place)
    seq = happen(place, "a", "b")
    place.change_store("delete from events where seq = ?", before + 1)
    place.change_store(
        "insert into absent_events (last, first, hash) values (?, ?, ?)", before + 1, before + 1, "x" * 64
    )
    assert watched.stream(f"?after={before}").message() == (seq, [])
    assert watched.stream(f"?after={seq}", last_event_id=str(before)).message() == (seq, [])


def test_a_store_that_is_replaced_is_noticed(
    watched: Serving, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "UNKNOWN_APART_S", 0.1)
    stream = watched.stream(f"?after={newest(place)}&lane=a")
    happen(place, "a")
    stream.message()
    other = place.copy_to(tmp_path / "other")
    os.rename(other.state / "runward.db", place.state / "runward.db")
    assert stream.message().lanes == []


def test_a_job_that_moves_without_an_event_is_reported(watched: Serving, place: Place) -> None:
    job = 32 * happen(place, "elsewhere")
    place.change_store(
        "insert into jobs (id, event, handler, lane, state, epoch, updated_at) values (?, ?, 'x', 'files:a#1', 'running', 1, 0)",
        job,
        job // 32,
    )
    stream = watched.stream(f"?after={job // 32}&lane=a")
    place.change_store("update jobs set state = 'done' where id = ?", job)
    assert stream.message() == (job // 32, ["files:a#1"])


def test_a_change_of_unknown_lanes_may_concern_any(watched: Serving, place: Place) -> None:
    stream = watched.stream(f"?after={newest(place)}&lane=a")
    place.change_store("update daemon set epoch = epoch + 1")
    assert stream.message().lanes == []


def test_what_happens_within_a_quarter_of_a_second_is_said_together(watched: Serving, place: Place) -> None:
    stream = watched.stream(f"?after={newest(place)}")
    lanes = [f"lane-{number}" for number in range(40)]
    began, said, messages = time.monotonic(), set[str](), 0
    for each in lanes:
        happen(place, each)
    while said != set(lanes):
        said |= set(stream.message().lanes)
        messages += 1
    assert messages <= 1 + math.ceil((time.monotonic() - began) / 0.25)


def test_more_lanes_than_a_message_names_mean_any(
    watched: Serving, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_LANES", 2)
    before = newest(place)
    seq = happen(place, "a", "b", "c")
    assert watched.stream(f"?after={before}").message() == (seq, [])


def test_a_quiet_stream_has_a_comment_now_and_then(
    watched: Serving, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "COMMENT_S", 0.05)
    assert watched.stream(f"?after={newest(place)}").line() == ":\n"


def test_a_stream_ends_when_its_browser_is_logged_out(
    watched: Serving, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "COMMENT_S", 0.05)
    monkeypatch.setattr(events, "CHECK_S", 0.05)
    stream = watched.stream(f"?after={newest(place)}")
    log_out_all(place.state)
    wait_for(lambda: stream.line() == "", "the end of the stream")


def test_a_stream_needs_a_login_and_says_what_it_does_not_understand(watched: Serving) -> None:
    assert watched.get("/events", cookie="").status == 401
    assert watched.get("/events?after=soon").status == 400
    assert watched.get("/events?seq=1").status == 400


def test_nobody_looks_for_commits_when_no_stream_is_open(watched: Serving) -> None:
    assert threads_that_watch() == []
    first, second = watched.stream(), watched.stream()
    first.message()
    assert threads_that_watch() == ["commits"]
    first.close()
    second.close()
    wait_for(lambda: threads_that_watch() == [], "the end of the thread")


def test_pages_are_served_beside_more_streams_than_connections(
    watched: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 2)
    monkeypatch.setattr(server, "STREAMS", 4)
    for _ in range(4):
        watched.stream().message()
    assert watched.get("/sessions").status == 200
    assert watched.stream().status == 503


def test_a_stream_outlives_the_time_that_other_connections_have(
    watched: Serving, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTION_S", 0.5)
    began = time.monotonic()
    stream = watched.stream()
    stream.message()
    while time.monotonic() < began + 1:
        seq = happen(place, "a")
        while stream.message().id < seq:
            pass


def test_an_open_stream_keeps_the_program_which_ends_after_it(
    ended: Place, tmp_path: Path, studio_over: Callable[[Place], Studio], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_LOOK_S", 0.05)
    studio = studio_over(ended.copy_to(tmp_path / "place"))
    with serving(studio, idle_s=0.3) as served:
        stream = served.stream()
        stream.message()
        began = time.monotonic()
        while time.monotonic() < began + 1:
            seq = happen(studio.place, "a")
            while stream.message().id < seq:
                pass
        assert not served.running.done()
        stream.close()
        wait_for(served.running.done, "the end of the program")


def test_a_stop_ends_every_stream_within_a_second(watched: Serving) -> None:
    def takes() -> float:
        with serving(watched.studio) as served:
            streams = [served.stream() for _ in range(20)]
            for each in streams:
                each.message()
            began = time.monotonic()
            served.running.cancel()
            for each in streams:
                with pytest.raises((AssertionError, OSError)):
                    each.message()
            return time.monotonic() - began

    # What it takes is the least: the machine's other work only adds to it.
    wait_for(lambda: takes() < 1, "a stop that takes less than a second")


def test_a_page_that_many_have_open_is_read_once_for_each_change(
    watched: Serving, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def counted(*given: Any) -> tuple[list[SessionRow], bool]:
        read.append(1)
        return newest_sessions(*given)

    monkeypatch.setattr(session_pages, "newest_sessions", counted)
    monkeypatch.setattr(events, "KEPT_S", 1000.0)  # longer than all of this takes on any machine
    stream = watched.stream(f"?after={newest(place)}")
    seq = happen(place, "a")
    assert stream.message().id == seq
    pages = [watched.get("/sessions").read().decode() for _ in range(5)]
    assert len(read) == 1
    assert len(set(pages)) == 1
    watched.studio.settings = StudioSettings(read_only=True)
    read.clear()
    watched.get("/sessions").read()
    assert read == [1]
    happen(place, "a")
    stream.message()
    watched.get("/sessions").read()
    assert read == [1, 1]
