"""What readers of reports have in common: a report comes in pieces, and of its findings only so many are kept."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from runward.config.json_value import JsonValue

Pieces: TypeAlias = Callable[[], Iterable[bytes]]
"""Gives a report from its beginning, piece by piece, each time it is called."""

LARGEST_OUTCOME: Final = 256 << 10
"""Bytes of an outcome, as JSON."""

MOST_FINDINGS: Final = 1000
"""Findings, or failed tests, that an outcome keeps."""

DEEPEST: Final = 64
"""Levels of a report: elements in elements, or objects in objects."""

LONGEST_NAME: Final = 200

LONGEST_TEXT: Final = 500
"""Characters that are kept of names and texts."""

_SHORTER: Final = (LONGEST_TEXT, 200, 100, 50)

_REST: Final = 16 << 10
"""Bytes of an outcome without its findings, at most."""


class NotAReport(Exception):
    """A file is not a report that can be read, and why. The text continues its name, as in "is not a SARIF log"."""


class Gaps(NamedTuple):
    """Why a report doesn't prove that everything is well, although it names no error. Empty if it does."""

    texts: Sequence[str]

    def verdict(self, failed: int) -> bool | None:
        """Whether what was checked `passed`."""
        if failed:
            return False
        return None if self.texts else True

    def summary(self, counts: str) -> str:
        """The counts, and what they leave open."""
        few = list(dict.fromkeys(self.texts))
        more = [f"{len(few) - 3} more"] if len(few) > 3 else []
        return "; ".join([counts, *few[:3], *more])[: 2 * LONGEST_TEXT]


def fitting(items: Sequence[dict[str, JsonValue]], text: str) -> list[JsonValue]:
    """As many of the first items as an outcome has room for. Their texts, under the key `text`, are cut first."""
    fitted: list[dict[str, JsonValue]] = []
    for longest in _SHORTER:
        fitted = [{**each, text: str(each[text])[:longest]} for each in items[:MOST_FINDINGS]]
        if sum(map(_size, fitted)) <= LARGEST_OUTCOME - _REST:
            return list(fitted)
    left = LARGEST_OUTCOME - _REST
    kept: list[JsonValue] = []
    for each in fitted:
        left -= _size(each)
        if left < 0:
            break
        kept.append(each)
    return kept


def _size(item: dict[str, JsonValue]) -> int:
    return len(msgspec.json.encode(item)) + 2
