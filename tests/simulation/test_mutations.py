"""The simulation would notice: with any one guard taken out of the daemon, a history breaks a law."""

import dataclasses
import gc
import math
import sqlite3
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from tests.simulation import backups, chaos, foreign_agents, standing_in
from tests.simulation.broken import Broken
from tests.simulation.simulation import HistoryFailed, run
from tests.simulation.virtual_time import GoingInCircles

from runward.daemon.backup import Plan, plan_of
from runward.daemon.engine.outbox import Outbox
from runward.daemon.engine.queue import Queue
from runward.daemon.engine.turn_transaction import TurnTransaction
from runward.daemon.faults import point
from runward.daemon.launch import record, ticket
from runward.daemon.parts import notices, runs, waiting
from runward.daemon.parts.runs import CancelOrders, Starts
from runward.daemon.processes.ending_runs import EndOrdered
from runward.daemon.rundir import journal_reading, journals
from runward.daemon.rundir.session_files import NOTHING_READ
from runward.daemon.store.store import Store
from runward.daemon.store.tables import cancellations, jobs, journal_lines, receipts
from runward.daemon.watch import following, places
from runward.daemon.watch.remembered import load_remembered
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world import files
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Announced
from runward.handlers import notices as addressed
from runward.handlers.bundle.replay import Replay
from runward.handlers.contracts import files as contract_files
from runward.handlers.model.contracts import RecordedFile
from runward.handlers.model.effects import Deciding
from runward.handlers.model.files import FileHash, Produced
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.sessions import AttemptStarted
from runward.handlers.sessions import opened, over
from runward.handlers.sessions.ended import launcher_key
from runward.handlers.sessions.follow import NEVER_FOLLOWED, _Look

pytestmark = pytest.mark.timeout(900)  # a busy machine takes its time, and time is not what is tested here
MOST: Final = 120
"""Histories within which a guard must be missed."""


def play(seeds: Iterable[int]) -> None:
    for seed in seeds:
        run(seed)


Mutation = Callable[[pytest.MonkeyPatch], None]


def without_the_journals_identity_check(patch: pytest.MonkeyPatch) -> None:
    """What may have been written already is written again."""
    patch.setattr(journals, "find", lambda *unused: -1)


def without_the_journals_epoch(patch: pytest.MonkeyPatch) -> None:
    """Anyone who has the lock may append, whatever its epoch."""
    lock = journals._lock

    def any_epoch(descriptor: int, epoch: int, current_epoch: Callable[[], int]) -> None:
        lock(descriptor, epoch, lambda: epoch)

    patch.setattr(journals, "_lock", any_epoch)


def without_the_stores_epoch(patch: pytest.MonkeyPatch) -> None:
    """A daemon goes on writing when another one has taken over."""
    patch.setattr(Store, "_check_epoch", lambda self, rows: None)


def without_taking_jobs_back(patch: pytest.MonkeyPatch) -> None:
    """What a dead daemon had claimed stays claimed."""

    async def nothing(store: Store, now: float) -> int:
        return 0

    patch.setattr(jobs, "take_back", nothing)


def without_lanes(patch: pytest.MonkeyPatch) -> None:
    """A job runs though an earlier one of its lane is open."""

    async def no_lanes(store: Store) -> dict[str, int]:
        return {}

    patch.setattr(jobs, "open_lanes", no_lanes)
    patch.setattr(Queue, "_open_more", lambda self, lane, more: None)
    patch.setattr(TurnTransaction, "_is_blocked", lambda self, lane, last: self._stops)


def without_owing_lines_again(patch: pytest.MonkeyPatch) -> None:
    """A daemon doesn't ask what the one before it owed."""
    owed_lines = journal_lines.owed

    async def of_repairs(
        store: Store, directories: Iterable[str] | None = None
    ) -> list[journal_lines.OwedLine]:
        return [] if directories is None else await owed_lines(store, directories)

    patch.setattr(journal_lines, "owed", of_repairs)


def without_syncing(patch: pytest.MonkeyPatch) -> None:
    """Lines count as done before they are on the disk."""

    async def nothing(self: Outbox, journals: Any) -> dict[Any, str]:
        return {}

    patch.setattr(Outbox, "_sync", nothing)


