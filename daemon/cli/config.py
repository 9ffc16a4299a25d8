"""`runward config`: the settings in force."""

import json
from collections.abc import Iterator, Mapping

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings, settings_to_json
from runward.daemon.cli.context import settings_in_force
from runward.daemon.cli.groups import Group
from runward.daemon.cli.output import align, print_json, safe


@click.group(cls=Group)
def config() -> None:
    """The settings in force.

    \b
    Example:
      runward config show --origin
    """


@config.command()
@click.option("--origin", is_flag=True, help="Say of each setting where it was set.")
@click.option("--json", "as_json", is_flag=True, help='Print JSON; with --origin under the key "origin" too.')
@click.pass_context
def show(context: click.Context, origin: bool, as_json: bool) -> None:
    """All settings, defaults included; durations are seconds.

    \b
    Example:
      runward config show --origin
    """
    settings = settings_in_force(context)
    if as_json:
        print_json(_as_json(settings, origin))
        return
    rows = [(f"{safe(key)} = {safe(value)}", _place(settings, key)) for key, value in _lines(settings)]
    click.echo("\n".join(align(rows) if origin else [row[0] for row in rows]))


def _as_json(settings: Settings, origin: bool) -> JsonValue:
    value = settings_to_json(settings)
    assert isinstance(value, dict)
    return {**value, "origin": dict(settings.origin)} if origin else value


def _lines(settings: Settings) -> Iterator[tuple[str, str]]:
    """Dotted keys and their values, as `settings.origin` calls them."""
    value = settings_to_json(settings)
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
        elif isinstance(each, dict):
            for name, inner in each.items():
                yield f"{key}.{name}", _text(inner)
        else:
            yield key, _text(each)


def _text(value: JsonValue | Mapping[str, JsonValue]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _place(settings: Settings, key: str) -> str:
    return f"# {safe(settings.origin.get(key, 'default'))}"
