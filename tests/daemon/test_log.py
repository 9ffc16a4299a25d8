"""The log never raises, never shows local variables, and loses lines rather than the daemon."""

import errno
import io
import json
import logging
import os
from pathlib import Path

import aiosqlite
import pytest

from runward.daemon import log as log_module
from runward.daemon.log import LOG, LogFile, Sinks, open_log, render


class Unshowable:
    """A value that can't even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("not even this")


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
        {1: "a key that is no text", None: 2, (1, 2): 3},
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
    # structlog: a serialiser that raises does so inside the log call; the standard library writes NaN.
    console = io.StringIO()
    log = open_log(Sinks(file, console))
    log.info("odd", value=value)
    log.info("next")
    (odd, following) = _lines(tmp_path)
    assert odd["event"] == "odd"
    assert "value" in odd
    assert following["event"] == "next"
    assert " odd value=" in console.getvalue()
    assert console.getvalue().count("\n") == 2


def test_a_value_that_contains_itself_is_a_line_too(file: LogFile, tmp_path: Path) -> None:
    circle: list[object] = []
    circle.append(circle)
    open_log(Sinks(file, None)).info("odd", value=circle)
    assert _lines(tmp_path)[0]["event"] == "odd"


def test_control_characters_reach_no_terminal(file: LogFile) -> None:
    console = io.StringIO()
    open_log(Sinks(file, console)).info("odd", name="\x1b[31mred\x1b[0m\r\n\u202eback")
    assert "\x1b" not in console.getvalue()
    assert console.getvalue().count("\n") == 1
    assert "\u202e" not in console.getvalue()


def test_a_traceback_shows_no_local_variables(file: LogFile, tmp_path: Path) -> None:
    # structlog: `dict_tracebacks` writes every local variable into the log, secrets too.
    log = open_log(Sinks(file, None))

    def fails() -> None:
        password = "open " + "sesame"
        raise RuntimeError(len(password))

    try:
        fails()
    except RuntimeError:
        log.critical("crashed", exc_info=True)
    text = (tmp_path / LOG).read_text()
    assert "open sesame" not in text
    assert "password" not in text
    assert "RuntimeError" in text
    assert "fails" in text, "where it happened is told"


async def test_aiosqlite_logs_no_statements_whatever_the_level(
    file: LogFile, caplog: pytest.LogCaptureFixture
) -> None:
    # aiosqlite logs every statement with its parameters at DEBUG.
    caplog.set_level(logging.DEBUG)
    open_log(Sinks(file, None, "debug"), "debug")
    async with aiosqlite.connect(":memory:") as connection:
        await connection.execute("select ?", ("secret",))
    assert "secret" not in caplog.text


def test_a_terminal_that_went_away_stops_nobody(file: LogFile, tmp_path: Path) -> None:
    log = open_log(Sinks(file, Full()))
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


def test_a_log_that_is_large_is_set_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAXIMUM_BYTES", 1000)
    log = open_log(Sinks(LogFile(tmp_path / LOG), None))
    for number in range(40):
        log.info("line", number=number)
    aside = tmp_path / (LOG + ".1")
    text = aside.read_text() + (tmp_path / LOG).read_text()
    told = [json.loads(line)["number"] for line in text.splitlines()]
    assert told == list(range(told[0], 40)), "what is kept is the end, without a gap"
    assert (tmp_path / LOG).stat().st_size <= 1000
    assert (tmp_path / LOG).stat().st_mode & 0o777 == 0o600


def test_a_log_that_can_not_be_set_aside_loses_lines_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MAXIMUM_BYTES", 300)
    log = open_log(Sinks(LogFile(tmp_path / LOG), None))
    aside = tmp_path / (LOG + ".1")
    aside.mkdir()
    for number in range(10):
        log.info("line", number=number)
    aside.rmdir()
    log.info("after")
    assert _lines(tmp_path)[-1]["event"] == "after"


def test_lines_that_are_added_in_one_go_are_like_others_and_keep_their_order(
    file: LogFile, tmp_path: Path
) -> None:
    console = io.StringIO()
    sinks = Sinks(file, console)
    log = open_log(sinks)
    log.info("before", number=1)
    sinks.add([{"number": 2, "event": "one"}, {"number": 3, "event": "two"}])
    log.info("after", number=4)
    lines = _lines(tmp_path)
    assert [line["event"] for line in lines] == ["before", "one", "two", "after"]
    assert [list(line) for line in lines] == [["number", "event", "level", "ts"]] * 4
    assert len({len(str(line["ts"])) for line in lines}) == 1
    assert [line.split()[1] for line in console.getvalue().splitlines()] == ["before", "one", "two", "after"]


def test_a_rendered_line_is_one_line() -> None:
    assert render({"event": "odd\nname", "text": "two\nlines\u2028three"}).count(b"\n") == 1
