"""Tokens with which a program acts as a principal over HTTP: a file each, with the hash of the secret.

The secret is 32 random bytes, so a plain hash protects it: nobody can guess what was hashed.
"""

import hashlib
import hmac
import json
import os
import re
import stat
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.disk.durable import make_durably, sync_directory, write_durably

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
    found = _TOKEN.fullmatch(text)
    kept = None if found is None else _read(state, found[1])
    if found is None or kept is None:
        return None
    token, right = kept
    return token.principal if hmac.compare_digest(right, _hash(found[2])) else None


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