def without_syncing_bundles(patch: pytest.MonkeyPatch) -> None:
    """Bundles are recorded, and count as in their places, before they are on the disk."""
    patch.setattr(Files, "sync_parts", lambda self, written: {})


def without_writing_again(patch: pytest.MonkeyPatch) -> None:
    """What a failed sync may have lost isn't written again: the next one says that all is well."""
    patch.setattr(journals, "_write_again", lambda descriptor, line, offset: None)
    usual = chaos.climate
    # Few histories see a sync of a journal fail and then the power: here many do.
    patch.setattr(
        chaos,
        "climate",
        lambda dice: dataclasses.replace(usual(dice), errors=0.05, strikes=("cut",), lies=False),
    )


def without_looking_whether_a_run_began(patch: pytest.MonkeyPatch) -> None:
    """A launcher takes what an earlier one left for a start that is still to begin, whatever that is."""

    def adopt(root: str, name: str, start: str) -> record.RunDirectory:
        path, kernel = f"{root}/{name}", vars(record)["os"]  # the simulated one, when it is called
        return record.RunDirectory(path, kernel.open(path, kernel.O_RDONLY | kernel.O_DIRECTORY))

    patch.setattr(ticket.Ticket, "has_begun", False)
    patch.setattr(ticket, "adopt_run_directory", adopt)


def without_telling_again(patch: pytest.MonkeyPatch) -> None:
    """An order counts as carried out before anybody was told."""

    async def mark_first(self: CancelOrders, owed: cancellations.OwedCancellation) -> None:
        point("cancel.before")
        await self._mark(owed, EndOrdered("its launcher was told"))
        point("cancel.after")
        self._tell(owed)

    patch.setattr(CancelOrders, "_one", mark_first)


def without_knowing_who_was_told(patch: pytest.MonkeyPatch) -> None:
    """What went because a person ordered it seems to have gone by itself."""

    async def nothing(store: Store, keys: Any) -> dict[Any, Any]:
        return {}

    patch.setattr(cancellations, "orders_for", nothing)


def without_comparing(patch: pytest.MonkeyPatch) -> None:
    """Every journal counts as sound after an unclean stop."""
    patch.setattr(journal_reading, "_compared", lambda *unused: iter(()))


def without_knowing_of_unclean_stops(patch: pytest.MonkeyPatch) -> None:
    """Every stop counts as one in order."""
    take_over = Store.take_over

    async def forgetful(self: Store, *of_machine: Any) -> int:
        epoch = await take_over(self, *of_machine)
        self.after_clean_stop = True
        return epoch

    patch.setattr(Store, "take_over", forgetful)


def without_holding_what_is_compared(patch: pytest.MonkeyPatch) -> None:
    """Journals get further lines before what is gone from them is written again."""

    def hold(self: Outbox, journals: Any) -> None:
        self._held = set()

    patch.setattr(Outbox, "hold", hold)
    patch.setattr(Outbox, "hold_all", lambda self: None)


def without_comparing_with_what_was_verified(patch: pytest.MonkeyPatch) -> None:
    """A file that changed after its verdict is recorded as if it were what was verified."""
    record = contract_files._record

    def as_found(verified: Produced, found: FileHash) -> RecordedFile:
        size, modified_ns = (
            (found.size, found.modified_ns)
            if found.state == "hashed"
            else (verified.size, verified.modified_ns)
        )
        return record(verified._replace(size=size, modified_ns=modified_ns), found)

    patch.setattr(contract_files, "_record", as_found)


def without_knowing_how_far_logs_were_read(patch: pytest.MonkeyPatch) -> None:
    """Every look reads another tool's log from its beginning, as if all of it were new."""
    patch.setattr(
        following, "read_remembered", lambda text: load_remembered(text)._replace(read=NOTHING_READ)
    )


def without_remembering_what_followed(patch: pytest.MonkeyPatch) -> None:
    """What was told of another tool's session is told again."""
    patch.setattr(
        following, "read_remembered", lambda text: load_remembered(text)._replace(followed=NEVER_FOLLOWED)
    )


