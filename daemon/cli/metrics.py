"""`runward metrics`: the figures for a collector."""

import time

import click

from runward.config.settings import Settings
from runward.daemon.cli.shell.context import pass_settings
from runward.daemon.views.metrics import metrics as figures


@click.command()
@pass_settings
def metrics(settings: Settings) -> None:
    """Print the figures of the daemon and the store in the text format of Prometheus.

    [metrics] in the settings has the daemon write them to a file.

    \b
    Example:
      runward metrics | grep runward_sessions
    """
    click.echo(figures(settings, time.time()), nl=False)
