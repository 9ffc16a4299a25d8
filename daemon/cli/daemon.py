"""`runward daemon`: the daemon in the foreground, or once."""

import sqlite3
import sys

import click

from runward.config.problem import Problem, has_errors
from runward.config.settings import Settings
from runward.daemon.cli.context import read_settings_of, settings_in_force
from runward.daemon.cli.exits import GOOD, TRY_AGAIN, WRONG_SETTINGS, WRONG_USAGE
from runward.daemon.cli.output import complain, fail


@click.command()
@click.option("--once", is_flag=True, help="Scan every root, work until nothing is due soon, and end.")
@click.option(
    "--check", is_flag=True, help="Read and check all configuration, print every complaint, and end."
)
@click.option("--quiet", is_flag=True, help="Log to the file only.")
@click.pass_context
def daemon(context: click.Context, once: bool, check: bool, quiet: bool) -> None:
    """Run the daemon in the foreground, as systemd does.

    It ends with 0 on SIGTERM and SIGINT, and reads its settings again on SIGHUP.

    \b
    Example:
      runward daemon --check && runward daemon
    """
    if check:
        sys.exit(_check(context))
    _end_well_when_told_to()
    settings = settings_in_force(context)
    from runward.daemon.store.ownership import StateDirectoryHeld

    root = context.find_root().obj
    try:
        _be(settings, root["config"], once, "debug" if root["debug"] else "info", quiet)
    except _refusals() as error:
        if once and isinstance(error, StateDirectoryHeld) and _ask_for_scan(settings.state_dir):
            return
        fail(str(error), TRY_AGAIN)
    except (OSError, sqlite3.Error) as error:
        if root["debug"]:
            raise
        fail(f"the state directory {settings.state_dir} can't be used: {error}", TRY_AGAIN)


def _be(settings: Settings, config: str | None, once: bool, level: str, quiet: bool) -> None:
    """Be the daemon to its end. Of a crash the terminal gets one line, the log all of it."""
    from pathlib import Path

    import anyio

    from runward.daemon import faults
    from runward.daemon.log import LOG, LogFile, Sinks, open_log
    from runward.daemon.service import serve
    from runward.daemon.store.ownership import prepare

    prepare(Path(settings.state_dir))
    sinks = Sinks(LogFile(Path(settings.state_dir) / LOG), None if quiet else sys.stderr, level)
    log = open_log(sinks, level)
    no_crash: tuple[type[Exception], ...] = (*_refusals(), OSError, sqlite3.Error)
    try:
        faults.from_environment(_fault())
        anyio.run(serve, settings, log, sinks, lambda: read_settings_of(config), once)
    except no_crash:
        raise
    except Exception:
        log.critical("daemon.crashed", exc_info=True)
        raise


def _refusals() -> tuple[type[Exception], ...]:
    """What keeps a daemon from its state directory, and is no crash: it says itself what it is."""
    from runward.daemon.ports import EpochPassed
    from runward.daemon.store.migrate import StoreTooNew
    from runward.daemon.store.ownership import StateDirectoryHeld
    from runward.daemon.store.transaction import EpochRefused

    return StateDirectoryHeld, StoreTooNew, EpochRefused, EpochPassed


def _end_well_when_told_to() -> None:
    """End with 0 on SIGTERM and SIGINT also before the daemon has begun; later it stops in order."""
    import signal
    from types import FrameType

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(GOOD)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)


def _fault() -> str | None:
    import os

    return os.environ.get("RUNWARD_FAULT")


def _ask_for_scan(state_dir: str) -> bool:
    """Ask the daemon that holds the state directory for a scan."""
    import time
    import uuid
    from pathlib import Path

    from runward.daemon.inbox.requests import dump_request
    from runward.daemon.inbox.spool import put
    from runward.handlers.events import ScanRequested

    name = str(uuid.uuid4())
    put(Path(state_dir), name, dump_request(ScanRequested(name, time.time())))
    click.echo("another daemon holds the state directory: it was asked for a scan", err=True)
    return True


def _check(context: click.Context) -> int:
    """Every complaint about the settings, the playbooks, the agent profiles, and rules that name no playbook."""
    from runward.daemon.cli.declared import declared
    from runward.daemon.settings import agent_names, find_agent, playbook_names

    parsed = read_settings_of(context.find_root().obj["config"])
    complain(parsed.problems)
    if parsed.value is None:
        return WRONG_SETTINGS
    found = [declared(parsed.value, name, None).problems for name in playbook_names(parsed.value)]
    found += [find_agent(parsed.value, name).problems for name in agent_names(parsed.value)]
    found.append(_rules_without_playbook(parsed.value))
    problems = dict.fromkeys(problem for each in found for problem in each)
    complain(problems)
    wrong = has_errors(problems)
    if not wrong:
        click.echo("the configuration is right")
    return WRONG_USAGE if wrong else GOOD


def _rules_without_playbook(settings: Settings) -> tuple[Problem, ...]:
    """The rules whose playbook isn't there; what is wrong with one that is, is said at the playbook itself."""
    from runward.daemon.declarations import Declarer
    from runward.daemon.settings import playbook_names

    there, declarer = playbook_names(settings), Declarer(settings)
    return tuple(
        rule.named_at.problem(
            ("contracts", number, "playbook"),
            str(declarer(rule.playbook, None).problem),
            "write the playbook, or correct the rule",
        )
        for number, rule in enumerate(settings.contracts)
        if rule.playbook not in there
    )