def without_knowing_copies(patch: pytest.MonkeyPatch) -> None:
    """Each log is a session of its own, wherever it lies."""
    real = places._identity

    def identity(files: Files, root: WatchedRoot, place: str) -> places.Known:
        found = real(files, root, place)
        own = None if found.session_key is None else f"{root.layout}:{root.name}/{place}"
        return found._replace(session_key=own)

    patch.setattr(places, "_identity", identity)


def without_history(patch: pytest.MonkeyPatch) -> None:
    """What was over before anybody looked is told of as news, and has a journal."""
    patch.setattr(_Look, "_may_be_history", lambda self: False)


def without_grace(patch: pytest.MonkeyPatch) -> None:
    """Who isn't there has said all that he had to say."""
    patch.setattr(over, "_rest", lambda wanted, quiet_s: None)
    patch.setattr(
        foreign_agents, "_KINDS", ("late",)
    )  # few agents' last lines come after they are gone: here all do


def without_adopting_lines(patch: pytest.MonkeyPatch) -> None:
    """What a restored store finds out again is told again."""
    patch.setattr(journals, "as_they_stand", lambda descriptor, size, content, known: content)


def without_the_restores_epoch(patch: pytest.MonkeyPatch) -> None:
    """A restored store goes on with the epoch that its backup had."""

    def as_it_was(connection: sqlite3.Connection, state: Path, plan: Plan) -> Plan:
        return plan_of(connection, state, plan)._replace(epoch=plan.examined.epoch)

    patch.setattr(backups, "plan_of", as_it_was)


def without_making_journals(patch: pytest.MonkeyPatch) -> None:
    """A journal among our own state that was never made counts as one that is away."""
    patch.setattr(files, "make_durably", lambda within, path: None)


def without_leaving_the_contract_to_the_launcher(patch: pytest.MonkeyPatch) -> None:
    """A session that was started in a launched run is held to its rule's contract, as if it stood by itself."""
    opened_as = opened._open

    def by_itself(event: AttemptStarted, event_hash: str) -> Deciding:
        declared = event.declaration
        alone = None if declared is None else replace(declared, launcher=None)
        return opened_as(replace(event, declaration=alone), event_hash)

    patch.setattr(opened, "_open", by_itself)


def without_looking_where_a_launched_run_lies(patch: pytest.MonkeyPatch) -> None:
    """A launched run is taken to lie in the first native root, where most do."""
    patch.setattr(
        following, "launcher_key", lambda session_id, natives, holding: launcher_key(session_id, natives, ())
    )


def without_the_attempts_own_part(patch: pytest.MonkeyPatch) -> None:
    """Every call of a session counts as one of each of its attempts."""
    patch.setattr(Replay, "_belongs", lambda self, *of: True)


def without_the_last_receipt(patch: pytest.MonkeyPatch) -> None:
    """Each receipt is made as if it were the first one."""

    async def none(store: Store) -> None:
        return None

    patch.setattr(receipts, "receipts_head", none)


def without_ids_of_notices_that_stay(patch: pytest.MonkeyPatch) -> None:
    """Each time that a trouble is found, its notices have other ids."""
    numbers = count()

    def another(kind: str, subject: str, recipient: str) -> str:
        return f"nt_{next(numbers):012x}"

    patch.setattr(addressed, "notice_id", another)
    patch.setattr(notices, "notice_id", another)


def without_marking_what_was_delivered(patch: pytest.MonkeyPatch) -> None:
    """What a recipient accepted is still to be delivered."""
    patch.setattr(notices, "SETTLE", "update notices set tries = ?3 where id = ?5 and state = 'pending'")


def without_a_pause_between_tries(patch: pytest.MonkeyPatch) -> None:
    """A recipient that can't be reached is told again at once."""
    patch.setattr(notices, "FIRST_PAUSE", 0.0)


def without_trying_to_deliver_again(patch: pytest.MonkeyPatch) -> None:
    """A notice is given up if its first try fails."""
    patch.setattr(standing_in, "GIVEN_UP_AFTER", 0.0)


def without_giving_notices_up(patch: pytest.MonkeyPatch) -> None:
    """A recipient that is never there is told again for ever, and nobody learns of it."""
    patch.setattr(standing_in, "GIVEN_UP_AFTER", math.inf)


