"""Invitations: one address that lets one host join, once."""

import base64
import binascii
import re
import zlib
from typing import Final, NamedTuple

from runward.config.fleet import (
    ADDRESS,
    HOST_NAME,
    HOST_NAME_FIX,
    USUAL_PORT,
    Database,
    decoded,
    options_of,
)
from runward.config.problem import TextError, quoted

SCHEME: Final = "runward"
_FIX: Final = "copy the whole command that `runward fleet invite` printed"
_MOST: Final = 1 << 16
"""Bytes of certificates in an invitation."""


class Invitation(NamedTuple):
    """A host's name, its login, the secret of that login until it joins, and certificates (PEM) to check the database by."""

    name: str
    database: Database
    secret: str
    ca: str | None

    @property
    def text(self) -> str:
        """As `invitation_of` reads it."""
        address = self.database._replace(user=self.name).address(SCHEME, self.secret)
        if self.ca is None:
            return address
        packed = base64.urlsafe_b64encode(zlib.compress(self.ca.encode(), 9)).decode().rstrip("=")
        return f"{address}?ca={packed}"


def check_name(name: str) -> str:
    """The name, if a host may be called so. Raises `TextError`."""
    if re.fullmatch(HOST_NAME, name) is None:
        raise TextError(f"{quoted(name)} is not the name of a host", HOST_NAME_FIX)
    return name


def login_of(name: str) -> str:
    """The login of the host with this name. No two names have the same."""
    return f"host_{name.replace('-', '_')}"


def invitation_of(text: str) -> Invitation:
    """Raises `TextError`, whose message doesn't repeat the secret."""
    match = ADDRESS.fullmatch(text.strip())
    if match is None or match["scheme"] != SCHEME or not match["user"] or not match["host"]:
        raise TextError("this is not an invitation", _FIX)
    name, secret = check_name(decoded(match["user"])), decoded((match["secret"] or "")[1:])
    options = options_of(match["options"])
    packed = options.pop("ca", None)
    if not secret or options:
        raise TextError("this is not a whole invitation", _FIX)
    host, port = decoded(match["host"]).strip("[]"), int(match["port"] or USUAL_PORT)
    return Invitation(
        name, Database(login_of(name), host, port, decoded(match["name"])), secret, _unpacked(packed)
    )


def _unpacked(packed: str | None) -> str | None:
    if packed is None:
        return None
    try:
        content = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        unpacker = zlib.decompressobj()
        certificates = unpacker.decompress(content, _MOST)
        if not unpacker.eof or b"BEGIN CERTIFICATE" not in certificates:
            raise TextError("the certificates of this invitation are not whole", _FIX)
        return certificates.decode("ascii")
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise TextError("the certificates of this invitation are not whole", _FIX) from error
