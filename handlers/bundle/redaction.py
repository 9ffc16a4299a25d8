"""What a bundle doesn't show: values that the name of their key, or their own form, marks as secrets.

Hashes cover the original values. Only what is written is redacted, and a JSON Pointer names each place.
"""

from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.secrets import REDACTED, names_secret, secrets_with

_SHORTEST: Final = 4
"""Length of the shortest text that may look like a secret: `pw=x`. An operator's own pattern may match shorter ones."""
_KEYS_KEPT: Final = 1024


class Redaction:
    """Redacts values. `patterns` are the operator's, in RE2's syntax. Raises `BadPattern`."""

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._secrets = secrets_with(patterns)
        self._shortest = 1 if patterns else _SHORTEST
        self._keys: dict[str, bool] = {}

    def text(self, text: str) -> str:
        """The text without what looks like a secret. It is unchanged if nothing does."""
        return text if len(text) < self._shortest else self._secrets.without(text)

    def is_secret(self, key: str) -> bool:
        """Whether a key is itself a secret. Cached, because most keys occur again and again."""
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= _KEYS_KEPT:
                self._keys.clear()
            known = self._keys[key] = self.text(key) != key
        return known

    def key(self, key: str, value: JsonValue) -> bool:
        """Whether a key names a secret, and its value is one."""
        return names_secret(key, value) and value not in ("", [], {})


def pointer(parent: str, key: str | int) -> str:
    """The JSON Pointer (RFC 6901) of what is under this key or index."""
    if isinstance(key, int):
        return f"{parent}/{key}"
    return f"{parent}/{key.replace('~', '~0').replace('/', '~1')}"


def free_key(taken: dict[str, JsonValue]) -> str:
    """A name for a key that was a secret itself."""
    name, number = REDACTED, 2
    while name in taken:
        name, number = f"{REDACTED} {number}", number + 1
    return name
