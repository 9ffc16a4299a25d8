"""The files that are kept with a play in a show: `_meta.json` in its directory, and the plan in the parent."""

from runward.daemon.rundir.looking import document_at
from runward.daemon.rundir.opening import DIRECTORY, opened, unreadable
from runward.handlers.layouts.show import META, PLAN
from runward.handlers.shows.facts import PlayFiles
from runward.handlers.unreadable import Unreadable


def play_files(path: str) -> PlayFiles | Unreadable:
    """Those of the play in the directory `path`. No link is followed from its show's directory on."""
    directory, _, name = path.rpartition("/")
    try:
        with opened(directory, DIRECTORY) as show, opened(name, DIRECTORY, show) as play:
            return PlayFiles(document_at(play, META), document_at(show, PLAN))
    except OSError as error:
        return unreadable(error)
