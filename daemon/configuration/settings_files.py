"""The files from which a daemon's settings come, or would come: read them, and see whether any of them changed."""

import os
from collections.abc import Iterator, Mapping

from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.configuration.agent_homes import homes_there
from runward.daemon.configuration.quiet_files import Look, wait_until_quiet
from runward.daemon.configuration.settings import (
    drop_ins,
    home_of,
    load_settings,
    settings_places,
    working_directory,
)


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
        files = ((path, _signature(path)) for path in self._files(cwd))
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


def _signature(path: str) -> tuple[int, ...]:
    try:
        link, file = os.lstat(path), os.stat(path)
    except OSError:
        return ()
    changes = sorted((file.st_ctime_ns, link.st_ctime_ns))
    return (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, link.st_ino, *changes)
