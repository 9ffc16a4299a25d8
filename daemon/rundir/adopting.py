"""After a restore: finding journal lines that already state what must be written, under another hash.

A restored store lacks what was judged after its backup, so the daemon judges those runs again. Their journals already
contain the lines: the same facts, with the hashes of events that no longer exist. Such a line is adopted where it is,
so that no line is written twice. Each line is adopted once, and never one that the store already knows.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.ports.journals import StandingLines
from runward.daemon.rundir.our_lines import SEARCHED, each_line
from runward.daemon.rundir.whole_lines import whole_lines
from runward.handlers.journal.added_fields import ADDED_FIELDS
from runward.handlers.layouts.foreign_json import read_json

_NOTHING: Final = frozenset[str]()
_HASH: Final = frozenset({"hash"})
_HOW_LATE: Final = frozenset({"hash", "ts", "t", "basis", "checked_at", "invocation_id"})
"""Fields that may also differ if the same fact was learned later: when it was noticed, and that the contract was."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")
"""What a hash looks like. Somebody changed any other value, so such a line doesn't count as Runward's."""

_LONGEST: Final = 1 << 20
"""The number of bytes of a line that are read; Runward's lines are shorter."""


class _Candidate(NamedTuple):
    line: bytes
    value: Mapping[str, JsonValue]


def as_they_stand(descriptor: int, size: int, content: bytes, known: Sequence[StandingLines]) -> bytes | None:
    """The existing counterparts of the lines of `content` in the first `size` bytes; None if there are none.

    `known` are the lines in this journal that the store knows. Raises `OSError`.
    """
    taken = {each.offset for each in each_line(known)}
    left = list(_candidates(descriptor, min(size, SEARCHED), taken))
    count = len(left)
    stands = b"".join(_adopted(line, left) for line in content.splitlines(keepends=True)) if left else b""
    return stands if len(left) < count else None


def _adopted(line: bytes, left: list[_Candidate]) -> bytes:
    """The existing counterpart of `line`, which is removed from `left`; `line` itself if there is none."""
    ours = read_json(line)
    if not isinstance(ours, dict):
        return line
    for ignored in (_NOTHING, _HASH, _HOW_LATE):
        for place, candidate in enumerate(left):
            lacking = ADDED_FIELDS - candidate.value.keys()
            if _without(candidate.value, ignored) == _without(ours, ignored | lacking):
                del left[place]
                return candidate.line
    return line


def _without(value: Mapping[str, JsonValue], ignored: frozenset[str]) -> dict[str, JsonValue]:
    return {key: each for key, each in value.items() if key not in ignored}


def _candidates(descriptor: int, size: int, taken: set[int]) -> Iterator[_Candidate]:
    """The whole lines with a hash like that of Runward's lines, except those at the places that are `taken`."""
    # A crash may have lost only the last newline. Without this the line would be closed off, and repeated after it.
    for offset, line in whole_lines(descriptor, size, _LONGEST):
        if offset in taken or b'"hash":"' not in line:
            continue
        value = read_json(line)
        digest = value.get("hash") if isinstance(value, dict) else None
        if isinstance(value, dict) and isinstance(digest, str) and _DIGEST.fullmatch(digest):
            yield _Candidate(line, value)
