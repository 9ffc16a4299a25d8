"""`runward top`: the list of sessions, live, on the whole screen."""

import os
from typing import Final

import click

from runward.config.settings import Settings
from runward.daemon.cli.shell.context import pass_settings
from runward.daemon.cli.terminal import whole_screen


@click.command()
@click.option(
    "--quiet", "is_quiet", is_flag=True, help="Send the terminal no notice when something begins to wait."
)
@pass_settings
def top(settings: Settings, is_quiet: bool) -> None:
    """Show what waits, works and ended, live, on the whole screen.

    Below the list, it says why the selected row is as it is. ? shows the keys. It ends with q.

    When something begins to wait for a person, the terminal shows a notice, as far as it can, and rings its bell.

    Needs a terminal.

    \b
    Example:
      runward top
    """
    if not whole_screen.is_there():
        raise click.UsageError("it needs a terminal; programs can call `runward session list --json`")
    if os.environ.get("TERM") in _NOT_ADDRESSABLE:
        raise click.UsageError(
            "TERM=dumb is a terminal without a cursor to move; `runward session list` works there"
        )
    from runward.daemon.cli.top.screen import watch  # a refusal needs none of it

    watch(settings, has_colour=click.get_current_context().color is not False, is_quiet=is_quiet)


_NOT_ADDRESSABLE: Final = ("dumb",)
