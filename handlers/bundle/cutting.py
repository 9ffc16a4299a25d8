"""Cutting long texts: a bundle keeps the beginning and the end of a text, and records how long it was."""

from typing import Final

ELLIPSIS: Final = "…"


def cut(text: str, longest: int) -> str:
    """The text, or its first and last halves of `longest` characters if it is longer."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}{ELLIPSIS}{text[len(text) - half :]}"
