"""`replay check`: what is wrong with a replay, for people and for programs."""

from collections.abc import Iterator
from typing import NamedTuple

import click

from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.daemon.cli.bundle.replay_source import opened_source, replay_source
from runward.daemon.cli.terminal.output import coloured, print_json, safe
from runward.handlers.bundle.replay_check import BundleProblem, ReplayCheck
from runward.handlers.bundle.replay_lines import read_line


class CheckedReplay(NamedTuple):
    """What was found; `path` is the replay's. If the attempt is not over, its end may be missing."""

    path: str
    events: int
    problems: tuple[BundleProblem, ...]
    is_over: bool = True

    @property
    def valid(self) -> bool:
        return not any(each.severity == "error" for each in self.problems)

    def as_json(self) -> dict[str, JsonValue]:
        """As `replay check --json` prints it."""
        return {
            "valid": self.valid,
            "events": self.events,
            "problems": [
                {"line": each.line, "message": each.message, "severity": each.severity}
                for each in self.problems
            ],
        }


def answer_of(context: click.Context, target: str, attempt: int | None) -> CheckedReplay:
    """Check the replay; ends the program if there is none."""
    source = replay_source(context, target, attempt)
    check = ReplayCheck()
    with opened_source(source) as file:
        for line in file.lines():
            check.take(read_line(line))
    problems = check.finish()
    return CheckedReplay(source.path, check.facts.events, problems, source.is_over)


def print_answer(answer: CheckedReplay, as_json: bool) -> None:
    """The answer on stdout."""
    if as_json:
        print_json(answer.as_json())
        return
    for line in _lines(answer):
        click.echo(line)


def _lines(answer: CheckedReplay) -> Iterator[str]:
    for each in answer.problems:
        place = answer.path if each.line is None else f"{answer.path}:{each.line}"
        warning = "warning: " if each.severity == "warning" else ""
        yield safe(f"{place}: {warning}{each.message}")
    word = coloured("ok", "valid") if answer.valid else coloured("invalid")
    yield f"{word}: {counted(answer.events, 'event', 'events')}"
    if not answer.is_over:
        yield "the session is still running: its replay has no end yet"
