"""`runward fleet`: several hosts that report to one database, and the list of them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec

import click

from runward.config.fleet import HOST_NAME, database_of
from runward.config.problem import TextError, counted, shortened
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.fleet_order import order
from runward.daemon.cli.shell.context import own_settings, pass_settings, settings_in_force, store_to_read
from runward.daemon.cli.shell.fleet_database import fleet_to_read, told_troubles
from runward.daemon.cli.terminal.options import NamedPath, json_option, limit_option, listed
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
from runward.daemon.configuration.settings import settings_file, settings_places, working_directory
from runward.daemon.store.ownership import holder, prepare
from runward.daemon.views.text import age

if TYPE_CHECKING:
    from runward.daemon.fleet.administration import Administration
    from runward.daemon.fleet.lists import Host
    from runward.daemon.fleet.order_list import Order
    from runward.daemon.fleet.verifying import Chain

Given = ParamSpec("Given")

MOST_REASON: Final = 200
"""Characters that are shown of why a host declined. Another host wrote it."""


@click.group(cls=Group, commands=[order])
def fleet() -> None:
    """Have several hosts report to one database, and list them. `runward session list --fleet` lists their sessions.

    \b
    Example:
      runward fleet init postgresql://admin@db.example/runward --ca ca.pem
      runward fleet invite gpu-box --label gpu
      runward fleet hosts
    """


def pass_state(command: Callable[Concatenate[Settings, Path, Given], None]) -> Callable[Given, None]:
    """Give a command the settings in force and the state directory, which is made if it isn't there."""
    from functools import wraps

    @wraps(command)
    def with_state(*args: Given.args, **given: Given.kwargs) -> None:
        settings = settings_in_force(click.get_current_context())
        state = Path(settings.state_dir)
        prepare(state)
        command(settings, state, *args, **given)

    return with_state


@fleet.command()
@click.argument("database")
@click.option(
    "--ca",
    "ca_file",
    metavar="FILE",
    type=NamedPath(),
    help="Certificates that the database's is checked by (default: the system's).",
)
@pass_state
def init(settings: Settings, state: Path, database: str, ca_file: str | None) -> None:
    """Make the schema of a fleet in a PostgreSQL database, once.

    DATABASE is an address without a password: PGPASSWORD or ~/.pgpass has it. The login must own the database, and have
    CREATEROLE. `runward fleet invite` uses the same login. If the database has a fleet already, `init` only remembers that.

    Exit code 1: the database refuses. 75: it can't be reached.

    \b
    Example:
      runward fleet init postgresql://admin@db.example/runward --ca ca.pem
    """
    try:
        meant = database_of(database)
    except TextError as error:
        fail(f"the database {error}: {error.fix}", WRONG_USAGE)
    certificates = None
    if ca_file is not None:
        try:
            certificates = Path(ca_file).read_bytes()
        except OSError as error:
            fail(f"{ca_file} can't be read: {error.strerror}", WRONG_USAGE)
        if b"BEGIN CERTIFICATE" not in certificates:
            fail(f"{ca_file} has no certificates in PEM form", WRONG_USAGE)
    with told_troubles():
        from runward.daemon.fleet.administration import keep
        from runward.daemon.fleet.connecting import FORMAT, connect, format_of
        from runward.daemon.fleet.schema import make_schema

        with connect(meant, None, ca_file) as connection:
            is_new = make_schema(connection, meant)
            found = format_of(connection, meant)
        keep(state, meant, certificates)
    print_text(f"{meant.place} {'has' if is_new else 'already had'} a fleet")
    if found is not None and found[0] < FORMAT:
        print_text(f"next: `runward fleet upgrade` brings it from format {found[0]} to {FORMAT}")
        return
    print_text("next: `runward fleet invite HOST` prints the command with which a host joins")


