"""What the double of the fleet's database does once it was restored: as `functions/older_database.sql` has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from tests.daemon.fleet.double import Database, Row


class Claim(NamedTuple):
    """What a host says again that it took, until the order is there."""

    host: str
    take: int
    result: Any


class Unheard(NamedTuple):
    """A host has to say again what it knows, since then."""

    since: str
    may_have_taken: bool
    is_left_out: bool = False


Order: TypeAlias = "tuple[str, str]"
"""An origin and the id of its order."""


class Compared(NamedTuple):
    """The identity here, since when the host has to say again what it knows, for whom all wait, and what it shall remember."""

    here: str
    since: str | None
    waits_for: list[str]
    changes: dict[str, int]


def waited_for(database: Database) -> list[str]:
    """The hosts that have to say again what they know before anybody takes an order."""
    return sorted(
        host
        for host, each in database.content.unheard.items()
        if each.may_have_taken and not each.is_left_out
    )


def keeps_from_taking(database: Database, own: str) -> bool:
    return bool(waited_for(database)) or own in database.content.unheard


def is_unheard(database: Database, origin: str) -> bool:
    found = database.content.unheard.get(origin)
    return found is not None and not found.is_left_out


def _is_older(database: Database, own: str, identity: str | None, seen: Mapping[str, int]) -> bool:
    content = database.content
    if content.known is not None and content.known != database.identity:
        return True
    return own not in content.unheard and (
        (identity is not None and identity != database.identity)
        or any(host not in content.kept or content.kept[host].changes < count for host, count in seen.items())
    )


def _doubt(database: Database, own: str) -> None:
    """What this host took, its store may not know."""
    doubted = [
        row
        for row in database.rows.values()
        if row.taken_by == own and row.state == "taken" and not row.doubted
    ]
    for row in doubted:
        row.doubted = True
    database.changed(own, *doubted)


def compare_record(
    database: Database,
    own: str,
    takes_orders: bool,
    restored: int,
    reached: int,
    identity: str | None,
    seen: Mapping[str, int],
) -> Compared:
    content = database.content
    me = content.kept[own]
    if restored > me.restored or reached < me.reached:
        _doubt(database, own)
    me.accepts, me.restored, me.reached = takes_orders, restored, reached
    if _is_older(database, own, identity, seen):
        database.times_older += 1
        since = f"time {database.times_older}"
        content.unheard |= {host: Unheard(since, each.accepts) for host, each in content.kept.items()}
        content.known = database.identity
    content.known = content.known or database.identity
    if own in content.unheard:
        # Who did something of which nothing is known here may have taken orders. It may not even be a host here.
        for host, count in seen.items():
            is_strange = host not in content.kept
            if host != own and (
                is_strange or (content.kept[host].changes < count and host in content.unheard)
            ):
                found = content.unheard.get(host, Unheard("now", may_have_taken=True))
                content.unheard[host] = found._replace(may_have_taken=True)
        _doubt(database, own)
    mine = content.unheard.get(own)
    return Compared(
        database.identity,
        None if mine is None else mine.since,
        waited_for(database),
        {host: each.changes for host, each in content.kept.items()},
    )


_MOST_TAKES: Final = 1_000_000


def took_order(database: Database, own: str, order: Order, take: int) -> str:
    content, row = database.content, database.rows.get(order)
    if row is not None and (row.taken_by, row.takes) == (own, take):
        if row.doubted:
            row.doubted = False
            database.changed(own, row)
        content.claims.pop(order, None)
        return row.state
    is_lost = take > _MOST_TAKES or (row is not None and _is_somebody_elses(database, row, take))
    if own not in content.unheard or is_lost:
        return "lost"
    if order not in content.claims or content.claims[order].take < take:
        content.claims[order] = Claim(own, take, None)
    if row is not None:
        if row.taken_by is not None and row.taken_by not in content.unheard:
            _leave_to_claims(database, own, row.taken_by)
        if row.state in ("open", "withdrawn", "declined"):
            database.changed(own, row)
        if (row.taken_by, row.takes) == (own, take):
            return row.state
    return "claimed"


def _is_somebody_elses(database: Database, row: Row, take: int) -> bool:
    return (
        row.state == "ended"
        or row.given_up is not None
        or row.takes >= take
        or (row.taken_by is not None and not row.doubted and row.taken_by not in database.content.unheard)
    )


def _leave_to_claims(database: Database, own: str, taker: str) -> None:
    """What a taker that has said all again knows nothing of is that of the host with a later take."""
    if taker in database.content.unheard:
        return
    for order, row in database.rows.items():
        claim = database.content.claims.get(order)
        if (
            (row.taken_by, row.state, row.doubted) == (taker, "taken", True)
            and claim is not None
            and claim.take > row.takes
            and row.is_for(claim.host, database.labels[claim.host])
        ):
            row.state, row.taken_by, row.doubted = "open", None, False
            database.changed(own, row)


def heed_claim(database: Database, row: Row) -> None:
    """An order that nobody has is that of the host that says that it took it since."""
    order = (row.origin, row.id)
    claim = database.content.claims.get(order)
    if claim is None or row.state not in ("open", "withdrawn", "declined") or row.given_up is not None:
        return
    if claim.take > row.takes and row.is_for(claim.host, database.labels[claim.host]):
        del database.content.claims[order]
        row.taken_by, row.takes, row.doubted = claim.host, claim.take, False
        row.taken_at = database.moment()
        row.state, row.result = ("taken", None) if claim.result is None else ("ended", claim.result)


def keep_result(database: Database, order: Order, own: str, take: int, result: Any) -> bool:
    """Whether it is the result of what this host claims."""
    claim = database.content.claims.get(order)
    if claim is None or (claim.host, claim.take) != (own, take) or claim.result not in (None, result):
        return False
    database.content.claims[order] = claim._replace(result=result)
    return True


def still_wanted(database: Database, own: str, names: Sequence[str]) -> None:
    """An origin says which of its orders it still waits for. Of the others it knows how they ended."""
    if own not in database.content.unheard:
        return
    others = [
        row for row in database.rows.values() if row.origin == own and not row.settled and row.id not in names
    ]
    for row in others:
        row.cancelled = row.settled = True
    database.changed(own, *others)


def said_again(database: Database, own: str) -> None:
    """The host has said again all that it took and ordered."""
    database.content.unheard.pop(own, None)
    _leave_to_claims(database, own, own)
    if not waited_for(database):
        for row in database.rows.values():
            if row.state == "open" and row.cancelled:
                row.state = "withdrawn"
                database.changed(own, row)
