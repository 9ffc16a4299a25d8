"""The names of hosts of a fleet, and the address of the database that it shares. Loaded only if the settings have a fleet."""

import re
from typing import Final, NamedTuple

from runward.config.problem import TextError, quoted

HOST_NAME: Final = "[a-z][a-z0-9-]{0,31}"
"""What a host may be called. It is part of the name of its login, and of texts that other hosts show."""

HOST_NAME_FIX: Final = "write at most 32 lower-case letters, digits and hyphens, the first one a letter"

LABEL: Final = "[A-Za-z0-9][A-Za-z0-9._=-]{0,63}"
"""What a label of a host may look like."""

LABEL_FIX: Final = "write letters, digits and . _ = -, at most 64 of them"

MOST_LABELS: Final = 20
"""Labels that a step may want."""


class Labelled(NamedTuple):
    """Any host that has all of these labels."""

    labels: tuple[str, ...]

    @property
    def what(self) -> str:
        """The labels in words."""
        return f"the {'label' if len(self.labels) == 1 else 'labels'} {', '.join(self.labels)}"

    def __str__(self) -> str:
        return f"a host with {self.what}"


DATABASE_EXAMPLE: Final = "postgresql://USER@HOST/DATABASE"

ADDRESS: Final = re.compile(
    r"(?P<scheme>[a-z]+)://"
    r"(?:(?P<user>[^:@/?#]+)(?P<secret>:[^@/?#]*)?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#,]+)?(?::(?P<port>[0-9]{1,5}))?"
    r"/(?P<name>[^/?#]+)(?:\?(?P<options>[^#]*))?"
)
"""The form of the address of a database, and of an invitation. Each part may be percent-encoded."""
_FIX: Final = f"write it as {DATABASE_EXAMPLE}"


class Database(NamedTuple):
    """A database and who logs in to it. `host` is a name, an IP address, or the directory of a Unix socket."""

    user: str
    host: str
    port: int
    name: str

    @property
    def is_socket(self) -> bool:
        """Whether it is reached through a Unix socket, so without TLS."""
        return self.host.startswith("/")

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        where = self.host if self.is_socket else f"{self.host}:{self.port}"
        return f"the database {self.name} at {where}"

    def address(self, scheme: str = "postgresql", secret: str | None = None) -> str:
        """As `database_of` reads it, if there is no secret."""
        host = f"[{self.host}]" if ":" in self.host else encoded(self.host)
        user = encoded(self.user) + ("" if secret is None else f":{encoded(secret)}")
        return f"{scheme}://{user}@{host}:{self.port}/{encoded(self.name)}"


USUAL_PORT: Final = 5432


def encoded(text: str) -> str:
    """The text as a part of an address."""
    plain = "-._~"
    return "".join(
        each
        if each.isascii() and (each.isalnum() or each in plain)
        else "".join(f"%{byte:02X}" for byte in each.encode())
        for each in text
    )


def decoded(part: str) -> str:
    """The text of a part of an address."""
    return re.sub(
        "(?:%[0-9A-Fa-f]{2})+",
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"),
        part,
    )


def options_of(text: str | None) -> dict[str, str]:
    """What stands behind the question mark of an address."""
    pairs = [each.partition("=") for each in (text or "").split("&") if each]
    return {decoded(name): decoded(value) for name, _, value in pairs}


def database_of(text: str) -> Database:
    """The database at an address without a secret. Raises `TextError`, whose message never repeats a secret."""
    match = ADDRESS.fullmatch(text)
    if match is None or match["scheme"] not in ("postgresql", "postgres"):
        raise TextError("is not the address of a database", _FIX)
    if match["secret"] is not None:
        raise TextError("has a password in it", "leave it out: the file of a secret holds it, or ~/.pgpass")
    if match["user"] is None:
        raise TextError("doesn't say who logs in", _FIX)
    options = options_of(match["options"])
    mode = options.pop("sslmode", "verify-full")
    if mode != "verify-full":
        raise TextError(
            "has an sslmode that doesn't check whom it talks to", "leave sslmode out: it is verify-full"
        )
    host = options.pop("host", "") if match["host"] is None else decoded(match["host"]).strip("[]")
    if options:
        raise TextError(f"has the option {quoted(next(iter(options)))}", "leave it out")
    if not host or (match["host"] is None and not host.startswith("/")):
        raise TextError("names no host", f"{_FIX}, or ?host=/DIRECTORY for a Unix socket")
    port = int(match["port"] or USUAL_PORT)
    if not 0 < port < 65536:
        raise TextError("has a port that doesn't exist", _FIX)
    return Database(decoded(match["user"]), host, port, decoded(match["name"]))
