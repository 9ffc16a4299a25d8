"""Whether a step of a chain runs, and with which command, given what happened before it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from runward.config.counted_values import Budget, ExpressionError, Missing, Steps, TooMuchWork
from runward.config.expression import Expression, Given, Value, written
from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook, fill_command
from runward.config.problem import quoted
from runward.config.seen import NAMES, SeenChain, SeenStep
from runward.config.step import Step
from runward.config.template import TemplateError, parse_template
from runward.handlers.model.chains import MOST_OUTCOMES, StepResult
from runward.handlers.model.files import RULES
from runward.handlers.model.invocations import Play
from runward.handlers.secrets import names_secret, text_without_secrets

if TYPE_CHECKING:
    from runward.config.fleet import Labelled

_MOST_SHOWN: Final = 8
"""Values that the reason of a skipped step names."""

_MOST_SEARCHED: Final = 1000
"""Characters of such a value in which secrets are looked for. Fewer are shown."""

SkipReason: TypeAlias = Literal["step.skipped.condition_false", "step.skipped.undefined"]


class Judged(NamedTuple):
    """The result of a condition: its value, and if it is not true, why.

    With `refused` it has none, because that would take too much work. The step then fails. If it were skipped, the data of
    an event could choose which steps run.
    """

    value: JsonValue
    reason: SkipReason | None = None
    why: str | None = None
    refused: "NotStarted | None" = None


class Ready(NamedTuple):
    """The step runs this command, with these variables, in this directory (None: where its artifacts go).

    With a `worktree` (a git repository, and what is checked out) it starts there. `values` are those of `with`;
    `unused` are the ones that the command does not use.
    """

    argv: tuple[str, ...]
    values: Mapping[str, JsonValue]
    environment: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    unused: tuple[str, ...] = ()
    worktree: tuple[str, str] | None = None


class NotStarted(NamedTuple):
    """The step should run and can't: `run.failed.not_started`."""

    why: str


def outcomes_seen(earlier: Sequence[JsonValue] | None, last: JsonValue) -> Sequence[JsonValue] | None:
    """All outcomes of a step, oldest first; None if those before the last one are too large."""
    if earlier is None:
        return None
    return [*earlier] if last is None else [*earlier, last]


def result_of(
    delivery: str | None,
    verification: JsonValue,
    exit_code: int | None,
    artifacts_path: str,
    earlier: Sequence[JsonValue] | None,
) -> StepResult:
    """What a judged session left; `verification` is as the store keeps it."""
    if not isinstance(verification, dict):
        return StepResult(delivery, None, exit_code, {}, earlier)
    produced = verification.get("produced")
    paths = {
        str(each["id"]): f"{artifacts_path}/{each['path']}"
        for each in (produced if isinstance(produced, list) else ())
        if isinstance(each, dict)
    }
    shown = {key: value for key, value in verification.items() if key != RULES}
    return StepResult(delivery, shown, exit_code, paths, earlier)


def unseen(step: Step, before: Sequence[SeenStep]) -> NotStarted | None:
    """Why the step can't be judged: its expressions use outcomes that are too large to be seen. None if it can."""
    too_large = next((each["id"] for each in before if each["outcomes"] is None), None)
    if too_large is None:
        return None
    # It is enough that the word is there: an expression may reach the outcomes in many ways.
    written = [step.condition, dict(step.values), dict(step.env), step.cwd]
    if step.worktree is not None:
        written += [step.worktree.repo, step.worktree.ref]
    if "outcomes" not in json.dumps(written):
        return None
    return NotStarted(
        f"steps.{too_large}.outcomes are longer than {MOST_OUTCOMES >> 10} KiB together:"
        " let that step write fewer or smaller ones, or use its last one (outcome)"
    )


def given_to(trigger: Mapping[str, JsonValue], steps: Sequence[SeenStep], chain: SeenChain) -> Given:
    """What the expressions of a step see; `steps` are those before it."""
    outcomes = [each["outcome"] for each in steps if each["outcome"] is not None]
    return {
        "trigger": trigger,
        "steps": Steps(steps),
        "outcome": outcomes[-1] if outcomes else None,
        "chain": chain,
    }


