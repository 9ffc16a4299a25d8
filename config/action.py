"""Actions: `[actions.NAME]` in the settings, commands that steps of chains call by name."""

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind
from runward.config.shape import Complain, DurationText, Shape, Text, TrueOrFalse, UnknownForm
from runward.config.table import NamedTables, Table

_LONGEST_WORD: Final = 64 << 10


class CommandWords(Shape):
    """The words of a command that is started without a shell; `{{ with.KEY }}` in them is replaced by a value."""

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if not isinstance(value, list):
            message = f"must be a list of words, not {kind(value)}"
            complain(Complaint(loc, message, 'write the program and its arguments: ["gh", "pr", "merge"]'))
            return None
        if not value or not value[0]:
            complain(
                Complaint(
                    loc, "names no program", 'write the program and its arguments: ["gh", "pr", "merge"]'
                )
            )
            return None
        return value if all(_is_word(each, (*loc, i), complain) for i, each in enumerate(value)) else None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "array", "minItems": 1, "items": {"type": "string"}}

    def from_json(self, value: JsonValue) -> object:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise UnknownForm
        return tuple(value)

    def to_json(self, value: object) -> JsonValue:
        assert isinstance(value, tuple)
        return list(value)


class _Command(CommandWords):
    """Words of a command, or one text for a shell."""

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, str):
            return value if _is_text(value, loc, complain) else None
        return super().check(value, loc, complain)

    def json_schema(self) -> dict[str, JsonValue]:
        return {"anyOf": [super().json_schema(), {"type": "string", "minLength": 1}]}

    def from_json(self, value: JsonValue) -> object:
        return value if isinstance(value, str) else super().from_json(value)

    def to_json(self, value: object) -> JsonValue:
        return value if isinstance(value, str) else super().to_json(value)


def _is_text(value: JsonValue, loc: Location, complain: Complain) -> bool:
    if not isinstance(value, str) or len(value) > _LONGEST_WORD or "\0" in value:
        complain(
            Complaint(loc, f"must be a text of at most {_LONGEST_WORD} characters, without NUL", "shorten it")
        )
        return False
    return True


def _is_word(value: JsonValue, loc: Location, complain: Complain) -> bool:
    if not _is_text(value, loc, complain):
        return False
    from runward.config.template import TemplateError, parse_template  # loaded only for commands

    try:
        parse_template(str(value))
    except TemplateError as error:
        complain(Complaint(loc, str(error), error.fix))
        return False
    return True


def _check_shell(action: Mapping[str, JsonValue], loc: Location, complain: Complain) -> None:
    """A list of words runs without a shell, a single text needs one."""
    command, at = action.get("command"), (*loc, "command")
    if isinstance(command, str) and action.get("shell") is not True:
        fix = "write it as a list of words, or add shell = true"
        complain(Complaint(at, "is one text, but no shell splits it into words", fix))
    elif isinstance(command, list) and action.get("shell") is True:
        complain(Complaint(at, "is a list of words, but a shell reads one text", "write it as one text"))
    elif isinstance(command, str) and "{{" in command:
        fix = "use the variable WITH_<KEY> instead: a value must never become part of a script"
        complain(Complaint(at, "has a template in it, but a shell reads it", fix))


class Action(NamedTuple):
    """A command for steps of chains.

    A `shell` action has one text, which is passed to `sh -c` as it is; any other the words with their templates.
    """

    name: str
    command: Annotated[
        tuple[str, ...] | str,
        _Command(
            "The program and its arguments, started without a shell. '{{ with.KEY }}' is replaced by a value of "
            "the step. With shell = true: one text for 'sh -c', which finds the values in WITH_<KEY>."
        ),
    ]
    shell: Annotated[bool, TrueOrFalse("Whether 'sh -c' runs the command.")] = False
    timeout: Annotated[
        float | None, DurationText("How long the command may run. Default: no limit.", 0.001)
    ] = None
    grace: Annotated[
        float | None,
        DurationText("The time between SIGTERM and SIGKILL at the timeout. Default: 5s.", 0.001),
    ] = None


ACTIONS: Final = NamedTables(
    "Commands that steps of chains call by their names.",
    Text("The name of an action.", 255, "/"),
    Table(Action, check_whole=_check_shell),
    1000,
)
"""The shape of `[actions]`."""
