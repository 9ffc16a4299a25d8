"""Reactions: what the daemon's parts do once effects are durable. Each part says which effects concern it."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from runward.daemon.store.tables.jobs import Job, JobResult
from runward.daemon.worker.part import Part
from runward.handlers.model.effects import Effect

E = TypeVar("E")

Done: TypeAlias = Sequence[tuple[Job, E]]
"""Effects of one kind, each with the job that decided on it, in order."""


@dataclass(slots=True)
class Reactions:
    """Which part reacts to which effects."""

    _at_once: dict[type[Effect], list[Callable[[Done[Any]], None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _then: dict[type[Effect], list[Callable[[Done[Any]], Awaitable[None]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _parts: Callable[[], Iterable[Part]] = tuple

    def to(self, kind: type[E], react: Callable[[Done[E]], None]) -> None:
        """Call this with the effects of one kind that became durable together."""
        self._at_once[kind].append(react)  # type: ignore[index] # only effects are decided on

    def then(self, kind: type[E], react: Callable[[Done[E]], Awaitable[None]]) -> None:
        """Await this, after all parts that react at once."""
        self._then[kind].append(react)  # type: ignore[index] # likewise

    def wake(self, parts: Callable[[], Iterable[Part]]) -> None:
        """Wake each of these parts with the effects that it wakes on."""
        self._parts = parts

    async def react(self, results: Iterable[JobResult]) -> None:
        """Have the parts react to what these jobs decided."""
        done: dict[type[Effect], list[tuple[Job, Effect]]] = {}
        decided: set[type[Effect]] = set()
        for result in results:
            for effect in result.effects if result.state == "done" else ():
                kind = type(effect)
                decided.add(kind)
                if kind in self._at_once or kind in self._then:
                    done.setdefault(kind, []).append((result.job, effect))
        for part in self._parts():
            if not decided.isdisjoint(part.wakes_on):
                part.wake()
        for kind, effects in done.items():
            for react in self._at_once.get(kind, ()):
                react(effects)
        for kind, effects in done.items():
            for follow in self._then.get(kind, ()):
                await follow(effects)
