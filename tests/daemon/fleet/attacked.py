"""A fleet with a host that attacks it, by its own login and by whatever guard is missing."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import psycopg
from tests.daemon.fleet.database import Server

from runward.daemon.fleet.invitation import Invitation

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


@dataclass
class Fleet:
    """A fleet with two hosts, `mallory` and `victim`, which has one session."""

    server: Server
    database: str
    mallory: Invitation
    victims: Invitation

    def admin(self) -> Connection:
        return self.server.admin(self.database)

    def victim(self) -> Connection:
        """A connection with the victim's login."""
        return self._logged_in(self.victims)

    def login(self, **others: str) -> Connection:
        """A connection with mallory's login."""
        return self._logged_in(self.mallory, **others)

    def _logged_in(self, invitation: Invitation, **others: str) -> Connection:
        return psycopg.connect(
            user=invitation.database.user,
            password=invitation.secret,
            host="127.0.0.1",
            port=self.server.port,
            dbname=self.database,
            autocommit=True,
            **others,  # type: ignore[arg-type]  # each is a text
        )

    def sessions(self) -> list[tuple[Any, ...]]:
        with self.admin() as admin:
            return admin.execute("select host, key, status from runward.sessions order by 1, 2").fetchall()


class Administered(Protocol):
    """A fleet whose database can be changed."""

    def admin(self) -> Connection: ...


def without(fleet: Administered, guard: str, function: str, instead: str = "") -> str:
    """Take a guard out of a function of the database, as if nobody had written it; returns the function as it was."""
    with fleet.admin() as admin:
        ((text,),) = admin.execute(
            "select pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname = 'runward' and p.proname = %s",
            (function,),
        ).fetchall()
        assert guard in text
        admin.execute(text.replace(guard, instead).encode())
    return str(text)
