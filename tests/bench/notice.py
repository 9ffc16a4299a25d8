"""How the baseline notices that a run it knows has finished: by inotify itself, or by watchfiles.

Only for runs that are there before the watch is: a program that also has to notice new directories must look into each.
"""

import ctypes
import os
import queue
import select
import struct
import threading
from typing import Protocol

from watchfiles import Change, watch

_MOVED_TO, _OVERFLOW = 0x80, 0x4000
_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 16


class Notice(Protocol):
    """Tells which runs have finished, each once."""

    def finished(self, timeout: float) -> list[str]:
        """Wait for at most `timeout` seconds and return the names of the runs that are newly finished."""


class InotifyNotice:
    """One inotify watch a run directory."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)
        self._runs = {self._watch(entry.path): entry.name for entry in os.scandir(root) if entry.is_dir()}
        self._told: set[str] = set()

    def finished(self, timeout: float) -> list[str]:
        if not self._poll.poll(timeout * 1000):
            return []
        runs: list[str] = []
        buffer, position = os.read(self._descriptor, _READ_BYTES), 0
        while position < len(buffer):
            watch_descriptor, mask, _, length = _HEADER.unpack_from(buffer, position)
            position += _HEADER.size
            name = buffer[position : position + length].rstrip(b"\0")
            position += length
            if mask & _OVERFLOW:
                runs += self._look_everywhere()
            elif name == b"exit.json":
                runs.append(self._runs[watch_descriptor])
        return _untold(runs, self._told)

    def _watch(self, path: str) -> int:
        watch_descriptor: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), _MOVED_TO)
        if watch_descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch failed", path)
        return watch_descriptor

    def _look_everywhere(self) -> list[str]:
        return [run for run in self._runs.values() if os.path.exists(f"{self._root}/{run}/exit.json")]


class WatchfilesNotice:
    """One recursive watch by watchfiles, in a thread of its own; `step` and `debounce` are its own, in milliseconds."""

    def __init__(self, root: str, step: int, debounce: int) -> None:
        self._root, self._step, self._debounce = root, step, debounce
        self._batches: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self._told: set[str] = set()
        self._stands = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        if not self._stands.wait(60):
            raise TimeoutError(f"no watch over {root} within 60 s")

    def finished(self, timeout: float) -> list[str]:
        try:
            return _untold(self._batches.get(timeout=timeout), self._told)
        except queue.Empty:
            return []

    def _watch(self) -> None:
        batches = watch(
            self._root,
            watch_filter=_is_exit_file,
            step=self._step,
            debounce=self._debounce,
            rust_timeout=500,
            yield_on_timeout=True,  # the first, empty batch says that the watch stands
        )
        for changes in batches:
            self._stands.set()
            if changes:
                self._batches.put([path.rsplit("/", 2)[1] for _, path in changes])


def _is_exit_file(_: Change, path: str) -> bool:
    return path.endswith("/exit.json")


def _untold(runs: list[str], told: set[str]) -> list[str]:
    new = [run for run in dict.fromkeys(runs) if run not in told]
    told.update(new)
    return new
