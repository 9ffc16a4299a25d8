"""The log never raises, never shows local variables, and loses lines rather than the daemon."""

import errno
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runward.daemon import log as log_module
from runward.daemon.log import (
    LOG,
    MAXIMUM_LINE,
    SET_ASIDE,
    Console,
    JsonStream,
    LogFile,
    Sinks,
    Terminal,
    aside,
    entry_of,
    for_people,
    open_log,
    open_sinks,
    render,
)


class Unshowable:
    """A value that can't even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("not even this")


class Unsayable(Exception):
    """An error without words."""

    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


class Oddest(str):
    """A text that lies about itself."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__

    def isprintable(self) -> bool:
        raise RuntimeError("nor this")


class Full(io.StringIO):
    """A terminal that went away."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


@pytest.fixture
def file(tmp_path: Path) -> LogFile:
    return LogFile(tmp_path / LOG)


def _lines(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]


@pytest.mark.parametrize(
    "value",
    [
        1 << 80,
        float("nan"),
        float("-inf"),
        "a lone \udc80 surrogate",
        b"\xff\xfe",
        {1: "a key that is not text", None: 2, (1, 2): 3},
        {"\ud800": "a key that is none"},
        {1, 2},
        object(),
        Unshowable(),
        [Unshowable()],
        Path("/somewhere"),
        ValueError("an exception"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_value_makes_a_line_raise_or_become_something_else_than_json(
    file: LogFile, tmp_path: Path, value: object
) -> None:
    # A serialiser may raise inside the log call; the standard library's writes NaN.
    console = io.StringIO()
    log = open_log(Sinks(file, Terminal(console)))
    log.info("odd", value=value)
    log.info("next")
    (odd, following) = _lines(tmp_path)
    assert odd["event"] == "odd"
    assert "value" in odd
    assert following["event"] == "next"
    assert " odd  value=" in console.getvalue()
    assert console.getvalue().count("\n") == 2


def test_a_value_that_contains_itself_is_a_line_too(file: LogFile, tmp_path: Path) -> None:
    circle: list[object] = []
    circle.append(circle)
    open_log(Sinks(file, None)).info("odd", value=circle)
    assert _lines(tmp_path)[0]["event"] == "odd"


def test_control_characters_reach_no_terminal(file: LogFile) -> None:
    console = io.StringIO()
    open_log(Sinks(file, Terminal(console))).info("odd", name="\x1b[31mred\x1b[0m\r\n\u202eback")
    assert "\x1b" not in console.getvalue()
    assert console.getvalue().count("\n") == 1
    assert "\u202e" not in console.getvalue()


def test_a_traceback_shows_no_local_variables(file: LogFile, tmp_path: Path) -> None:
    # Local variables may be secrets.
    log = open_log(Sinks(file, None))

    def fails() -> None:
        password = "open " + "sesame"
        raise RuntimeError(len(password))

    try:
        fails()
    except RuntimeError as error:
        log.critical("crashed", exc_info=error)
    text = (tmp_path / LOG).read_text()
    assert "open sesame" not in text
    assert "password" not in text
    assert "RuntimeError" in text
    assert "fails" in text, "where it happened is told"


@pytest.mark.parametrize("stream", [Terminal, JsonStream])
def test_a_terminal_that_went_away_stops_nobody(
    file: LogFile, tmp_path: Path, stream: Callable[[TextIO], Console]
) -> None:
    log = open_log(Sinks(file, stream(Full())))
    log.info("first")
    log.info("second")
    assert [line["event"] for line in _lines(tmp_path)] == ["first", "second"]


def test_a_full_disk_loses_lines_and_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    (tmp_path / "log").mkdir()
    (tmp_path / LOG).symlink_to("/dev/full")
    log, write = open_log(Sinks(LogFile(tmp_path / LOG), None)), os.write
    refused: list[int | None] = []

    def watched(descriptor: int, line: bytes) -> int:
        try:
            return write(descriptor, line)
        except OSError as error:
            refused.append(error.errno)
            raise

    monkeypatch.setattr(os, "write", watched)
    log.info("lost")
    log.info("lost, too")
    assert refused == [errno.ENOSPC] * 2


def test_a_line_that_a_full_disk_tore_off_spoils_no_other(
    file: LogFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = open_log(Sinks(file, None)), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:10]))
    log.info("torn")
    monkeypatch.undo()
    log.info("whole")
    (torn, whole) = (tmp_path / LOG).read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(whole)["event"] == "whole"


def test_a_log_that_is_large_is_set_aside_so_often_and_no_oftener(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MAXIMUM_BYTES", 1000)
    log = open_log(Sinks(LogFile(tmp_path / LOG), None))
    for number in range(200):
        log.info("line", number=number)
    path = tmp_path / LOG
    files = [aside(path, number) for number in range(SET_ASIDE, -1, -1)]
    assert sorted(path.parent.iterdir()) == sorted(files)
    told = [json.loads(line)["number"] for each in files for line in each.read_text().splitlines()]
    assert told == list(range(told[0], 200)), "what is kept is the end, without a gap"
    assert all(each.stat().st_size <= 1000 and each.stat().st_mode & 0o777 == 0o600 for each in files)


def test_a_log_that_can_not_be_set_aside_loses_lines_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MAXIMUM_BYTES", 300)
    log = open_log(Sinks(LogFile(tmp_path / LOG), None))
    in_the_way = aside(tmp_path / LOG, SET_ASIDE)
    in_the_way.mkdir()
    aside(tmp_path / LOG, SET_ASIDE - 1).touch()
    for number in range(10):
        log.info("line", number=number)
    assert len(_lines(tmp_path)) < 10
    in_the_way.rmdir()
    log.info("after")
    assert _lines(tmp_path)[-1]["event"] == "after"


def test_lines_that_are_added_in_one_go_are_like_others_and_keep_their_order(
    file: LogFile, tmp_path: Path
) -> None:
    console = io.StringIO()
    sinks = Sinks(file, Terminal(console))
    log = open_log(sinks)
    log.info("before", number=1)
    sinks.add([{"number": 2, "event": "one"}, {"number": 3, "event": "two"}])
    log.info("after", number=4)
    lines = _lines(tmp_path)
    assert [line["event"] for line in lines] == ["before", "one", "two", "after"]
    assert [list(line) for line in lines] == [["number", "event", "level", "ts"]] * 4
    assert len({len(str(line["ts"])) for line in lines}) == 1
    assert [line.split()[4] for line in console.getvalue().splitlines()] == ["before", "one", "two", "after"]


def test_a_rendered_line_is_one_line() -> None:
    assert render({"event": "odd\nname", "text": "two\nlines\u2028three"}).count(b"\n") == 1


_KEYS = st.one_of(st.text(), st.none(), st.integers(), st.binary(), st.booleans())
_SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Zl"])),
    st.binary(),
    st.builds(lambda: 10**5000),
    st.just("x" * 200_000),
    st.just("\x9b" * 40_000),
    st.datetimes(),
    st.builds(Unshowable),
    st.builds(Oddest, st.text()),
    st.builds(UnicodeDecodeError, st.just("utf-8"), st.binary(min_size=1), st.just(0), st.just(1), st.text()),
)


def _circle(value: object) -> object:
    circle: list[object] = [value]
    circle.append({"again": circle})
    return circle


_VALUES = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=4), inner.map(_circle)
    ),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.dictionaries(st.text(), _VALUES, max_size=8))
def test_whatever_is_logged_a_line_results_that_every_reader_can_show(event: dict[str, object]) -> None:
    line = render(event)
    assert line.endswith(b"\n")
    assert len(line) <= MAXIMUM_LINE
    text = line[:-1].decode()
    assert text.isprintable()
    value = json.loads(text, parse_constant=pytest.fail)
    assert for_people(value).isprintable()
    assert b"MESSAGE=" in entry_of(line, "/state")


def test_times_are_iso_8601_in_utc_and_other_numbers_stay() -> None:
    event = {"event": "x", "committed_at": 1767326655.5, "before": -1358239144.25, "since": 0.0, "at": 3}
    assert json.loads(render({**event, "took_s": 1767326655.5})) == {
        "event": "x",
        "committed_at": "2026-01-02T04:04:15.500000Z",
        "before": "1926-12-17T15:20:55.750000Z",
        "since": "1970-01-01T00:00:00.000000Z",
        "at": 3,
        "took_s": 1767326655.5,
    }


def test_people_read_times_in_their_own_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    shown = for_people(json.loads(render({"event": "x", "level": "info", "committed_at": 1767326655.5})))
    monkeypatch.undo()
    time.tzset()
    assert shown.endswith("x  committed_at=2026-01-02 05:04:15 CET")


def test_the_journal_has_times_as_the_file_has_them() -> None:
    entry = entry_of(render({"event": "x", "committed_at": 1767326655.5}), "/state")
    assert b"\nRUNWARD_COMMITTED_AT=2026-01-02T04:04:15.500000Z\n" in entry


@pytest.mark.parametrize("at", [1e300, -1e300, float("inf"), float("-inf"), float("nan"), 1e12, -1e12])
def test_a_time_beyond_the_calendar_is_told_as_it_is(at: float) -> None:
    value = json.loads(render({"event": "x", "at": at, "since": at}), parse_constant=pytest.fail)
    assert value["at"] in (at, "Infinity", "-Infinity", "NaN")
    assert for_people(value).isprintable()
    assert b"MESSAGE=" in entry_of(render({"at": at}), "/state")


@given(st.dictionaries(st.sampled_from(["at", "before", "since", "ts", "ended_at"]), _VALUES | st.floats()))
def test_whatever_stands_under_the_key_of_a_time_a_line_results(event: dict[str, object]) -> None:
    assert for_people(json.loads(render(event), parse_constant=pytest.fail)).isprintable()


def _deep(levels: int) -> object:
    value: object = None
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000_000,
        [{"inner": "x" * 1000}] * 1000,
        {str(number): number for number in range(100_000)},
        _deep(5000),
        10**70_000,
    ],
    ids=["long", "wide", "many keys", "deep", "a number"],
)
def test_a_line_has_a_largest_size_and_keeps_what_it_is_about(value: object) -> None:
    line = render({"session": "native:runs/a", "value": value, "event": "huge", "level": "info"})
    assert len(line) <= MAXIMUM_LINE
    told = json.loads(line)
    assert (told["session"], told["event"], told["level"]) == ("native:runs/a", "huge", "info")


def test_of_very_many_keys_the_first_and_the_last_are_kept() -> None:
    event = {f"key{number}": "x" * 100 for number in range(10_000)} | {"event": "wide", "ts": "now"}
    told = json.loads(render(event))
    assert (told["event"], told["ts"], len(told)) == ("wide", "now", 32)


@pytest.mark.parametrize("error", [Unsayable(), ExceptionGroup("many", [Unsayable(), ValueError("\ud800")])])
def test_an_exception_that_can_not_say_what_it_is_is_a_line_too(
    file: LogFile, tmp_path: Path, error: Exception
) -> None:
    try:
        raise error
    except Exception as raised:
        open_log(Sinks(file, None)).error("odd", exc_info=raised)
    (line,) = _lines(tmp_path)
    assert (line["event"], line["level"]) == ("odd", "error")
    assert "Unsayable" in json.dumps(line)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.123456789, "0.123"), (12.0, "12.000"), (3, "3"), (1e22, "10000000000000000000000.000")],
)
def test_a_length_of_time_has_three_digits_for_people_and_all_for_programs(value: float, shown: str) -> None:
    line = render({"event": "x", "level": "info", "took_s": value, "share": 0.123456789})
    assert for_people(json.loads(line)).endswith(f"x  took_s={shown} share=0.123456789")
    assert json.loads(line)["took_s"] == value


def test_on_a_terminal_a_line_is_for_people_and_elsewhere_json(tmp_path: Path) -> None:
    class OnTerminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, pipe = OnTerminal(), io.StringIO()
    for stream in (terminal, pipe):
        open_log(open_sinks(tmp_path, stream, {})).warning("root.problem", root="runs", why="gone")
    assert terminal.getvalue().endswith("  warning  root.problem  root=runs why=gone\n")
    assert json.loads(pipe.getvalue()) == _lines(tmp_path)[1]
