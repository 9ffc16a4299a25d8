"""The names of a bundle's parts."""

from typing import Final

REPLAY: Final = "REPLAY.jsonl"
RECEIPT: Final = "RECEIPT.json"
SUMMARY: Final = "PR_SUMMARY.md"

PARTS: Final = (REPLAY, SUMMARY, RECEIPT)
"""The parts by their plain names, in the order in which they are made."""


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
