"""`runward replay`: what a session did, event by event; and whether a replay holds together."""

import sys
from typing import Final

import click

from runward.daemon.cli.exits import GOOD, NOT_SO
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.groups import Group

SHOW: Final = "show"


class ReplayGroup(Group):
    """`replay ID` is short for `replay show ID`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in context.help_option_names:
            args = [SHOW, *args]
        return super().parse_args(context, args)


@click.group(cls=ReplayGroup)
def replay() -> None:
    """Replays: what a session did, event by event.

    `replay ID` is short for `replay show ID`.

    \b
    Example:
      runward replay @last --speed 8
      runward replay check REPLAY.jsonl
    """


@replay.command()
@click.argument("target", metavar="ID|FILE", shell_complete=completing.sessions)
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="The attempt (default: the last one).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(context: click.Context, target: str, attempt: int | None, as_json: bool) -> None:
    """Check that the lines of a replay hold together: structure, pairs, ids, hashes, totals.

    Exit code 1: some line is wrong, and each is named. 3: there is no such replay.

    \b
    Example:
      runward replay check ./bundle/REPLAY.jsonl
    """
    from runward.daemon.cli.bundle.replay_check import answer_of, print_answer

    answer = answer_of(context, target, attempt)
    print_answer(answer, as_json)
    sys.exit(GOOD if answer.valid else NOT_SO)
