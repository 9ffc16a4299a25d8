"""Two sessions side by side: where their calls diverge, and how many they have in common."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from runward.handlers.bundle.told_calls import ToldCall


class Divergence(NamedTuple):
    """The first call that differs, counted from 0; a side that has no further call has None."""

    at: int
    left: ToldCall | None
    right: ToldCall | None


class Alignment(NamedTuple):
    """How many calls are the same, how many were the same but had different results, how many only one side made."""

    same: int
    changed: int
    left_only: int
    right_only: int


def first_divergence(left: Sequence[ToldCall], right: Sequence[ToldCall]) -> Divergence | None:
    """Where the calls diverge. None if they are the same."""
    for index in range(max(len(left), len(right))):
        ours = left[index] if index < len(left) else None
        theirs = right[index] if index < len(right) else None
        if ours is None or theirs is None or ours.same != theirs.same:
            return Divergence(index, ours, theirs)
    return None


def aligned(left: Sequence[ToldCall], right: Sequence[ToldCall]) -> Alignment:
    """The calls of both, aligned by what was called."""
    matcher = SequenceMatcher(
        None, [each.made for each in left], [each.made for each in right], autojunk=False
    )
    same = changed = matched = 0
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            is_same = left[block.a + offset].same == right[block.b + offset].same
            same, changed = same + is_same, changed + (not is_same)
        matched += block.size
    return Alignment(same, changed, len(left) - matched, len(right) - matched)
