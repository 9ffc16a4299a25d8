"""`runward root`: the directories that the daemon watches."""

from pathlib import Path

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.context import settings_in_force
from runward.daemon.cli.groups import Group
from runward.daemon.cli.output import coloured, print_json, print_table, safe
from runward.daemon.cli.status import report_of, roots_of
from runward.daemon.store.ownership import holder


@click.group(cls=Group)
def root() -> None:
    """Roots: the directories that the daemon watches.

    \b
    Example:
      runward root list
    """


@root.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_roots(context: click.Context, as_json: bool) -> None:
    """The roots, their layouts and their health.

    The health is what the running daemon says; unknown where none runs.

    \b
    Example:
      runward root list
    """
    settings = settings_in_force(context)
    report = report_of(settings.state_dir, holder(Path(settings.state_dir)))
    found = roots_of(settings, report)
    assert isinstance(found, list)
    histories = {each.name: each.history for each in settings.roots}
    roots: list[dict[str, JsonValue]] = [
        {**each, "history": histories.get(str(each["name"]))} for each in found if isinstance(each, dict)
    ]
    if as_json:
        print_json(list(roots))
    elif not roots:
        click.echo("no roots: add one to the settings")
    else:
        print_table(("ROOT", "LAYOUT", "HISTORY", "HEALTH", "PATH"), [_row(each) for each in roots])


def _row(each: dict[str, JsonValue]) -> tuple[str, ...]:
    problem = f" ({each['problem']})" if each["problem"] else ""
    return (
        safe(str(each["name"])),
        safe(str(each["layout"])),
        str(each["history"] or "-"),
        coloured(str(each["health"])),
        safe(f"{each['path']}{problem}"),
    )
