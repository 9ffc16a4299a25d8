"""Steps that hosts of a fleet ordered from others: which there are, and what a person decides on one."""

from typing import TYPE_CHECKING, Final

import click

from runward.config.problem import shortened
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell.context import pass_settings
from runward.daemon.cli.shell.fleet_database import fleet_to_read
from runward.daemon.cli.terminal.options import json_option, limit_option, listed
from runward.daemon.cli.terminal.output import Columns, coloured, fail, print_list, print_text, safe
from runward.daemon.cli.terminal.output import note as warn
from runward.daemon.views.text import age

if TYPE_CHECKING:
    from runward.daemon.fleet.order_list import Order

MOST_REASON: Final = 200
"""Characters that are shown of why a host declined. Another host wrote it."""


def _ago(seconds: float | None) -> str:
    return "-" if seconds is None else f"{age(0.0, seconds)} ago"


def _outcome(order: "Order") -> str:
    """What is known of how it ended, or will."""
    if order.given_up is not None:
        said = [str(order.given_up.get(each)) for each in ("by", "note")]
        return safe(f"{said[0]}: {shortened(said[1], MOST_REASON)}")
    if order.status is not None:
        return coloured(order.status)
    if order.declined:
        return safe(
            "; ".join(f"{host}: {shortened(why or '-', MOST_REASON)}" for host, why in order.declined.items())
        )
    return "cancelled" if order.cancelled else "-"


_ORDER_COLUMNS: "Final[Columns[Order]]" = {
    "STATE": lambda order: order.state,
    "FROM": lambda order: safe(order.origin),
    "FOR": lambda order: safe(order.host or f"label {', '.join(order.labels)}"),
    "SKILL": lambda order: safe(order.skill),
    "PLACED": lambda order: _ago(order.placed_s),
    "TAKER": lambda order: safe(order.taken_by or "-"),
    "TAKEN": lambda order: _ago(order.taken_s),
    "OUTCOME": _outcome,
    "ORDER": lambda order: safe(order.id),
}


@click.command("orders")
@click.option("--open", "only_open", is_flag=True, help="Only those that are not over.")
@limit_option
@listed(_ORDER_COLUMNS)
@json_option()
@pass_settings
def list_orders(settings: Settings, only_open: bool, limit: int, as_json: bool) -> None:
    """List the steps that hosts ordered from others: who ordered what, its state, and who took it when.

    A host sees what it ordered or took; where the fleet was made, all are listed. STATE is `open` (nobody has taken it), `taken` (that host
    may have begun it), `ended`, `declined` (no host is left that may begin it), `given up` (a person said that its taker
    will not come back), or `withdrawn` (nobody ever begins it).

    Exit code 1: this machine belongs to no fleet, or the database refuses. 75: it can't be reached.

    \b
    Example:
      runward fleet orders --open
    """
    with fleet_to_read(
        settings, "; try again later: what was taken runs on, and the rest waits"
    ) as connection:
        from runward.daemon.fleet import order_list

        rows = order_list.orders(connection, limit + 1 if limit else None, only_open=only_open)
    shown = rows[:limit] if limit else rows
    nothing = "no order is open" if only_open else "nothing was ordered"
    print_list(shown, _ORDER_COLUMNS, as_json, value=lambda order: order.as_json(), nothing=nothing)
    if len(shown) < len(rows):
        warn(f"there are more than these {limit}: `--limit 0` shows all")


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
