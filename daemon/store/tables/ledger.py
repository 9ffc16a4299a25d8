"""The ledger of the exchange: entries, and the balances that they add up to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.batch import Batch, Job, Write
from runward.daemon.store.rows import groups_of, rows_of, select, value_of, values_of
from runward.daemon.store.tables.table import Fold, Table, answers_by
from runward.daemon.store.transaction import listed

if TYPE_CHECKING:  # most never use the exchange, and `status` and `why` ask whether anybody does
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.exchange import BalanceOf, Post


class LedgerRow(NamedTuple):
    """An entry of the ledger: units of scrip, millionths of other resources."""

    seq: int
    at: float
    action: str
    giver: str
    taker: str
    resource: str
    amount: int
    reason: str


def ledger_entries(
    connection: sqlite3.Connection, account: str | None = None, since: float | None = None
) -> list[LedgerRow]:
    """The entries, oldest first."""
    rows = connection.execute(
        select(
            LedgerRow,
            "from ledger_entries where (?1 is null or giver = ?1 or taker = ?1) and (?2 is null or at >= ?2)"
            " order by seq",
        ),
        (account, since),
    )
    return rows_of(LedgerRow, rows)


def latest_entries(
    connection: sqlite3.Connection, account: str | None, before: int, limit: int
) -> list[LedgerRow]:
    """The newest `limit` entries before the number `before`, oldest first. Each side of an account has its own index."""
    # With one condition for both sides SQLite would read all entries from the newest on, until it has enough.
    sides = ("",) if account is None else ("giver = :account and", "taker = :account and")
    newest = "order by seq desc limit :limit"
    parts = [select(LedgerRow, f"from ledger_entries where {side} seq < :before {newest}") for side in sides]
    each = [f"select * from ({part})" for part in parts]  # noqa: S608 # our own words
    rows = connection.execute(
        f"{' union '.join(each)} {newest}", {"account": account, "before": before, "limit": limit}
    )
    return rows_of(LedgerRow, rows)[::-1]


def wrong_balances(connection: sqlite3.Connection) -> Iterator[str]:
    """Errors in the ledger: balances that differ from the entries, negative balances, sums that aren't zero."""
    from runward.handlers.model.exchange import MINT

    # From both sides: a balance without entries is as wrong as entries without a balance.
    rows = connection.execute(
        "with sides (account, resource, amount) as (select taker, resource, amount from ledger_entries"
        " union all select giver, resource, -amount from ledger_entries),"
        " sums as (select account, resource, sum(amount) as amount from sides group by 1, 2)"
        " select coalesce(s.account, b.account), coalesce(s.resource, b.resource), s.amount, b.amount"
        " from sums s full join balances b on b.account = s.account and b.resource = s.resource"
        " where s.amount is not b.amount and coalesce(s.amount, 0) <> coalesce(b.amount, 0)"
    )
    for account, resource, counted, kept in rows:
        yield f"{account} has {kept} {resource}, and the entries make {counted}"
    for account, resource, amount in connection.execute(
        "select account, resource, amount from balances where amount < 0 and account <> ?", (MINT,)
    ):
        yield f"{account} has {amount} {resource}"
    for resource, total in connection.execute(
        "select resource, sum(amount) from balances group by resource having sum(amount) <> 0"
    ):
        yield f"the balances of {resource} add up to {total}"


def units(connection: sqlite3.Connection, account: str, resource: str) -> int:
    """The balance of an account: units of scrip, or millionths of another resource."""
    row = connection.execute(
        "select amount from balances where account = ? and resource = ?", (account, resource)
    ).fetchone()
    return value_of(int, row) or 0


def resources(connection: sqlite3.Connection, account: str) -> tuple[str, ...]:
    """The names of the resources that an account has a balance of."""
    rows = connection.execute("select resource from balances where account = ? order by resource", (account,))
    return tuple(values_of(str, rows))


def scrip_in_circulation(connection: sqlite3.Connection) -> int:
    """Scrip that was minted, less what was taken back."""
    from runward.handlers.model.exchange import MINT, SCRIP

    row = connection.execute(
        "select -amount from balances where account = ? and resource = ?", (MINT, SCRIP)
    ).fetchone()
    return value_of(int, row) or 0


POST: Final = Write(
    "insert into ledger_entries (at, action, giver, taker, resource, amount, reason) values (?, ?, ?, ?, ?, ?, ?)"
)

PROVE: Final = Write(
    "/* the balances of a resource must add up to what was minted */"
    " update balances set amount = amount where account = ?1 and resource = ?2"
    " and -amount = (select sum(amount) from balances where resource = ?2 and account <> ?1)"
)
"""Changes nothing, and refuses the transaction if its entries left sums that are wrong."""


def _post(batch: Batch, job: Job, effect: Post) -> None:
    from msgspec.structs import astuple

    from runward.handlers.model.exchange import MINT

    batch.row(POST, astuple(effect))
    # Once for each resource of a batch, behind all of its entries: triggers of the database keep the balances.
    batch.row_once(PROVE, (MINT, effect.resource))


async def _balances(
    store: Reader, asked: Sequence[BalanceOf], jobs: Sequence[Job]
) -> Mapping[BalanceOf, int]:
    rows = await store.read(
        "select account, resource, amount from balances where account in (select value from json_each(?))",
        (listed({each.account for each in asked}),),
    )
    balances = {
        (account, resource): amount for account, resource, amount in rows_of(tuple[str, str, int], rows)
    }
    return {each: balances.get((each.account, each.resource), 0) for each in asked}


async def _resources(store: Reader, accounts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    rows = await store.read(
        "select account, resource from balances where account in (select value from json_each(?))"
        " order by account, resource",
        (listed(accounts),),
    )
    named = groups_of(tuple[str], rows)
    return {account: tuple(resource for (resource,) in each) for account, each in named.items()}


def table() -> Table:
    """What effects make of it."""
    from runward.handlers.exchange.reading import existing_with
    from runward.handlers.model.exchange import BalanceOf, ExistingInExchange, Post, ResourcesOf

    def resources_after(resources: tuple[str, ...], effect: Post) -> tuple[str, ...]:
        return tuple(sorted({*resources, effect.resource}))

    return Table(
        writes=(POST, PROVE),
        appliers={Post: _post},
        answers={BalanceOf: _balances, ResourcesOf: answers_by(_resources, lambda asked: asked.account, ())},
        folds={
            Post: (
                Fold(
                    lambda effect: BalanceOf(effect.giver, effect.resource),
                    lambda balance, effect: balance - effect.amount,
                ),
                Fold(
                    lambda effect: BalanceOf(effect.taker, effect.resource),
                    lambda balance, effect: balance + effect.amount,
                ),
                Fold(lambda effect: ResourcesOf(effect.giver), resources_after),
                Fold(lambda effect: ResourcesOf(effect.taker), resources_after),
                Fold(lambda effect: ExistingInExchange(), existing_with),
            )
        },
    )
