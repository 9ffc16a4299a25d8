"""What must not appear in a log or a bundle: the values of keys that name a secret, and texts that look like one.

The expressions are RE2's: its time is linear in the text, whatever an agent wrote and an operator configured.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.linear_pattern import LinearPattern, compiled, compiled_together

REDACTED: Final = "[redacted]"

_SUSPICIOUS: Final = re.compile(
    rb"sk-|gh[opsur]_|github_pat_|glpat-|xox|akia|asia|aiza|eyj|bearer|basic |private.?key|://|passw|passphrase"
    rb"|secret|token|api.?key|authorization|cookie|credential|access.?key"
)
"""A line whose lower-case text has none of these has nothing to hide. Most lines end here."""

_SECRET_KEY: Final = re.compile(
    r"(?:password|passwd|passphrase|secrets?|token|api[-_]?key|authorization|cookies?|credentials?"
    r"|private[-_]?key|access[-_]?key|secret[-_]?key)$",
    re.IGNORECASE,
)
_KNOWN: Final = (
    r"\bsk-[\w-]{16,}",  # OpenAI, Anthropic
    r"\bgh[opsur]_\w{20,}",
    r"\bgithub_pat_\w{20,}",
    r"\bglpat-[\w-]{16,}",
    r"\bxox[a-z]-[\w-]{10,}",  # Slack
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",  # Amazon
    r"\bAIza[\w-]{30,}",  # Google
    r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",  # a JSON Web Token
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.)*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
)
_SHAPES: Final = "|".join(_KNOWN)
_ADDRESS: Final = r"(://)[^/\s:@]{0,64}:[^/\s@]{1,256}(@)"
"""user:password@ in an address."""

_HEADER: Final = r"(?i)(\b(?:bearer|basic) )[\w.~+/=-]{8,}"
_ASSIGNED: Final = (
    r"(?i)((?:passw(?:or)?d|passphrase|secret|token|api[-_]?key|authorization|cookie)['\"]?\s*[=:]\s*['\"]?)"
    r"[^\s'\"&;,?]{6,}"
)


class Secrets:
    """What looks like a secret: the known shapes, and further `patterns` of the operator's. Raises `BadPattern`."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        own = tuple(patterns)
        self._in_turn: Sequence[tuple[LinearPattern, str]] = (
            (compiled(_SHAPES), REDACTED),
            (compiled(_ADDRESS), rf"\1{REDACTED}\2"),
            (compiled(_HEADER), rf"\1{REDACTED}"),
            (compiled(_ASSIGNED), rf"\1{REDACTED}"),
            *((compiled(each), REDACTED) for each in own),
        )
        self._found = compiled_together((_SHAPES, _ADDRESS, _HEADER, _ASSIGNED, *own)).Match

    def without(self, text: str) -> str:
        """The text, with `[redacted]` for everything that looks like a secret. It is unchanged if nothing does."""
        if not self._found(text):
            return text
        for pattern, instead in self._in_turn:
            text = pattern.sub(instead, text)
        return text


@cache
def _usual() -> Secrets:
    return Secrets()


def without_secrets(line: bytes) -> bytes:
    """A line of JSON, or what is left of it when everything that looks like a secret is `[redacted]`."""
    if _SUSPICIOUS.search(line.lower()) is None:
        return line
    value: JsonValue = json.loads(line)
    cleaned = _cleaned(value, _usual().without)
    return line if cleaned == value else json.dumps(cleaned).encode()


def text_without_secrets(text: str) -> str:
    """A text with `[redacted]` for everything that looks like a secret."""
    return _usual().without(text)


def _cleaned(value: JsonValue, without: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return without(value)
    if isinstance(value, list):
        return [_cleaned(each, without) for each in value]
    if isinstance(value, dict):
        return {
            without(key): REDACTED if names_secret(key, each) else _cleaned(each, without)
            for key, each in value.items()
        }
    return value


def names_secret(key: str, value: JsonValue) -> bool:
    """Whether the key says that its value is a secret. A number, a boolean or null is only a count or a switch."""
    return isinstance(value, str | list | dict) and _is_secret_key(key)


@lru_cache(maxsize=1024)
def _is_secret_key(key: str) -> bool:
    return _SECRET_KEY.search(key[-64:]) is not None
