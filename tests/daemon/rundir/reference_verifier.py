"""Merging and verifying as ADR-0029 writes them down (sections 4 and 6), over plain dictionaries and real paths.

It is what the project's own parts are held against, so it shares nothing with them. It follows links by path, which is
why it is no way to verify what may change meanwhile. The delivery is the project's own word, counted here once more.
"""

import os
from pathlib import PurePosixPath
from typing import NotRequired, TypedDict


class Entry(TypedDict):
    """One expected artifact as it was declared; `source` is there once it was merged."""

    id: str
    path: str
    required: NotRequired[bool]
    description: NotRequired[str]
    kind: NotRequired[str]
    source: NotRequired[str]


class Result(TypedDict):
    """The verification object, without its time, and what it amounts to."""

    status: str
    missing_required: list[str]
    missing_optional: list[str]
    produced: list[tuple[str, str, int]]
    delivery: str


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
        required = [entry["id"] for entry in expected if entry.get("required", True)]
        optional = [entry["id"] for entry in expected if not entry.get("required", True)]
        return Result(
            status="failed",
            missing_required=required,
            missing_optional=optional,
            produced=[],
            delivery="missing",
        )
    missing_required, missing_optional, produced = [], [], []
    absent = 0
    for entry in expected:
        size, is_absent = _found(root, entry["path"])
        if size > 0:
            produced.append((entry["id"], entry["path"], size))
        elif entry.get("required", True):
            missing_required.append(entry["id"])
            absent += is_absent
        else:
            missing_optional.append(entry["id"])
    status = "failed" if missing_required else "warning" if missing_optional else "passed"
    required = [entry["id"] for entry in expected if entry.get("required", True)]
    return Result(
        status=status,
        missing_required=missing_required,
        missing_optional=missing_optional,
        produced=produced,
        delivery=_delivery(len(required), len(missing_required), absent),
    )


def _delivery(required: int, missing: int, absent: int) -> str:
    if missing == 0:
        return "passed"
    if absent == 0:
        return "invalid"
    return "missing" if missing == required else "partial"


def _found(root: str, path: str) -> tuple[int, bool]:
    """The bytes that count as delivered there, and whether there is nothing at all."""
    top = os.path.realpath(root)
    full = os.path.realpath(os.path.join(top, *PurePosixPath(path).parts))
    if full != top and not full.startswith(top + os.sep):
        return 0, False
    if os.path.isfile(full):
        return os.path.getsize(full), False
    try:
        os.stat(full)
    except (FileNotFoundError, NotADirectoryError):
        return 0, True
    except OSError:
        return 0, False  # a loop of links
    return 0, False
