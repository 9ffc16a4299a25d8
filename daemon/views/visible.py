"""Foreign text on pages: nothing in it is invisible, or changes how other text looks."""

import unicodedata


def visible(text: str) -> str:
    """The text with every character escaped that is invisible, or that changes the order in which others are seen."""
    return "".join(
        char if char == "\n" or unicodedata.category(char)[0] != "C" else f"\\u{ord(char):04x}"
        for char in text
    )
