"""The launcher's files in a run directory (the native layout, version 1), and the directory itself."""

import json
import os
import time
from collections.abc import Mapping

from runward.config.json_value import JsonValue
from runward.daemon.processes.ending import Ending
from runward.daemon.processes.identity import ProcessIdentity
from runward.daemon.rundir.durable import sync_directory, write_durably

SCHEMA = "runward-run-v1"
ARTIFACTS = "artifacts"
LONGEST_NAME = 200


class RunDirectory:
    """A run directory of the launcher's own making, held open: the command can't lead later writes elsewhere."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @property
    def name(self) -> str:
        """The last part of the path, which is the session's id."""
        return os.path.basename(self.path)

    def write_json(self, name: str, value: Mapping[str, JsonValue]) -> None:
        """Writes one of the layout's files, whole and durable."""
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
        write_durably(self.descriptor, name, text.encode() + b"\n")

    def open_log(self, name: str) -> int:
        """A new file that only grows."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=self.descriptor)

    def close(self) -> None:
        """Nothing more is written."""
        os.close(self.descriptor)


def why_no_name(name: str) -> str | None:
    """What keeps `name` from being a run directory's; None where nothing does."""
    if not name:
        return "is empty"
    if "/" in name:
        return "is more than one path segment"
    if name.startswith("."):
        return "begins with a dot"
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in name):
        return "holds control characters"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    return f"is {size} bytes long; at most {LONGEST_NAME}" if size > LONGEST_NAME else None


def new_name(now: float) -> str:
    """A name that sorts by time: `20261121T101530Z-1a2b3c`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now)) + "-" + os.urandom(3).hex()


def make_run_directory(root: str, name: str) -> RunDirectory:
    """Makes `root/name`, durably, for its owner alone. Raises FileExistsError where it exists.

    It is made under its own name, not renamed into place: only mkdir(2) refuses every name that exists (a
    rename replaces an empty directory), a watcher needs the time before `run.json` to put its watch there, and
    a directory without `run.json`, which appears whole, is no session yet.
    """
    path = os.path.join(root, name)
    os.makedirs(root, mode=0o700, exist_ok=True)
    os.mkdir(path, 0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    sync_directory(root)
    return RunDirectory(path, descriptor)


def process_json(identity: ProcessIdentity) -> dict[str, JsonValue]:
    """`process.json`: who the command is."""
    return {"pid": identity.pid, "start_ticks": identity.start_ticks, "boot_id": identity.boot_id}


def exit_json(ending: Ending) -> dict[str, JsonValue]:
    """`exit.json`: how it ended."""
    return {
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "cause": ending.cause,
        "error": ending.error,
        "finished_at": iso_time(ending.finished_at),
        "duration_s": round(ending.duration_s, 6),
        "survivors_killed": ending.survivors_killed,
    }


def iso_time(seconds: float) -> str:
    """Unix seconds as ISO 8601 in UTC with microseconds."""
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"


def as_text(argument: str) -> str:
    """An argument or path for JSON: bytes that are no UTF-8 are replaced."""
    return os.fsencode(argument).decode("utf-8", "replace")
