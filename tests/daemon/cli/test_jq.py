"""`--jq`: parts of what `--json` prints, without another program."""

import json

import click
import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.drawn import draw
from tests.daemon.cli.everyday import COMMANDS, Everyday
from tests.docs.test_completeness import _commands

from runward.config.json_value import JsonValue
from runward.daemon.cli.terminal.query import Query


def test_every_command_that_prints_json_has_it() -> None:
    missing = [
        name
        for name, command in _commands()
        if {"--json"} <= (options := {each for parameter in command.params for each in parameter.opts})
        and "--jq" not in options
    ]
    assert missing == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_identity_is_the_json_itself_on_one_line(everyday: Everyday, command: str) -> None:
    words = command.split()
    told = everyday.call(*words, "--jq", "keys")
    whole = everyday.call(*words, "--json")
    assert told.code == whole.code
    value = whole.json()
    expected = sorted(value) if isinstance(value, dict) else list(range(len(value)))  # type: ignore[arg-type]
    assert [json.loads(line) for line in told.out.splitlines()] == [expected]


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        (".text", ["one", "two"]),
        (".number", ["1234567890123456"]),
        (".number * infinite, nan", ["1.7976931348623157e+308", "null"]),
        (".list[]", ["1", "x", "null", '{"a": "b"}']),
        ("empty", []),
        (".text | length, @json", ["7", r'"one\ntwo"']),
        (".missing", ["null"]),
        (".list[0] / 3 | floor", ["0"]),
        ('"\\u00e9"', ["é"]),
    ],
)
def test_each_result_is_a_line_and_a_text_is_raw(expression: str, lines: list[str]) -> None:
    value: JsonValue = {"text": "one\ntwo", "number": 1234567890123456, "list": [1, "x", None, {"a": "b"}]}
    shown = [line for result in Query(expression).lines(value) for line in result.split("\n")]
    assert shown == lines


@pytest.mark.parametrize("expression", [".[", "nosuch", ".a |", "\udc80", "$x"])
def test_a_wrong_expression_is_refused_before_anything_is_done(everyday: Everyday, expression: str) -> None:
    told = everyday.call("chain", "fire", "pr-review", "--jq", expression)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("runward: Invalid value for '--jq': ")
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err


def test_one_that_does_not_fit_the_json_is_exit_code_2(everyday: Everyday) -> None:
    told = everyday.call("session", "list", "--jq", ".a.b")
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("runward: --jq: Cannot index array with")


def test_a_stream_is_filtered_value_by_value(everyday: Everyday) -> None:
    told = everyday.call("session", "logs", "night-shift", "--jq", ".text")
    assert told.code == everyday.call("session", "logs", "night-shift").code


def test_with_a_watch_it_is_refused_as_json_is(everyday: Everyday) -> None:
    told = everyday.call("session", "list", "--watch", "--jq", ".")
    assert told.code == 2
    assert "can't be combined with --json" in told.err


def test_on_a_terminal_nothing_is_obeyed(place: Place) -> None:
    place.add_run("hostile", exit_code=0, command=["echo", "\x1b]0;owned\x07", "a\nb"])
    place.daemon_once()
    raw = place.call("session", "show", "hostile", "--jq", ".command[]").out
    assert raw == "echo\n\x1b]0;owned\x07\na\nb\n", "a program gets the text itself"
    assert isinstance(place, Place)
    hostile = Everyday(place.directory)
    drawn = draw(hostile, (80, 24), "session", "show", "hostile", "--jq", ".command[]")
    assert b"\x1b]" not in drawn.raw
    assert drawn.lines == ["echo", "\\x1b]0;owned\\x07", "a", "b"]


def test_help_says_it(everyday: Everyday) -> None:
    assert "--jq EXPR" in click.unstyle(everyday.call("session", "list", "--help").out)
