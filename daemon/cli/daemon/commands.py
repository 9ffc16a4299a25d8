"""`runward daemon`: the daemon in the foreground, or once."""

from __future__ import annotations

import faulthandler
import os
import sqlite3
import sys
from typing import TYPE_CHECKING

import click

from runward.config.problem import has_errors
from runward.config.settings import Settings
from runward.daemon.cli.daemon.signals import reload, stop
from runward.daemon.cli.daemon.units import install, uninstall
from runward.daemon.cli.exits import GOOD, TRY_AGAIN, WRONG_SETTINGS, WRONG_USAGE
from runward.daemon.cli.shell.context import own_settings, read_settings_of
from runward.daemon.cli.shell.groups import Group
from runward.daemon.cli.terminal.output import complain, fail, to_stderr

if TYPE_CHECKING:
    from runward.daemon.configuration.settings_files import SettingsFiles
    from runward.daemon.host.signals import Signals


@click.group(cls=Group, invoke_without_command=True)
@click.option("--once", is_flag=True, help="Scan every root, work until nothing is due soon, and exit.")
@click.option("--no-wait", is_flag=True, help="With --once: don't wait for runs that it starts.")
@click.option("--check", is_flag=True, help="Check all configuration, print every problem, and exit.")
@click.option("--quiet", is_flag=True, help="Write the log only to its file.")
@click.pass_context
def daemon(context: click.Context, once: bool, no_wait: bool, check: bool, quiet: bool) -> None:
    """Run the daemon in the foreground, as systemd does.

    On SIGTERM, on SIGINT and when its terminal is closed, it exits with 0 within ten seconds; on a second
    signal, at once. On SIGHUP it reads its settings again.

    \b
    Example:
      runward daemon --check && runward daemon
      runward daemon install
    """
    if context.invoked_subcommand is not None:
        if once or no_wait or check or quiet:
            raise click.UsageError(
                "--once, --no-wait, --check and --quiet are for the daemon itself", context
            )
        return
    if check and once:
        raise click.UsageError("--check and --once can't be combined", context)
    if check:
        sys.exit(_check(context))
    from runward.daemon.host.signals import Signals

    signals = Signals()
    signals.listen()
    from runward.daemon.configuration.settings_files import SettingsFiles

    root = context.find_root().obj
    settings_files = SettingsFiles(root["config"], os.environ)
    settings = own_settings(context)
    from runward.daemon.disk.state_rights import StateDirectoryUnsafe
    from runward.daemon.store.ownership import StateDirectoryHeld
    from runward.daemon.store.reading import StoreRefused
    from runward.daemon.store.transaction import StoreMalformed
    from runward.daemon.web.sockets import CannotListen

    try:
        _be(settings, settings_files, signals, once, not no_wait, "debug" if root["debug"] else "info", quiet)
    except _refusals() as error:
        if once and isinstance(error, StateDirectoryHeld) and _ask_for_scan(settings.state_dir):
            return
        is_lasting = isinstance(error, StoreRefused | StateDirectoryUnsafe | CannotListen)
        fail(str(error), WRONG_SETTINGS if is_lasting else TRY_AGAIN)
    except (OSError, sqlite3.Error, StoreMalformed) as error:
        if root["debug"]:
            raise
        fail(f"the state directory {settings.state_dir} can't be used: {error}", TRY_AGAIN)


def _be(
    settings: Settings,
    settings_files: SettingsFiles,
    signals: Signals,
    once: bool,
    waits: bool,
    level: str,
    quiet: bool,
) -> None:
    """Run the daemon to its end. If it crashes, the terminal gets one line, the log all of it."""
    from pathlib import Path

    import anyio

    from runward.daemon import faults
    from runward.daemon.host.service import serve
    from runward.daemon.log.daemon_log import open_log, open_sinks
    from runward.daemon.store.ownership import prepare
    from runward.daemon.store.transaction import StoreMalformed

    prepare(Path(settings.state_dir))
    sinks = open_sinks(Path(settings.state_dir), None if quiet else sys.stderr, os.environ)
    log = open_log(sinks, level)
    no_crash: tuple[type[Exception], ...] = (*_refusals(), OSError, sqlite3.Error)
    if sys.stderr is not None and not faulthandler.is_enabled():
        faulthandler.enable()  # the unit's watchdog ends a hang by SIGABRT: the journal shows where it hung
    try:
        faults.from_environment(_fault())
        signals.hold()
        anyio.run(serve, settings, log, sinks, settings_files, signals, once, waits)
    except StoreMalformed as error:
        log.critical("store.malformed", why=str(error))
        raise
    except no_crash:
        raise
    except Exception:
        log.critical("daemon.crashed", exc_info=True)
        raise
    finally:
        sinks.close()
        signals.over()


def _refusals() -> tuple[type[Exception], ...]:
    """Errors that keep a daemon from its state directory and are not a crash: each explains itself."""
    from runward.daemon.disk.state_rights import StateDirectoryUnsafe
    from runward.daemon.ports.journals import EpochPassed
    from runward.daemon.store.ownership import StateDirectoryHeld
    from runward.daemon.store.reading import StoreRefused
    from runward.daemon.store.transaction import EpochRefused
    from runward.daemon.web.sockets import CannotListen

    return StateDirectoryUnsafe, StateDirectoryHeld, StoreRefused, EpochRefused, EpochPassed, CannotListen


def _fault() -> str | None:
    return os.environ.get("RUNWARD_FAULT")


def _ask_for_scan(state_dir: str) -> bool:
    """Ask the daemon that uses the state directory for a scan."""
    import time
    import uuid
    from pathlib import Path

    from runward.daemon.inbox.request_file import dump_request
    from runward.daemon.inbox.spool import put
    from runward.handlers.model.requests import ScanRequested

    name = str(uuid.uuid4())
    put(Path(state_dir), name, dump_request(ScanRequested(name, time.time())))
    to_stderr("another daemon uses the state directory: it was asked for a scan")
    return True


def _check(context: click.Context) -> int:
    """Every complaint about what the operator wrote."""
    from runward.daemon.configuration.complaints import complaints_about

    parsed = read_settings_of(context.find_root().obj["config"])
    problems = [each.problem for each in complaints_about(parsed)]
    complain(problems)
    if parsed.value is None:
        return WRONG_SETTINGS
    wrong = has_errors(problems)
    if not wrong:
        click.echo("the configuration is valid")
    return WRONG_USAGE if wrong else GOOD


daemon.add_command(stop)
daemon.add_command(reload)
daemon.add_command(install)
daemon.add_command(uninstall)
