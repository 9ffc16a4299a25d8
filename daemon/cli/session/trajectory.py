"""`session export --format atif`: a session as a trajectory that evaluation tools read, on stdout or in a file."""

import os
import sqlite3
import sys
from collections.abc import Iterator

from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_SO, WRONG_USAGE
from runward.daemon.cli.terminal.output import fail, safe
from runward.daemon.disk.durable import sync_directory
from runward.daemon.rundir.bundle_parts import write_part
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.views.trajectory import NoSteps, trajectory_text
from runward.handlers.model.part import Part

_STDOUT = "-"


def export_trajectory(
    connection: sqlite3.Connection, settings: Settings, row: SessionRow, file: str | None
) -> None:
    """Print the trajectory, or put it into the file; ends the program if that can't be done."""
    name = safe(row.session_id)
    if row.status == "running":
        fail(f"session {name} is still running: it can be exported when it is over", NOT_SO)
    pieces = trajectory_text(connection, settings, row)
    try:
        if file is None or file == _STDOUT:
            for each in pieces:
                sys.stdout.write(each)
        else:
            _write(file, pieces)
    except NoSteps as none:
        why = f": {safe(str(none))}" if str(none) else ""
        fail(f"session {name} has no messages and no calls to export{why}", NOT_SO)


def _write(file: str, pieces: Iterator[str]) -> None:
    """The file is replaced as a whole: a tool that reads it never finds half of it."""
    directory, name = os.path.split(os.path.abspath(file))
    if os.path.lexists(file) and (os.path.islink(file) or not os.path.isfile(file)):
        fail(f"{safe(file)}: is not a regular file", WRONG_USAGE)
    part = write_part(directory, name, (each.encode() for each in pieces))
    if not isinstance(part, Part):
        fail(f"{safe(file)}: {getattr(part, 'why', 'there is no such directory')}", WRONG_USAGE)
    temporary = os.path.join(directory, part.temporary)
    try:
        os.rename(temporary, os.path.join(directory, name))
        sync_directory(directory)
    except OSError as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        fail(f"{safe(file)}: {error.strerror}", WRONG_USAGE)
