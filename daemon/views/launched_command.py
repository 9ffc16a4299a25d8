"""What a native run's `run.json` says only for people: the command, and the directory that it was started in."""

import os
import shlex
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings_keys import DEFAULT_LAYOUT
from runward.daemon.rundir.tailing import NotRegular, open_in_run
from runward.daemon.store.reading_sessions import SessionRow
from runward.handlers.foreign_json import NotJson, read_json

_LONGEST: Final = 1 << 20


class LaunchedCommand(NamedTuple):
    """None where `run.json` doesn't say it."""

    words: list[str] | None = None
    cwd: str | None = None

    @property
    def command(self) -> str | None:
        """The command as a shell would read it."""
        return shlex.join(self.words) if self.words else None


def launched_command(row: SessionRow) -> LaunchedCommand:
    """What the `run.json` of a native run says now: the run may have changed it. Nothing for other sessions."""
    if row.layout != DEFAULT_LAYOUT:
        return LaunchedCommand()
    path = row.path
    try:
        descriptor = open_in_run(path, "run.json")
    except (OSError, NotRegular):
        return LaunchedCommand()
    try:
        content = os.pread(descriptor, _LONGEST, 0)
    except OSError:
        return LaunchedCommand()
    finally:
        os.close(descriptor)
    value = read_json(content)
    if isinstance(value, NotJson) or not isinstance(value, dict):
        return LaunchedCommand()
    cwd = value.get("cwd")
    return LaunchedCommand(_words(value.get("command")), cwd if isinstance(cwd, str) else None)


def _words(command: JsonValue) -> list[str] | None:
    if not isinstance(command, list):
        return None
    return [each for each in command if isinstance(each, str)] or None
