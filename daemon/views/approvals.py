"""Approvals as programs read them: the objects of `chain approvals --json`; and what a page shows of one."""

import json
import shlex
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.store.reading_chains import ApprovalRow
from runward.daemon.views.text import iso, visible
from runward.handlers.left_files import ELSEWHERE, as_lines, unbound

_MOST_SHOWN: Final = 256 << 10
"""Characters of each part; the hash covers all of it."""


class ShownApproval(NamedTuple):
    """What a page shows of an approval, with nothing invisible in it. `parts` are titles and texts.

    `unbound` are the files that it can't cover: the path, how it is shown, and why.
    """

    command: str
    parts: list[tuple[str, str]]
    unbound: list[tuple[str, str, str]]


def step_id(row: ApprovalRow) -> str:
    """The id of the step that waits."""
    step = json.loads(row.definition)["steps"][row.step]
    return str(step.get("id", f"step{row.step}"))


def approval_as_json(row: ApprovalRow) -> dict[str, JsonValue]:
    """An approval, with all that it is bound to."""
    return {
        "approval_id": row.id,
        "chain_run_id": row.run,
        "chain": row.chain,
        "step": {"index": row.step, "id": step_id(row)},
        "shown_hash": row.shown_hash,
        "shown": json.loads(row.shown),
        "asked_at": iso(row.asked_at),
        "expires_at": None if row.expires_at is None else iso(row.expires_at),
        "asked_before": row.asked_before,
        "not_covered": [{"path": path, "why": what} for path, what in unbound(json.loads(row.shown)).items()],
    }


def shown_approval(row: ApprovalRow) -> ShownApproval:
    """What a person decides about."""
    shown = json.loads(row.shown)
    files = as_lines(shown)
    parts = [
        ("Directory", visible(str(shown["cwd"])) if shown.get("cwd") else ""),
        ("Variables", _listed(shown.get("env"))),
        ("Outcomes before it", _listed(shown.get("outcomes"))),
        ("Files before it, which the approval covers", visible("\n".join(files))),
        ("What it does not cover", ELSEWHERE if files else ""),
    ]
    return ShownApproval(
        visible(shlex.join(shown["argv"]))[:_MOST_SHOWN],
        [(title, text[:_MOST_SHOWN]) for title, text in parts if text],
        [(path, visible(path), what) for path, what in unbound(shown).items()],
    )


def _listed(value: JsonValue) -> str:
    return visible(json.dumps(value, ensure_ascii=False, indent=2)) if value else ""
