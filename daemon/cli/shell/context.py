"""What commands begin with: the settings in force, and the store to read."""

import os
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec

import click

from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.config.table import DEFAULT
from runward.daemon.cli.exits import WRONG_SETTINGS
from runward.daemon.cli.terminal.output import complain, note
from runward.daemon.configuration.settings import load_settings, state_dir_of_broken, working_directory
from runward.daemon.store import reading
from runward.daemon.store.ownership import holder

Given = ParamSpec("Given")


def read_settings_of(config: str | None) -> Parsed[Settings]:
    """The settings that this process would run under, or everything that is wrong with them."""
    return load_settings(config, os.environ, working_directory())


def own_settings(context: click.Context) -> Settings:
    """The settings that are written down, or exit 78 with every complaint."""
    parsed = read_settings_of(context.find_root().obj["config"])
    complain(parsed.problems)
    if parsed.value is None:
        sys.exit(WRONG_SETTINGS)
    return parsed.value


def settings_in_force(context: click.Context) -> Settings:
    """The settings that are written down; if they are wrong, those that the daemon uses, with a note.

    Exits 78 with every complaint if no daemon runs that could be asked.
    """
    settings, say_what_is_wrong = settings_and_complaints(context)
    say_what_is_wrong()
    return settings


def settings_and_complaints(context: click.Context) -> tuple[Settings, Callable[[], None]]:
    """The same for a screen that may show what is wrong with them: only if it doesn't, it calls what says so."""
    config = context.find_root().obj["config"]
    parsed = read_settings_of(config)
    if parsed.value is not None:
        return _with_some_state(parsed.value, config), partial(complain, parsed.problems)
    settings = _settings_of_daemon(config)
    if settings is None:
        return own_settings(context), lambda: None

    # A mistake in the file must not keep a person from looking at, or ending, what the daemon does under the old one.
    def say_what_is_wrong() -> None:
        complain(parsed.errors)
        note("the settings are invalid, so this command uses those of the daemon until you correct them")

    return settings, say_what_is_wrong


MACHINES_STATE = "/run/runward/state"
"""Where the machine's unit writes which state directory it uses. Only root can make this directory."""

_MAXIMUM_PATH = 4096


def _with_some_state(settings: Settings, config: str | None) -> Settings:
    """These settings; over the machine's state for a user who names none and has none, with a note."""
    state_dir = settings.state_dir
    is_named = settings.origin.get("state_dir", DEFAULT) != DEFAULT
    if is_named or holder(Path(state_dir)) is not None or reading.exists(state_dir):
        return settings
    state = machines_state()
    if state is None or os.path.realpath(state) == os.path.realpath(state_dir):
        return settings
    parsed = load_settings(config, {**os.environ, "RUNWARD_STATE_DIR": state}, working_directory())
    if parsed.value is None:
        return settings
    note(f"you have no state of your own, so this is the machine's: {state} ({MACHINES_STATE} names it)")
    return parsed.value


def machines_state() -> str | None:
    """The state directory of the machine's unit; None where it has not run since the machine started."""
    try:
        descriptor = os.open(MACHINES_STATE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        line = os.fsdecode(file.read(_MAXIMUM_PATH)).removesuffix("\n")
    return line if line.startswith("/") and line.isprintable() else None


def pass_settings(command: Callable[Concatenate[Settings, Given], None]) -> Callable[Given, None]:
    """Give a command the settings in force as its first argument."""

    @wraps(command)
    def with_settings(*args: Given.args, **given: Given.kwargs) -> None:
        command(settings_in_force(click.get_current_context()), *args, **given)

    return with_settings


def _settings_of_daemon(config: str | None) -> Settings | None:
    """The settings that the daemon of this state directory uses; None if none runs."""
    from runward.daemon.views.daemon_report import report_of, settings_in_report

    state = state_dir_of_broken(config, os.environ, working_directory())
    return None if state is None else settings_in_report(report_of(state, holder(Path(state))))


SET_UP: Final = "runward init"


def first_command(state: str) -> str:
    """What comes first where no daemon ever ran."""
    from runward.daemon.cli.init.record import is_recorded  # nearly always one ran
    from runward.daemon.views.needs import how_to_start

    return how_to_start(state) if is_recorded(state) else SET_UP


def is_daemon_up(settings: Settings) -> bool:
    """Whether a daemon works over the state directory now."""
    return holder(Path(settings.state_dir)) is not None


@contextmanager
def store_to_read(settings: Settings) -> Iterator[sqlite3.Connection]:
    """The store as it is now, whether the daemon is up or down; empty, with a note, before the first daemon.

    Raises `StoreUnreadable`.
    """
    if not reading.exists(settings.state_dir):
        # A program's stderr is as it was; a person may see it as the first line of all.
        begin = f": begin with `{first_command(settings.state_dir)}`" if sys.stderr.isatty() else ""
        note(f"no daemon has run in {settings.state_dir} yet{begin}")
    with reading.reading(settings.state_dir) as connection:
        yield connection
