"""`runward top`: the list, live, on the whole screen, and the terminal as it was when it is over."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.everyday import Everyday
from tests.daemon.cli.live_screen import LiveScreen, Shell, live_screen


def _selected(lines: list[str]) -> str:
    (line,) = [line for line in lines if line.startswith("> ")]
    return line


@contextmanager
def _top(place: Place, rows: int = 24, columns: int = 80, **environment: str) -> Iterator[LiveScreen]:
    with live_screen(place, rows, columns, "top", **environment) as shown:
        shown.shows("keys  q")
        yield shown


def test_arrows_and_letters_move_and_below_is_why(everyday: Everyday) -> None:
    with _top(everyday) as top:
        assert "pr-review/merge" in _selected(top.lines)
        assert "waits: you must approve merge" in top.text
        top.press(b"jj\x1b[B")
        top.shows(lambda lines: " nightly " in _selected(lines))
        top.shows(lambda lines: any("nightly" in line for line in lines[15:]))
        top.press(b"k")
        top.shows(lambda lines: "000000aa" in _selected(lines))
        top.press(b"\x1b[6~")
        lines = top.shows(lambda lines: "night-shift" in _selected(lines))
        assert "night-shift completed: it delivered review.md" in "\n".join(lines)
        top.press(b"\x1b[H")
        top.shows(lambda lines: "pr-review/merge" in _selected(lines))
        top.press(b"q")
        assert top.ended() == 0
        assert top.is_as_before()


def test_only_what_changed_is_drawn(everyday: Everyday) -> None:
    with _top(everyday) as top:
        before = len(top.raw)
        top.press(b"j")
        top.shows(lambda lines: "000000bb" in _selected(lines))
        top.press(b"q")
        assert top.ended() == 0
    written = top.raw[before:].partition(b"\x1b[?1049l")[0]
    others = (b"nightly", b"night-shift", b"silent-reviewer", b"crashed-reviewer", b"trade-0")
    # In a moment like this, the age of one row may become another one.
    assert sum(each in written for each in others) <= 1


def test_a_filter_shows_what_has_its_words_until_escape(everyday: Everyday) -> None:
    with _top(everyday) as top:
        top.press(b"/revIEW pr-q\x7f")
        top.shows("/revIEW pr-")
        lines = top.shows(lambda lines: not any("nightly" in line for line in lines))
        assert sum("pr-review" in line and line[2:3] in "!✓" for line in lines) == 3
        assert not any("crashed-reviewer" in line for line in lines), "every word has to be there"
        top.press(b"\r")
        top.shows("Esc shows all")
        top.press(b"\x1b")
        top.shows("crashed-reviewer")
        top.press(b"/no such session\r")
        top.shows("nothing matches no such session")
        top.press(b"jk\x1b[6~")
        top.press(b"\x1b")
        top.shows("crashed-reviewer")
        top.press(b"q")
        assert top.ended() == 0
        assert top.is_as_before()


def test_the_keys_are_explained(everyday: Everyday) -> None:
    with _top(everyday) as top:
        top.press(b"?")
        top.shows("approve what the row waits for")
        top.press(b"q")
        top.shows("crashed-reviewer")
        top.press(b"q")
        assert top.ended() == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 141)]
)
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(
    everyday: Everyday, number: signal.Signals, code: int
) -> None:
    with _top(everyday) as top:
        assert not top.is_as_before()
        assert not top.has_cursor
        os.kill(top.pid, number)
        assert top.ended() == code
        assert top.is_as_before()
        assert b"Traceback" not in top.raw


def test_ctrl_c_ends_it(everyday: Everyday) -> None:
    with _top(everyday) as top:
        top.press(b"\x03\x03\x03")
        assert top.ended() == 130
        assert top.is_as_before()
        assert b"Traceback" not in top.raw


def test_it_ends_with_its_terminal(everyday: Everyday) -> None:
    with _top(everyday) as top:
        assert top.lost() == 141


def test_ctrl_z_gives_the_terminal_back_until_it_is_continued(everyday: Everyday) -> None:
    script = "{}; echo stopped; stty -g; read word; fg; echo over; stty -g"
    shell = Shell(everyday, 24, 80, script, "top")
    try:
        shell.shows("keys  q")
        shell.press(b"j")
        shell.shows(lambda lines: "000000bb" in _selected(lines))
        shell.press(b"\x1a")
        shell.shows("stopped")
        assert shell.is_as_before()
        shell.press(b"on\n")
        shell.shows(lambda lines: any(line.startswith("> ") and "000000bb" in line for line in lines))
        assert not shell.is_as_before()
        shell.press(b"q")
        assert shell.ended() == 0
        assert shell.is_as_before()
        assert b"over" in shell.raw
        modes = [
            line
            for line in shell.raw.decode().splitlines()
            if re.fullmatch(r"([0-9a-f]+:){20,}[0-9a-f]+", line)
        ]
        assert len(modes) == 2
        assert len(set(modes)) == 1
    finally:
        shell.close()


def test_it_follows_the_size_of_its_window(everyday: Everyday) -> None:
    with _top(everyday) as top:
        for rows, columns in ((40, 120), (10, 40), (5, 30), (2, 20), (1, 20), (24, 500), (24, 80)):
            top.resized(rows, columns)
            last = "keys  q" if columns > 40 else "q"
            top.shows(lambda lines, last=last: lines[-1].endswith(last))  # type: ignore[misc] # the loop's value
            assert all(len(line) <= columns for line in top.lines)
        top.shows("waits: you must approve merge")
        top.press(b"q")
        assert top.ended() == 0
        assert b"Traceback" not in top.raw


@pytest.mark.parametrize(
    "variables", [{"LANG": "C"}, {"NO_COLOR": "1"}, {"TERM": "linux"}, {"LC_ALL": "POSIX", "LANG": ""}]
)
def test_any_terminal_is_left_as_it_was(everyday: Everyday, variables: dict[str, str]) -> None:
    with _top(everyday, 24, 80, **variables) as top:
        if "NO_COLOR" in variables:
            assert b"\x1b[1m" not in top.raw
            assert b"\x1b[3" not in top.raw.replace(b"\x1b[3;1H", b"")
        else:
            assert top.text.isascii()
        top.press(b"?\x1b")
        top.press(b"q")
        assert top.ended() == 0
        assert top.is_as_before()


def test_it_needs_a_terminal_with_a_cursor(everyday: Everyday) -> None:
    told = everyday.call("top")
    assert (told.code, told.out) == (2, "")
    assert "`runward session list --json`" in told.err
    with live_screen(everyday, 24, 80, "top", TERM="dumb") as shown:
        shown.shows("works there")
        assert shown.ended() == 2
        assert shown.is_as_before()


def test_it_shows_what_a_daemon_records_and_stays_on_its_session(everyday: Everyday, tmp_path: Path) -> None:
    place = Place(tmp_path / "there")
    place.directory.mkdir()
    place.furnish()
    place.add_run("first", exit_code=0)
    with _top(place) as top:
        top.shows("not running")
        assert "first" in _selected(top.lines), "no daemon has recorded it"
        with place.daemon():
            top.shows("Runward  up")
            place.add_run("second")
            top.shows("second")
            assert "first" in _selected(top.lines)
            place.end_run("second", 1)
            top.shows("exited with 1")
            assert "first" in _selected(top.lines)
            top.press(b"j")
            top.shows("second failed because it exited with 1")
        top.shows("not running")
        shutil.rmtree(place.state)
        top.shows("no sessions")
        with place.daemon():
            place.add_run("third", exit_code=0)
            top.shows("third")
        top.press(b"q")
        assert top.ended() == 0
        assert top.is_as_before()
