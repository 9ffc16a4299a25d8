"""JSON for the launcher's small files, without the module `json`, which brings regular expressions with it.

It writes what `json.dumps(value, indent=2, ensure_ascii=False)` does, and refuses what JSON can't say.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runward.config.json_value import JsonValue

_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


def json_text(value: Mapping[str, JsonValue] | JsonValue, indent: str = "\n") -> str:
    """The value as JSON. Raises ValueError for a number that is not finite."""
    if isinstance(value, dict):
        return _enclosed(
            "{", [f"{_quoted(key)}: {json_text(value[key], indent + '  ')}" for key in value], "}", indent
        )
    if isinstance(value, list | tuple):
        return _enclosed("[", [json_text(each, indent + "  ") for each in value], "]", indent)
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        if value - value != 0:
            raise ValueError(f"{value} is not a JSON number")
        return float.__repr__(value)
    return int.__repr__(value)  # also of a signal, whose own says more


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _enclosed(opening: str, members: Sequence[str], closing: str, indent: str) -> str:
    if not members:
        return opening + closing
    inner = indent + "  "
    return f"{opening}{inner}{f',{inner}'.join(members)}{indent}{closing}"
