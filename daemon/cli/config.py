"""`runward config`, the settings in force; and `runward schema`, the JSON Schema of a file that people write."""

import json
import os
import sys
from collections.abc import Iterator, Mapping

import click

from runward.config.json_value import JsonValue
from runward.config.schema import SCHEMAS
from runward.config.schema import schema as schema_called
from runward.config.settings import SETTINGS, Settings, settings_to_json
from runward.config.table import DEFAULT, dotted_key, parts
from runward.daemon.cli.commands import Group
from runward.daemon.cli.shell.context import own_settings
from runward.daemon.cli.terminal.options import json_option
from runward.daemon.cli.terminal.output import align, at_home, columns_there, print_json, print_text, safe
from runward.daemon.configuration.settings import settings_files, working_directory


@click.group(cls=Group)
def config() -> None:
    """Show the settings in force.

    \b
    Example:
      runward config show --origin
    """


@config.command()
@click.option("--origin", is_flag=True, help="Also show where each setting was set.")
@json_option('Print JSON; with --origin also "origin" and "files".')
@click.pass_context
def show(context: click.Context, origin: bool, as_json: bool) -> None:
    """Show all settings, including defaults. In JSON, durations are seconds and sizes are bytes.

    \b
    Example:
      runward config show --origin
    """
    settings = own_settings(context)
    files = (
        settings_files(context.find_root().obj["config"], os.environ, working_directory()) if origin else []
    )
    if as_json:
        print_json(_as_json(settings, files if origin else None))
        return
    rows = [
        (f"{safe(key)} = {safe(value)}", f"# {safe(_origin(settings, key))}")
        for key, value in _lines(settings)
    ]
    if origin:
        for line in [f"# read: {safe(file)}" for file in files] or ["# there is no settings file"]:
            print_text(line)
    if origin and sys.stdout.isatty():
        from runward.daemon.cli.terminal.tables import flowed_rows  # programs do without it

        print_text(
            "\n".join(flowed_rows([(value, at_home(where)) for value, where in rows], columns_there()))
        )
    else:
        click.echo("\n".join(align(rows) if origin else [row[0] for row in rows]))


def _as_json(settings: Settings, files: list[str] | None) -> JsonValue:
    """The settings; with the files that were read, those and where each value comes from, too."""
    value = settings_to_json(settings)
    if files is None:
        return value
    origins: dict[str, JsonValue] = {key: _origin(settings, key) for key, _ in _lines(settings)}
    return {**value, "origin": origins, "files": [*files]}


def _lines(settings: Settings) -> Iterator[tuple[str, str]]:
    """Dotted keys and their values as people write them, as `settings.origin` calls them."""
    value = SETTINGS.as_written(settings_to_json(settings))
    assert isinstance(value, dict)
    for key, each in value.items():
        if key == "roots":
            assert isinstance(each, list)
            for root in each:
                assert isinstance(root, dict)
                yield f"roots.{root['name']}", _text({name: root[name] for name in root if name != "name"})
        elif key == "contracts":
            assert isinstance(each, list)
            for number, rule in enumerate(each):
                yield f"contracts[{number}]", _text(rule)
        else:
            for loc, part in parts(SETTINGS.keys[key], each, (key,)):
                yield dotted_key(loc), _text(part)


def _text(value: JsonValue | Mapping[str, JsonValue]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _origin(settings: Settings, key: str) -> str:
    """`file:line`, `environment VARIABLE` or `default`."""
    return settings.origin.get(key, DEFAULT)


@click.command()
@click.argument("name", type=click.Choice(SCHEMAS))
@json_option("Print JSON (always on).")
def schema(name: str, as_json: bool) -> None:
    """Print the JSON Schema of a file that people or programs write; `replay` is one line of a REPLAY.jsonl.

    \b
    Example:
      runward schema playbook
    """
    print_json(schema_called(name))
