"""The files of a play in a show: those that are kept with it, and those that a person may read in its directory."""

import os
import stat
from itertools import islice
from typing import Final

from runward.config.json_value import is_text
from runward.daemon.rundir.opening import DIRECTORY, LISTED, opened, unreadable
from runward.daemon.rundir.run_directories import document_at
from runward.handlers.layouts.show import META, PLAN, VERDICT
from runward.handlers.model.files import Unreadable
from runward.handlers.model.shows import PlayFiles

DOCUMENTS: Final = ("_intent.md", "_prompt.md", META, VERDICT)

_LOG: Final = ".log"
_MOST_LISTED: Final = 1000
_MOST_LOGS: Final = 50


def play_files(path: str) -> PlayFiles | Unreadable:
    """Those of the play in the directory `path`. No link is followed from its show's directory on."""
    directory, _, name = path.rpartition("/")
    try:
        with opened(directory, DIRECTORY) as show, opened(name, DIRECTORY, show) as play:
            return PlayFiles(document_at(play, META), document_at(show, PLAN))
    except OSError as error:
        return unreadable(error)


def texts_of_play(path: str) -> list[str] | Unreadable:
    """The names of the texts in a play's directory: its documents first, then its logs. They may be anything meanwhile."""
    directory, _, name = path.rpartition("/")
    try:
        with (
            opened(directory, DIRECTORY) as show,
            opened(name, DIRECTORY, show) as play,
            opened(".", LISTED, play) as listed,
            os.scandir(listed) as entries,
        ):
            logs = sorted(each.name for each in islice(entries, _MOST_LISTED) if each.name.endswith(_LOG))
            return [each for each in (*DOCUMENTS, *logs[:_MOST_LOGS]) if _is_file(play, each)]
    except OSError as error:
        return unreadable(error)


def is_text_of_play(name: str) -> bool:
    """Whether a file of this name may be read in a play's directory."""
    return name in DOCUMENTS or (name.endswith(_LOG) and "/" not in name)


def _is_file(directory: int, name: str) -> bool:
    if not is_text(name):
        return False  # bytes that are not UTF-8: no address can have them
    try:
        return stat.S_ISREG(os.lstat(name, dir_fd=directory).st_mode)
    except OSError:
        return False
