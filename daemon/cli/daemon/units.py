"""`runward daemon install` and `uninstall`: the daemon as a service of systemd's."""

import os
import shlex
import sys

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_SO, TRY_AGAIN, WRONG_SETTINGS, WRONG_USAGE
from runward.daemon.cli.shell.context import own_settings
from runward.daemon.cli.terminal.output import complain, fail, print_json, safe
from runward.daemon.configuration.settings import (
    SYSTEM_FILE,
    home_of,
    load_settings,
    settings_file,
    working_directory,
)
from runward.daemon.units import installing, placing
from runward.daemon.units.installing import Done
from runward.daemon.units.rendering import SYSTEM_STATE

_user = click.option("--user", "scope", flag_value="user", help="Use a service of your own user.")
_system = click.option(
    "--system", "scope", flag_value="system", help="Use a service of the machine (the default for root)."
)
_dry = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
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
        program = placing.program()
    except placing.NoProgram as error:
        fail(f"{error}: install Runward (`pipx install .`), and call the installed one", WRONG_USAGE)
    if is_user:
        files = installing.user_files(program, _named_settings(config), own_settings(context))
    else:
        config = os.path.abspath(config) if config else None
        _check_seen(program, config)
        files = installing.system_files(program, config, _system_settings(config))
        _check_root(dry_run)
    done = installing.install(files, is_user, dry_run)
    _tell(done, as_json, "install")
    _end(done, "enabled or started")


@click.command()
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
    unseen = placing.unseen(program, () if config is None else (config,))
    if unseen is not None:
        fail(
            f"{unseen} is in a home directory, which a unit of the machine can't see: install Runward outside home directories"
            " (such as `python3 -m venv /opt/runward && /opt/runward/bin/pip install .`), or use --user",
            WRONG_USAGE,
        )


def _named_settings(config: str | None) -> str | None:
    """The settings file that the unit must name, because it is where a service doesn't look."""
    file = settings_file(config, os.environ, working_directory())
    usual = (f"{home_of(os.environ)}/.config/runward/runward.toml", SYSTEM_FILE)
    return None if file is None or file in usual else file


def _system_settings(config: str | None) -> Settings:
    """The settings as the machine's daemon reads them, or exit 78 with every complaint."""
    parsed = load_settings(config, {"HOME": SYSTEM_STATE, "RUNWARD_STATE_DIR": SYSTEM_STATE}, "/")
    complain(parsed.problems)
    if parsed.value is None:
        sys.exit(WRONG_SETTINGS)
    return parsed.value


def _lingering(done: Done) -> bool | None:
    """Whether the daemon keeps running when its user logs out; None for the machine's, which does."""
    return placing.is_lingering(placing.user_name()) if done.is_user else None


def _tell(done: Done, as_json: bool, verb: str) -> None:
    if as_json:
        print_json(_json_of(done))
        return
    would = "would have " if done.is_dry else ""
    for change in done.changes:
        if change.kept is not None:
            click.echo(f"{would}kept      {safe(change.kept)}: the unit as it was changed by hand")
        begins = "" if change.deed in ("unchanged", "absent") else would  # it is so already
        click.echo(f"{begins}{change.deed:9} {safe(change.path)}")
        text = done.texts[change.path]
        if done.is_dry and change.deed in ("written", "updated") and text is not None:
            click.echo(safe_lines(text))
    for words in done.planned:
        click.echo(f"{would}run       {safe(shlex.join(words))}")
    for ran in done.systemctl.ran:
        click.echo(f"{'ran' if ran.code == 0 else 'failed':9} {safe(shlex.join(ran.words))}")
        if ran.code != 0:
            click.echo(safe_lines(ran.said))
    if done.is_dry:
        click.echo("nothing was changed (--dry-run)")
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
        click.echo(f"runs      {installing.UNIT}: {safe(status)}")
    if _lingering(done) is False:
        user = shlex.quote(placing.user_name())
        click.echo(
            f"but lingering is off: it ends when you log out. To keep it running: loginctl enable-linger {safe(user)}"
        )
    if not done.is_user:
        click.echo("for a user's own daemon: systemctl enable --now runward@NAME")
    click.echo(f"undo it with: runward daemon uninstall --{scope}")


def _json_of(done: Done) -> JsonValue:
    is_done = not done.is_dry and done.silence is None and not done.failed
    return {
        "scope": "user" if done.is_user else "system",
        "dry_run": done.is_dry,
        "files": [{"path": each.path, "deed": each.deed, "kept": each.kept} for each in done.changes],
        "planned": [list(words) for words in done.planned],
        "ran": [
            {"words": list(each.words), "code": each.code, "said": each.said} for each in done.systemctl.ran
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
