"""`runward chain`: chains as their files say, whether they are valid and may fire; firing one, and the steps that wait for a person."""

import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Final

import click

from runward.config.chain import Chain
from runward.config.document import CHAIN_SUFFIX
from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.cli.chain.runs import APPROVAL_COLUMNS, answer, chain_run, print_approvals, runs
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, WRONG_SETTINGS, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import ask_daemon, new_request, note_if_late, once_taken_up
from runward.daemon.cli.shell.context import pass_settings, store_to_read
from runward.daemon.cli.terminal.options import (
    NamedPath,
    content_of,
    fleet_options,
    json_option,
    listed,
    without_fleet,
)
from runward.daemon.cli.terminal.output import (
    coloured,
    complain,
    fail,
    print_json,
    print_one,
    print_table,
    print_text,
    safe,
)
from runward.daemon.cli.terminal.output import (
    note as warn,
)
from runward.daemon.configuration.declared_files import NotFound, chain_names, find_chain
from runward.daemon.configuration.settings import MAXIMUM_FILE
from runward.daemon.disk.durable import write_durably
from runward.daemon.store.reading import reading
from runward.daemon.store.tables.approvals import open_approvals
from runward.daemon.store.tables.chain_runs import ChainRunRow
from runward.daemon.store.tables.triggers import HeldRow, chain_statuses
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
from runward.handlers.model.chains import ChainStatus, ChainStatusRequested


@click.group(cls=Group)
def chain() -> None:
    """Define, fire and follow chains: runs that start when something happened.

    \b
    Example:
      runward chain define pr-review.yaml
      runward chain fire pr-review --dry-run
    """


chain.add_command(runs)
chain.add_command(chain_run)


@chain.command()
@click.option("--all", "is_whole", is_flag=True, help="On a terminal, name the files that each covers, too.")
@fleet_options
@listed(("HOST", *APPROVAL_COLUMNS))
@json_option()
@pass_settings
def approvals(
    settings: Settings, is_whole: bool, is_fleet: bool, hosts: tuple[str, ...], as_json: bool
) -> None:
    """List the steps that wait for approval.

    Each is shown with the command that it would run, the oldest first.

    With --fleet, the list is that of the fleet's database, with the host of each, on which it is answered. Exit code 1: this machine belongs
    to no fleet, or the database refuses. 75: it can't be reached.

    \b
    Example:
      runward chain approvals
    """
    if is_fleet:
        from runward.daemon.cli.shell.fleet_lists import (
            print_approvals as print_of_fleet,
        )  # few hosts have one

        print_of_fleet(settings, hosts, as_json=as_json)
        return
    without_fleet(hosts)

    with store_to_read(settings) as connection:
        rows = open_approvals(connection)
    own = settings.fleet and settings.fleet.host
    print_approvals(rows, own, as_json=as_json, is_whole=is_whole)


@chain.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.approvals)
@click.option("--note", default="", metavar="TEXT", help="The reason, for the record.")
@click.option(
    "--without",
    multiple=True,
    metavar="PATH",
    shell_complete=completing.files,
    help="A file, as it was shown, that the approval does not cover. Repeatable.",
)
@json_option()
@pass_settings
def approve(settings: Settings, identifier: str, note: str, without: tuple[str, ...], as_json: bool) -> None:
    """Approve a waiting step: it runs exactly as it was shown.

    An approval covers every file that the earlier steps left. One that can't be read, or keeps changing, is named; approve
    without it (--without PATH), or not at all.

    ID is an approval, a chain run that waits for one, or @last. Exit code 1: the answer does not count, because it was
    decided before, it has expired, or what was shown has changed (then the daemon asks for approval again).

    \b
    Example:
      runward chain approve @last --note "looks right"
    """

    answer(settings, identifier, "approved", note, without, as_json=as_json)


@chain.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.approvals)
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the record.")
@json_option()
@pass_settings
def deny(settings: Settings, identifier: str, reason: str, as_json: bool) -> None:
    """Deny a waiting step: its chain run is aborted.

    \b
    Example:
      runward chain deny @last --reason "not before the freeze"
    """

    answer(settings, identifier, "denied", reason, as_json=as_json)


