"""`runward schema`: JSON Schemas of the files that people and programs write."""

import click

from runward.config.schema import SCHEMAS
from runward.config.schema import schema as schema_called
from runward.daemon.cli.terminal.output import print_json


@click.command()
@click.argument("name", type=click.Choice(SCHEMAS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON (always on).")
def schema(name: str, as_json: bool) -> None:
    """Print the JSON Schema of a file that people or programs write; `replay` is one line of a REPLAY.jsonl.

    \b
    Example:
      runward schema playbook
    """
    print_json(schema_called(name))
