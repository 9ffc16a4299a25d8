"""Which foreign sessions were started inside a launcher's run."""

from collections.abc import Iterable
from typing import Final

from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Table, Write
from runward.daemon.store.values import listed
from runward.handlers.model.sessions import LinkedSession, LinkedSessions

INSERT: Final = Write(
    "insert into links (linked, launcher) values (?, ?) on conflict (linked) do nothing", exact=False
)


async def linked_sessions(store: Store, launchers: Iterable[str]) -> dict[str, LinkedSessions]:
    """The sessions that were started in these launchers' runs, by the launcher's key; usually there are none."""
    rows = await store.read(
        "select l.launcher, s.key, s.status, s.reason_code, s.reason_summary from links l"
        " join sessions s on s.key = l.linked"
        " where l.launcher in (select value from json_each(?)) order by s.key",
        (listed(launchers),),
    )
    found: dict[str, LinkedSessions] = {}
    for launcher, *session in rows:
        before = found.get(str(launcher), LinkedSessions())
        found[str(launcher)] = LinkedSessions((*before.sessions, LinkedSession(*session)))  # type: ignore[arg-type] # the schema's own types
    return found


async def announced_sessions(store: Store, launchers: Iterable[str]) -> list[tuple[str, str]]:
    """The sessions that weren't read yet and whose hooks named these launched runs, each with the run's id."""
    rows = await store.read(
        "select h.launcher_session, h.session_key from hooks h"
        " where h.launcher_session in (select value from json_each(?))"
        " and not exists (select 1 from links l join sessions s on s.key = l.linked where l.linked = h.session_key)"
        " order by h.session_key",
        (listed(launchers),),
    )
    return [(str(launcher), str(key)) for launcher, key in rows]


async def has_links(store: Store) -> bool:
    """Whether any session was ever reported as started in a launcher's run."""
    ((found,),) = await store.read(
        "select exists (select 1 from links) or exists (select 1 from hooks where launcher_session is not null)"
    )
    return bool(found)


LINKS: Final = Table(
    writes=(INSERT,),
    goes_with_session=(
        "delete from links where linked = ?1 and launcher not in (select key from sessions)",
        "delete from links where launcher = ?1 and linked not in (select key from sessions)",
    ),
)
