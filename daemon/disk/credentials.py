"""Who may come in: secret keys of a state directory, logins to the Studio, and tokens of the exchange."""

import hashlib
import hmac
import json
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.disk.durable import make_durably, sync_directory, write_durably

_BYTES: Final = 32


class KeyUnusable(Exception):
    """The key can't be used; the message says why and what to do."""


def secret_key(state: Path, name: str, consequence: str) -> bytes:
    """The key of this name. `consequence` says what no longer works once it is replaced.

    Raises `KeyUnusable` and `OSError`.
    """
    path = state / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return new_secret_key(state, name)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        key = file.read(_BYTES + 1)
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
        raise KeyUnusable(f"others may read or change {path}: remove it; {consequence}")
    if len(key) != _BYTES:
        raise KeyUnusable(f"{path} is not a key: remove it; {consequence}")
    return key


def new_secret_key(state: Path, name: str) -> bytes:
    """A new key of this name, in place of one that was there. Raises `OSError`."""
    key = os.urandom(_BYTES)
    write_durably(state, name, key)
    return key


STUDIO_KEY: Final = "studio.key"
STUDIO: Final = "studio"
"""Below the state directory: the codes, and the port that is used again."""

CODE_S: Final = 300.0
"""Seconds for which a login link is valid."""

COOKIE_S: Final = 30 * 86_400.0
"""Seconds for which a browser is logged in."""

_CODES: Final = f"{STUDIO}/codes"
_CODE: Final = re.compile(r"[0-9a-f]{64}")
_COOKIE: Final = re.compile(r"(\d{1,12})\.([0-9a-f]{64})")
_CONSEQUENCE: Final = "every browser is then logged out of the Studio"


def studio_key(state: Path) -> bytes:
    """The key, made on first use. Raises `KeyUnusable` and `OSError`."""
    return secret_key(state, STUDIO_KEY, _CONSEQUENCE)


def log_out_all(state: Path) -> None:
    """Replace the key: no cookie, and no link made before, is valid any more. Raises `OSError`."""
    new_secret_key(state, STUDIO_KEY)
    _remove_codes(state, lambda _: True)


def own_name(key: bytes) -> str:
    """The host name of this Studio. Browsers resolve it to this machine, and give its cookie to no other name."""
    return f"{_mac(key, 'name')[:8]}.localhost"


def new_code(state: Path) -> str:
    """A code for a login link: 256 random bits. Raises `OSError`."""
    make_durably(state, _CODES)
    now = time.time()
    _remove_codes(state, lambda made_at: now - made_at > CODE_S)
    code = os.urandom(32).hex()
    # Only its hash: a copy of the state directory lets nobody in.
    write_durably(state / _CODES, hashlib.sha256(code.encode()).hexdigest(), b"")
    return code


def use_code(state: Path, code: str) -> bool:
    """Use up a code; whether it was valid. Of several at the same time, one is."""
    if _CODE.fullmatch(code) is None:
        return False
    file = state / _CODES / hashlib.sha256(code.encode()).hexdigest()
    try:
        made_at = file.lstat().st_mtime
        # The removal decides who was first.
        file.unlink()
    except OSError:
        return False
    # A clock that was set back makes a code look as if it were made later.
    return abs(time.time() - made_at) <= CODE_S


def new_cookie(key: bytes, host: str, now: float) -> str:
    """The value of a cookie for this host name."""
    expires = int(now + COOKIE_S)
    return f"{expires}.{_signed(key, host, expires)}"


def is_valid_cookie(key: bytes, host: str, value: str, now: float) -> bool:
    """Whether we made this cookie for this host name, and it is still valid."""
    match = _COOKIE.fullmatch(value)
    if match is None or int(match[1]) < now:
        return False
    # In constant time: how long it takes must not tell how much of it is right.
    return hmac.compare_digest(_signed(key, host, int(match[1])), match[2])


def _signed(key: bytes, host: str, expires: int) -> str:
    return _mac(key, f"cookie\n{host}\n{expires}")


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _remove_codes(state: Path, is_old: Callable[[float], bool]) -> None:
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(state / _CODES)):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and is_old(status.st_mtime):
                    os.unlink(entry.path)


TOKENS: Final = "tokens"
"""The directory for them, in the state directory."""

_SUFFIX: Final = ".json"
_ID: Final = re.compile(r"[0-9a-f]{16}")
_TOKEN: Final = re.compile(r"runward_([0-9a-f]{16})_([0-9a-f]{64})")
_LONGEST: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Token(NamedTuple):
    """A token, without its secret."""

    id: str
    principal: str
    created_at: float


def create_token(state: Path, principal: str, now: float) -> tuple[Token, str]:
    """A new token of this principal, and its text, which is kept nowhere. Raises `OSError`."""
    token, secret = Token(os.urandom(8).hex(), principal, now), os.urandom(32).hex()
    make_durably(state, TOKENS)
    content = {"principal": principal, "created_at": now, "sha256": _hash(secret)}
    write_durably(state / TOKENS, token.id + _SUFFIX, json.dumps(content).encode())
    return token, f"runward_{token.id}_{secret}"


def list_tokens(state: Path) -> list[Token]:
    """All valid tokens, the oldest first. Raises `OSError`."""
    try:
        names = os.listdir(state / TOKENS)
    except FileNotFoundError:
        return []
    kept = (_read(state, name.removesuffix(_SUFFIX)) for name in names)
    return sorted((each[0] for each in kept if each is not None), key=lambda each: (each.created_at, each.id))


def revoke_token(state: Path, identifier: str) -> bool:
    """Remove a token, durably. False if there is none of this id. Raises `OSError`."""
    if _ID.fullmatch(identifier) is None:
        return False
    try:
        os.unlink(state / TOKENS / (identifier + _SUFFIX))
    except FileNotFoundError:
        return False
    sync_directory(state / TOKENS)
    return True


def principal_of_token(state: Path, text: str) -> str | None:
    """Who acts with this token; None if it isn't valid. Raises `OSError`."""
    match = _TOKEN.fullmatch(text)
    kept = None if match is None else _read(state, match[1])
    if match is None or kept is None:
        return None
    token, right = kept
    return token.principal if hmac.compare_digest(right, _hash(match[2])) else None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _read(state: Path, identifier: str) -> tuple[Token, str] | None:
    """A token and the hash of its secret. None if there is none, or if another user could have written it."""
    if _ID.fullmatch(identifier) is None:
        return None
    path = state / TOKENS / (identifier + _SUFFIX)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        # A user who can write here could let anybody in.
        is_ours = status.st_uid == os.geteuid() and not status.st_mode & _OTHERS
        content = file.read(_LONGEST) if stat.S_ISREG(status.st_mode) and is_ours else b"null"
    try:
        value = json.loads(content)
    except ValueError:
        return None
    match value:
        case {"principal": str(principal), "created_at": int() | float() as at, "sha256": str(right)}:
            return Token(identifier, principal, float(at)), right
        case _:
            return None
