"""What must not appear in a log, a bundle or a page: values of keys that name a secret, and texts that look like one.

The expressions are RE2's: its time is linear in the text, whatever an agent wrote and an operator configured. First one pass
looks for the keywords of all rules. Then only the rules whose keywords the text has are tried, each in a pass of its own.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.linear_pattern import LinearMatch, compiled, compiled_together
from runward.handlers.secret_shapes import RULES, Rule

REDACTED: Final = "[redacted]"

# The two long expressions are compiled when they are first used: commands that show no text don't wait for them.

# Names of secrets -----------------------------------------------------------------------------------------------------

_WORDS: Final = (
    r"passw(?:or)?ds?|passwrd|passphrase|passcode|secrets?|token|credentials?"
    r"|(?:api|access|account|auth|client|crypto|database|db|decrypt(?:ion)?|deploy|encrypt(?:ion)?|hmac|license|master"
    r"|priv(?:ate)?|secret|service|shared|sign(?:ing)?|ssh|storage|subscription|webhook)[-_. ]?key"
    r"|(?:github|gitlab|gh|azure|ado|devops|jira|personal)[-_]?pat"
)
"""What a name of a secret ends with, whatever is before it."""
_SHORT_WORDS: Final = r"pass|pwd|creds"
"""The same, but only as a word of the name: `DB_PASS`, `dbPass`, not `bypass`."""
_TAIL: Final = (
    r"(?:[-_]?(?:pem|der|base(?:64)?|b64|hash|value|string|plain|raw|old|new|prod(?:uction)?|dev|staging|live|test))?"
    r"(?:[-_]?\d{1,3})?"
)
"""What may follow the word without changing what the name is: `privateKeyPem`, `SECRET_KEY_BASE`, `PASSWORD_2`."""

_SECRET_KEY: Final = (
    rf"(?:(?:{_WORDS}|authorization|cookies?)|(?:\b|_)(?:{_SHORT_WORDS}|auth)|(?-i:[a-z](?:P(?:ass|wd)|Creds)|_PAT))"
    rf"{_TAIL}$"
)
_LONGEST_NAME: Final = 64

# Rules ----------------------------------------------------------------------------------------------------------------

_NAME: Final = (
    rf"((?:\w?[-_.]?(?:{_WORDS})|(?:\w*_|\b)(?:{_SHORT_WORDS})|(?-i:[a-z](?:P(?:ass|wd)|Creds)|_PAT)){_TAIL})"
)
_QUOTED: Final = (
    r"\"(?:[^\"\\\n]|\\.)+|'(?:[^'\\\n]|\\.)+|\x60[^\x60\n]+"
    r"|\\+\"(?:[^\"\\\n]|\\+[^\"\\\n])+|\\+'(?:[^'\\\n]|\\+[^'\\\n])+"
)
"""A value with its first quote. In a JSON text inside a JSON text, the quotes have backslashes."""
_BARE: Final = r"[^\s\"'\x60\\]+(?:(?:\\+|[\"'\x60]\w)[^\s\"'\x60\\]+)*"
_BARE_ARGUMENT: Final = r"[^\s\"'\x60\\-][^\s\"'\x60]*"
_BETWEEN: Final = r"[\]\[\d'\"\\]{0,8}[ \t]*(?:=>|:=|[!=]=?=?|:)[ \t]*@?"
_ASSIGNED: Final = rf"(?i){_NAME}(?:({_BETWEEN})({_QUOTED}|{_BARE})|(?:[ \t]*\(|[ \t]+)({_QUOTED}))"
_OPTION: Final = rf"(?i)--?[\w-]*?{_NAME}[ \t]+({_QUOTED}|{_BARE_ARGUMENT})"
_SCHEME: Final = r"(?i)\b(?:bearer|(basic)) +([\w.~+/=-]{8,})"
_HEADER: Final = (
    r"(?i)\b(?:(?:proxy-)?authorization|(?:set-)?cookie2?)\\*['\"]?[ \t]*(?:={1,3}|:)[ \t]*\\*['\"]?"
    r"(digest [^\r\n]+|[^\s'\"\\=][^'\"\\\r\n]*)"
)
"""The rest of the line: the scheme is not known, and a cookie has spaces."""
_ADDRESS: Final = r"://[^\s/:\"'<>]{0,64}:([^\s\"'<>]+)@"
"""user:password@ in an address. A password may contain `/` and `@`, so it ends at the last `@` of the word."""
_USER: Final = r"(?:^|\s)(?:-u|--user|--proxy-user)[ =]?['\"]?[^\s:'\"]*[A-Za-z][^\s:'\"]*:([^\s'\"]+)"
_LOGIN: Final = r"\blogin\s+\S+\s+password\s+(\S+)"
"""A line of ~/.netrc."""
_KNOWN: Final = (
    r"\bsk-[\w-]{16,}"  # OpenAI, Anthropic
    r"|\bgh[opsur]_\w{20,}"
    r"|\bgithub_pat_\w{20,}"
    r"|\bglpat-[\w-]{16,}"
    r"|\bxox[a-z]-[\w-]{10,}"  # Slack
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # Amazon
    r"|\bAIza[\w-]{30,}"  # Google
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"  # a JSON Web Token
)
_PRIVATE_KEY: Final = (
    r"----[- ]BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-?[- ]----(?s:.)*?"
    r"(?:----[- ]END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-?[- ]----|\z)"
)

_PLACEHOLDER: Final = (
    r"(?:\?|\.{3}|…|\*+|null|nil|none|true|false|undefined|str(?:ing)?|bytes|int|bool(?:ean)?|any|object|dict|list"
    r"|\$\{?(?-i:[A-Z_][A-Z0-9_]*)\}?|\$\d|%s|\{\w{0,30}\}|<[\w -]{1,40}>|\[redacted\])[,;)\]}]*"
)
"""A value that only stands for one: a type, a variable, a placeholder."""
_COUNT: Final = re.compile(r"\d{1,6}[,;)\]}.]*", re.ASCII)
_PATH: Final = re.compile(r"/[\w./-]*[,;]?")
_TEST: Final = re.compile(r"\[?[\"']?[\w./-]*(?:::\w+)*")
_PORT: Final = re.compile(r"\d{1,5}[/?#]", re.ASCII)
_LISTS: Final = ("to_pass",)
"""Ends of names that only look like names of secrets: lists of tests that are to pass."""
_WORDS_OF_PROSE: Final = ("token", "secret", "secrets", "pass")
_SHORTEST_IN_PROSE: Final = 6
"""Characters of a word after `token: `, which prose and code have as well. `token=` is an assignment."""


_QUOTES: Final = "\"'`"


class _OwnRule(NamedTuple):
    """An expression for texts in which one of `hints` is found, in any case.

    The secret is the last group that takes part in a match, or all of it. `is_secret` judges the match and the secret.
    """

    hints: tuple[str, ...]
    pattern: str
    is_secret: Callable[[LinearMatch, str], bool] = lambda _match, _value: True


def _is_value(match: LinearMatch, value: str) -> bool:
    """Whether a value that follows a secret's name can be the secret.

    A value that is kept must not contain a name and a value itself, because it is not searched again.
    """
    name, between, assigned, _ = match.groups()
    name = (name or "").lower()
    if _stands_for_secret(value) or not any(each.isalnum() for each in value):
        return False
    if name.endswith("pwd") and _PATH.fullmatch(value):
        return False
    if name.endswith(_LISTS) and _TEST.fullmatch(value):
        return False
    if name.endswith(("token", "secret")) and _COUNT.fullmatch(value):
        return False
    is_prose = name.lstrip("-.") in _WORDS_OF_PROSE and between != "=" and assigned == value
    return not (is_prose and value.isalnum() and len(value) < _SHORTEST_IN_PROSE)


def _stands_for_secret(value: str) -> bool:
    return re.fullmatch(_PLACEHOLDER, value, re.IGNORECASE) is not None


def _is_option(_match: LinearMatch, value: str) -> bool:
    return not _stands_for_secret(value)


def _is_credential(match: LinearMatch, value: str) -> bool:
    """Words of prose follow Basic as well: "basic authentication"."""
    return match.groups()[0] is None or not (value.isalpha() and value.islower())


def _is_password(_match: LinearMatch, value: str) -> bool:
    """What follows the colon may also be a port: `http://localhost:4873/@scope/name`."""
    return _PORT.match(value) is None or "://" in value


_ANY_NAME: Final = rf"(?:{_WORDS}|{_SHORT_WORDS}|(?-i:_PAT)){_TAIL}"
_OWN: Final = (
    _OwnRule(
        ("sk-", "gh[opsur]_", "github_pat_", "glpat-", "xox[a-z]-", "akia", "asia", "aiza", r"eyj[\w-]{8}"),
        _KNOWN,
    ),
    _OwnRule(("---- begin", "-----begin"), _PRIVATE_KEY),
    _OwnRule((r"://[^\s/:\"'<>]*:",), _ADDRESS, _is_password),
    _OwnRule((r"(?:auth(?:orization)?|cookies?2?)\\*['\"]?[ \t]*[=:]",), _HEADER),
    _OwnRule(("bearer ", "basic "), _SCHEME, _is_credential),
    _OwnRule(
        (rf"{_ANY_NAME}[\]\[\d'\"\\]*[ \t]*(?:[=:]|!=|\([\"'\x60]|[ \t][\"'\x60])",), _ASSIGNED, _is_value
    ),
    _OwnRule((rf"-[\w-]*{_ANY_NAME}[ \t\"]",), _OPTION, _is_option),
    _OwnRule((r"(?:^|\s)(?:-u|--user|--proxy-user)[ =]?['\"]?[^\s:'\"]+:",), _USER),
    _OwnRule((r"\blogin\s",), _LOGIN),
)
_SHARPER: Final = {
    "sk": r"(?-i:SK)[0-9a-f]{8}",
    "s.": r"\bs\.[a-z0-9]{12}",
    "pat.": r"pat\.[\w-]{12}",
    "sat.": r"sat\.[\w-]{12}",
    "a3-": r"\ba3-[a-z0-9]{6}-",
    "ops_": "ops_eyj",
    "live_": r"live_[\w=-]{8}",
    "test_": r"test_[a-f0-9]{8}",
    "_pub": r"_pub_[a-f0-9]",
    "sc_": r"\bsc_[a-z0-9]+\.[a-z0-9]+\.acc",
    "ext_": r"\bext_[a-z0-9]+\.[a-z0-9]+\.acc",
    "intra": "s-s4t2",
}
"""Instead of keywords that ordinary text has as well. Each text in which something is found costs further passes."""


class Secrets:
    """What looks like a secret: the known shapes, and further `patterns` of the operator's. Raises `BadPattern`."""

    def __init__(self, patterns: Iterable[str]) -> None:
        by_hint: dict[str, list[_OwnRule | Rule | str]] = {}
        for own in _OWN:
            for hint in own.hints:
                by_hint.setdefault(f"(?i){hint}", []).append(own)
        for rule in RULES:
            for keyword in rule.keywords:
                by_hint.setdefault(f"(?i){_SHARPER.get(keyword, re.escape(keyword))}", []).append(rule)
        for pattern in patterns:
            compiled(pattern)
            by_hint.setdefault(pattern, []).append(pattern)
        self._rules = tuple(by_hint.values())
        self._find = compiled_together(tuple(by_hint)).Match

    def without(self, text: str) -> str:
        """The text, with `[redacted]` for everything that looks like a secret. It is unchanged if nothing does."""
        hints = self._find(text)
        if not hints:
            return text
        for rule in dict.fromkeys(rule for hint in sorted(hints) for rule in self._rules[hint]):
            text = _without(rule, text)
        return text

    def may_be_in(self, line: bytes) -> bool:
        """Whether anything in a line of UTF-8 hints at a secret."""
        return bool(self._find(line))