def without_waiting_for_the_commit(patch: pytest.MonkeyPatch) -> None:
    """A launch is acknowledged when it comes, and not when it is recorded."""
    take_up = Starts._take_up

    def at_once(self: Starts, order: StartRun, announced: Announced) -> None:
        announced.channel.acknowledge()
        take_up(self, order, announced)

    patch.setattr(Starts, "_take_up", at_once)


def without_recording_what_was_announced(patch: pytest.MonkeyPatch) -> None:
    """A launch is acknowledged with its event, and its row is left out."""
    patch.setattr(runs, "kept_with", lambda launch: ())


def without_ids_of_waits_that_stay(patch: pytest.MonkeyPatch) -> None:
    """Each time that an agent is found waiting, its notices have other ids."""
    numbers = count()

    def another(kind: str, subject: str, recipient: str) -> str:
        return f"nt_{next(numbers)}"

    patch.setattr(waiting, "notice_id", another)


def without_telling_who_waits(patch: pytest.MonkeyPatch) -> None:
    """No agent has ever waited long enough."""
    patch.setattr(waiting, "AGENT_WAITS_S", math.inf)


LIKELY: Final[dict[Mutation, int]] = {
    without_the_journals_identity_check: 1,
    without_the_stores_epoch: 5,
    without_syncing: 4,
    without_syncing_bundles: 4,
    without_writing_again: 6,
    without_looking_whether_a_run_began: 9,
    without_knowing_who_was_told: 5,
    without_comparing: 15,
    without_knowing_of_unclean_stops: 11,
    without_holding_what_is_compared: 1,
    without_comparing_with_what_was_verified: 17,
    without_knowing_how_far_logs_were_read: 6,
    without_remembering_what_followed: 1,
    without_knowing_copies: 1,
    without_making_journals: 1,
    without_leaving_the_contract_to_the_launcher: 1,
    without_telling_again: 2,
    without_the_journals_epoch: 11,
    without_history: 5,
    without_grace: 126,
    without_adopting_lines: 9,
    without_the_restores_epoch: 3,
    without_looking_where_a_launched_run_lies: 66,
    without_ids_of_notices_that_stay: 8,
    without_ids_of_waits_that_stay: 25,
    without_telling_who_waits: 25,
    without_giving_notices_up: 1,
    without_a_pause_between_tries: 1,
    without_marking_what_was_delivered: 1,
    without_the_attempts_own_part: 1,
    without_trying_to_deliver_again: 1,
    without_lanes: 2,
}
"""Histories that broke a law, where that isn't the first. They are played first; if a change has shifted them, all are."""

QUICK: Final = (without_taking_jobs_back, without_knowing_copies, without_waiting_for_the_commit)
"""Guards whose absence shows at once: `make test` takes these."""


@pytest.mark.parametrize(
    "mutate",
    [
        *QUICK,
        *(
            pytest.param(each, marks=pytest.mark.prove)
            for each in (
                without_the_journals_identity_check,
                without_lanes,
                without_owing_lines_again,
                without_leaving_the_contract_to_the_launcher,
                without_the_journals_epoch,
                without_the_stores_epoch,
                without_syncing,
                without_syncing_bundles,
                without_writing_again,
                without_looking_whether_a_run_began,
                without_telling_again,
                without_knowing_who_was_told,
                without_comparing,
                without_knowing_of_unclean_stops,
                without_holding_what_is_compared,
                without_comparing_with_what_was_verified,
                without_knowing_how_far_logs_were_read,
                without_remembering_what_followed,
                without_history,
                without_grace,
                without_adopting_lines,
                without_the_restores_epoch,
                without_making_journals,
                without_the_attempts_own_part,
                without_the_last_receipt,
                without_looking_where_a_launched_run_lies,
                without_ids_of_notices_that_stay,
                without_ids_of_waits_that_stay,
                without_telling_who_waits,
                without_marking_what_was_delivered,
                without_a_pause_between_tries,
                without_trying_to_deliver_again,
                without_giving_notices_up,
                without_recording_what_was_announced,
            )
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_history_breaks_a_law(mutate: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises(HistoryFailed) as failed:
        play(dict.fromkeys((LIKELY.get(mutate, 0), *range(MOST))))
    assert isinstance(failed.value.why, Broken | GoingInCircles)
    # A history that is broken off leaves tasks that never began, and Python warns of each when it frees it: that is here.
    del failed
    gc.collect()
