"""Merging and verifying as ADR-0029 writes them down (sections 4 and 6), over plain dictionaries and real paths.

It is what the project's own parts are held against, so it shares nothing with them. It follows links by path, which is
why it is no way to verify what may change meanwhile.
"""

import os
from pathlib import PurePosixPath
from typing import TypedDict


class Entry(TypedDict):
    """One expected artifact; `source` is there once it was merged."""

    id: str
    path: str
    required: bool
    source: str


class Result(TypedDict):
    """The verification object, without its time."""

    status: str
    missing_required: list[str]
    missing_optional: list[str]
    produced: list[tuple[str, str, int]]


def resolve(playbook: list[Entry] | None, agent: list[Entry] | None) -> list[Entry] | None:
    """The union by id; the playbook's entry replaces the agent's entirely. None where neither side declares."""
    if playbook is None and agent is None:
        return None
    by_id: dict[str, Entry] = {}
    for entry in agent or []:
        by_id[entry["id"]] = {**entry, "source": "agent_profile"}
    for entry in playbook or []:
        by_id[entry["id"]] = {**entry, "source": "playbook"}
    return list(by_id.values())


def verify(expected: list[Entry], root: str) -> Result:
    """What became of `expected` under `root`."""
    if not os.path.isdir(root):
        required = [entry["id"] for entry in expected if entry["required"]]
        optional = [entry["id"] for entry in expected if not entry["required"]]
        return Result(status="failed", missing_required=required, missing_optional=optional, produced=[])
    missing_required, missing_optional, produced = [], [], []
    for entry in expected:
        size = _size_of_delivery(root, entry["path"])
        if size > 0:
            produced.append((entry["id"], entry["path"], size))
        elif entry["required"]:
            missing_required.append(entry["id"])
        else:
            missing_optional.append(entry["id"])
    status = "failed" if missing_required else "warning" if missing_optional else "passed"
    return Result(
        status=status, missing_required=missing_required, missing_optional=missing_optional, produced=produced
    )


def _size_of_delivery(root: str, path: str) -> int:
    top = os.path.realpath(root)
    full = os.path.realpath(os.path.join(top, *PurePosixPath(path).parts))
    if not full.startswith(top + os.sep) or not os.path.isfile(full):
        return 0
    return os.path.getsize(full)
