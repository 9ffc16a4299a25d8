"""`runward status --watch`: a page that is drawn again and again in its place."""

import os
import re
import signal

import click
import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.screens import screen

from runward.daemon.cli.terminal.live import fitted
from runward.daemon.cli.terminal.tables import cut_to


def test_it_is_drawn_in_its_place_until_an_interrupt(recorded: Place) -> None:
    with screen(recorded, 40, 100, "status", "--watch", "0.1") as shown:
        pages = shown.until("Runward is ", times=4)
        shown.press(b"\x03")
        assert shown.end() == 130
    height = pages.split("\x1b[J")[0].count("\n")
    assert pages.count(f"\x1b[{height}F") >= 2
    assert "\x1b[2J" not in pages


def test_a_narrow_and_low_terminal_gets_what_it_can_show(recorded: Place) -> None:
    with screen(recorded, 8, 30, "status", "--watch=100") as shown:
        page = shown.until("\x1b[J").partition("\x1b[J")[0]
        lines = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line) for line in page.splitlines()]
        assert len(lines) == 7
        assert max(len(line) for line in lines) <= 30
        assert lines[-1].endswith("more lines")
        shown.resize(40, 100)
        assert "\x1b[2J\x1b[H" in shown.until("runward doctor")
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.end() == 143


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--watch",), "--watch needs a terminal"),
        (("--watch", "2", "--json"), "--watch can't be combined with --json"),
        (("--watch", "0"), "0.1 or more seconds"),
        (("--watch", "often"), "or a number of seconds"),
    ],
)
def test_it_is_refused_where_it_makes_no_sense(
    recorded: Place, arguments: tuple[str, ...], said: str
) -> None:
    told = recorded.call("status", *arguments)
    assert (told.code, told.out) == (2, "")
    assert said in told.err


def test_what_does_not_fit_is_cut_and_counted() -> None:
    assert fitted(["a", "b", "c"], 80, 4) == ["a", "b", "c"]
    assert fitted(["a", "b", "c", "d"], 80, 4) == ["a", "b", "… and 2 more lines"]


@pytest.mark.parametrize(
    ("line", "columns", "shown"),
    [
        ("short", 5, "short"),
        ("too long", 5, "too…"),
        (click.style("too long", fg="red"), 5, "too…"),
        ("漢字漢字", 6, "漢字…"),
    ],
)
def test_a_line_is_cut_by_the_columns_that_it_takes(line: str, columns: int, shown: str) -> None:
    assert cut_to(line, columns, "…") == shown


@pytest.mark.parametrize(
    "command",
    [
        ("session", "list"),
        ("session", "show", "silent"),
        ("why", "silent"),
        ("chain", "runs"),
        ("chain", "approvals"),
        ("queue", "list", "--state", "done"),
        ("root", "list"),
        ("usage",),
    ],
)
def test_other_screens_are_drawn_again_in_their_place(recorded: Place, command: tuple[str, ...]) -> None:
    with screen(recorded, 24, 80, *command, "--watch=0.1") as shown:
        pages = [shown.until("\x1b[J"), shown.until("\x1b[J")]
        first, second = (re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", page).strip() for page in pages)
        assert first == second != ""
        assert re.match(r"(\x1b\[J)?\x1b\[[0-9]+F", pages[1]), "it is drawn over the first one"
        shown.press(b"\x03")
        assert shown.end() == 130
    told = recorded.call(*command, "--watch")
    assert (told.code, told.out) == (2, "")
    assert "--watch needs a terminal" in told.err
