"""What is remembered of foreign sessions whose files were moved to another disk, or copied."""

import os
import stat

from runward.daemon.rundir.session_files import LogRead
from runward.daemon.rundir.session_logs import UNREAD
from runward.daemon.watch.remembered import dump_remembered, read_remembered
from runward.handlers.layouts.places import PACKED


def with_files_of_now(root: str, state: str) -> str | None:
    """What is remembered of a session in this root, for the files that are there now; None if that changes nothing.

    On another disk, files have other numbers, and a log with another number would be read from its beginning. What comes
    before the position is compared in any case before reading goes on, so another file is still noticed.
    """
    remembered = read_remembered(state)
    if remembered is None:
        return None  # it is read again
    place = os.path.join(root, remembered.place)
    logs = tuple(_as_it_is_now(place, log) for log in remembered.read.logs)
    if logs == remembered.read.logs:
        return None
    return dump_remembered(remembered._replace(read=remembered.read._replace(logs=logs)))


def _as_it_is_now(place: str, log: LogRead) -> LogRead:
    """The log at a place, which is itself a log or a directory of logs, with the numbers of its file."""
    if log.cursor == UNREAD:
        return log
    for path in (os.path.join(os.path.dirname(place), log.name), os.path.join(place, log.name)):
        for end in ("", PACKED):
            try:
                status = os.lstat(f"{path}{end}")
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                return log._replace(cursor=log.cursor._replace(device=status.st_dev, inode=status.st_ino))
    return log