def found_chain(settings: Settings, name: str) -> Parsed[Chain]:
    try:
        return find_chain(settings, name)
    except NotFound as error:
        fail(str(error), NOT_FOUND)


def right_chain(settings: Settings, name: str, code: int = WRONG_USAGE) -> Chain:
    """The chain of this name. Names everything that is wrong with it, and exits with `code` if it can't be used."""
    parsed = found_chain(settings, name)
    complain(parsed.problems)
    if parsed.value is None:
        sys.exit(code)
    return parsed.value


@chain.command()
@click.argument("file", type=NamedPath(readable=False))
@json_option()
@pass_settings
def define(settings: Settings, file: str, as_json: bool) -> None:
    """Check a chain, and copy it to the directory of chains.

    FILE is copied to the first directory of chains as NAME.yaml.

    A chain of that name is replaced. Exit code 2: it is invalid, and nothing was changed. 3: no such file.

    \b
    Example:
      runward chain define pr-review.yaml
    """
    parsed = right_chain(settings, file if "/" in file else f"./{file}")
    if not settings.chains:
        fail("the settings have no directory of chains: set chains = [DIRECTORY]", WRONG_SETTINGS)
    directory = Path(settings.chains[0])
    path = directory / f"{parsed.name}{CHAIN_SUFFIX}"
    _refuse_used_name(settings, parsed.name)
    content = content_of(file, MAXIMUM_FILE)
    is_new = not path.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if is_new or not path.samefile(file):
            write_durably(directory, path.name, content)
    except OSError as error:
        fail(f"{path} can't be written: {error.strerror}", NOT_FOUND)
    print_one(
        as_json,
        {"name": parsed.name, "file": str(path), "replaced": not is_new},
        f"{safe(parsed.name)} is {'defined' if is_new else 'replaced'}: {safe(str(path))}",
    )
    if any(step.host is not None for step in parsed.steps):
        from runward.daemon.cli.chain.other_hosts import warnings  # few chains have such steps

        for each in warnings(settings, parsed):
            warn(each)


def _refuse_used_name(settings: Settings, name: str) -> None:
    """Two files with one name would be one chain to everybody who uses the name."""
    for each in chain_names(settings):
        chain_there = find_chain(settings, each).value
        if chain_there is not None and chain_there.name == name and each != name:
            used = f"{each}{CHAIN_SUFFIX}"
            fail(f"the name {name} is used by {used}: rename one of them, or remove {used}", WRONG_USAGE)


_HEADS: Final = ("CHAIN", "TRIGGER", "STEPS", "STATE", "LAST RUN")


@chain.command("list")
@listed(_HEADS)
@json_option()
@pass_settings
def list_chains(settings: Settings, as_json: bool) -> None:
    """List the chains of the settings, and whether they are valid.

    \b
    Example:
      runward chain list
    """
    chains = [(name, find_chain(settings, name)) for name in chain_names(settings)]
    with reading(settings.state_dir) as connection:
        known = known_chains(connection)
    if as_json:
        print_json([chain_summary(name, each, known) for name, each in chains])
    elif not chains:
        print_text(f"no chains in {', '.join(settings.chains) or 'any directory'}")
    else:
        rows = [_row(name, each, known) for name, each in chains]
        print_table(_HEADS, rows)


def _row(name: str, parsed: Parsed[Chain], known: KnownChains) -> tuple[str, ...]:
    declared = parsed.value
    wrong = f"wrong: `runward chain show {name}` says why"
    return (
        safe(name),
        safe(in_short(declared.trigger)) if declared is not None else "-",
        str(len(declared.steps)) if declared is not None else "-",
        coloured("failed", wrong) if declared is None else _state(known.status(declared.name)),
        _last(known.last_runs.get(declared.name)) if declared is not None else "-",
    )


def _state(status: str) -> str:
    return coloured("ok") if status == "active" else coloured("warning", status)


