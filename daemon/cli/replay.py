"""`runward replay`: what a session did, event by event: viewed, checked, converted."""

import sys
from typing import Final

import click

from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import GOOD, NOT_SO
from runward.daemon.cli.shell import completing
from runward.daemon.cli.terminal.options import NamedPath, attempt_option, json_option

SHOW: Final = "show"


class ReplayGroup(Group):
    """`replay ID` is short for `replay show ID`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in context.help_option_names:
            # Unless it names a command: a session called `check` needs the long form.
            args = [SHOW, *args]
        return super().parse_args(context, args)


@click.group(cls=ReplayGroup)
def replay() -> None:
    """Show, check and convert replays: what a session did, event by event.

    `replay ID` is short for `replay show ID`.

    \b
    Example:
      runward replay show @last --speed 8
      runward replay check REPLAY.jsonl
    """


@replay.command()
@click.argument("target", metavar="ID|FILE", shell_complete=completing.sessions)
@attempt_option
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    metavar="X",
    help="The speed: 8 is eight times as fast as it was.",
)
@click.option("--step", is_flag=True, help="Wait for a key before each event.")
@json_option("Print JSON, one event per line.")
@click.pass_context
def show(
    context: click.Context, target: str, attempt: int | None, speed: float, step: bool, as_json: bool
) -> None:
    """Show the events of a replay.

    They are shown with their timing on a terminal, as plain lines elsewhere.

    On a terminal, space pauses, s steps, / searches, g goes to a line, q quits. A wait is at most 5 s.
    A running session is shown up to now. Exit code 3: no such replay.

    \b
    Example:
      runward replay show @last --speed 8
    """
    from runward.daemon.cli.replaying import show_replay  # help does without its libraries

    show_replay(context, target, attempt, speed, is_paused=step, as_json=as_json)


@replay.command()
@click.argument("file", type=NamedPath(readable=False))
@click.option(
    "--to",
    type=click.Choice(["jsonl", "bundle"]),
    required=True,
    help="The form: a replay (REPLAY.jsonl), or the older bundle in one JSON file.",
)
@click.option("--output", type=NamedPath(), required=True, metavar="FILE", help="The file to write.")
@json_option()
def convert(file: str, to: str, output: str, as_json: bool) -> None:
    """Convert a replay to the older format, or back.

    The older format is a bundle in one JSON file.

    Exit code 1: a line of the replay cannot be read. 2: the file is not such a bundle. 3: no such file.

    \b
    Example:
      runward replay convert REPLAY.jsonl --to bundle --output replay.json
    """
    from runward.daemon.cli.replaying import convert_replay

    convert_replay(file, to, output, as_json=as_json)


@replay.command()
@click.argument("target", metavar="ID|FILE", shell_complete=completing.sessions)
@attempt_option
@json_option()
@click.pass_context
def check(context: click.Context, target: str, attempt: int | None, as_json: bool) -> None:
    """Check that the lines of a replay are consistent.

    Structure, pairs, ids, hashes and totals are checked.

    Exit code 1: some lines are wrong; each is reported. 3: no such replay.

    \b
    Example:
      runward replay check ./bundle/REPLAY.jsonl
    """
    from runward.daemon.cli.replaying import answer_of, print_answer

    answer = answer_of(context, target, attempt)
    print_answer(answer, as_json)
    sys.exit(GOOD if answer.valid else NOT_SO)
