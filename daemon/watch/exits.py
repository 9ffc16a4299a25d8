"""Ends of recorded processes, as the kernel reports them at once. The rounds also check, for not all can be watched.

A descriptor of the process itself (pidfd) becomes readable when it ends, and costs nothing until then.
"""

import os
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from runward.daemon.ports.processes import Processes
from runward.daemon.watch.hints import Hints, Target, Why
from runward.handlers.model.processes import RecordedProcess

MOST: Final = 256
"""Processes that are watched at once, each by a descriptor; the rounds check the others."""


@dataclass(slots=True)
class Exits:
    """The processes of running sessions whose ends are awaited. One task group does the waiting."""

    processes: Processes
    hints: Hints
    _waiting: dict[Target, tuple[tuple[RecordedProcess, ...], anyio.CancelScope]] = field(
        default_factory=dict
    )
    _tasks: TaskGroup | None = None

    async def run(self) -> None:
        """Wait until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await anyio.sleep_forever()

    def watch(self, target: Target, processes: tuple[RecordedProcess, ...]) -> None:
        """The session at this place runs, with these processes: when one of them ends, request a look at it."""
        known = self._waiting.get(target)
        if known is not None:
            if known[0] == processes:
                return
            known[1].cancel()
            del self._waiting[target]
        if self._tasks is None or not processes or len(self._waiting) >= MOST:
            return
        found = [self.processes.descriptor(each) for each in processes]
        descriptors = [each for each in found if each is not None]
        if descriptors:
            scope = anyio.CancelScope()
            self._waiting[target] = (processes, scope)
            self._tasks.start_soon(self._wait, target, descriptors, scope)

    def forget(self, target: Target) -> None:
        """The session at this place no longer runs."""
        known = self._waiting.pop(target, None)
        if known is not None:
            known[1].cancel()

    async def _wait(self, target: Target, descriptors: list[int], scope: anyio.CancelScope) -> None:
        try:
            with scope:
                async with anyio.create_task_group() as tasks:
                    for each in descriptors:
                        tasks.start_soon(self._wait_for, target, each)
        finally:
            for each in descriptors:
                os.close(each)

    async def _wait_for(self, target: Target, descriptor: int) -> None:
        await anyio.wait_readable(descriptor)
        self.hints.add([target], Why.PROCESS)
