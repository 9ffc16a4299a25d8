"""What may hang in a daemon's world, for it to be told to stop then: each never comes back, whatever signal comes.

A hung disk can't be had by a test everywhere; this hangs at the same places, in the same threads.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.cli.shell import context
from runward.daemon.configuration import settings, settings_files
from runward.daemon.disk.epoch import HeldEpoch
from runward.daemon.host import service
from runward.daemon.watch.notifications import Inotify
from runward.daemon.world.files import Files

_LIBC: Final = ctypes.CDLL(None)


def hang(*arguments: object, **further: object) -> NoReturn:
    """Never come back, and let no handler of signals run: pthread_mutex_lock(3) isn't interrupted by any."""
    os.write(sys.stderr.fileno(), b"it hangs\n")
    mutex = ctypes.create_string_buffer(64)  # zeros, as PTHREAD_MUTEX_INITIALIZER has them
    _LIBC.pthread_mutex_lock(mutex)
    _LIBC.pthread_mutex_lock(mutex)
    raise AssertionError("it came back")


def _method(owner: type, name: str) -> Callable[[], None]:
    return lambda: setattr(owner, name, hang)


def _migration() -> None:
    service.migrate = hang  # type: ignore[attr-defined] # as `service` calls it


HANGS: Final[Mapping[str, Callable[[], None]]] = {
    "the store is opened": _migration,
    "the watch is set up": _method(Inotify, "set_up"),
    "roots are looked at": _method(Files, "standing"),
    "a root is listed": _method(Files, "list_root"),
    "a run is looked at": _method(Files, "look"),
    "an artifact is looked at": _method(Files, "artifacts"),
    "a file is hashed": _method(Files, "hashes"),
    "a line is written": _method(Files, "append"),
    "a journal is synced": _method(Files, "sync"),
    "the loop reads the epoch": _method(HeldEpoch, "check"),
}


def _settings(reads: int) -> Callable[[], None]:
    """The settings are read so often, and then never to their end. A signal interrupts it, as it does read(2)."""

    def take_out() -> None:
        load, left = settings.load_settings, [reads]

        def slow(config: str | None, environment: Mapping[str, str], cwd: str) -> Parsed[Settings]:
            if left[0] == 0:
                os.write(sys.stderr.fileno(), b"it hangs\n")
                while True:
                    time.sleep(1000)
            left[0] -= 1
            found: Parsed[Settings] = load(config, environment, cwd)
            return found

        for reader in (context, settings_files):
            vars(reader)["load_settings"] = slow

    return take_out


WAITS: Final[Mapping[str, Callable[[], None]]] = {
    "the settings are read": _settings(0),
    "the settings are read again": _settings(1),
}
"""What waits for ever, but lets handlers of signals run."""
