"""Our own keys for receipts: a systemd credential, else a file that only we can read.

A key is 32 bytes, in a file as 64 hexadecimal digits.
"""

import os
import stat
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from runward.config.bundle import SCHEMES, Scheme
from runward.daemon.disk.durable import make_durably, write_durably
from runward.handlers.bundle.signatures import SECRET_BYTES, SecretKey, named

KEYS: Final = "keys"
"""Their directory in the state directory."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST: Final = 1024


class KeyRefused(Exception):
    """A key is there and cannot be used; the message says why, and what to do."""


class OwnKey(NamedTuple):
    """One of the daemon's keys, and where it is stored."""

    key: SecretKey
    path: str


def own_key(state: str, scheme: Scheme, environment: Mapping[str, str]) -> OwnKey | None:
    """The key of this kind, None if there is none yet. Raises `KeyRefused` and `OSError`."""
    credentials = environment.get("CREDENTIALS_DIRECTORY")
    if credentials:
        path = os.path.join(credentials, f"runward-receipt-{scheme}")
        credential = _read(path, scheme, is_credential=True)
        if credential is not None:
            return credential
    return _read(os.path.join(state, KEYS, _name(scheme)), scheme, is_credential=False)


def own_key_on_first_use(state: str, scheme: Scheme, environment: Mapping[str, str]) -> OwnKey:
    """The key of this kind; it is made if there is none. Raises `KeyRefused`, `NoLibrary` and `OSError`."""
    known = own_key(state, scheme, environment)
    if known is not None:
        return known
    key = SecretKey(scheme, os.urandom(SECRET_BYTES))
    named(key)  # a key that no library can use is not kept
    make_durably(state, KEYS)
    directory = os.path.join(state, KEYS)
    write_durably(directory, _name(scheme), f"{key.secret.hex()}\n".encode())
    return OwnKey(key, os.path.join(directory, _name(scheme)))


def own_public_keys(state: str, environment: Mapping[str, str]) -> frozenset[str]:
    """Our public keys, as `authorized_keys` has them. Raises `KeyRefused`, `NoLibrary` and `OSError`."""
    keys = (own_key(state, scheme, environment) for scheme in SCHEMES)
    return frozenset(named(each.key) for each in keys if each is not None)


def own_keys_that_count(state: str, report: Callable[[str], None]) -> frozenset[str]:
    """Our public keys; `state` is the state directory. `report` takes what is wrong with them."""
    try:
        return own_public_keys(state, os.environ)
    except KeyRefused as refused:
        report(f"the daemon's own keys don't count here: {refused}")
    except OSError as error:
        report(f"the daemon's own keys can't be read: {error.filename}: {error.strerror}")
    return frozenset()


def _name(scheme: Scheme) -> str:
    return f"receipt-{scheme}"


def _read(path: str, scheme: Scheme, *, is_credential: bool) -> OwnKey | None:
    try:
        descriptor = os.open(path, _READ)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        status = os.fstat(descriptor)
        content = os.read(descriptor, _LONGEST)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise KeyRefused(f"{path} is not a regular file")
    # systemd protects credentials by itself, with an owner and a mode of its own.
    if not is_credential and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
        raise KeyRefused(f"others can read or replace the key {path}: make a new one, or chmod 600 it")
    return OwnKey(SecretKey(scheme, _secret(path, content)), path)


def _secret(path: str, content: bytes) -> bytes:
    if len(content) == SECRET_BYTES:
        return content
    try:
        secret = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise KeyRefused(f"{path} does not contain a key: it must be {SECRET_BYTES * 2} hexadecimal digits")
    return secret
