"""Every command that prints a table fits every terminal, and shows what is asked for."""

import click
import pytest
from tests.daemon.cli.drawn import draw, widest
from tests.daemon.cli.everyday import Everyday
from tests.docs.test_completeness import _commands


def _options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


LISTS = [name for name, command in _commands() if "--columns" in _options(command)]
TABLES = [
    *LISTS,
    "queue list --state done",
    "chain approvals",
    "usage",
    "usage --by session",
    "exchange log",
    "chain run show @last",
    "queue show @last",
    "receipt verify night-shift",
    "show show",
    "receipt key",
]
_OF_A_FLEET = ("fleet hosts", "fleet orders")
"""Here there is none; `tests/daemon/fleet` has one."""

_ENDS = {"show show": 2, **dict.fromkeys(_OF_A_FLEET, 1)}
"""What needs an argument, or a fleet: refusals fit the terminal, too."""


def test_the_lists_are_those_that_there_are() -> None:
    assert {
        "session list",
        "chain list",
        "chain runs",
        "queue list",
        "schedule list",
        "root list",
        "play list",
    } <= set(LISTS)
    ends = ("list", "runs", "ledger")
    others = ["config", "session artifact"]
    named = [
        name for name, command in _commands() if name.endswith(ends) and not isinstance(command, click.Group)
    ]
    assert sorted(set(named) - set(LISTS) - set(others)) == []


def test_every_list_can_be_watched_or_followed_and_has_a_pager() -> None:
    options = {name: _options(command) for name, command in _commands() if name in LISTS}
    lacking = [
        name
        for name, those in options.items()
        if not {"--wide", "--no-pager"} <= those or not those & {"--watch", "--follow"}
    ]
    assert lacking == []
    watched = {name for name, command in _commands() if "--watch" in _options(command)}
    assert {"status", "why", "session show", "chain run show", "chain approvals", "usage"} <= watched
    assert {"chain approvals", "exchange log", "usage"} <= set(LISTS)


@pytest.mark.parametrize("columns", [40, 80, 120, 500])
@pytest.mark.parametrize("command", TABLES)
def test_no_line_is_wider_than_the_terminal(everyday: Everyday, command: str, columns: int) -> None:
    drawn = draw(everyday, (columns, 24), *command.split())
    assert widest(drawn) <= columns
    assert "Traceback" not in drawn.text
    assert drawn.code == _ENDS.get(command, 0)


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"LANG": "C"}, {"NO_COLOR": "1"}])
@pytest.mark.parametrize("command", TABLES)
def test_a_plain_terminal_gets_plain_text(
    everyday: Everyday, command: str, variables: dict[str, str]
) -> None:
    drawn = draw(everyday, (80, 24), *command.split(), **variables)
    assert widest(drawn) <= 80
    assert "Traceback" not in drawn.text
    assert drawn.code == _ENDS.get(command, 0)
    if "LANG" in variables:
        assert drawn.text.isascii()
    else:
        assert b"\x1b" not in drawn.raw


@pytest.mark.parametrize("command", sorted({*LISTS} - {*_OF_A_FLEET}))
def test_an_unknown_column_names_all_and_the_first_one_is_a_column(everyday: Everyday, command: str) -> None:
    refused = everyday.call(*command.split(), "--columns", "NOSUCH")
    assert refused.code == 2
    known = refused.err.partition("there are ")[2].partition(" (see")[0].split(", ")
    shown = everyday.call(*command.split(), "--columns", known[0].lower())
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].strip() == known[0] or len(lines) == 1, "there may be nothing to list"


@pytest.mark.parametrize("command", ["root list", "play list"])  # they have no ages
def test_a_wide_table_has_everything_and_a_pipe_what_it_always_got(everyday: Everyday, command: str) -> None:
    wide = everyday.call(*command.split(), "--wide").out
    assert wide == everyday.call(*command.split()).out, "without colours they are the same"
    drawn = draw(everyday, (500, 24), *command.split())
    shown = wide.replace(f" {everyday.directory}/", " ~/")
    assert drawn.lines == [line.rstrip() for line in shown.splitlines()]
