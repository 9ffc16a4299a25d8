"""`runward run` for help and completion; an actual call never gets this far."""

import re
import sys
from typing import Final

import click
from click.shell_completion import CompletionItem

from runward.daemon.cli.run_launch import GITHUB, USAGE, main
from runward.daemon.cli.shell import completing
from runward.daemon.cli.terminal.options import Length


class RunCommand(click.Command):
    """The launcher, which reads its options itself: they are listed in `USAGE`."""

    def get_help(self, context: click.Context) -> str:
        return USAGE.rstrip()

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """The options; click asks here for whatever begins with a dash."""
        options = re.findall(r"^  (--[a-z-]+).*?  (.+)$", USAGE, re.MULTILINE)
        return [
            CompletionItem(name, help=text.strip()) for name, text in options if name.startswith(incomplete)
        ]


def _means(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """How a process tree may be contained."""
    from runward.daemon.launch.containment import METHODS  # the help needs none of the launcher

    return [CompletionItem(word) for word in METHODS if word.startswith(incomplete)]


def _lengths(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return Length().shell_complete(context, parameter, incomplete)


_VALUES: Final = {
    "--playbook": completing.playbooks,
    "--agent": completing.agents,
    "--artifacts": completing.directories,
    "--containment": _means,
    "--ci": lambda context, parameter, incomplete: [CompletionItem(GITHUB)],
    "--timeout": _lengths,
    "--grace": _lengths,
}
"""What completes the value of an option that takes one of a kind."""


def _words(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The value of an option, or a word of the command."""
    given: tuple[str, ...] = context.params.get("arguments") or ()
    if given and given[-1] in _VALUES:
        return _VALUES[given[-1]](context, parameter, incomplete)
    return [CompletionItem(incomplete, type="file")]


@click.command(
    cls=RunCommand,
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": [],
    },
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, shell_complete=_words)
def run(arguments: tuple[str, ...]) -> None:
    """Launch a command as a recorded session: runward run [OPTIONS] -- COMMAND…

    \b
    Example:
      runward run --playbook review -- python3 review.py
    """
    sys.exit(main(arguments))
