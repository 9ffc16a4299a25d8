"""What must not stand in a log: the values of keys that name a secret, and texts that look like one.

A net below those who write lines: none of them logs a secret on purpose, but an error's text may carry one.
"""

import json
import re
from typing import Final

from runward.config.json_value import JsonValue

REDACTED: Final = "[redacted]"

_SUSPICIOUS: Final = re.compile(
    rb"sk-|gh[opsur]_|github_pat_|glpat-|xox|akia|asia|aiza|eyj|bearer|basic |private.?key|://|passw|passphrase"
    rb"|secret|token|api.?key|authorization|cookie|credential|access.?key"
)
"""Without one of these in its lowered text a line has nothing to hide; most lines end here."""

_SECRET_KEY: Final = re.compile(
    r"(?:password|passwd|passphrase|secrets?|token|api[-_]?key|authorization|cookies?|credentials?"
    r"|private[-_]?key|access[-_]?key)$",
    re.IGNORECASE,
)
_SECRET_TEXT: Final = re.compile(
    r"""
      \bsk-[\w-]{16,}                                       # OpenAI, Anthropic
    | \bgh[opsur]_\w{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
    | \bxox[a-z]-[\w-]{10,}                                 # Slack
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b | \bAIza[\w-]{30,}      # Amazon, Google
    | \beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?                # a JSON Web Token
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | (?<=://)[^/\s:@]{0,64}:[^/\s@]{1,256}(?=@)            # user:password@ in an address
    | (?i:(?<=bearer\ )|(?<=basic\ ))[\w.~+/=-]{8,}
    """,
    re.VERBOSE | re.DOTALL,
)
_ASSIGNED: Final = re.compile(
    r"""((?:passw(?:or)?d|passphrase|secret|token|api[-_]?key|authorization|cookie)['"]?\s*[=:]\s*['"]?)"""
    r"""[^\s'"&;,?]{6,}""",
    re.IGNORECASE,
)


def without_secrets(line: bytes) -> bytes:
    """A line of JSON, or what is left of it when everything that looks like a secret is `[redacted]`."""
    if _SUSPICIOUS.search(line.lower()) is None:
        return line
    value: JsonValue = json.loads(line)
    cleaned = _cleaned(value)
    return line if cleaned == value else json.dumps(cleaned).encode()


def text_without_secrets(text: str) -> str:
    """A text in which what looks like a secret is `[redacted]`."""
    return _ASSIGNED.sub(rf"\g<1>{REDACTED}", _SECRET_TEXT.sub(REDACTED, text))


def _cleaned(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return text_without_secrets(value)
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    if isinstance(value, dict):
        return {
            text_without_secrets(key): REDACTED if _names_secret(key, each) else _cleaned(each)
            for key, each in value.items()
        }
    return value


def _names_secret(key: str, value: JsonValue) -> bool:
    """Whether the key says that its value is a secret; a number or none at all is a count or a switch."""
    return isinstance(value, str | list | dict) and _SECRET_KEY.search(key) is not None
