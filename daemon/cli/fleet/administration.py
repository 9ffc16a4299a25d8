"""What is done where a fleet was made: making and upgrading its database, inviting and removing hosts, and going on after a restore."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec

import click

from runward.config.fleet import HOST_NAME, database_of
from runward.config.problem import TextError
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.shell.fleet_database import told_troubles
from runward.daemon.cli.terminal.options import NamedPath
from runward.daemon.cli.terminal.output import fail, note, print_text, safe
from runward.daemon.store.ownership import prepare
from runward.daemon.views.text import age

if TYPE_CHECKING:
    from runward.daemon.fleet.administration import Administration

Given = ParamSpec("Given")


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


@click.command()
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


@click.command()
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


@click.command()
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


@click.command()
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


@click.command("remove")
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
