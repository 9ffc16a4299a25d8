"""The files from which a daemon's settings come, or would come: read them, and see whether any of them changed."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from runward.config.document import AGENT_SUFFIX
from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.configuration.agent_homes import homes_there
from runward.daemon.configuration.listings import is_quiet, listed
from runward.daemon.configuration.settings import (
    drop_ins,
    home_of,
    load_settings,
    settings_places,
    working_directory,
)
from runward.handlers.model.files import signature_of

Seen = tuple[int, ...]
"""Changes whenever the file does. The last number is the time (ns) of its last change."""

Look = dict[str, Seen]
"""What a look saw of each file."""

_PAUSE_S: Final = 0.05
_LONGEST_S: Final = 1.0


# A reader remembers what files said together with a look from before the reading. A later look that sees the
# same then means that the files still say the same.
def wait_until_quiet(look: Callable[[], Look]) -> Look:
    """Wait until two looks see the same, a second at most; returns the last look.

    If even the last look sees files that changed lately, they differ in it from every other look: another change within
    the same tick of the file system's clock would leave their times as they are.
    """
    end = time.monotonic() + _LONGEST_S
    began, last = time.time_ns(), look()
    while lately := _changed_lately(last, began):
        if time.monotonic() >= end:
            # A time that no other look has. Compared with this look, each later one differs, so the files are read again.
            return last | {path: (*last[path], began) for path in lately}
        # Longer than a tick: if two looks see the same, the next change has another time.
        time.sleep(_PAUSE_S)
        began, now = time.time_ns(), look()
        if now == last:
            break
        last = now
    return last


def look_into(directories: Iterable[str]) -> Look:
    """The files in these directories; of a directory in one of them, the file in it that has its name."""
    look: Look = {}
    for directory in directories:
        try:
            for entry in listed(directory):
                path = f"{entry.path}/{entry.name}{AGENT_SUFFIX}" if entry.is_directory else entry.path
                look[path] = _signature(path)
        except OSError as error:
            look[directory] = (error.errno or 0, 0)
    return look


def look_at(*paths: str) -> Look:
    """These files."""
    return {path: _signature(path) for path in paths}


def _signature(path: str) -> Seen:
    try:
        return signature_of(os.stat(path))
    except OSError as error:
        return (error.errno or 0, 0)


def _changed_lately(look: Look, began: int) -> list[str]:
    """The files that changed shortly before the look began, or while it lasted. Nearly no look waits for any."""
    over = time.time_ns()
    return [path for path, seen in look.items() if not is_quiet(seen[-1], began, over)]


class SettingsFiles:
    """The files of one daemon, which was started with this `--config` and this environment."""

    def __init__(self, config: str | None, environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment
        self.first_look = self.look()
        """Taken before the daemon reads its settings for the first time, so that a change during that is seen."""

    def read(self) -> Parsed[Settings]:
        """The settings that the files say now, or everything that is wrong with them."""
        return load_settings(self._config, self._environment, working_directory())

    def look(self) -> Look:
        """What exists once nobody writes to it. Two equal looks mean that nothing was written in between.

        It reads no file.
        """
        return wait_until_quiet(self._look)

    def _look(self) -> Look:
        cwd = working_directory()
        files = ((path, _file_signature(path)) for path in self._files(cwd))
        agents = homes_there(self._environment, home_of(self._environment), cwd).values()
        return {
            **{path: signature for path, signature in files if signature},
            **dict.fromkeys(agents, (0,)),  # without settings about roots, they are roots
        }

    def _files(self, cwd: str) -> Iterator[str]:
        """Every file that settings would come from, whether it exists or not."""
        for path in settings_places(self._config, self._environment, cwd):
            yield path
            try:
                yield from drop_ins(path)
            except OSError:
                yield f"{path}.d"  # reading it gives the reason, and it changes when it is repaired


def _file_signature(path: str) -> Seen:
    """What a link leads to may change without the link, and the other way round."""
    try:
        both = signature_of(os.lstat(path)), signature_of(os.stat(path))
    except OSError:
        return ()
    earlier, later = sorted(both, key=lambda each: each.changed_ns)
    return *earlier, *later