def judge(step: Step, given: Given, budget: Budget) -> Judged:
    """The result of the step's condition, as far as the budget allows."""
    if step.condition is None:
        return Judged(True)
    value = Value(step.condition, NAMES)
    (expression,) = value.expressions
    try:
        value_of_it = expression.evaluate(given, budget)
    # It fails and is not skipped. Otherwise the data of an event could choose which steps run.
    except TooMuchWork as error:
        return Judged(None, refused=NotStarted(f"its condition {error}"))
    except ExpressionError as error:
        return Judged(None, "step.skipped.undefined", str(error))
    missing = expression.missing(given)
    if isinstance(value_of_it, Missing):
        return Judged(None, "step.skipped.undefined", missing or value_of_it.why)
    if not value_of_it:
        why, values = missing or f"its condition {step.condition} is false", _values(expression, given)
        return Judged(value_of_it, "step.skipped.condition_false", f"{why}; {values}" if values else why)
    return Judged(value_of_it)


def _values(expression: Expression, given: Given) -> str:
    """What a condition saw, in words."""
    return ", ".join(
        f"{written(path)} is {_in_words(str(path[-1]), value)}"
        for path, value in expression.values_seen(given)[:_MOST_SHOWN]
    )


def _in_words(key: str, value: object) -> str:
    if isinstance(value, str) and names_secret(key, value):
        return "a secret"
    if isinstance(value, list | Steps):
        return f"a list of {len(value)}"
    return quoted(text_without_secrets(value[:_MOST_SEARCHED]) if isinstance(value, str) else value)


class Rendered(NamedTuple):
    """What a step gives its command: the values of `with`, variables, a directory, and a worktree (see `Ready`)."""

    values: Mapping[str, JsonValue]
    environment: Mapping[str, str]
    cwd: str | None = None
    worktree: tuple[str, str] | None = None


def rendered_of(step: Step, given: Given, budget: Budget) -> Rendered | NotStarted:
    """What the step gives its command, as far as the budget allows."""
    values = _table(step.values, "with", given, budget)
    if isinstance(values, NotStarted):
        return values
    table = _table(step.env, "env", given, budget)
    if isinstance(table, NotStarted):
        return table
    directory = _directory(step, given, budget)
    if isinstance(directory, NotStarted):
        return directory
    worktree = _worktree(step, given, budget)
    if isinstance(worktree, NotStarted):
        return worktree
    return Rendered(values, {name: _text(each) for name, each in table.items()}, directory, worktree)


class Remote(NamedTuple):
    """Another host runs the step, with its own command: the one of this name, or any that has these labels."""

    host: "str | Labelled"
    rendered: Rendered


def remote_of(step: Step, given: Given, budget: Budget) -> Remote | NotStarted:
    """Which host runs a step that names one, and with what, as far as the budget allows."""
    from runward.config.fleet import HOST_NAME, Labelled  # few chains have such steps

    host: str | Labelled
    if isinstance(step.host, Labelled):
        host = step.host
    else:
        table = _table({"host": step.host}, "step", given, budget)
        if isinstance(table, NotStarted):
            return table
        host = _text(table["host"])
        if re.fullmatch(HOST_NAME, host) is None:
            return NotStarted(f"host is not the name of a host: {quoted(host)}")
    rendered = rendered_of(step, given, budget)
    if isinstance(rendered, NotStarted):
        return rendered
    return _not_sent(rendered) or Remote(host, rendered)


def _not_sent(rendered: Rendered) -> NotStarted | None:
    """Why what a step gives can't go to another host: the fleet's database would refuse the order for ever. None if it can."""
    from runward.handlers.model.fleet import MOST_SENT, size_in_database, storable

    sent: dict[str, JsonValue] = {
        **{f"with.{name}": each for name, each in rendered.values.items()},
        **{f"env.{name}": each for name, each in rendered.environment.items()},
        "cwd": rendered.cwd,
    }
    for name, each in sent.items():
        if storable({name: each}) != {name: each}:
            return NotStarted(
                f"{name} has a NUL character or half a character in it, which can't go to another host"
            )
    sizes = {name: size_in_database(each) for name, each in sent.items()}
    total, largest = sum(sizes.values()), max(sizes, key=lambda name: sizes[name])
    if total <= MOST_SENT:
        return None
    return NotStarted(
        f"with, env and cwd have {total >> 10} KiB together, and at most {MOST_SENT >> 10} KiB can go to another host;"
        f" the largest is {largest} ({sizes[largest] >> 10} KiB): give it less, or the path of a file that the host has"
    )


