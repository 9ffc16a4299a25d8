"""The names of a bundle's parts, and of what else Runward writes into a run directory."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from typing import Final

REPLAY: Final = "REPLAY.jsonl"
RECEIPT: Final = "RECEIPT.json"
SUMMARY: Final = "PR_SUMMARY.md"

PARTS: Final = (REPLAY, SUMMARY, RECEIPT)
"""The parts by their plain names, in the order in which they are made."""

OURS: Final = frozenset({"events.jsonl", "results.jsonl", "cancel.json"})
"""Names in a run directory that Runward writes, besides the parts of a bundle."""


def part_name(plain: str, attempt: int) -> str:
    """The name of a part of an attempt's bundle: plain for the first attempt, later `REPLAY.2.jsonl` and so on."""
    if attempt == 1:
        return plain
    stem, _, ending = plain.rpartition(".")
    return f"{stem}.{attempt}.{ending}"


def part_names(attempt: int) -> tuple[str, ...]:
    """The names of all parts of an attempt's bundle."""
    return tuple(part_name(plain, attempt) for plain in PARTS)


def is_part_or_temporary(name: str) -> bool:
    """Whether a part has this name, or has it while it is written, or whether it keeps what had the name before."""
    return name.removeprefix(".").startswith(("REPLAY.", "RECEIPT.", "PR_SUMMARY."))
