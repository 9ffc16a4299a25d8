"""Whether a JSON text has more values than are read: each takes far more memory than its text."""

import re
from typing import Final

MOST_VALUES: Final = 2_000_000
"""Values and keys of a line that are read."""
OF_A_LINE: Final = 1000
"""Values that a line may have beside the params or the output that it shows."""

_STRING_OR_BEGIN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{,]', re.DOTALL)


def has_more_values(text: bytes, most: int = MOST_VALUES) -> bool:
    """Whether so many values and keys stand in the text. Only those outside of strings count."""
    if len(text) <= most or text.count(b",") + text.count(b"[") + text.count(b"{") <= most:
        return False  # what begins a value is one of the three; some may stand in strings
    count = 0
    for found in _STRING_OR_BEGIN.finditer(text):
        count += text[found.start()] != 0x22
        if count > most:
            return True
    return False
