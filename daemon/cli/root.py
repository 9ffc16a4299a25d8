"""`runward root`: the directories that the daemon watches."""

from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import ask_daemon, new_request
from runward.daemon.cli.shell.context import pass_settings
from runward.daemon.cli.terminal.options import json_option, listed
from runward.daemon.cli.terminal.output import (
    Columns,
    coloured,
    print_list,
    print_one,
    safe,
)
from runward.daemon.views.status import roots_as_json


@click.group(cls=Group)
def root() -> None:
    """Show and accept roots: the directories that the daemon watches.

    \b
    Example:
      runward root list
      runward root accept runs
    """


def _path(root: dict[str, JsonValue]) -> str:
    problem = f" ({root['problem']})" if root["problem"] else ""
    return safe(f"{root['path']}{problem}")


_COLUMNS: Final[Columns[dict[str, JsonValue]]] = {
    "ROOT": lambda root: safe(str(root["name"])),
    "LAYOUT": lambda root: safe(str(root["layout"])),
    "HISTORY": lambda root: str(root["history"] or "-"),
    "HEALTH": lambda root: coloured(str(root["health"])),
    "PATH": _path,
}


@root.command("list")
@listed(_COLUMNS)
@json_option()
@pass_settings
def list_roots(settings: Settings, as_json: bool) -> None:
    """List the roots, their layouts and their health.

    The health is what the running daemon reports; without a daemon it is unknown.

    \b
    Example:
      runward root list
    """
    roots = roots_as_json(settings)
    nothing = "no roots: add one to the settings"
    print_list(roots, _COLUMNS, as_json, value=lambda root: root, nothing=nothing)


@root.command("accept")
@click.argument("name", shell_complete=completing.roots)
@json_option()
@pass_settings
def accept(settings: Settings, name: str, as_json: bool) -> None:
    """Accept the directory that is now at a root's path as that root.

    While a different directory is there (for example, because a file system is not mounted), nothing in
    it is judged. This command says that the change is intended. Runs that are not in it count as gone. The request is
    durable when this returns, whether or not a daemon runs.

    \b
    Example:
      runward root accept runs
    """
    from runward.daemon.rundir.run_directories import standing
    from runward.handlers.model.requests import RootAcceptRequested

    accepted = next((each for each in settings.roots if each.name == name), None)
    if accepted is None:
        names = ", ".join(each.name for each in settings.roots) or "none"
        raise click.UsageError(f"there is no root {name!r}; the settings have: {names}")
    directory = standing(accepted.path)
    if directory is None:
        raise click.UsageError(f"there is no directory at {accepted.path}: make or mount it first")
    event = new_request(RootAcceptRequested, name, directory.identity)
    request = ask_daemon(settings, event, before_any_daemon=True)
    message = f"the directory at {safe(accepted.path)} is the root {safe(name)} from now on"
    print_one(as_json, {"request": request, "root": name, "path": accepted.path}, message)
