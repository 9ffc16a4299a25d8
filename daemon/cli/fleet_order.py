"""`runward fleet order`: what a person decides on a step that a host ordered from another one."""

import click

from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell.context import pass_settings
from runward.daemon.cli.shell.fleet_database import fleet_to_read
from runward.daemon.cli.terminal.output import fail, print_text, safe


@click.group(cls=Group)
def order() -> None:
    """Decide on a step that a host ordered from another one. `runward fleet orders` lists them.

    \b
    Example:
      runward fleet order give-up cr_0123456789ab-0-1 --note "gpu-box was stolen"
    """


@order.command("give-up")
@click.argument("name", metavar="ORDER")
@click.option("--note", required=True, metavar="TEXT", help="Why, for those who read the chain run later.")
@pass_settings
def give_up_order(settings: Settings, name: str, note: str) -> None:
    """Say that the host that took a step will not come back. The step fails, with the reason step.failed.host_lost.

    That host can't end it any more, and stops what it may have begun if it comes back after all. No other host gets the step. Only the
    host that ordered it may say so, and who made the fleet. ORDER is an id of `runward fleet orders`, or FROM/ID if several hosts have it.

    Exit code 1: nobody has taken it, or it is over, or the database refuses. 3: there is no such order. 75: the database can't be
    reached.

    \b
    Example:
      runward fleet order give-up cr_0123456789ab-0-1 --note "gpu-box was stolen"
    """
    with fleet_to_read(settings, "; try again later: the order stays as it is") as connection:
        from runward.daemon.fleet.giving_up import MOST_NOTE, GivenUp, give_up

        if not 0 < len(note) <= MOST_NOTE:
            fail(f"the note has {len(note)} characters: write 1 to {MOST_NOTE}", WRONG_USAGE)
        found = give_up(connection, name, note)
    if not isinstance(found, GivenUp):
        if found:
            fail(f"several hosts have an order {name!r}: write one of {', '.join(map(safe, found))}", NOT_SO)
        fail(f"there is no order {name!r}: `runward fleet orders` lists them", NOT_FOUND)
    if found.state == "open":
        fail("nobody has taken it: cancel its chain run instead (`runward chain run cancel`)", NOT_SO)
    if found.state != "given_up":
        fail(f"it is over already: {found.state}", NOT_SO)
    print_text(f"the order {safe(found.id)} of {safe(found.origin)} is given up; its step fails")