def _without(rule: _OwnRule | Rule | str, text: str) -> str:
    if isinstance(rule, str):
        return compiled(rule).sub(REDACTED, text)

    def instead(match: LinearMatch) -> str:
        groups = match.groups()
        numbers = [number for number, each in enumerate(groups, 1) if each is not None] or [0]
        whole, first = match[0], match.start()
        if isinstance(rule, Rule):
            number = numbers[0] if rule.group is None else rule.group
            start, end = match.start(number) - first, match.end(number) - first
        else:
            start, end = match.start(numbers[-1]) - first, match.end(numbers[-1]) - first
            value = whole[start:end]
            start = end - len(value.lstrip("\\").lstrip(_QUOTES))
            if not rule.is_secret(match, whole[start:end]):
                return whole
        return f"{whole[:start]}{REDACTED}{whole[end:]}"

    return compiled(rule.pattern).sub(instead, text)


@cache
def secrets_with(patterns: tuple[str, ...] = ()) -> Secrets:
    """The known shapes and these `patterns`, read once. Raises `BadPattern`."""
    return Secrets(patterns)


def without_secrets(line: bytes) -> bytes:
    """A line of JSON, or what is left of it when everything that looks like a secret is `[redacted]`."""
    if not secrets_with().may_be_in(line):
        return line
    value: JsonValue = json.loads(line)
    cleaned = json_without_secrets(value)
    return line if cleaned == value else json.dumps(cleaned).encode()


