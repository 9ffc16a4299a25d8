"""A journal was found damaged: missing lines are written again, and the repair is recorded.

Lines are never rewritten in place. Lines that a crash lost are appended again. If somebody changed a
line, the changed one stays as a foreign one, the true one is appended, and the problem is kept.
"""

from runward.handlers.journal import lines
from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.journal import AppendLines, JournalDamaged, RepairJournal
from runward.handlers.model.sessions import SessionOf


def decide(event: JournalDamaged, given: Given) -> Deciding:
    """A journal was found damaged: missing lines are written again, and the repair is recorded.

    Have the lines written again, in their order and before any later one.
    """
    session = yield from ask(SessionOf(event.session_key))
    live = session is not None and session.status == "running"
    repair = RepairJournal(event.directory, event.name, event.rows, live, _problem(event))
    explained = Explain(event.session_key, "decided", f"{event.name}: {describe(event)}")
    if not event.lost and not event.changed:
        return repair, explained
    told = lines.journal_repaired(event, given.event_hash)
    return repair, explained, AppendLines(event.session_key, event.directory, lines.EVENTS, told, live)


def describe(event: JournalDamaged) -> str:
    """What was found, in a sentence."""
    torn = f" ({event.torn_bytes} bytes of a torn one are left)" if event.torn_bytes else ""
    found = [
        f"{_counted(event.lost)} missing{torn}, written again" if event.lost else "",
        f"{_counted(event.changed)} changed or removed by somebody, written again" if event.changed else "",
        f"{_counted(event.moved)} found elsewhere in the file" if event.moved else "",
    ]
    return "; ".join(part for part in found if part)


def _counted(number: int) -> str:
    return "1 of Runward's lines was" if number == 1 else f"{number} of Runward's lines were"


def _problem(event: JournalDamaged) -> str | None:
    if not event.changed:
        return None
    return f"{_counted(event.changed)} changed or removed by somebody; the correct text is appended again"
