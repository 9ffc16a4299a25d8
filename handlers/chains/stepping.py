"""Whether a step of a chain runs, and with which command: from what happened before it."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.chain import NAMES, Step
from runward.config.expression import ExpressionError, Given, Missing, Steps, Value
from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook, fill_command
from runward.config.template import TemplateError, parse_template

SkipReason: TypeAlias = Literal["step.skipped.condition_false", "step.skipped.undefined"]
NOT_STARTED: Final = "run.failed.not_started"


class Judged(NamedTuple):
    """What became of a condition: its value, and if it is not true, why."""

    value: JsonValue
    reason: SkipReason | None = None
    why: str | None = None


class Ready(NamedTuple):
    """The step runs this command. `unused` are the values that the command takes no notice of."""

    argv: tuple[str, ...]
    values: Mapping[str, JsonValue]
    unused: tuple[str, ...] = ()


class NotStarted(NamedTuple):
    """The step would run and can't: `run.failed.not_started`."""

    why: str


def given_to(
    trigger: Mapping[str, JsonValue], steps: Sequence[Mapping[str, object]], chain: Mapping[str, JsonValue]
) -> Given:
    """What the expressions of a step see; `steps` are those before it, with `id` and `outcome` at least."""
    outcomes = [each["outcome"] for each in steps if each.get("outcome") is not None]
    return {
        "trigger": trigger,
        "steps": Steps(steps),
        "outcome": outcomes[-1] if outcomes else None,
        "chain": chain,
    }


def judge(step: Step, given: Given) -> Judged:
    """What the step's condition says."""
    if step.condition is None:
        return Judged(True)
    value = Value(step.condition, NAMES)
    (expression,) = value.expressions
    try:
        found = expression.evaluate(given)
    except ExpressionError as error:
        return Judged(None, "step.skipped.undefined", str(error))
    missing = expression.missing(given)
    if isinstance(found, Missing):
        return Judged(None, "step.skipped.undefined", missing or found.why)
    if not found:
        return Judged(found, "step.skipped.condition_false", missing)
    return Judged(found)


def command_of(step: Step, playbook: Playbook, given: Given) -> Ready | NotStarted:
    """The command of a step that runs."""
    values: dict[str, JsonValue] = {}
    for key, written in step.values.items():
        try:
            found = _rendered(written, given)
        except ExpressionError as error:
            return NotStarted(f"with.{key} {error}")
        if isinstance(found, Missing):
            return NotStarted(f"with.{key}: {found.why}")
        values[key] = found
    used = {key: each for key, each in values.items() if key in playbook.takes}
    filled = fill_command(playbook, used)
    if filled.value is None:
        return NotStarted("; ".join(problem.render() for problem in filled.problems))
    option = _would_be_an_option(playbook, used)
    if option is not None:
        return NotStarted(option)
    return Ready(filled.value, values, tuple(key for key in values if key not in used))


def _rendered(written: JsonValue, given: Given) -> JsonValue | Missing:
    match written:
        case str():
            value = Value(written, NAMES)
            found = value.render(given)
            if isinstance(found, Missing):
                missing = next(filter(None, (each.missing(given) for each in value.expressions)), None)
                return Missing(missing or found.why)
            return found
        case list():
            parts = [_rendered(each, given) for each in written]
            return next((each for each in parts if isinstance(each, Missing)), _data(parts))
        case dict():
            table = {key: _rendered(each, given) for key, each in written.items()}
            lacking = next((each for each in table.values() if isinstance(each, Missing)), None)
            return lacking if lacking is not None else {key: _datum(each) for key, each in table.items()}
    return written


def _data(parts: Sequence[JsonValue | Missing]) -> list[JsonValue]:
    return [_datum(each) for each in parts]


def _datum(part: JsonValue | Missing) -> JsonValue:
    return None if isinstance(part, Missing) else part


def _would_be_an_option(playbook: Playbook, given: Mapping[str, JsonValue]) -> str | None:
    """Why a value at the beginning of a word would be read as an option; None where none would."""
    for word in playbook.command or ():
        if word == "--":
            return None
        first = parse_template(word).parts[0]
        if isinstance(first, str):
            continue
        try:
            text = parse_template(word).fill(given)
        except TemplateError:
            continue
        if text.startswith("-"):
            return (
                f"with.{'.'.join(first)} begins with '-' and would be read as an option: put '--' before it"
            )
    return None
