"""The typed outcome that a run left: `outcome.json` in its run directory, or among its artifacts."""

import os
from typing import Final

from runward.config.json_value import JsonValue
from runward.daemon.rundir.opening import unreadable
from runward.daemon.rundir.tailing import NotRegular, open_in_run
from runward.handlers.layouts.foreign_json import NotJson, read_json
from runward.handlers.unreadable import Unreadable

OUTCOME: Final = "outcome.json"
LARGEST: Final = 256 << 10
"""Bytes of an outcome's file."""


def outcome_in(path: str, artifacts_path: str) -> dict[str, JsonValue] | Unreadable | None:
    """The outcome of the run in the directory `path`, the one among its artifacts first; None without a valid one.

    An outcome is a JSON object that names its `outcome_kind`. What can't be an outcome counts as not produced.
    """
    for directory in (artifacts_path, path):
        try:
            descriptor = open_in_run(directory, OUTCOME)
        except (FileNotFoundError, NotADirectoryError, NotRegular):
            continue
        except OSError as error:
            return unreadable(error)
        try:
            content = os.pread(descriptor, LARGEST + 1, 0)
        except OSError as error:
            return unreadable(error)
        finally:
            os.close(descriptor)
        found = read_json(content) if len(content) <= LARGEST else NotJson("is too large")
        if isinstance(found, dict) and isinstance(found.get("outcome_kind"), str):
            return found
    return None
