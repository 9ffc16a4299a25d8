"""`runward init`: what it found, what it will do, the question, what it did, and how to undo it."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

from runward.config.json_value import JsonValue
from runward.config.path_rule import PathRuleError, relative_parts
from runward.config.settings import Settings
from runward.daemon.cli.exits import GOOD, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.hook import show_change
from runward.daemon.cli.init.doing import Outcome, State, carry_out
from runward.daemon.cli.init.finding import Found, find
from runward.daemon.cli.init.planning import RULE, SERVICE, Step, Wanted, steps_of
from runward.daemon.cli.init.record import RecordUnreadable, read_record, remove_torn
from runward.daemon.cli.init.texts import USUAL_FILE
from runward.daemon.cli.init.undoing import Undone, undo, undoings_of
from runward.daemon.cli.init.waiting import BRIEFLY_S, Running, wait_until_read
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import own_settings
from runward.daemon.cli.terminal.options import json_option
from runward.daemon.cli.terminal.output import fail, print_json, safe, width
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import flowed
from runward.daemon.hooks.programs import name_of
from runward.daemon.units import rendering

_STATES: Final = {"done": "completed", "unchanged": "completed", "failed": "failed", "left out": "skipped"}
_DETAIL_AT: Final = 56


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.option("--dry-run", is_flag=True, help="Only show every change.")
@click.option("--no-hooks", is_flag=True, help="Leave the agents' settings alone.")
@click.option("--no-service", is_flag=True, help="Install and start no service.")
@click.option(
    "--project",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    shell_complete=completing.directories,
    help="Hold every session in this directory to a file; nothing else is changed.",
)
@click.option(
    "--deliver",
    metavar="FILE",
    shell_complete=completing.files,
    help=f"With --project: the file, such as {USUAL_FILE}.",
)
@click.option("--undo", "is_undo", is_flag=True, help="Take back what is still as it was left.")
@json_option()
@click.pass_context
def init(
    context: click.Context,
    yes: bool,
    dry_run: bool,
    no_hooks: bool,
    no_service: bool,
    project: str | None,
    deliver: str | None,
    is_undo: bool,
    as_json: bool,
) -> None:
    """Set Runward up: settings, a playbook, the hooks of the agents found, and the service.

    It shows its plan and asks. What is there already stays as it is. `init.json` in the state directory holds what was
    there before, for --undo.

    Exit code 1: a step failed, or --undo left what somebody changed. 75: no systemd answers, so start `runward daemon`.

    \b
    Example:
      runward init --dry-run
      runward init --project . --deliver report.md --dry-run
    """
    settings = own_settings(context)
    if is_undo:
        if no_hooks or no_service or project or deliver:
            raise click.UsageError("--undo takes back everything: leave out the other options", context)
        _undo(settings, dry_run, as_json)
    if (project is None) != (deliver is None):
        raise click.UsageError("--project and --deliver need each other", context)
    _check_deliver(deliver, context)
    if not yes and not dry_run and (as_json or not (sys.stdin.isatty() and sys.stdout.isatty())):
        fail(
            "there is no terminal to ask on: add --yes, or see with --dry-run what would be done", WRONG_USAGE
        )
    wanted = Wanted(
        not no_hooks,
        not no_service,
        None if project is None else os.path.realpath(project),
        USUAL_FILE if deliver is None else deliver,
    )
    asks = wanted.has_service and wanted.project is None
    found = find(settings, os.environ, asks_systemd=asks)
    steps = steps_of(settings, context.find_root().obj["config"], found, wanted)
    _Init(settings, found, wanted, steps, as_json).run(yes, dry_run)


def _check_deliver(deliver: str | None, context: click.Context) -> None:
    if deliver is None:
        return
    try:
        relative_parts(deliver)
    except PathRuleError as error:
        raise click.UsageError(f"--deliver {safe(deliver)}: {error}; {error.fix}", context) from error
    if not deliver.isprintable():
        raise click.UsageError("--deliver has characters that can't be shown", context)


class _Init:
    """One call, with its plan."""

    def __init__(
        self, settings: Settings, found: Found, wanted: Wanted, steps: Sequence[Step], as_json: bool
    ) -> None:
        self._settings = settings
        self._found = found
        self._wanted = wanted
        self._steps = steps
        self._as_json = as_json
        self._terminal = terminal_here()
        self._is_needed = any(step.is_needed for step in steps)

    def run(self, yes: bool, dry_run: bool) -> NoReturn:
        if not self._as_json:
            self._show_plan(dry_run)
        if dry_run:
            self._end([Outcome(step, *_planned(step)) for step in self._steps], None, dry_run=True)
        if self._is_needed and not yes and not click.confirm("Do it?", prompt_suffix=" "):
            self._say("nothing was changed")
            sys.exit(NOT_SO)
        outcomes: list[Outcome] = []
        daemon: Running | None = None
        for outcome in carry_out(self._steps, self._settings.state_dir):
            if outcome.step.name == SERVICE and outcome.state == "done":
                daemon = wait_until_read(self._settings)
                words = "it was started, and has not read everything yet: see `runward status`"
                outcome = outcome._replace(words=words if daemon is None else daemon.words)
            outcomes.append(outcome)
            if self._is_needed and not self._as_json:
                self._show_outcome(len(outcomes), outcome)
        if daemon is None and self._found.daemon is not None:
            daemon = wait_until_read(self._settings, BRIEFLY_S)
        self._end(outcomes, daemon, dry_run=False)

    def _end(self, outcomes: Sequence[Outcome], daemon: Running | None, *, dry_run: bool) -> NoReturn:
        if self._as_json:
            print_json(self._json(outcomes, daemon, dry_run))
        elif dry_run:
            self._say("nothing was changed (--dry-run)")
        else:
            self._show_end(outcomes, daemon)
        if any(outcome.state in ("failed", "left out") for outcome in outcomes):
            sys.exit(NOT_SO)
        needs_daemon = self._wanted.has_service and self._wanted.project is None and not dry_run
        if needs_daemon and self._found.silence is not None and self._found.daemon is None:
            fail(
                f"systemd doesn't answer ({self._found.silence}): start the daemon yourself with `runward daemon`",
                TRY_AGAIN,
            )
        sys.exit(GOOD)

    def _json(self, outcomes: Sequence[Outcome], daemon: Running | None, dry_run: bool) -> JsonValue:
        return {
            "dry_run": dry_run,
            "found": self._found.json,
            "steps": [
                {
                    "name": each.step.name,
                    "verb": each.step.verb,
                    "path": each.step.path,
                    "detail": each.step.detail,
                    "state": each.state,
                    "said": each.words,
                }
                for each in outcomes
            ],
            "daemon": None if daemon is None else daemon.json,
        }

    def _show_plan(self, dry_run: bool) -> None:
        self._flow(f"{', '.join(self._agents()) or 'no agent'}", "Found    ", " " * 9)
        self._flow("; ".join(self._machine()), " " * 9, " " * 9)
        click.echo("Will do" if self._is_needed else "Nothing to do")
        for number, step in enumerate(self._steps, 1):
            for line in self._planned(number, step):
                click.echo(line)
            if dry_run and step.file is not None and step.text is not None:
                show_change(step.file, step.text)
            if dry_run and step.service is not None:
                for call in step.service.calls:
                    click.echo(f"    systemctl --user {' '.join(call)}")
        if self._is_needed and not dry_run:
            self._say("Show each change with: runward init --dry-run")

    def _agents(self) -> Iterator[str]:
        for agent in self._found.agents:
            version = f" {agent.version}" if agent.version else ""
            sessions = "1 session" if agent.sessions == 1 else f"{agent.sessions} sessions"
            yield f"{name_of(agent.layout)}{version} ({self._terminal.path(agent.home)}, {sessions})"

    def _machine(self) -> Iterator[str]:
        if self._wanted.has_service and self._wanted.project is None:
            silence = self._found.silence
            words = f"doesn't answer: {safe(silence)}" if silence is not None else "answers"
            yield f"systemd --user {words}"
        silent = self._found.no_desktop
        yield "notify-send is there" if silent is None else f"no notices on a desktop: {safe(silent)}"
        if self._found.daemon is not None:
            yield f"a daemon is running, pid {self._found.daemon or 'unknown'}"

    def _planned(self, number: int, step: Step) -> Iterator[str]:
        verb = step.verb if step.is_needed else "unchanged"
        lead = f"  {number} {verb:<10}"
        detail = step.problem or step.detail
        lines = list(flowed(self._terminal.path(step.path), lead, " " * len(lead), self._terminal.columns))
        shown = self._terminal.text(f"({detail})") if detail else ""
        gap = max(2, _DETAIL_AT - width(lines[-1]))
        if shown and width(lines[-1]) + gap + width(shown) <= self._terminal.columns:
            lines[-1] = f"{lines[-1]}{' ' * gap}{shown}"
        elif shown:
            lines += flowed(shown, " " * len(lead), " " * len(lead), self._terminal.columns)
        yield from lines

    def _show_outcome(self, number: int, outcome: Outcome) -> None:
        sign = self._terminal.sign(_STATES[outcome.state])
        self._flow(outcome.words, f"{sign} {number} ", "    ")

    def _show_end(self, outcomes: Sequence[Outcome], daemon: Running | None) -> None:
        is_ours = any(each.step.name == SERVICE and each.state != "failed" for each in outcomes)
        if is_ours and not rendering.is_lingering(rendering.user_name()):
            said = "you don't linger: it stops when you log out; to keep it: loginctl enable-linger"
            self._flow(said, f"{self._terminal.sign('waiting')} ", "  ")
        if not self._is_needed and daemon is not None:
            self._say(f"Runward is {daemon.words}")
        if any(each.state == "done" for each in outcomes):
            self._say("Undo it all: runward init --undo")
        if any(each.state in ("failed", "left out") for each in outcomes):
            return
        click.echo()
        if any(each.step.name == RULE for each in outcomes):
            later = "" if daemon is not None else ", once `runward daemon` or the service runs"
            self._flow(f"sessions that begin there are held to it{later}", "Next: ", "      ")
        else:
            first = "" if self._wanted.has_service or daemon is not None else "start `runward daemon`, "
            said = f"{first}work as usual, then `runward`. To hold a project to a file:"
            self._flow(said, "Next: ", "      ")
            self._flow(f"runward init --project DIR --deliver {USUAL_FILE}", "      ", "      ")

    def _flow(self, text: str, first: str, rest: str) -> None:
        for line in flowed(self._terminal.text(text), first, rest, self._terminal.columns):
            click.echo(line)

    def _say(self, text: str) -> None:
        if not self._as_json:
            self._flow(text, "", "  ")


def _planned(step: Step) -> tuple[State, str]:
    if step.problem is not None:
        return "failed", step.problem
    return ("planned", "") if step.is_needed else ("unchanged", "unchanged")


def _undo(settings: Settings, dry_run: bool, as_json: bool) -> NoReturn:
    """Take back what `init.json` names, and end the program."""
    state, terminal = settings.state_dir, terminal_here()
    try:
        entries = read_record(state)
    except RecordUnreadable as error:
        fail(str(error), WRONG_USAGE)
    undoings = undoings_of(entries)
    undone: list[Undone] = []
    if dry_run:
        undone = [Undone(each.path, each.way(), each.problem or "") for each in undoings]
    else:
        remove_torn(state)
        for each in undo(entries, undoings, state) if entries else ():
            undone.append(each)
            if not as_json:
                _show_undone(each, terminal)
    if as_json:
        print_json({"dry_run": dry_run, "undone": [{**each._asdict()} for each in undone]})
    elif dry_run:
        for each in undone:
            _show_undone(each, terminal)
        click.echo("nothing was changed (--dry-run)")
    elif not entries:
        click.echo("there is nothing to undo")
    elif Path(state).exists():
        for line in flowed(
            f"what Runward recorded stays in {terminal.path(state)}", "", "  ", terminal.columns
        ):
            click.echo(line)
    sys.exit(NOT_SO if any(each.is_left for each in undone) else GOOD)


def _show_undone(undone: Undone, terminal: Terminal) -> None:
    sign = terminal.sign("waiting" if undone.is_left else "completed")
    words = f"{undone.way:<10}{terminal.path(undone.path)}" + (f": {undone.words}" if undone.words else "")
    for line in flowed(terminal.text(words), f"{sign} ", "  ", terminal.columns):
        click.echo(line)
