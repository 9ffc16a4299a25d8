"""`runward daemon`: the daemon in the foreground, or once; signalling the running one; installing it as a service of systemd's."""

from __future__ import annotations

import faulthandler
import os
import shlex
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from runward.config.json_value import JsonValue
from runward.config.problem import Parsed, has_errors
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exits import (
    GOOD,
    NOT_FOUND,
    NOT_SO,
    TIMED_OUT,
    TRY_AGAIN,
    WRONG_SETTINGS,
    WRONG_USAGE,
)
from runward.daemon.cli.shell.asking import ask_daemon, new_request
from runward.daemon.cli.shell.context import own_settings, pass_settings, read_settings_of
from runward.daemon.cli.terminal.options import json_option, timeout_option
from runward.daemon.cli.terminal.output import complain, fail, print_json, print_text, safe, tell
from runward.daemon.configuration.complaints import complaints_about
from runward.daemon.configuration.settings import (
    load_settings,
    settings_file,
    working_directory,
)
from runward.daemon.disk.state_rights import StateDirectoryUnsafe, naming_its_user
from runward.daemon.store.ownership import StateDirectoryHeld, holder, prepare
from runward.daemon.store.reading import StoreRefused
from runward.daemon.units import installing, rendering
from runward.daemon.units.installing import Done
from runward.daemon.units.rendering import SYSTEM_STATE
from runward.daemon.views.daemon_report import report_of, settings_in_report

if TYPE_CHECKING:
    from runward.daemon.configuration.settings_files import SettingsFiles
    from runward.daemon.host.signals import Signals


Answer = TypeVar("Answer")
_PERIOD: Final = 0.05
"""Seconds between two checks for the result."""


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
    from runward.daemon.store.transaction import StoreMalformed
    from runward.daemon.web.sockets import CannotListen

    try:
        _be(
            settings=settings,
            settings_files=settings_files,
            signals=signals,
            once=once,
            waits=not no_wait,
            level="debug" if root["debug"] else "info",
            quiet=quiet,
        )
    except _refusals() as error:
        # For cron, this is not a failure: the daemon that runs does the work.
        if once and isinstance(error, StateDirectoryHeld):
            _ask_for_scan(settings)
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
    import anyio

    from runward.daemon import faults
    from runward.daemon.host.service import serve
    from runward.daemon.log import open_log, open_sinks
    from runward.daemon.store.transaction import StoreMalformed

    prepare(Path(settings.state_dir))
    sinks = open_sinks(Path(settings.state_dir), None if quiet else sys.stderr, os.environ)
    log = open_log(sinks, level)
    no_crash: tuple[type[Exception], ...] = (*_refusals(), OSError, sqlite3.Error)
    if sys.stderr is not None and not faulthandler.is_enabled():
        faulthandler.enable()  # the unit's watchdog ends a hang by SIGABRT: the journal shows where it hung
    try:
        faults.from_environment(os.environ.get("RUNWARD_FAULT"))
        signals.hold()
        anyio.run(
            partial(serve, settings, log, sinks, settings_files, signals=signals, once=once, waits=waits)
        )
    except StoreMalformed as error:
        log.critical("store.malformed", why=str(error))
        raise
    except no_crash:
        raise
    except Exception as error:
        log.critical("daemon.crashed", exc_info=error)
        raise
    finally:
        sinks.close()
        signals.over()


def _refusals() -> tuple[type[Exception], ...]:
    """Errors that keep a daemon from its state directory and are not a crash: each explains itself."""
    from runward.daemon.disk.epoch import EpochPassed
    from runward.daemon.store.transaction import EpochRefused
    from runward.daemon.web.sockets import CannotListen

    return StateDirectoryUnsafe, StateDirectoryHeld, StoreRefused, EpochRefused, EpochPassed, CannotListen


def _ask_for_scan(settings: Settings) -> None:
    """Ask the daemon that uses the state directory for a scan."""
    from runward.handlers.model.requests import ScanRequested

    ask_daemon(settings, new_request(ScanRequested))
    tell("another daemon uses the state directory: it was asked for a scan")


def _check(context: click.Context) -> int:
    """Every complaint about what the operator wrote."""
    parsed = read_settings_of(context.find_root().obj["config"])
    problems = [each.problem for each in complaints_about(parsed)]
    complain(problems)
    if parsed.value is None:
        return WRONG_SETTINGS
    wrong = has_errors(problems)
    if not wrong:
        print_text("the configuration is valid")
    return WRONG_USAGE if wrong else GOOD


