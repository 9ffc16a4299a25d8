"""JSON as commands print it and as pages answer it."""

import json

from runward.config.json_value import JsonValue


def json_text(value: JsonValue, indent: int | None = None) -> str:
    """The value as JSON in which everything that a terminal might obey is escaped, as JSON may escape it.

    A byte of a path that is not UTF-8 is U+0000 and its two hexadecimal digits: no path has a U+0000, and half a
    surrogate pair, which Python has there, is refused by strict readers.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(each if each == "\n" or each.isprintable() else _json_escape(each) for each in text)


def _json_escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\u0000{code - 0xDC00:02x}"
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else json.dumps(character)[1:-1]