def command_of(step: Step, play: Play, given: Given, budget: Budget) -> Ready | NotStarted:
    """The command of a step that runs, as far as the budget allows."""
    if play.playbook is None:
        return NotStarted(play.problem or f"there is no {step.name}")
    rendered = rendered_of(step, given, budget)
    return rendered if isinstance(rendered, NotStarted) else command_with(play, rendered)


def command_with(play: Play, rendered: Rendered) -> Ready | NotStarted:
    """The command of a playbook or an action with what a step gives it."""
    playbook, values, variables = play.playbook, rendered.values, rendered.environment
    if playbook is None:
        return NotStarted(play.problem or "there is no such playbook")
    nul = next((name for name, each in variables.items() if "\0" in each), None)
    if nul is not None:
        return NotStarted(f"env.{nul} has a NUL character in it")
    unused: tuple[str, ...] = ()
    if play.shell is not None:
        argv: tuple[str, ...] = ("sh", "-c", play.shell)
        script = {f"WITH_{key.replace('-', '_').upper()}": _text(each) for key, each in values.items()}
        if any("\0" in each for each in script.values()):
            return NotStarted("a value of with has a NUL character in it")
        variables = {**script, **variables}
    else:
        used = {key: each for key, each in values.items() if key in playbook.takes}
        filled = fill_command(playbook, used)
        if filled.value is None:
            return NotStarted("; ".join(problem.render() for problem in filled.problems))
        option = _would_be_an_option(playbook, used)
        if option is not None:
            return NotStarted(option)
        argv, unused = filled.value, tuple(key for key in values if key not in used)
    return Ready(
        argv=argv,
        values=values,
        environment=tuple(variables.items()),
        cwd=rendered.cwd,
        unused=unused,
        worktree=rendered.worktree,
    )


def _table(
    written: Mapping[str, JsonValue], key: str, given: Given, budget: Budget
) -> dict[str, JsonValue] | NotStarted:
    """The values of a table of the step."""
    values: dict[str, JsonValue] = {}
    for name, each in written.items():
        try:
            rendered = _rendered(each, given, budget)
        except ExpressionError as error:
            return NotStarted(f"{key}.{name} {error}")
        if isinstance(rendered, Missing):
            return NotStarted(f"{key}.{name}: {rendered.why}")
        values[name] = rendered
    return values


def _directory(step: Step, given: Given, budget: Budget) -> str | NotStarted | None:
    if step.cwd is None:
        return None
    table = _table({"cwd": step.cwd}, "step", given, budget)
    if isinstance(table, NotStarted):
        return table
    path = table["cwd"]
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        return NotStarted(f"cwd is not an absolute path: {_text(path)}")
    return path


def _worktree(step: Step, given: Given, budget: Budget) -> tuple[str, str] | NotStarted | None:
    if step.worktree is None:
        return None
    table = _table({"repo": step.worktree.repo, "ref": step.worktree.ref}, "worktree", given, budget)
    if isinstance(table, NotStarted):
        return table
    repo, ref = _text(table["repo"]), _text(table["ref"])
    if not repo.startswith("/") or "\0" in repo:
        return NotStarted(f"worktree.repo is not an absolute path: {repo}")
    if not ref or ref.startswith("-") or "\0" in ref:
        return NotStarted(f"worktree.ref is not a branch, a tag or a commit: {ref}")
    return repo, ref


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _rendered(written: JsonValue, given: Given, budget: Budget) -> JsonValue | Missing:
    match written:
        case str():
            value = Value(written, NAMES)
            rendered = value.render(given, budget)
            if isinstance(rendered, Missing):
                missing = next(filter(None, (each.missing(given) for each in value.expressions)), None)
                return Missing(missing or rendered.why)
            return rendered
        case list():
            parts = [_rendered(each, given, budget) for each in written]
            return next(
                (each for each in parts if isinstance(each, Missing)), [_datum(each) for each in parts]
            )
        case dict():
            table = {key: _rendered(each, given, budget) for key, each in written.items()}
            lacking = next((each for each in table.values() if isinstance(each, Missing)), None)
            return lacking if lacking is not None else {key: _datum(each) for key, each in table.items()}
    return written


def _datum(part: JsonValue | Missing) -> JsonValue:
    return None if isinstance(part, Missing) else part


def _would_be_an_option(playbook: Playbook, given: Mapping[str, JsonValue]) -> str | None:
    """Why a value at the beginning of a word would be read as an option. None if none would."""
    for word in playbook.command or ():
        # After it, nothing is read as an option.
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