@daemon.command()
@timeout_option()
@pass_settings
def stop(settings: Settings, timeout: float) -> None:
    """Stop the daemon, and wait until it has ended. Runs continue.

    Exit code 3: no daemon is running. 124: it took too long.

    \b
    Example:
      runward daemon stop
    """
    state = settings.state_dir
    pid = _daemon_of(state)
    _signal(pid, signal.SIGTERM)
    # Not whether any daemon runs: systemd may start the next one between two looks.
    if _wait(lambda: True if holder(Path(state)) != pid else None, timeout) is None:
        fail(f"daemon {pid} has been asked to end, but has not ended yet", TIMED_OUT)
    print_text(f"daemon {pid} has stopped")


@daemon.command()
@timeout_option()
@pass_settings
def reload(settings: Settings, timeout: float) -> None:
    """Have the daemon read its settings again.

    Prints whether they are in force, and every problem with any configuration.

    Exit code 1: they were refused, and the old settings stay in force. 3: no daemon is running. 124: it took too long.

    \b
    Example:
      runward daemon reload
    """
    state = settings.state_dir
    pid = _daemon_of(state)
    before = _settings_report(state, pid)  # before the signal: the daemon may answer it at once
    _signal(pid, signal.SIGHUP)
    after = _wait(lambda: _news(before, _settings_report(state, pid)), timeout)
    if after is None:
        fail(f"daemon {pid} has not reported the result yet; `runward status` will show it", TIMED_OUT)
    if after.get("refused_at") is None:
        now_in_force = settings_in_report(report_of(state, pid))
        complain(each.problem for each in complaints_about(Parsed(now_in_force)))
        print_text("the settings are in force")
        return
    refused = after.get("refused")
    for problem in refused if isinstance(refused, list) else []:
        tell(safe(str(problem)))
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


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        fail(f"daemon {pid} has just ended", NOT_FOUND)
    except PermissionError:
        fail(f"daemon {pid} belongs to another user: run this as that user", NOT_SO)


def _settings_report(state: str, pid: int) -> dict[str, JsonValue]:
    """The daemon's report on its settings; if it ends meanwhile, the program ends."""
    if holder(Path(state)) is None:
        fail(f"daemon {pid} has ended", NOT_FOUND)
    settings = report_of(state, pid).get("settings")
    return settings if isinstance(settings, dict) else {}


def _news(before: dict[str, JsonValue], after: dict[str, JsonValue]) -> dict[str, JsonValue] | None:
    """The current report, if it followed from a reading since."""
    times = ("since", "refused_at")
    return after if after and any(before.get(each) != after.get(each) for each in times) else None


def _wait(ask: Callable[[], Answer | None], patience: float) -> Answer | None:
    end = time.monotonic() + patience
    while (answer := ask()) is None and time.monotonic() < end:
        time.sleep(_PERIOD)
    return answer


_user = click.option("--user", "scope", flag_value="user", help="Use a service of your own user.")
_system = click.option(
    "--system", "scope", flag_value="system", help="Use a service of the machine (the default for root)."
)
_dry = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
_json = json_option()


@daemon.command()
@_user
@_system
@_dry
@_json
@click.pass_context
def install(context: click.Context, scope: str | None, dry_run: bool, as_json: bool) -> None:
    """Install, enable and start the systemd unit.

    If it is installed already, update it and restart the daemon; runs continue. A unit that you changed is kept under
    another name in the same directory.

    \b
    Example:
      runward daemon install --dry-run
    """
    is_user = _is_user(scope)
    config = context.find_root().obj["config"]
    try:
        program = rendering.program()
    except rendering.NoProgram as error:
        fail(f"{error}: install Runward (`pipx install .`), and call the installed one", WRONG_USAGE)
    if is_user:
        named = installing.settings_to_name(settings_file(config, os.environ, working_directory()))
        files = installing.user_files(program, named, own_settings(context))
    else:
        config = os.path.abspath(config) if config else None
        _check_seen(program, config)
        files = installing.system_files(program, config, _system_settings(config))
        _check_root(dry_run)
    done = installing.install(files, is_user, dry_run)
    _tell(done, as_json, "install")
    _end(done, "enabled or started")


@daemon.command()
@_user
@_system
@_dry
@_json
def uninstall(scope: str | None, dry_run: bool, as_json: bool) -> None:
    """Stop, disable and remove the systemd unit. State, settings and runs stay.

    \b
    Example:
      runward daemon uninstall --dry-run
    """
    is_user = _is_user(scope)
    if not is_user:
        _check_root(dry_run)
    done = installing.uninstall(is_user, dry_run)
    _tell(done, as_json, "uninstall")
    _end(done, "disabled or stopped")


