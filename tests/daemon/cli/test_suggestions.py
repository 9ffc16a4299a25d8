"""Mistyped names: the nearest is suggested, in one line, with exit code 2."""

import click
import pytest
from tests.daemon.cli.calling import Place

from runward.daemon.cli.commands import _MEANT, runward


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sesion",), "no such command 'sesion'; did you mean 'session'? (see `runward --help`)"),
        (
            ("session", "lsit"),
            "no such command 'lsit'; did you mean 'list'? (see `runward session --help`)",
        ),
        (("queue", "rety"), "no such command 'rety'; did you mean 'retry'? (see `runward queue --help`)"),
        (("root", "xyz"), "no such command 'xyz'; there are accept, list (see `runward root --help`)"),
        (("zzzz",), "no such command 'zzzz'; `runward help --all` lists them (see"),
        (("ls",), "no such command 'ls'; did you mean 'session list'?"),
        (("lst",), "no such command 'lst'; did you mean 'session list'?"),
        (("statsu",), "no such command 'statsu'; did you mean 'status'?"),
        (("ps",), "no such command 'ps'; did you mean 'session list'?"),
        (("logs",), "no such command 'logs'; did you mean 'session logs'?"),
        (("kill",), "no such command 'kill'; did you mean 'session cancel'?"),
        (("approve",), "no such command 'approve'; did you mean 'chain approve'?"),
        (("approvals",), "no such command 'approvals'; did you mean 'chain approvals'?"),
        (("setup",), "no such command 'setup'; did you mean 'init'?"),
        (("cost",), "no such command 'cost'; did you mean 'usage'?"),
        (("tail",), "no such command 'tail'; did you mean 'session tail'?"),
        (("export",), "no such command 'export'; did you mean"),
    ],
)
def test_a_mistyped_command_names_the_nearest(place: Place, arguments: tuple[str, ...], said: str) -> None:
    told = place.call(*arguments)
    assert told.code == 2
    assert told.err.startswith(f"runward: {said}")
    assert told.err.count("\n") == 1


def test_what_other_programs_call_it_is_a_command_of_ours() -> None:
    for meant in _MEANT.values():
        group, *names = meant.split()
        command = runward.get_command(click.Context(runward), group)
        assert command is not None
        for name in names:
            assert isinstance(command, click.Group)
            assert name in command.list_commands(click.Context(command))


def test_a_mistyped_option_names_the_nearest(place: Place) -> None:
    told = place.call("session", "list", "--statsu", "failed")
    assert told.code == 2
    assert "--status" in told.err
    assert told.err.count("\n") == 1


def test_a_mistyped_value_names_the_possible_ones(place: Place) -> None:
    told = place.call("session", "list", "--status", "faild")
    assert told.code == 2
    assert "'failed'" in told.err


def test_a_group_alone_shows_its_help_and_is_wrong_usage(place: Place) -> None:
    told = place.call("session")
    assert told.code == 2
    assert "Commands:" in told.err


def test_a_name_that_would_steer_the_terminal_is_escaped(place: Place) -> None:
    assert "\x1b" not in place.call("\x1b[2J").err
