"""When the files of a native run last changed, to tell whether they are still arriving."""

import os

from runward.daemon.rundir.last_change import MOST_ENTRIES
from runward.daemon.rundir.opening import ABSENT, unreadable
from runward.handlers.bundle.parts import OURS, is_part_or_temporary
from runward.handlers.layouts import native
from runward.handlers.model.sessions import LastChange
from runward.handlers.model.unreadable import Unreadable


def change_of_run(path: str) -> LastChange | Unreadable | None:
    """When anything below a native run's directory changed last, except what Runward writes; None without an `exit.json`.

    Only times are read, so a link that appears in the place of a directory reveals nothing. Of a tree that is larger
    than a run's, a part is looked at.
    """
    newest = ended = 0.0
    left, todo = MOST_ENTRIES, [path]
    while todo and left:
        directory = todo.pop()
        try:
            with os.scandir(directory) as entries:
                for _, entry in zip(range(left), entries, strict=False):
                    left -= 1
                    if directory == path and (entry.name in OURS or is_part_or_temporary(entry.name)):
                        continue
                    try:
                        changed = entry.stat(follow_symlinks=False).st_ctime_ns / 1e9
                    except FileNotFoundError:
                        continue
                    newest = max(newest, changed)
                    if directory == path and entry.name == native.EXIT:
                        ended = changed
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(f"{directory}/{entry.name}")
        except OSError as error:
            if error.errno not in ABSENT and directory == path:
                return unreadable(error)
    return LastChange(newest, ended) if ended else None
