"""`runward log`: the daemon's own lines, chosen, shown and followed."""

import json
from collections.abc import Sequence

import pytest
from tests.daemon.cli.calling import Place, Recorded
from tests.waiting import PATIENCE_S

from runward.daemon.log import SET_ASIDE, aside

_LINES: Sequence[dict[str, object]] = (
    {"event": "old", "level": "info", "ts": "2026-01-01T00:00:00Z"},
    {"event": "started", "level": "debug", "ts": "2026-01-02T00:00:00Z"},
    {
        "event": "session.finished",
        "session": "native:runs/plain",
        "level": "info",
        "ts": "2026-01-03T00:00:00Z",
    },
    {"event": "job.held", "lane": "native:runs/plain", "level": "error", "ts": "2026-01-04T00:00:00Z"},
    {"event": "root.problem", "why": "\x1b[2J", "level": "warning", "ts": "2026-01-05T00:00:00Z"},
)


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    place = Place(tmp_path_factory.mktemp("logged"))
    place.furnish()
    place.add_run("plain", exit_code=0)
    place.daemon_once()
    return Recorded(place)


@pytest.fixture
def logged(recorded_once: Recorded) -> Place:
    """A log of which the first line was set aside, with a torn line at a place where the disk was full."""
    place = recorded_once.anew()
    first, *others = (json.dumps(line) for line in _LINES)
    (place.state / "log/runward.jsonl.1").write_text(f"{first}\n")
    (place.state / "log/runward.jsonl").write_text(
        '{"event": "to\n' + "".join(f"{line}\n" for line in others)
    )
    return place


def _events(place: Place, *options: str) -> list[object]:
    return [line["event"] for line in place.call("log", "--json", *options).objects()]


def test_the_part_that_was_set_aside_comes_first_and_a_torn_line_is_left_out(logged: Place) -> None:
    assert logged.call("log", "--json").objects() == list(_LINES)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--level", "warning"), ["job.held", "root.problem"]),
        (("--session", "pl"), ["session.finished", "job.held"]),
        (("--since", "2026-01-04T00:00:00Z"), ["job.held", "root.problem"]),
        (("-n", "1"), ["root.problem"]),
        (("-n", "0"), []),
        (("--level", "info", "-n", "2"), ["job.held", "root.problem"]),
        (("--event", "root.*", "--event", "old"), ["old", "root.problem"]),
    ],
)
def test_options_choose_lines(logged: Place, options: tuple[str, ...], expected: list[str]) -> None:
    assert _events(logged, *options) == expected


def test_all_that_was_set_aside_is_told_from_the_oldest_on(logged: Place) -> None:
    for number in range(2, SET_ASIDE + 1):
        path = aside(logged.state / "log/runward.jsonl", number)
        path.write_text(f'{{"event": "older.{number}", "ts": "2025-01-0{9 - number}T00:00:00Z"}}\n')
    events = _events(logged)
    assert events[:SET_ASIDE] == [f"older.{number}" for number in range(SET_ASIDE, 1, -1)] + ["old"]


def test_people_read_time_level_and_event_first_and_nothing_steers_their_terminal(logged: Place) -> None:
    shown = logged.call("log", "-n", "1").out
    assert shown == "2026-01-05 00:00:00 UTC  warning  root.problem  why=\\x1b[2J\n"


def test_an_unknown_session_is_not_found(logged: Place) -> None:
    assert logged.call("log", "--session", "plane").code == 3


def test_without_a_log_nothing_is_found(place: Place) -> None:
    assert place.call("log").code == 3


def test_followed_it_goes_on_over_the_change_to_a_new_file(logged: Place) -> None:
    following = logged.start("log", "-f", "--json", "-n", "1")
    assert following.stdout is not None
    try:
        assert json.loads(following.stdout.readline())["event"] == "root.problem"
        log = logged.state / "log/runward.jsonl"
        with log.open("a") as file:
            file.write('{"event": "before"}\n')
        log.rename(log.with_name("runward.jsonl.1"))
        log.write_text('{"event": "after"}\n')
        assert [json.loads(following.stdout.readline())["event"] for _ in range(2)] == ["before", "after"]
    finally:
        following.kill()
        following.communicate(timeout=PATIENCE_S)
