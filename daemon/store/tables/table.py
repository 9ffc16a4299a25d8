"""Everything that the owner of a table declares, in one place; `all.py` joins them.

Commands read tables, and start without effects and questions, which msgspec makes. So a module of a table imports them in
functions: where it declares its `Table`, and where a query gives what handlers take.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from runward.daemon.store.batch import Batch, Job, Write

if TYPE_CHECKING:
    from runward.daemon.store.transaction import Reader
    from runward.handlers.model.asking import Question
    from runward.handlers.model.effects import Effect

Key = TypeVar("Key")


class Fold(NamedTuple):
    """How an effect that is decided but not applied yet changes the answer to a question."""

    question: Callable[[Any], Question[Any]]
    apply: Callable[[Any, Any], Any]


Applier: TypeAlias = Callable[[Batch, Job, Any], None]
"""Turns an effect of a job into rows of the batch."""

Answerer: TypeAlias = "Callable[[Reader, Sequence[Any], Sequence[Job]], Awaitable[Mapping[Any, Any]]]"
"""Answers all questions of one kind together, for the jobs of a batch. The answer must contain every question."""


class Table(NamedTuple):
    """How effects become rows of a table (or of several that belong together), and which questions it answers.

    `writes` run in this order. `goes_with_session`, `goes_with_event` and `goes_with_chain_run` are what pruning
    deletes, by the session's key, the event's number and the chain run's id. If the wall clock was stepped,
    `moved_by_steps` adds the step in seconds to the times at which waits end. If the record is moved to other paths,
    `moved` rewrites where files are, with SQL's functions `moved` and `moved_json` (`moving.py`).
    """

    writes: tuple[Write, ...]
    appliers: Mapping[type[Effect], Applier] = MappingProxyType({})
    answers: Mapping[type[Question[Any]], Answerer] = MappingProxyType({})
    folds: Mapping[type[Effect], tuple[Fold, ...]] = MappingProxyType({})
    goes_with_session: tuple[str, ...] = ()
    goes_with_event: tuple[str, ...] = ()
    goes_with_chain_run: tuple[str, ...] = ()
    moved_by_steps: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


def no_rows(batch: Batch, job: Job, effect: object) -> None:
    """The applier of an effect that needs no rows: it is carried out once its job is durable."""


def answers_by(
    query: Callable[[Reader, Iterable[Key]], Awaitable[Mapping[Key, object]]],
    key: Callable[[Any], Key],
    absent: object = None,
) -> Answerer:
    """An answerer that runs `query` for the keys of all questions; `absent` is the answer for what is not found."""

    async def answer(store: Reader, asked: Sequence[Any], jobs: Sequence[Job]) -> dict[Any, object]:
        answers = await query(store, [key(each) for each in asked])
        # Every question gets an answer: a handler that waited for one that never comes would hold up its lane.
        return {each: answers.get(key(each), absent) for each in asked}

    return answer
