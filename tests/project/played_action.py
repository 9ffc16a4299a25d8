"""A composite action of GitHub, carried out step by step, as a runner would."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from tests.daemon.cli.fake_runner import FakeRunner, Step

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")

Value = str | bool
Used = Callable[[Mapping[str, str]], None]
"""What another action does with its inputs. An exception fails the step."""


@dataclass(slots=True)
class Played:
    """What an action did: its outputs, each step's result by its name, and the steps that were carried out here."""

    is_failed: bool = False
    outputs: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)


def play(
    action: Path, inputs: Mapping[str, str], runner: FakeRunner, workspace: Path, others: Mapping[str, Used]
) -> Played:
    """Carry out the action in the directory `action`. `others` are the actions that it uses, without their versions."""
    described = yaml.safe_load((action / "action.yml").read_text())
    assert described["runs"]["using"] == "composite"
    unknown = set(inputs) - set(described["inputs"])
    assert not unknown, f"there are no inputs {unknown}"
    given = {name: inputs.get(name, each.get("default", "")) for name, each in described["inputs"].items()}
    context: dict[str, object] = {
        "inputs": given,
        "runner": {"temp": str(runner.directory)},
        "github": {"action_path": str(action)},
        "steps": {},
    }
    played = Played()
    for step in described["runs"]["steps"]:
        condition = str(step.get("if", ""))
        may_run = not played.is_failed or "always()" in condition
        if not may_run or (condition and not _value(condition, context)):
            played.results[step["name"]] = "skipped"
            continue
        outputs: Mapping[str, str] = {}
        environment = {name: _filled(str(value), context) for name, value in step.get("env", {}).items()}
        if "uses" in step:
            others[step["uses"].partition("@")[0]](
                {k: _filled(str(v), context) for k, v in step.get("with", {}).items()}
            )
            outcome = "success"
        else:
            assert step["shell"] == "bash", "a composite action names the shell of each script"
            assert "${{" not in step["run"], "an input in a script could be a command"
            script = runner.directory / f"script-{len(played.results)}.sh"
            script.write_text(step["run"])
            words = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
            done = runner.step(words, workspace, environment)
            played.steps[step["name"]] = done
            runner.environment["PATH"] = ":".join([*done.paths, runner.environment["PATH"]])
            outputs, outcome = done.outputs, "failure" if done.code else "success"
        played.results[step["name"]] = outcome
        played.is_failed = played.is_failed or outcome == "failure"
        if "id" in step:
            context["steps"][step["id"]] = {"outputs": outputs, "outcome": outcome}  # type: ignore[index]  # made above
    played.outputs = {name: _filled(each["value"], context) for name, each in described["outputs"].items()}
    return played


def _filled(text: str, context: Mapping[str, object]) -> str:
    return _EXPRESSION.sub(lambda match: str(_value(match[1], context)), text)


def _value(expression: str, context: Mapping[str, object]) -> Value:
    """The value of an expression: `||`, `&&`, `==`, `!=`, a text in quotes, `always()`, or the path of a value."""
    expression = expression.strip()
    for operator in ("||", "&&", "!=", "=="):
        left, found, right = expression.partition(operator)
        if found:
            one = _value(left, context)
            if operator in ("||", "&&"):
                return one if bool(one) == (operator == "||") else _value(right, context)
            return (one == _value(right, context)) == (operator == "==")
    if expression == "always()":
        return True
    if expression.startswith("'"):
        return expression.strip("'")
    value: object = context
    for name in expression.split("."):
        value = value.get(name, "") if isinstance(value, Mapping) else ""
    assert isinstance(value, str), f"{expression} is no text"
    return value
