"""`runward session`: what ran, and the results."""

import click

from runward.daemon.cli.session.examining import diff, export, show, verify
from runward.daemon.cli.session.following import logs, tail, wait
from runward.daemon.cli.session.listing import list_sessions
from runward.daemon.cli.session.requests import cancel, seen
from runward.daemon.cli.shell.groups import Group


@click.group(cls=Group)
def session() -> None:
    """Show, follow, cancel, verify and export sessions.

    ID is a session's id or key, a unique beginning of one, or @last for the newest.

    \b
    Example:
      runward session list --status failed
      runward session show @last
    """


session.add_command(list_sessions)
session.add_command(show)
session.add_command(wait)
session.add_command(logs)
session.add_command(tail)
session.add_command(cancel)
session.add_command(seen)
session.add_command(verify)
session.add_command(diff)
session.add_command(export)
