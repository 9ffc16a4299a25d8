"""The hosts of a fleet: what each says of itself, and whether its receipts hold."""

import sys
from typing import TYPE_CHECKING, Final

import click

from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.shell.fleet_database import fleet_to_read
from runward.daemon.cli.terminal.options import json_option, limit_option, listed
from runward.daemon.cli.terminal.output import (
    Columns,
    coloured,
    fail,
    note,
    print_json,
    print_list,
    print_text,
    safe,
)
from runward.daemon.views.text import age

if TYPE_CHECKING:
    from runward.daemon.fleet.lists import Host
    from runward.daemon.fleet.verifying import Chain


def _seen(host: "Host") -> str:
    """How long ago the database heard of it."""
    return "never" if host.unheard_s is None else f"{age(0.0, host.unheard_s)} ago"


_COLUMNS: "Final[Columns[Host]]" = {
    "HOST": lambda host: safe(host.name),
    "STATE": lambda host: coloured(host.state),
    "SEEN": _seen,
    "SLOTS": lambda host: "-" if host.slots is None else str(host.slots),
    "OWES": lambda host: str(host.owes),
    "VERSION": lambda host: safe(host.program or "-"),
    "LABELS": lambda host: safe(", ".join(host.labels) or "-"),
    "PROBLEMS": lambda host: safe("; ".join(host.problems) or "-"),
}


@click.command()
@limit_option
@listed(_COLUMNS)
@json_option()
@pass_settings
def hosts(settings: Settings, limit: int, as_json: bool) -> None:
    """List the hosts of the fleet: when each was heard of, and what it says of itself.

    STATE is `invited` (it has not joined), `joined` (its daemon never reported), `reporting`, `silent` (not heard of for
    90 s), or `removed`. SLOTS says how many steps of others it runs at once. OWES counts what it has yet to report.

    Exit code 1: this machine belongs to no fleet, or the database refuses. 75: it can't be reached.

    \b
    Example:
      runward fleet hosts
    """
    with fleet_to_read(
        settings, "; try again later: each host works on, and reports when it is back"
    ) as connection:
        from runward.daemon.fleet import lists

        rows = lists.hosts(connection, limit + 1 if limit else None)
    shown = rows[:limit] if limit else rows
    print_list(shown, _COLUMNS, as_json, value=lambda host: host.as_json(), nothing="no host was invited yet")
    if len(shown) < len(rows):
        note(f"there are more than these {limit}: `--limit 0` shows all")


def _in_words(chain: "Chain") -> str:
    """What was found of a host's chains, on one line."""
    head = "" if chain.head is None else f", head {chain.head}"
    said = f"{safe(chain.host)}: {counted(chain.receipts, 'receipt', 'receipts')}{head}"
    if chain.owed is None:
        return said
    owed = f"; {chain.owed} more owed to the fleet" if chain.owed else ""
    return f"{said}{'' if chain.problems else ', as in the store here'}{owed}"


@click.command()
@click.argument("host", required=False)
@json_option()
@pass_settings
def verify(settings: Settings, host: str | None, as_json: bool) -> None:
    """Verify the chains of receipts of all hosts, or of HOST.

    Each chain is recomputed from what the fleet's database has. The chain of this host, and the heads of its chain of events, are also
    compared with its store. A segment is a chain that was begun after a restore, beside the earlier one.

    Exit code 1: a chain is broken, or differs from the store; this machine belongs to no fleet; or the database refuses. 3: there is
    no such host. 75: the database can't be reached.

    \b
    Example:
      runward fleet verify
    """
    with fleet_to_read(
        settings, "; try again later: `runward receipt chain` verifies this host's own"
    ) as connection:
        from runward.daemon.fleet.verifying import verified

        own = None if settings.fleet is None else settings.fleet.host
        chains = [*verified(connection, host, own, lambda: store_to_read(settings))]
    if host is not None and not chains:
        fail(f"the fleet has no host {host!r}: `runward fleet hosts` lists them", NOT_FOUND)
    valid = not any(chain.problems for chain in chains)
    if as_json:
        print_json({"valid": valid, "hosts": [chain.as_json() for chain in chains]})
    else:
        for chain in chains:
            word = coloured("invalid") if chain.problems else coloured("ok", "valid")
            print_text(f"{word}: {_in_words(chain)}")
            for fork in chain.forks:
                where = (
                    "from its first receipt on" if fork.behind is None else f"behind receipt {fork.behind}"
                )
                print_text(
                    f"  segment {fork.segment} is another chain than segment {fork.segment - 1} {where}"
                )
            for problem in chain.problems:
                print_text(f"  {safe(problem)}")
    if not valid:
        sys.exit(NOT_SO)
