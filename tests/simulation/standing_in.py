"""Where the simulated machine stands in for the real one, and where the story's bugs are put in.

Everything else reaches the daemon through its ports. The modules that make system calls get the
kernel in place of `os` and `fcntl`, so that they run themselves; threads are replaced by virtual
time, for real ones would finish in any order; and the report, which nobody reads here, is left out.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import anyio
import anyio.lowlevel
from tests.simulation.universe import Universe
from tests.simulation.virtual_time import VirtualLoop

from runward.daemon import faults
from runward.handlers import route
from runward.handlers.effects import EndAttempt, FoldContract, OpenSession, RecordFiles
from runward.handlers.events import Event
from runward.handlers.facts import Facts

T = TypeVar("T")


@contextmanager
def simulated(universe: Universe) -> Iterator[None]:
    """Have the daemon's code meet the simulated machine."""
    kernel = universe.kernel
    faults.install(universe.point)
    files = "runward.daemon.rundir"
    with (
        patch(f"{files}.journals.os", kernel),
        patch(f"{files}.journals.fcntl", kernel),
        patch(f"{files}.comparing.os", kernel),
        patch(f"{files}.looking.os", kernel),
        patch(f"{files}.artifacts.os", kernel),
        patch(f"{files}.hashes.os", kernel),
        patch(f"{files}.hashes.CHUNK", 4),
        patch(f"{files}.opening.os", kernel),
        patch(f"{files}.legs.os", kernel),
        patch(f"{files}.words.os", kernel),
        patch(f"{files}.durable.os", kernel),
        patch("runward.daemon.inbox.spool.os", kernel),
        patch("runward.daemon.store.epoch.os", kernel),
        patch("runward.daemon.processes.ticket.os", kernel),
        patch("runward.daemon.processes.ticket.fcntl", kernel),
        patch("runward.daemon.processes.record.os", kernel),
        patch("runward.daemon.supervisor.write_report", lambda state, report: None),
        patch("anyio.to_thread.run_sync", _thread(universe)),
        patch("anyio.from_thread.check_cancelled", lambda: None),
        patch("runward.handlers.route.decide", _buggy(universe.bugs)),
    ):
        try:
            yield
        finally:
            faults.install(lambda name: None)


def _thread(universe: Universe) -> Callable[..., Any]:
    async def run_sync(
        function: Callable[..., T],
        *arguments: Any,
        abandon_on_cancel: bool = False,
        limiter: anyio.CapacityLimiter | None = None,
    ) -> T:
        """Call it here and now, with a while before and after in which everything else goes on."""
        assert isinstance(asyncio.get_running_loop(), VirtualLoop)
        assert not abandon_on_cancel
        await anyio.lowlevel.checkpoint()
        before, after = universe.chaos.thread_delay(), universe.chaos.thread_delay()
        with anyio.CancelScope(shield=True):
            if before:
                await anyio.sleep(before)
            result = function(*arguments)
            if after:
                await anyio.sleep(after)
        return result

    return run_sync


def _buggy(bugs: Mapping[str, str]) -> Callable[[str, Event, str, Facts, float], route.Decision]:
    decide = route.decide

    def with_bugs(handler: str, event: Event, event_hash: str, facts: Facts, now: float) -> route.Decision:
        """The handlers, and the bugs that the story put into them."""
        bug = bugs.get(event.lane) or bugs.get(handler)
        if bug == "raises":
            raise RuntimeError("a bug of a handler")
        decision = decide(handler, event, event_hash, facts, now)
        if bug == "poisons" and isinstance(decision, tuple):
            return tuple(
                each._replace(contract_basis="nonsense")  # type: ignore[arg-type] # that is the bug
                if isinstance(each, OpenSession)
                else each._replace(delivery="nonsense")  # type: ignore[arg-type]
                if isinstance(each, EndAttempt)
                else each._replace(contract_json="[]")
                if isinstance(each, FoldContract)
                else each._replace(attempt=999)
                if isinstance(each, RecordFiles)
                else each
                for each in decision
            )
        return decision

    return with_bugs