def _last(row: ChainRunRow | None) -> str:
    return "-" if row is None else f"{coloured(row.status)} {ago(row.created_at, time.time())}"


@chain.command()
@click.argument("name", metavar="NAME|FILE", shell_complete=completing.chains)
@json_option()
@pass_settings
def show(settings: Settings, name: str, as_json: bool) -> None:
    """Show a chain's trigger and steps, or what is wrong with it.

    Exit code 0: valid. 2: invalid. 3: no such chain.

    \b
    Example:
      runward chain show pr-review
    """
    parsed = found_chain(settings, name)
    lines: list[str] = []
    with reading(settings.state_dir) as connection:
        told = chain_as_json(connection, name, parsed) if as_json else None
        if parsed.value is not None and not as_json:
            status = known_chains(connection).status(parsed.value.name)
            lines = _lines(parsed.value, status, held_for(connection, parsed.value))
    if as_json:
        print_json(told)
    else:
        complain(parsed.problems)
    if lines:
        print_text("\n".join(lines))
    if parsed.value is None:
        sys.exit(WRONG_USAGE)


def _lines(declared: Chain, status: str, held: Sequence[HeldRow]) -> list[str]:
    lines = [
        f"{safe(declared.name)}: fired by {safe(in_words(declared.trigger))}",
        *(safe(each) for each in tree(declared.trigger, held)),
    ]
    if status != "active":
        lines.append(f"{_state(status)}: `runward chain resume {safe(declared.name)}` lets it fire again")
    if declared.description:
        lines.append(safe(declared.description))
    for step in (*declared.steps, *declared.on_failure):
        when = f" if {safe(step.condition)}" if step.condition is not None else ""
        after = " after a failure" if step in declared.on_failure else ""
        lines.append(f"  {step.index}  {safe(step.id)}: {safe(step.name)}{when}{after}")
    return lines


def _sets_status(status: ChainStatus) -> Callable[[Callable[[], None]], Callable[..., None]]:
    """A command that asks for this status of a chain; the function only has its help."""

    def declare(command: Callable[[], None]) -> Callable[..., None]:
        @click.argument("name", shell_complete=completing.chains)
        @click.option("--note", default="", metavar="TEXT", help="The reason, for the record.")
        @json_option()
        @pass_settings
        @wraps(command)
        def set_status(settings: Settings, name: str, note: str, as_json: bool) -> None:
            parsed = found_chain(settings, name)
            called = name if parsed.value is None else parsed.value.name
            event = new_request(ChainStatusRequested, called, status, note)
            ask_daemon(settings, event, before_any_daemon=True)
            _wait_for_status(settings, called, event.at)
            print_one(as_json, {"name": called, "status": status}, f"{safe(called)} is {status} from now on")

        return set_status

    return declare


def _wait_for_status(settings: Settings, name: str, at: float) -> None:
    """Until a running daemon has processed the request just made; it is durable in any case."""

    def taken(connection: sqlite3.Connection) -> bool | None:
        recorded = chain_statuses(connection).get(name)
        return True if recorded is not None and recorded.since >= at else None

    if once_taken_up(settings, taken) is None:
        note_if_late(settings)


@chain.command()
@_sets_status("paused")
def pause() -> None:
    """Pause a chain until it is resumed. Events that would fire it are skipped; runs in progress continue.

    \b
    Example:
      runward chain pause pr-review --note "release freeze"
    """


@chain.command()
@_sets_status("active")
def resume() -> None:
    """Resume a paused or disabled chain. Events that were skipped in the meantime do not fire it later.

    \b
    Example:
      runward chain resume pr-review
    """


@chain.command()
@_sets_status("disabled")
def disable() -> None:
    """Disable a chain permanently. `resume` enables it again.

    \b
    Example:
      runward chain disable pr-review --note "replaced by pr-gate"
    """