@fleet.command()
@click.argument("host")
@click.option(
    "--label", "labels", multiple=True, metavar="LABEL", help="A label of the host; may be repeated."
)
@pass_state
def invite(settings: Settings, state: Path, host: str, labels: tuple[str, ...]) -> None:
    """Print the command with which a host joins the fleet. It has a secret, and works once.

    If nobody used an earlier invitation of this host, it is void.

    Exit code 1: the name is taken, or the database refuses. 75: it can't be reached.

    \b
    Example:
      runward fleet invite gpu-box --label gpu
    """
    import re

    from runward.config.fleet import LABEL, LABEL_FIX

    if re.fullmatch(HOST_NAME, host) is None:
        from runward.config.fleet import HOST_NAME_FIX

        fail(f"{host!r} is not the name of a host: {HOST_NAME_FIX}", WRONG_USAGE)
    for label in labels:
        if re.fullmatch(LABEL, label) is None:
            fail(f"{label!r} is not a label: {LABEL_FIX}", WRONG_USAGE)
    with told_troubles():
        from runward.daemon.fleet.administration import invite as invited

        known = _administration(state)
        with known.connect() as connection:
            invitation = invited(connection, known, host, tuple(sorted(set(labels))))
    note(f"run this on {host}; it has a secret, and works once")
    click.echo(f"runward fleet join '{invitation.text}'")


def _administration(state: Path) -> "Administration":
    """The fleet that was made, or remembered, on this machine; exits 1 if none was."""
    from runward.daemon.fleet.administration import administration

    known = administration(state)
    if known is None:
        fail("this machine knows no fleet: `runward fleet init DATABASE` here first", NOT_SO)
    return known


@fleet.command()
@pass_state
def upgrade(settings: Settings, state: Path) -> None:
    """Bring the fleet's database to the format of this Runward, where the fleet was made.

    Nothing that older programs use goes: hosts with an older Runward report on, and their steps run on. Upgrade the database
    first, then each host when it suits. A second call changes nothing.

    Exit code 1: the database refuses, or its fleet is newer. 75: it can't be reached.

    \b
    Example:
      runward fleet upgrade
    """
    with told_troubles("; run it again, nothing is half done"):
        from runward.daemon.fleet.connecting import FORMAT
        from runward.daemon.fleet.schema import upgrade as upgraded

        known = _administration(state)
        with known.connect() as connection:
            found = upgraded(connection, known.database)
    place = known.database.place
    if found is None:
        fail(f"{place} has no fleet: `runward fleet init` makes one", NOT_SO)
    if found == FORMAT:
        print_text(f"{place} had format {FORMAT} already")
    else:
        print_text(f"{place} was brought from format {found} to {FORMAT}")
        print_text("next: hosts may be upgraded, in any order and at any time")


@fleet.command()
@click.option(
    "--without",
    "left_out",
    multiple=True,
    metavar="HOST",
    help="A host that is not waited for any longer; may be repeated.",
)
@pass_state
def resume(settings: Settings, state: Path, left_out: tuple[str, ...]) -> None:
    """Say for whom the fleet waits since its database was restored, or a replica was promoted; leave hosts out.

    Such a database has forgotten which steps were taken. So nobody takes any until every host that takes steps has said again what it
    took. A host that will not come back is left out by `--without`: what it had taken since may begin on another host.

    Exit code 1: the database refuses. 3: the fleet does not wait for this host. 75: the database can't be reached.

    \b
    Example:
      runward fleet resume --without gpu-box
    """
    with told_troubles():
        from runward.daemon.fleet.resuming import leave_out, waited_for

        known = _administration(state)
        with known.connect() as connection:
            waited = waited_for(connection, known.database)
            names = [each.host for each in waited]
            for host in left_out:
                if host not in names:
                    whom = ", ".join(map(safe, names)) or "nobody"
                    fail(f"the fleet does not wait for {safe(host)!r}, but for {whom}", NOT_FOUND)
            if left_out:
                leave_out(connection, left_out)
                waited = waited_for(connection, known.database)
    if not waited:
        print_text("nobody is waited for: hosts take steps")
        return
    print_text("hosts take no steps until these have said again what they took:")
    for each in waited:
        seen = "never heard of" if each.unheard_s is None else f"heard of {age(0.0, each.unheard_s)} ago"
        print_text(f"  {safe(each.host)}  {seen}")
    print_text(
        "next: start them; `runward fleet resume --without HOST` leaves out one that will not come back"
    )


@fleet.command("remove")
@click.argument("host")
@pass_state
def remove_host(settings: Settings, state: Path, host: str) -> None:
    """Remove a host from the fleet: its login ends at once, and nobody can have its name again.

    What it reported stays. A host that was invited and has not joined can't join any more. On the host itself, remove fleet.toml.

    Exit code 1: the database refuses. 3: there is no such host. 75: the database can't be reached.

    \b
    Example:
      runward fleet remove gpu-box
    """
    with told_troubles():
        from runward.daemon.fleet.administration import remove

        known = _administration(state)
        with known.connect() as connection:
            if not remove(connection, known, host):
                fail(f"the fleet has no host {host!r}: `runward fleet hosts` lists them", NOT_FOUND)
    print_text(f"{safe(host)} was removed from the fleet; what it reported stays")


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


