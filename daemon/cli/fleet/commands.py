"""`runward fleet`: several hosts that report to one database, and order steps of each other."""

import click

from runward.daemon.cli.commands import Group
from runward.daemon.cli.fleet.administration import init, invite, remove_host, resume, upgrade
from runward.daemon.cli.fleet.hosts import hosts, verify
from runward.daemon.cli.fleet.joining import join
from runward.daemon.cli.fleet.orders import list_orders, order


@click.group(
    cls=Group,
    commands=[init, invite, join, upgrade, resume, remove_host, hosts, list_orders, order, verify],
)
def fleet() -> None:
    """Have several hosts report to one database, and list them. `runward session list --fleet` lists their sessions.

    \b
    Example:
      runward fleet init postgresql://admin@db.example/runward --ca ca.pem
      runward fleet invite gpu-box --label gpu
      runward fleet hosts
    """
