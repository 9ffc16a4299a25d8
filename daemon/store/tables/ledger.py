"""The ledger of the exchange: entries with two sides, which are only added, and the balances that they make."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Fold, Table, Write
from runward.daemon.store.values import as_int, listed
from runward.handlers.exchange.effects import Post
from runward.handlers.exchange.facts import SCRIP, BalanceOf, Existing, ExistingInExchange

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

POST: Final = Write(
    "insert into ledger_entries (at, action, giver, taker, resource, amount, reason) values (?, ?, ?, ?, ?, ?, ?)"
)


def _post(batch: "Batch", job: Job, effect: Post) -> None:
    batch.row(POST, tuple(effect))


async def _balances(store: Store, asked: Sequence[BalanceOf], jobs: Sequence[Job]) -> Mapping[BalanceOf, int]:
    rows = await store.read(
        "select account, resource, amount from balances where account in (select value from json_each(?))",
        (listed({each.account for each in asked}),),
    )
    found = {BalanceOf(str(account), str(resource)): as_int(amount) for account, resource, amount in rows}
    return {each: found.get(each, 0) for each in asked}


def _moved(existing: Existing, effect: Post) -> Existing:
    if effect.resource != SCRIP:
        return existing
    scrip = dict(existing.scrip)
    scrip[effect.giver] = scrip.get(effect.giver, 0) - effect.amount
    scrip[effect.taker] = scrip.get(effect.taker, 0) + effect.amount
    return existing._replace(scrip=scrip)


LEDGER: Final = Table(
    writes=(POST,),
    appliers={Post: _post},
    answers={BalanceOf: _balances},
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
            Fold(lambda effect: ExistingInExchange(), _moved),
        )
    },
)