@fleet.command()
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
            "; ".join(f"{host}: {shortened(why, MOST_REASON)}" for host, why in order.declined.items())
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


@fleet.command("orders")
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
        note(f"there are more than these {limit}: `--limit 0` shows all")


def _in_words(chain: "Chain") -> str:
    """What was found of a host's chains, on one line."""
    head = "" if chain.head is None else f", head {chain.head}"
    said = f"{safe(chain.host)}: {counted(chain.receipts, 'receipt', 'receipts')}{head}"
    if chain.owed is None:
        return said
    owed = f"; {chain.owed} more owed to the fleet" if chain.owed else ""
    return f"{said}{'' if chain.problems else ', as in the store here'}{owed}"


@fleet.command()
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


@fleet.command()
@click.argument("invitation", required=False)
@click.option(
    "--new-segment",
    is_flag=True,
    help="Begin another chain of receipts, on a host that has joined and whose store was restored.",
)
@click.pass_context
def join(context: click.Context, invitation: str | None, new_segment: bool) -> None:
    """Have this host report to a fleet, by an invitation.

    The secret of the invitation is replaced by a new one. The settings are written to fleet.toml in the directory
    runward.toml.d, next to the settings file, together with the secret and the certificates.

    `--new-segment` takes no invitation. After the store of this host was restored from a backup, its next receipt does not follow
    the last one that the fleet has. With it, the fleet keeps that chain, and takes another one beside it.

    Exit code 1: the invitation was used, no other segment is needed, or the database refuses. 75: it can't be reached.

    \b
    Example:
      runward fleet join 'runward://gpu-box:SECRET@db.example:5432/runward'
    """
    settings = own_settings(context)
    if new_segment == (invitation is not None):
        fail("give either an invitation, or --new-segment", WRONG_USAGE)
    if invitation is None:
        _begin_segment(settings)
        return
    with told_troubles():
        from runward.daemon.fleet.invitation import invitation_of
        from runward.daemon.fleet.joining import SETTINGS
        from runward.daemon.fleet.joining import join as joined

        try:
            meant = invitation_of(invitation)
        except TextError as error:
            fail(f"{error}: {error.fix}", WRONG_USAGE)
        if settings.fleet is not None:
            where = settings.origin.get("fleet", "the settings")
            fail(
                f"this host is {settings.fleet.host} of a fleet already, by {where}: remove that first",
                NOT_SO,
            )
        try:
            directory = _directory(context.find_root().obj["config"])
            joined(meant, directory)
        except OSError as error:
            fail(f"{error.filename or directory} can't be written: {error.strerror}", NOT_SO)
    print_text(f"this host is {meant.name}, by {directory / SETTINGS}")
    if holder(Path(settings.state_dir)) is None:
        print_text("next: start the daemon, which reports to the fleet")
    else:
        print_text("the daemon takes the settings over within a few seconds; `runward daemon reload` at once")
    sys.stdout.flush()


def _begin_segment(settings: Settings) -> None:
    """Have the fleet take another chain of this host, if the store does not go on where the fleet is."""
    if settings.fleet is None:
        fail("this host belongs to no fleet: `runward fleet join INVITATION` has it join one", NOT_SO)
    with told_troubles():
        from contextlib import closing

        from runward.daemon.fleet.chains import begin_segment
        from runward.daemon.fleet.connecting import as_host

        with closing(as_host(settings.fleet)) as connection:
            segment = begin_segment(connection, settings.fleet.host, lambda: store_to_read(settings))
    if segment is None:
        fail("no other segment is needed: the store here goes on where the fleet is", NOT_SO)
    print_text(f"segment {segment} of {settings.fleet.host} begins; the fleet keeps the earlier chain")
    print_text(
        "next: the daemon reports its receipts within half a minute; `runward fleet verify` shows both chains"
    )


def _directory(config: str | None) -> Path:
    """The directory of drop-ins next to the settings file, which are both made if they are not there. Raises `OSError`."""
    cwd = working_directory()
    file = settings_file(config, os.environ, cwd)
    if file is None:
        # The user's own, not one of the directory that this command happens to run in.
        file = settings_places(config, os.environ, cwd)[1]
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)  # without it, nobody reads what is next to it
    directory = Path(f"{file}.d")
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory
