"""The ledger of the exchange: append-only entries with two sides, and the balances that follow from them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write, answers_by
from runward.daemon.store.values import as_int, listed
from runward.handlers.exchange.existing import existing_with
from runward.handlers.model.exchange import MINT, BalanceOf, ExistingInExchange, Post, ResourcesOf

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

POST: Final = Write(
    "insert into ledger_entries (at, action, giver, taker, resource, amount, reason) values (?, ?, ?, ?, ?, ?, ?)"
)

PROVE: Final = Write(
    "/* the balances of a resource must add up to what was minted */"
    " update balances set amount = amount where account = ?1 and resource = ?2"
    " and -amount = (select sum(amount) from balances where resource = ?2 and account <> ?1)"
)
"""Changes nothing, and refuses the transaction if its entries left sums that are wrong."""


def _post(batch: "Batch", job: Job, effect: Post) -> None:
    batch.row(POST, astuple(effect))
    batch.row_once(PROVE, (MINT, effect.resource))


async def _balances(store: Store, asked: Sequence[BalanceOf], jobs: Sequence[Job]) -> Mapping[BalanceOf, int]:
    rows = await store.read(
        "select account, resource, amount from balances where account in (select value from json_each(?))",
        (listed({each.account for each in asked}),),
    )
    found = {BalanceOf(str(account), str(resource)): as_int(amount) for account, resource, amount in rows}
    return {each: found.get(each, 0) for each in asked}


async def _resources(store: Store, accounts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = dict.fromkeys(accounts, ())
    for account, resource in await store.read(
        "select account, resource from balances where account in (select value from json_each(?))"
        " order by account, resource",
        (listed(found),),
    ):
        found[str(account)] += (str(resource),)
    return found


def _named(answer: tuple[str, ...], effect: Post) -> tuple[str, ...]:
    return tuple(sorted({*answer, effect.resource}))


LEDGER: Final = Table(
    writes=(POST, PROVE),
    appliers={Post: _post},
    answers={BalanceOf: _balances, ResourcesOf: answers_by(_resources, lambda asked: asked.account, ())},
    folds={
        Post: (
            Fold(
                lambda effect: BalanceOf(effect.giver, effect.resource),
                lambda answer, effect: answer - effect.amount,
            ),
            Fold(
                lambda effect: BalanceOf(effect.taker, effect.resource),
                lambda answer, effect: answer + effect.amount,
            ),
            Fold(lambda effect: ResourcesOf(effect.giver), _named),
            Fold(lambda effect: ResourcesOf(effect.taker), _named),
            Fold(lambda effect: ExistingInExchange(), existing_with),
        )
    },
)
