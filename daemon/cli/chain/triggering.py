"""`runward chain fire|check`: firing a chain, and evaluating what is due."""

import click

from runward.config.settings import Settings
from runward.daemon.cli.chain.named_chain import right_chain
from runward.daemon.cli.exits import NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import (
    fail,
)
from runward.daemon.store.reading import reading
from runward.daemon.views.chains import known_chains


@click.command()
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def fire(
    context: click.Context,
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
    from runward.daemon.cli.chain.trial import (
        given_outcomes,
        given_trigger,
        print_trial,
        recorded_outcomes,
        try_out,
    )

    settings = settings_in_force(context)
    if not dry_run:
        for option, is_given in (("--outcomes", outcomes is not None), ("--against", bool(against))):
            if is_given:
                fail(f"{option} needs --dry-run: real steps have their own outcomes", WRONG_USAGE)
        from runward.daemon.cli.chain import firing as chain_firing

        found = right_chain(settings, name, NOT_SO)
        _refuse_if_paused(settings, found.name)
        chain_firing.fire(settings, found, given_trigger(values, event), waits=wait, as_json=as_json)
        return
    if wait:
        fail("--wait can't be combined with --dry-run, which starts nothing", WRONG_USAGE)
    if against:
        against, values = _sessions_among(against, values)
        if outcomes is not None:
            fail("--outcomes and --against both give the outcomes: leave one of them out", WRONG_USAGE)
    found = right_chain(settings, name)
    trigger = given_trigger(values, event)
    known = recorded_outcomes(settings, against) if against else given_outcomes(outcomes)
    trial = try_out(settings, found, trigger, known)
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


@click.command()
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
    from runward.daemon.cli.daemon.commands import daemon

    context.invoke(daemon, once=True, no_wait=False, check=False, quiet=quiet)
