"""What is found where artifacts are expected. It imports little, because commands and launchers start with it."""

import unicodedata
from typing import Final

from runward.config.problem import quoted

RULES: Final = "rules"
"""The key of the stored verification that ADR-0029's object doesn't have."""


def there_is(near: str, wanted: str) -> str:
    """Names the file that is nearly the one that is `wanted`, or one of a glob. Names that look the same are spelled out."""
    shown, meant = unicodedata.normalize("NFC", near), unicodedata.normalize("NFC", wanted)
    if shown == meant or (not shown.isascii() and _matches(shown, meant)):
        return f"there is {near!a}, in another Unicode form than {wanted!a}"
    return f"there is {quoted(near)}"


def _matches(path: str, glob: str) -> bool:
    from runward.config.glob_rule import path_matches  # only what is nearly there pays for this

    return path_matches(f"/{path}", f"/{glob}")
