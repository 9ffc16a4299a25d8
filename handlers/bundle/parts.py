"""What the parts of a bundle are called."""

from typing import Final

REPLAY: Final = "REPLAY.jsonl"
RECEIPT: Final = "RECEIPT.json"
SUMMARY: Final = "PR_SUMMARY.md"

PARTS: Final = (REPLAY, SUMMARY, RECEIPT)
"""The parts by their plain names, in the order in which they are made."""


def part_name(plain: str, attempt: int) -> str:
    """The name of a part of an attempt's bundle: the plain one for the first attempt, later `REPLAY.2.jsonl` and so on."""
    if attempt == 1:
        return plain
    stem, _, ending = plain.rpartition(".")
    return f"{stem}.{attempt}.{ending}"


def part_names(attempt: int) -> tuple[str, ...]:
    """The names of all parts of an attempt's bundle."""
    return tuple(part_name(plain, attempt) for plain in PARTS)


def is_part_or_temporary(name: str) -> bool:
    """Whether a name is one that a part has, or has while it is written, or one under which is kept what had it before."""
    return name.removeprefix(".").startswith(("REPLAY.", "RECEIPT.", "PR_SUMMARY."))
