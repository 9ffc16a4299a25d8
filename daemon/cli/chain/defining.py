"""`runward chain define|list|show`: chains as their files say, and whether they are valid."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from runward.config.chain import CHAIN_SUFFIX, Chain
from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.cli.chain.named_chain import found_chain, right_chain
from runward.daemon.cli.exits import NOT_FOUND, WRONG_SETTINGS, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.shell.given_file import content_of
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import coloured, complain, fail, print_json, print_table, safe
from runward.daemon.configuration.settings import MAXIMUM_FILE, chain_names, find_chain
from runward.daemon.disk.durable import write_durably
from runward.daemon.store.reading import reading
from runward.daemon.store.reading_chains import ChainRunRow, HeldRow
from runward.daemon.views.chains import (
    KnownChains,
    chain_as_json,
    chain_summary,
    held_for,
    in_short,
    in_words,
    known_chains,
    tree,
)
from runward.daemon.views.text import ago


@click.command()
@click.argument("file", type=NamedPath(readable=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def define(context: click.Context, file: str, as_json: bool) -> None:
    """Check a chain, and copy it to the directory of chains.

    FILE is copied to the first directory of chains as NAME.yaml.

    A chain of that name is replaced. Exit code 2: it is invalid, and nothing was changed. 3: no such file.

    \b
    Example:
      runward chain define pr-review.yaml
    """
    settings = settings_in_force(context)
    found = right_chain(settings, file if "/" in file else f"./{file}")
    if not settings.chains:
        fail("the settings have no directory of chains: set chains = [DIRECTORY]", WRONG_SETTINGS)
    directory = Path(settings.chains[0])
    path = directory / f"{found.name}{CHAIN_SUFFIX}"
    _refuse_used_name(settings, found.name)
    content = content_of(file, MAXIMUM_FILE)
    is_new = not path.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if is_new or not path.samefile(file):
            write_durably(directory, path.name, content)
    except OSError as error:
        fail(f"{path} can't be written: {error.strerror}", NOT_FOUND)
    if as_json:
        print_json({"name": found.name, "file": str(path), "replaced": not is_new})
    else:
        click.echo(f"{safe(found.name)} is {'defined' if is_new else 'replaced'}: {safe(str(path))}")


def _refuse_used_name(settings: Settings, name: str) -> None:
    """Two files with one name would be one chain to everybody who uses the name."""
    for each in chain_names(settings):
        found = find_chain(settings, each).value
        if found is not None and found.name == name and each != name:
            used = f"{each}{CHAIN_SUFFIX}"
            fail(f"the name {name} is used by {used}: rename one of them, or remove {used}", WRONG_USAGE)


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_chains(context: click.Context, as_json: bool) -> None:
    """List the chains of the settings, and whether they are valid.

    \b
    Example:
      runward chain list
    """
    settings = settings_in_force(context)
    found = [(name, find_chain(settings, name)) for name in chain_names(settings)]
    with reading(settings.state_dir) as connection:
        known = known_chains(connection)
    if as_json:
        print_json([chain_summary(name, each, known) for name, each in found])
    elif not found:
        click.echo(f"no chains in {', '.join(settings.chains) or 'any directory'}")
    else:
        rows = [_row(name, each, known) for name, each in found]
        print_table(("CHAIN", "TRIGGER", "STEPS", "STATE", "LAST RUN"), rows)


def _row(name: str, parsed: Parsed[Chain], known: KnownChains) -> tuple[str, ...]:
    found = parsed.value
    wrong = f"wrong: `runward chain show {name}` says why"
    return (
        safe(name),
        safe(in_short(found.trigger)) if found is not None else "-",
        str(len(found.steps)) if found is not None else "-",
        coloured("failed", wrong) if found is None else _state(known.status(found.name)),
        _last(known.last_runs.get(found.name)) if found is not None else "-",
    )


def _state(status: str) -> str:
    return coloured("ok") if status == "active" else coloured("warning", status)


def _last(row: ChainRunRow | None) -> str:
    return "-" if row is None else f"{coloured(row.status)} {ago(row.created_at, time.time())}"


@click.command()
@click.argument("name", metavar="NAME|FILE", shell_complete=completing.chains)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show(context: click.Context, name: str, as_json: bool) -> None:
    """Show a chain's trigger and steps, or what is wrong with it.

    Exit code 0: valid. 2: invalid. 3: no such chain.

    \b
    Example:
      runward chain show pr-review
    """
    settings = settings_in_force(context)
    parsed = found_chain(settings, name)
    with reading(settings.state_dir) as connection:
        if as_json:
            print_json(chain_as_json(connection, name, parsed))
        else:
            complain(parsed.problems)
            if parsed.value is not None:
                status = known_chains(connection).status(parsed.value.name)
                click.echo("\n".join(_lines(parsed.value, status, held_for(connection, parsed.value))))
    if parsed.value is None:
        sys.exit(WRONG_USAGE)


def _lines(found: Chain, status: str, held: Sequence[HeldRow]) -> list[str]:
    lines = [
        f"{safe(found.name)}: fired by {safe(in_words(found.trigger))}",
        *(safe(each) for each in tree(found.trigger, held)),
    ]
    if status != "active":
        lines.append(f"{_state(status)}: `runward chain resume {safe(found.name)}` lets it fire again")
    if found.description:
        lines.append(safe(found.description))
    for step in (*found.steps, *found.on_failure):
        when = f" if {safe(step.condition)}" if step.condition is not None else ""
        after = " after a failure" if step in found.on_failure else ""
        lines.append(f"  {step.index}  {safe(step.id)}: {safe(step.name)}{when}{after}")
    return lines