def text_without_secrets(text: str, patterns: tuple[str, ...] = ()) -> str:
    """A text with `[redacted]` for everything that looks like a secret, also by the operator's `patterns`."""
    return secrets_with(patterns).without(text)


def json_without_secrets(value: JsonValue, patterns: tuple[str, ...] = ()) -> JsonValue:
    """A value with `[redacted]` for everything that its key, its looks or the operator's `patterns` mark as a secret."""
    without = secrets_with(patterns).without
    if isinstance(value, str):
        return without(value)
    if isinstance(value, list):
        return [
            REDACTED if is_argument_of_secret(before, each) else json_without_secrets(each, patterns)
            for before, each in zip([None, *value], value, strict=False)
        ]
    if isinstance(value, dict):
        return {
            without(key): REDACTED if names_secret(key, each) else json_without_secrets(each, patterns)
            for key, each in value.items()
        }
    return value


def without_secrets_in(values: dict[str, JsonValue], patterns: tuple[str, ...] = ()) -> dict[str, JsonValue]:
    """Like `json_without_secrets`, for an object."""
    cleaned = json_without_secrets(values, patterns)
    assert isinstance(cleaned, dict)
    return cleaned


def names_secret(key: str, value: JsonValue) -> bool:
    """Whether the key says that its value is a secret. A number, a boolean or null is only a count or a switch."""
    if not isinstance(value, str | list | dict) or not _is_secret_key(key):
        return False
    return isinstance(value, str) or not key.lower().endswith(_LISTS)


def is_argument_of_secret(option: JsonValue, value: JsonValue) -> bool:
    """Whether a word of a command is a secret, because the word before it is an option such as `--password`."""
    if not isinstance(option, str) or not option.startswith("-") or not isinstance(value, str):
        return False
    return _is_secret_key(option) and not value.startswith("-") and not _stands_for_secret(value)


@lru_cache(maxsize=1024)
def _is_secret_key(key: str) -> bool:
    return re.search(_SECRET_KEY, key[-_LONGEST_NAME:], re.IGNORECASE) is not None
