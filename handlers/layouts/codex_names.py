"""What Codex CLI calls the files of a thread: `rollout-<local time>-<thread>.jsonl[.zst]`, and its writer's lock.

A rollout keeps its thread's id in its name even if it is moved, archived or compressed. So the name tells which
thread it belongs to, and its directory doesn't.
"""

import re
from typing import Final

from runward.config.json_value import JsonValue

LOCKS: Final = "thread-writer-locks"
"""The directory of Codex's home that holds the lock files of the threads that are being written."""

_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_THREAD: Final = re.compile(_UUID, re.ASCII)
_ROLLOUT: Final = re.compile(
    rf"rollout-\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d-({_UUID})(?:_{_UUID})?\.jsonl(?:\.zst)?", re.ASCII
)


def thread_of(name: str) -> str | None:
    """The id of the thread whose rollout has this file name (or path). None for any other file.

    A thread may be continued in a further file, whose name ends in `_` and another id: it is the same thread.
    """
    found = _ROLLOUT.fullmatch(name.rpartition("/")[2])
    return None if found is None else found[1]


def lock_of(thread: str) -> str | None:
    """The lock file that the thread's writer holds, relative to Codex's home. None for what is not a thread's id.

    The file alone proves nothing: a killed writer leaves it behind, and the next start of Codex removes it.
    """
    return f"{LOCKS}/{thread}.lock" if is_thread(thread) else None


def is_thread(value: JsonValue) -> bool:
    """Whether this has the form of Codex's thread ids."""
    return isinstance(value, str) and _THREAD.fullmatch(value) is not None


def made_at(identifier: str | None) -> int | None:
    """When Codex made this id, in Unix milliseconds: its ids are UUIDs of version 7. None for any other id."""
    if (
        identifier is None
        or len(identifier) != 36
        or not _THREAD.fullmatch(identifier)
        or identifier[14] != "7"
    ):
        return None
    return int(identifier[:8] + identifier[9:13], 16)
