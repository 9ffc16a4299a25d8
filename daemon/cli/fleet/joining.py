"""How a host joins a fleet, and how it goes on in one after its store was restored."""

import os
import sys
from pathlib import Path

import click

from runward.config.problem import TextError
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell.context import own_settings, store_to_read
from runward.daemon.cli.shell.fleet_database import told_troubles
from runward.daemon.cli.terminal.output import fail, print_text
from runward.daemon.configuration.settings import settings_file, settings_places, working_directory
from runward.daemon.store.ownership import holder


@click.command()
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

        from runward.daemon.fleet.connecting import as_host
        from runward.daemon.fleet.receipts import begin_segment

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
