"""What a foreign session alone says: its files through their scanner, and its process if they name one.

No daemon, no store. The conclusion is that of the daemon's own function, made at this moment without waiting.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from runward.daemon.rundir.liveness import NOBODY_KNOWS, Writers
from runward.daemon.rundir.session_reading import SessionRead, read_session
from runward.daemon.views.native_run import InspectedSession
from runward.handlers.layouts.places import PACKED, unpacked_name
from runward.handlers.layouts.registry import DirectoryLayout, LogLayout
from runward.handlers.layouts.transcript import Told
from runward.handlers.model.sessions import Complaint
from runward.handlers.sessions.over import Standing, Writer, judge


class Found(NamedTuple):
    """A session and its identity. Of two with the same identity the one of greater weight counts."""

    session: InspectedSession
    identity: str
    weight: tuple[bool, float, bool] = (True, 0.0, True)


def inspect_transcript(
    layout: LogLayout | DirectoryLayout, path: str, writers: Writers, was_read: Callable[[int], None]
) -> Found | None:
    """What the session at `path` (absolute) says; None if it belongs to another session, like a sub-agent's log.

    `was_read` gets the number of bytes while they are read.
    """
    # The process is checked first: if it has ended by then, its last line is among the lines that are read.
    named = layout.start(unpacked_name(path.rpartition("/")[2])).tell().session_id
    writer = _writer(layout, path, named, writers)
    read = read_session(layout, path, was_read)
    told = read.told
    if told.is_subagent:
        return None
    if told.session_id != named:
        writer = _writer(layout, path, told.session_id, writers)
    now = time.time()
    quiet_s = max(0.0, now - read.changed_at) if read.changed_at is not None else 0.0
    standing = judge(told, writer.liveness, layout.names_process, quiet_s, status=writer.status)
    session = _inspected(layout, path, read, standing, quiet_s)
    identity = f"{layout.name}:{told.session_id}" if layout.goes_by_id and told.session_id else path
    return Found(session, identity, (not read.obstacles, told.moved_at or 0.0, not path.endswith(PACKED)))


def each_once(found: Iterable[Found]) -> list[InspectedSession]:
    """The sessions, in the order of their paths. If one is in two places, the one written last counts."""
    kept: dict[str, Found] = {}
    for each in found:
        before = kept.get(each.identity)
        if before is None or each.weight > before.weight:
            kept[each.identity] = each
    return sorted((each.session for each in kept.values()), key=lambda session: session.path)


def _writer(
    layout: LogLayout | DirectoryLayout, path: str, session_id: str | None, writers: Writers
) -> Writer:
    if session_id is None:
        return NOBODY_KNOWS
    writer = writers.writer(layout.name, path, session_id)
    # No one looked before: so only what the machine can say now counts.
    if writer.absence is not None and not writer.absence.proves_death(grew_elsewhere=False):
        return NOBODY_KNOWS
    return writer


def _inspected(
    layout: LogLayout | DirectoryLayout, path: str, read: SessionRead, standing: Standing, quiet_s: float
) -> InspectedSession:
    told = read.told
    goes_on = standing.state in ("running", "unknown") and read.changed_at is not None
    return InspectedSession(
        layout.name,
        told.session_id,
        path,
        standing,
        quiet_s if goes_on else None,
        read.started_at,
        told.agent,
        told.model,
        told.cwd,
        told.parent_session_id,
        max(1, told.attempt),
        told.counts,
        told.usage,
        _problems(told, read.obstacles),
        names_files=isinstance(layout, DirectoryLayout),
    )


def _problems(told: Told, obstacles: tuple[Complaint, ...]) -> tuple[Complaint, ...]:
    problems = (*obstacles, *told.complaints)
    further = told.unreadable - sum(each.line is not None for each in told.complaints)
    if further > 0:
        problems += (Complaint("", None, f"{further} further lines can't be read", None),)
    return problems
