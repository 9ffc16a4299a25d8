"""`runward chain`: chains, whether they are valid, and what they would do."""

import click

from runward.daemon.cli.chain.approving import approvals, approve, deny
from runward.daemon.cli.chain.defining import define, list_chains, show
from runward.daemon.cli.chain.following import chain_run, runs
from runward.daemon.cli.chain.pausing import disable, pause, resume
from runward.daemon.cli.chain.triggering import check, fire
from runward.daemon.cli.shell.groups import Group


@click.group(cls=Group)
def chain() -> None:
    """Define, fire and follow chains: runs that start when something happened.

    \b
    Example:
      runward chain define pr-review.yaml
      runward chain fire pr-review --dry-run
    """


chain.add_command(define)
chain.add_command(list_chains)
chain.add_command(show)
chain.add_command(fire)
chain.add_command(check)
chain.add_command(pause)
chain.add_command(resume)
chain.add_command(disable)
chain.add_command(runs)
chain.add_command(approvals)
chain.add_command(approve)
chain.add_command(deny)
chain.add_command(chain_run)
