"""`runward exchange artifact`: what agents share. (`runward artifact` has the outcomes of sessions.)"""

import json
import time
from typing import Final, TypeAlias

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exchange.acting import AS, Act, acts, json_of, text_of
from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.terminal.options import NamedPath, filter_option, json_option, listed
from runward.daemon.cli.terminal.output import (
    Columns,
    fail,
    print_list,
    print_one,
    safe,
)
from runward.daemon.store.tables.shared_artifacts import shared_artifacts
from runward.daemon.views.exchange import artifact_with_id, listed_artifact, shown_artifact
from runward.daemon.views.text import ago, size
from runward.handlers.exchange.genesis import METHODS
from runward.handlers.model.exchange import SharedArtifact

_MOST_PROBLEMS = 20
"""Problems of an interface that are shown to people."""


@click.group(cls=Group)
def artifact() -> None:
    """Read, write and list artifacts of the exchange. For the outcomes of sessions, see `runward artifact`.

    \b
    Example:
      runward exchange artifact list --owner writer
    """


_Listed: TypeAlias = tuple[SharedArtifact, dict[str, JsonValue]]
"""An artifact, and what programs read of it."""


def _state(row: _Listed) -> str:
    shared, value = row
    if shared.deleted_at is not None:
        return "deleted"
    return "broken dependency" if value["broken_dependencies"] else ""


_COLUMNS: Final[Columns[_Listed]] = {
    "ARTIFACT": lambda row: safe(row[0].id),
    "TYPE": lambda row: safe(row[0].type),
    "OWNER": lambda row: safe(row[0].owner_id),
    "SIZE": lambda row: size(row[0].size),
    "PRICE": lambda row: str(row[0].price) if row[0].executable else "-",
    "VERSION": lambda row: str(row[0].version),
    "CHANGED": lambda row: ago(row[0].updated_at, time.time()),
    "": _state,
}


@artifact.command("list")
@filter_option("--owner", "P", completing.principals, "those of this principal")
@filter_option("--type", "T", completing.shared_types, "those of this type", "kind")
@click.option("--deleted", is_flag=True, help="Also show deleted ones.")
@listed(_COLUMNS)
@json_option()
@pass_settings
def list_artifacts(
    settings: Settings, owner: str | None, kind: str | None, deleted: bool, as_json: bool
) -> None:
    """List the artifacts.

    \b
    Example:
      runward exchange artifact list --type code
    """
    with store_to_read(settings) as connection:
        shared = shared_artifacts(connection, owner, kind, with_deleted=deleted)
        listed = [(each, listed_artifact(connection, each)) for each in shared]
    print_list(listed, _COLUMNS, as_json, value=lambda row: row[1], nothing="no artifacts")


@artifact.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.shared_artifacts)
@json_option()
@pass_settings
def show(settings: Settings, identifier: str, as_json: bool) -> None:
    """Show an artifact without its content.

    \b
    Example:
      runward exchange artifact show counter
    """
    with store_to_read(settings) as connection:
        shared = artifact_with_id(connection, identifier)
        shown = None if shared is None else shown_artifact(connection, shared)
    if shared is None or shown is None:
        fail(f"there is no artifact {identifier!r}: runward exchange artifact list shows them", NOT_FOUND)
    print_one(as_json, shown, "\n".join(_lines(shared, shown)))


def _lines(shared: SharedArtifact, shown: dict[str, JsonValue]) -> list[str]:
    interface = shared.interface or {}
    lines = [f"artifact {safe(shared.id)} ({safe(shared.type)}) of {safe(shared.owner_id)}"]
    if shared.deleted_at is not None:
        return [*lines, f"deleted by {safe(str(shared.deleted_by))} {ago(shared.deleted_at, time.time())}"]
    if isinstance(interface.get("description"), str):
        lines.append(safe(str(interface["description"])))
    if isinstance(interface.get("dataType"), str):
        lines.append(f"data       {safe(str(interface['dataType']))}")
    lines += [f"size       {size(shared.size)}", f"version    {shared.version}"]
    if shared.executable:
        lines.append(f"price      {shared.price}")
    methods = interface.get("methods")
    for method in methods if isinstance(methods, list) else sorted(METHODS.get(shared.id, {})):
        name = method.get("name") if isinstance(method, dict) else method
        about = method.get("description") if isinstance(method, dict) else None
        lines.append(f"method     {safe(str(name))}{f': {safe(about)}' if isinstance(about, str) else ''}")
    lines += [f"example    {safe(_example(each))}" for each in _list(interface.get("examples"))]
    broken, problems = _list(shown["broken_dependencies"]), _list(shown["interface_problems"])
    lines += [f"needs      {safe(each)}{' (broken)' if each in broken else ''}" for each in shared.depends_on]
    lines += [f"problem    {safe(str(each))}" for each in problems[:_MOST_PROBLEMS]]
    return lines


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _example(example: JsonValue) -> str:
    return example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)