def _is_user(scope: str | None) -> bool:
    return scope == "user" or (scope is None and os.geteuid() != 0)


def _check_root(dry_run: bool) -> None:
    if os.geteuid() != 0 and not dry_run:
        fail("only root may change the machine's units: use sudo, or --user for your own", WRONG_USAGE)


def _check_seen(program: str, config: str | None) -> None:
    """Refuse what a system unit can't see."""
    unseen = rendering.unseen(program, () if config is None else (config,))
    if unseen is not None:
        fail(
            f"{unseen} is in a home directory, which a unit of the machine can't see: install Runward outside home directories"
            " (such as `python3 -m venv /opt/runward && /opt/runward/bin/pip install .`), or use --user",
            WRONG_USAGE,
        )


def _system_settings(config: str | None) -> Settings:
    """The settings as the machine's daemon reads them, or exit 78 with every complaint."""
    # The unit runs without this user's environment, so the settings must be right without it.
    parsed = load_settings(config, {"HOME": SYSTEM_STATE, "RUNWARD_STATE_DIR": SYSTEM_STATE}, "/")
    complain(parsed.problems)
    if parsed.value is None:
        sys.exit(WRONG_SETTINGS)
    return parsed.value


def _lingering(done: Done) -> bool | None:
    """Whether the daemon keeps running when its user logs out; None for the machine's, which does."""
    return rendering.is_lingering(rendering.user_name()) if done.is_user else None


def _tell(done: Done, as_json: bool, verb: str) -> None:
    if as_json:
        print_json(_json_of(done))
        return
    would = "would have " if done.is_dry else ""
    for change in done.changes:
        if change.kept is not None:
            print_text(f"{would}kept      {safe(change.kept)}: the unit as it was changed by hand")
        begins = "" if change.deed in ("unchanged", "absent") else would  # it is so already
        print_text(f"{begins}{change.deed:9} {safe(change.path)}")
        text = done.texts[change.path]
        if done.is_dry and change.deed in ("written", "updated") and text is not None:
            click.echo(safe_lines(text))
    for words in done.planned:
        print_text(f"{would}run       {safe(shlex.join(words))}")
    for ran in done.systemctl.ran:
        print_text(f"{'ran' if ran.code == 0 else 'failed':9} {safe(shlex.join(ran.words))}")
        if ran.code != 0:
            click.echo(safe_lines(ran.printed))
    if done.is_dry:
        print_text("nothing was changed (--dry-run)")
    if verb == "install" and done.silence is None and not done.failed:
        _tell_of_life(done)


def safe_lines(text: str) -> str:
    """Lines, indented, with nothing that a terminal would obey."""
    return "\n".join(f"    {safe(line)}".rstrip() for line in text.splitlines())


def _tell_of_life(done: Done) -> None:
    """What runs now, how long, and how to undo it."""
    scope = "user" if done.is_user else "system"
    if not done.is_dry:
        status = done.systemctl.property("StatusText", installing.UNIT)
        print_text(f"runs      {installing.UNIT}: {safe(status)}")
    if _lingering(done) is False:
        user = shlex.quote(rendering.user_name())
        print_text(
            f"but lingering is off: it ends when you log out. To keep it running: loginctl enable-linger {safe(user)}"
        )
    if not done.is_user:
        print_text("for a user's own daemon: systemctl enable --now runward@NAME")
    print_text(f"undo it with: runward daemon uninstall --{scope}")


def _json_of(done: Done) -> JsonValue:
    is_done = not done.is_dry and done.silence is None and not done.failed
    return {
        "scope": "user" if done.is_user else "system",
        "dry_run": done.is_dry,
        "files": [{"path": each.path, "deed": each.deed, "kept": each.kept} for each in done.changes],
        "planned": [list(words) for words in done.planned],
        "ran": [
            {"words": list(each.words), "code": each.code, "said": each.printed}
            for each in done.systemctl.ran
        ],
        "systemd": done.silence or "answers",
        "done": is_done,
        "lingering": _lingering(done),
    }


def _end(done: Done, not_done: str) -> None:
    """Say what keeps the unit from working, with the exit code for it."""
    if done.silence is not None and not done.is_dry:
        manager = "systemctl --user" if done.is_user else "systemctl"
        fail(
            f"systemd doesn't answer ({done.silence}), so nothing was {not_done}:"
            f" log in where `{manager} status` answers, and run this command again; or run `runward daemon` yourself",
            TRY_AGAIN,
        )
    if done.failed:
        journal = "journalctl --user" if done.is_user else "journalctl"
        fail(
            f"systemd refused: `{journal} -u runward -n 30` may say why; fix it, and run this command again",
            NOT_SO,
        )
