"""`runward run` for help and completion; a call of it never gets this far."""

import sys

import click


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": [],
    }
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> None:
    """Launch a command as a recorded session: runward run [OPTIONS] -- COMMAND…"""
    from runward.daemon.cli.run import main

    sys.exit(main(arguments))
