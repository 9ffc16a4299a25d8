"""The legs of a flow in the launcher's contract for its run, by the same functions as the daemon's.

It is loaded only if a run has a plan, at its end.
"""

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import NamedTuple

from runward.config.contract import Contract
from runward.daemon.configuration.declarations import Declarer
from runward.daemon.configuration.declared_files import NotFound
from runward.daemon.configuration.settings import load_settings
from runward.daemon.rundir.legs import early_legs
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import look
from runward.daemon.store import reading
from runward.daemon.store.tables import sessions
from runward.handlers.contracts.fold import Unfoldable, fold_legs, why_too_late
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.layouts import native
from runward.handlers.layouts.native import Planned
from runward.handlers.model.contracts import LegsBefore
from runward.handlers.model.files import Unreadable
from runward.handlers.model.sessions import Complaint


class NotFolded(Exception):
    """The legs of a run's plan are not in its contract; the message says why."""


def folded_by_the_daemon(state: str, session_key: str) -> Contract | None:
    """The contract that the daemon made from the first plan that it saw; None if it has made none yet.

    A run may rewrite its plan. The first one that was seen counts, so the daemon's word takes precedence over the
    disk's.
    """
    try:
        with closing(reading.open_to_read(os.path.join(state, reading.STORE))) as connection:
            session = sessions.session(connection, session_key)
    except (reading.StoreUnreadable, sqlite3.Error):
        return None  # the plan that is there now is the first that a daemon will see
    if session is None or not session.folded or session.artifact_contract_json is None:
        return None
    return stored_contract(session.artifact_contract_json)


class Place(NamedTuple):
    """A run on the disk: its directory, where its artifacts are, and the directory they may not lead out of, or ""."""

    run: str
    artifacts: str
    within: str


def with_legs(contract: Contract | None, place: Place, declarer: Callable[[], Declarer]) -> Contract | None:
    """The contract with what the legs of the run's plan must leave. Raises NotFolded if a daemon would refuse."""
    plan = _plan(place.run)
    if plan is None:
        return contract
    paths = tuple(leg.path for leg in plan.legs)
    early = early_legs(LegsBefore(place.artifacts, place.within, paths, plan.modified_ns, plan.changed_ns))
    if isinstance(early, Unreadable):
        raise NotFolded(f"the legs can't be looked at: {early.why}")
    why = why_too_late(plan.legs, early, ())
    if why is not None:
        raise NotFolded(why)
    declared = declarer()
    folded = fold_legs(contract, plan.legs, {leg.agent: declared(None, leg.agent) for leg in plan.legs})
    if isinstance(folded, Unfoldable):
        raise NotFolded(folded.why)
    return folded.contract


def declarer_of(config: str | None, environment: Mapping[str, str], cwd: str) -> Declarer:
    """Resolves the declarations of agent profiles, by the settings of a launch in `cwd`. Raises NotFolded."""
    try:
        parsed = load_settings(config, environment, cwd)
    except NotFound as error:
        raise NotFolded(str(error)) from None
    if parsed.value is None:
        raise NotFolded("; ".join(problem.render() for problem in parsed.errors))
    return Declarer(parsed.value)


def _plan(run: str) -> Planned | None:
    """The plan in the run directory; None if it no longer exists. Raises NotFolded if it is malformed."""
    root, name = os.path.split(run)
    sight = look(root, name, (native.FLOW,), {})
    if isinstance(sight, Gone):
        raise NotFolded("the run directory is gone")
    if isinstance(sight, Unreadable):
        raise NotFolded(f"it can't be read: {sight.why}")
    plan = None
    for item in native.scan("", run, sight.documents):
        if isinstance(item, Complaint):
            raise NotFolded(f"{item.message} ({item.fix})")
        if isinstance(item, Planned):
            plan = item
    return plan