@chain.command()
@click.argument("name", metavar="NAME|FILE", shell_complete=completing.chains)
@click.argument("values", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Start nothing, and show what each step would do.")
@click.option("--wait", is_flag=True, help="Wait until the chain run is over, and exit with its status.")
@click.option(
    "--event", type=NamedPath(readable=False), metavar="FILE", help="A JSON object: the fields of trigger."
)
@click.option(
    "--outcomes",
    type=NamedPath(readable=False),
    metavar="FILE",
    help="A JSON list: the outcome of each step in order, null for none.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="SESSION...",
    shell_complete=completing.sessions,
    help="Sessions whose recorded outcomes count, in the order of the steps; - for none.",
)
@json_option()
@pass_settings
def fire(
    settings: Settings,
    name: str,
    values: tuple[str, ...],
    dry_run: bool,
    wait: bool,
    event: str | None,
    outcomes: str | None,
    against: tuple[str, ...],
    as_json: bool,
) -> None:
    """Have the daemon fire a chain, regardless of its trigger.

    With --dry-run, show what it would do, without a daemon.

    KEY=VALUE gives a text for {{ trigger.KEY }}, KEY:=JSON any other value. In a dry run, an outcome of a step that would
    not run does not count. Exit code 1: it is paused, disabled, invalid or refused. In a dry run, 2: it is invalid. With
    --wait: 0 completed, 1 failed, 124 timed out, 130 aborted, 143 cancelled, 75 no daemon is running.

    \b
    Example:
      runward chain fire pr-review pr_number:=12
      runward chain fire pr-review pr_number:=12 --dry-run --outcomes outcomes.json
      runward chain fire pr-review pr_number:=12 --dry-run --against @last
    """
    from runward.daemon.cli.chain.fire import (
        given_outcomes,
        given_trigger,
        print_trial,
        recorded_outcomes,
        try_out,
    )

    if not dry_run:
        for option, is_given in (("--outcomes", outcomes is not None), ("--against", bool(against))):
            if is_given:
                fail(f"{option} needs --dry-run: real steps have their own outcomes", WRONG_USAGE)
        from runward.daemon.cli.chain import fire as chain_firing

        declared = right_chain(settings, name, NOT_SO)
        _refuse_if_paused(settings, declared.name)
        chain_firing.fire(settings, declared, given_trigger(values, event), waits=wait, as_json=as_json)
        return
    if wait:
        fail("--wait can't be combined with --dry-run, which starts nothing", WRONG_USAGE)
    if against:
        against, values = _sessions_among(against, values)
        if outcomes is not None:
            fail("--outcomes and --against both give the outcomes: leave one of them out", WRONG_USAGE)
    declared = right_chain(settings, name)
    trigger = given_trigger(values, event)
    known = recorded_outcomes(settings, against) if against else given_outcomes(outcomes)
    trial = try_out(settings, declared, trigger, known)
    print_trial(trial, as_json=as_json)


def _sessions_among(
    against: tuple[str, ...], words: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sessions of `--against`, and the KEY=VALUE words. A word without `=` continues the list of sessions."""
    more = tuple(word for word in words if "=" not in word)
    if more and len(against) > 1:
        fail(f"{more[0]} is not KEY=VALUE: write all sessions after one --against", WRONG_USAGE)
    return (*against, *more), tuple(word for word in words if "=" in word)


def _refuse_if_paused(settings: Settings, name: str) -> None:
    with reading(settings.state_dir) as connection:
        status = known_chains(connection).status(name)
    if status != "active":
        fail(f"{name} is {status}: `runward chain resume {name}` lets it fire again", 1)


@chain.command()
@click.option("--quiet", is_flag=True, help="Write the log only to its file.")
@click.pass_context
def check(context: click.Context, quiet: bool) -> None:
    """Fire the chains that became due, and exit. Call it from cron.

    It works like `runward daemon --once`. A chain that was due several times fires once, for the newest time. If a
    daemon runs, this command does nothing.

    \b
    Example:
      runward chain check
    """
    from runward.daemon.cli.daemon import daemon

    context.invoke(daemon, once=True, no_wait=False, check=False, quiet=quiet)
