"""`runward daemon stop` and `runward daemon reload`: signalling the running daemon, and waiting for the result."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from runward.config.json_value import JsonValue
from runward.config.problem import Parsed
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TIMED_OUT, TRY_AGAIN
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.terminal.options import timeout_option
from runward.daemon.cli.terminal.output import complain, fail, to_stderr
from runward.daemon.configuration.complaints import complaints_about
from runward.daemon.disk.state_rights import naming_its_user
from runward.daemon.store.ownership import holder
from runward.daemon.views.daemon_report import report_of, settings_in_report

_Told = TypeVar("_Told")
_PERIOD: Final = 0.05
"""Seconds between two checks for the result."""


@click.command()
@timeout_option()
@click.pass_context
def stop(context: click.Context, timeout: float) -> None:
    """Stop the daemon, and wait until it has ended. Runs continue.

    Exit code 3: no daemon is running. 124: it took too long.

    \b
    Example:
      runward daemon stop
    """
    state = settings_in_force(context).state_dir
    pid = _daemon_of(state)
    _tell(pid, signal.SIGTERM)
    if _wait(lambda: True if holder(Path(state)) != pid else None, timeout) is None:
        fail(f"daemon {pid} has been asked to end, but has not ended yet", TIMED_OUT)
    click.echo(f"daemon {pid} has stopped")


@click.command()
@timeout_option()
@click.pass_context
def reload(context: click.Context, timeout: float) -> None:
    """Have the daemon read its settings again.

    Prints whether they are in force, and every problem with any configuration.

    Exit code 1: they were refused, and the old settings stay in force. 3: no daemon is running. 124: it took too long.

    \b
    Example:
      runward daemon reload
    """
    state = settings_in_force(context).state_dir
    pid = _daemon_of(state)
    before = _settings_told(state, pid)
    _tell(pid, signal.SIGHUP)
    after = _wait(lambda: _news(before, _settings_told(state, pid)), timeout)
    if after is None:
        fail(f"daemon {pid} has not reported the result yet; `runward status` will show it", TIMED_OUT)
    if after.get("refused_at") is None:
        settings = settings_in_report(report_of(state, pid))
        complain(each.problem for each in complaints_about(Parsed(settings)))
        click.echo("the settings are in force")
        return
    refused = after.get("refused")
    for problem in refused if isinstance(refused, list) else []:
        to_stderr(str(problem))
    fail("the settings were refused; the previous ones stay in force", NOT_SO)


def _daemon_of(state: str) -> int:
    """The daemon that uses the state directory; ends the program if none does."""
    with naming_its_user(Path(state)):
        pid = holder(Path(state))
    if pid is None:
        fail(f"no daemon is running in {state}", NOT_FOUND)
    if not pid:
        fail(f"the daemon in {state} has not reported its process yet: try again", TRY_AGAIN)
    return pid


def _tell(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        fail(f"daemon {pid} has just ended", NOT_FOUND)
    except PermissionError:
        fail(f"daemon {pid} belongs to another user: run this as that user", NOT_SO)


def _settings_told(state: str, pid: int) -> dict[str, JsonValue]:
    """The daemon's report on its settings; if it ends meanwhile, the program ends."""
    if holder(Path(state)) is None:
        fail(f"daemon {pid} has ended", NOT_FOUND)
    told = report_of(state, pid).get("settings")
    return told if isinstance(told, dict) else {}


def _news(before: dict[str, JsonValue], after: dict[str, JsonValue]) -> dict[str, JsonValue] | None:
    """The current report, if it followed from a reading since."""
    times = ("since", "refused_at")
    return after if after and any(before.get(each) != after.get(each) for each in times) else None


def _wait(ask: Callable[[], _Told | None], patience: float) -> _Told | None:
    end = time.monotonic() + patience
    while (found := ask()) is None and time.monotonic() < end:
        time.sleep(_PERIOD)
    return found
