"""Where the simulated machine stands in for the real one, and where the story's bugs are put in.

Everything else reaches the daemon through `ports.py`. The modules that make system calls get the
kernel in place of `os` and `fcntl`, so that they run themselves; threads are replaced by virtual
time, for real ones would finish in any order; and the report, which nobody reads here, is left out.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, TypeVar
from unittest.mock import patch

import anyio
import anyio.lowlevel
from msgspec.structs import replace
from tests.simulation import trees
from tests.simulation.ports import OWN_KEY
from tests.simulation.recipients import GIVEN_UP_AFTER
from tests.simulation.universe import Universe
from tests.simulation.virtual_time import VirtualLoop

from runward.daemon import faults
from runward.handlers import route
from runward.handlers.model.asking import Given
from runward.handlers.model.contracts import RecordFiles
from runward.handlers.model.effects import Deciding, Effects
from runward.handlers.model.events import Event
from runward.handlers.model.sessions import EndAttempt, FoldContract, OpenSession

T = TypeVar("T")


_SYSTEM_CALLS: Final = (
    "inbox.spool.os",
    "launch.record.os",
    "launch.ticket.fcntl",
    "launch.ticket.os",
    "rundir.artifacts.os",
    "rundir.bundle_parts.os",
    "rundir.parts_standing.os",
    "rundir.parts_syncing.os",
    "rundir.call_reading.os",
    "rundir.journal_reading.os",
    "disk.durable.os",
    "rundir.session_reading.os",
    "rundir.growing.os",
    "rundir.hashes.os",
    "rundir.intents.os",
    "rundir.journals.fcntl",
    "rundir.journals.os",
    "rundir.left_files.os",
    "rundir.legs.os",
    "rundir.run_directories.os",
    "rundir.opening.os",
    "rundir.resolving.os",
    "rundir.outcomes.os",
    "rundir.session_places.os",
    "rundir.session_files.os",
    "rundir.session_logs.os",
    "disk.epoch.os",
    "store.journals.os",
    "backup.os",
)
"""What makes system calls, below `runward.daemon`."""


@contextmanager
def simulated(universe: Universe) -> Iterator[None]:
    """Have the daemon's code meet the simulated machine."""
    kernel = universe.kernel
    faults.install(universe.point)
    standing_in: dict[str, object] = {
        **{f"runward.daemon.{module}": kernel for module in _SYSTEM_CALLS},
        "runward.daemon.rundir.hashes.CHUNK": 4,
        "os.geteuid": kernel.geteuid,  # whoever plays it
        "runward.daemon.parts.notices.GIVEN_UP_AFTER": GIVEN_UP_AFTER,
        "runward.daemon.host.report.write_report": lambda state, report: None,
        "anyio.to_thread.run_sync": _thread(universe),
        "anyio.from_thread.check_cancelled": lambda: None,
        "runward.handlers.route.decide": _buggy(universe.bugs),
        "runward.daemon.disk.receipt_keys.own_key_on_first_use": lambda state, scheme, environment: OWN_KEY,
    }
    standing_in |= trees.standing_in(universe)
    if universe.packs:  # what takes an hour and a day
        standing_in |= {
            "runward.daemon.store.journals.SETTLE_PERIOD": 5.0,
            "runward.daemon.parts.retention.AFTER": 2.0,
            "runward.daemon.parts.retention.PACKING_PERIOD": 3.0,
        }
    with ExitStack() as stack:
        stack.callback(faults.install, lambda name: None)
        for target, other in standing_in.items():
            stack.enter_context(patch(target, other))
        yield


def _thread(universe: Universe) -> Callable[..., Any]:
    async def run_sync(
        function: Callable[..., T],
        *arguments: Any,
        abandon_on_cancel: bool = False,
        limiter: anyio.CapacityLimiter | None = None,
    ) -> T:
        """Call it here and now, with a while before and after in which everything else goes on.

        What may be abandoned only reads: cancelled, it may as well not have been called.
        """
        assert isinstance(asyncio.get_running_loop(), VirtualLoop)
        await anyio.lowlevel.checkpoint()
        before, after = universe.chaos.thread_delay(), universe.chaos.thread_delay()
        with anyio.CancelScope(shield=not abandon_on_cancel):
            if before:
                await anyio.sleep(before)
            result = function(*arguments)
            if after:
                await anyio.sleep(after)
        return result

    return run_sync


def _buggy(bugs: Mapping[str, str]) -> Callable[[str, Event, Given], route.Decision]:
    decide = route.decide

    def with_bugs(handler: str, event: Event, given: Given) -> route.Decision:
        """The handlers, and the bugs that the story put into them."""
        bug = bugs.get(event.lane) or bugs.get(handler)
        if bug == "raises":
            raise RuntimeError("a bug of a handler")
        decision = decide(handler, event, given)
        if bug != "poisons":
            return decision
        return _poisoned(decision) if isinstance(decision, tuple) else _poisoning(decision)

    return with_bugs


def _poisoning(deciding: Deciding) -> Deciding:
    effects = yield from deciding
    return _poisoned(effects)


def _poisoned(effects: Effects) -> Effects:
    """Effects that the database refuses."""
    return tuple(
        replace(each, contract_basis="nonsense")  # that is the bug
        if isinstance(each, OpenSession)
        else replace(each, delivery="nonsense")
        if isinstance(each, EndAttempt)
        else replace(each, contract_json="[]")
        if isinstance(each, FoldContract)
        else replace(each, attempt=999)
        if isinstance(each, RecordFiles)
        else each
        for each in effects
    )