@artifact.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.shared_artifacts)
@AS
@acts
def read(act: Act, identifier: str) -> None:
    """Read an artifact as a principal, at its price.

    \b
    Example:
      runward exchange artifact read note --as reader
    """
    act({"action_type": "read_artifact", "artifact_id": identifier, "reasoning": act.reason})


@artifact.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.shared_artifacts)
@AS
@acts
def delete(act: Act, identifier: str) -> None:
    """Delete an artifact: a tombstone stays.

    \b
    Example:
      runward exchange artifact delete note --as writer
    """
    act({"action_type": "delete_artifact", "artifact_id": identifier, "reasoning": act.reason})


@artifact.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.shared_artifacts)
@click.argument("to", shell_complete=completing.principals)
@AS
@acts
def transfer(act: Act, identifier: str, to: str) -> None:
    """Give an artifact to another principal.

    \b
    Example:
      runward exchange artifact transfer note reader --as writer
    """
    act(
        {
            "action_type": "transfer_artifact",
            "artifact_id": identifier,
            "to": to,
            "reasoning": act.reason,
        }
    )


@artifact.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.shared_artifacts)
@AS
@click.option(
    "--type",
    "kind",
    metavar="T",
    shell_complete=completing.shared_types,
    help="Its type. Default: generic.",
)
@click.option("--content", metavar="TEXT", help="Its content.")
@click.option("--content-file", type=NamedPath(readable=False), metavar="F", help="A file with its content.")
@click.option("--code-file", type=NamedPath(readable=False), metavar="F", help="A file with its Python code.")
@click.option("--executable", is_flag=True, help="Make it invocable.")
@click.option(
    "--price", type=click.IntRange(min=0), default=0, metavar="N", help="The price of an invocation."
)
@click.option("--policy", metavar="JSON", help="The policy: who may do what, and at which price.")
@click.option("--interface", metavar="JSON", help="The interface: what it says about itself.")
@click.option(
    "--depends-on",
    multiple=True,
    metavar="ID",
    shell_complete=completing.shared_artifacts,
    help="An artifact that it needs.",
)
@click.option("--access-contract", metavar="ID", help="The contract that decides who may do what.")
@acts
def write(
    act: Act,
    identifier: str,
    kind: str | None,
    content: str | None,
    content_file: str | None,
    code_file: str | None,
    executable: bool,
    price: int,
    policy: str | None,
    interface: str | None,
    depends_on: tuple[str, ...],
    access_contract: str | None,
) -> None:
    """Create an artifact, or replace its content.

    \b
    Example:
      runward exchange artifact write note --as writer --content "hello"
      runward exchange artifact write counter --as writer --code-file counter.py --executable --price 2
    """
    if content is not None and content_file is not None:
        fail("give --content or --content-file, not both", WRONG_USAGE)
    intent: dict[str, JsonValue] = {
        "action_type": "write_artifact",
        "artifact_id": identifier,
        "reasoning": act.reason,
        "content": content if content_file is None else text_of(content_file),
        "code": "" if code_file is None else text_of(code_file),
        "executable": executable,
        "price": price,
        "depends_on": list(depends_on),
    }
    if kind is not None:
        intent["artifact_type"] = kind
    if policy is not None:
        intent["policy"] = json_of(policy, "--policy")
    if interface is not None:
        intent["interface"] = json_of(interface, "--interface")
    if access_contract is not None:
        intent["access_contract_id"] = access_contract
    act(intent)
