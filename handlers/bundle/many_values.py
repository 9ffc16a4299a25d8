"""Whether a JSON text has too many values to read: each takes far more memory than its text."""

import re
from typing import Final

MOST_VALUES: Final = 2_000_000
"""Values and keys of a line that are read."""
OF_A_LINE: Final = 1000
"""Values that a line may have besides the params or the output that it shows."""

_STRING_OR_BEGIN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{,]', re.DOTALL)


def has_more_values(text: bytes, most: int = MOST_VALUES) -> bool:
    """Whether the text has this many values and keys. Only those outside of strings count."""
    if len(text) <= most or text.count(b",") + text.count(b"[") + text.count(b"{") <= most:
        return False  # every value begins with one of the three; some may be in strings
    count = 0
    for found in _STRING_OR_BEGIN.finditer(text):
        count += text[found.start()] != 0x22
        if count > most:
            return True
    return False
