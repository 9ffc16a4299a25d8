"""From what people type to the session that they mean: an id, its beginning, a key, or `@last`."""

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, TRY_AGAIN
from runward.daemon.cli.shell.context import is_daemon_up
from runward.daemon.cli.shell.finding import LAST, NAMED, refuse_ambiguous, refuse_empty, refuse_unknown
from runward.daemon.cli.terminal.output import fail, safe, unescaped
from runward.daemon.store.tables import session_lists, sessions
from runward.daemon.store.tables.sessions import SessionRow
from runward.daemon.views.text import local
from runward.daemon.views.unjudged import as_its_files_tell, unjudged, unjudged_called

if TYPE_CHECKING:
    from runward.daemon.store.tables.prunings import Tombstone


Found = TypeVar("Found")

_COMPARED: Final = 2000
"""The newest sessions, among which the nearest id is looked for."""


def find_session(connection: sqlite3.Connection, settings: Settings, text: str) -> SessionRow:
    """The session that `text` means; exits 2 if it means several, 3 if it means none.

    Native runs that the store doesn't know yet are found, too.
    """
    if text == LAST:
        return _newest(connection, settings)
    refuse_empty(text)
    key = session_called(connection, text)
    if key is not None:
        row = sessions.session(connection, key)
        assert row is not None, "it was found in the same transaction"
        return as_its_files_tell(connection, settings, row)
    unjudged_rows = unjudged_session(connection, settings, text)
    if len(unjudged_rows) > 1:
        refuse_ambiguous(text, [each.key for each in unjudged_rows])
    if unjudged_rows:
        return unjudged_rows[0]
    # Last, because a name may be used again: then the run that exists is meant, not the one that is gone.
    refuse_pruned(connection, text)
    return refuse_unknown("session", text, session_names(connection))


def recorded_session(connection: sqlite3.Connection, settings: Settings, text: str) -> SessionRow:
    """The session that `text` means, from the store; exits 75 if no daemon has looked at it yet."""
    named = find_session(connection, settings, text)
    row = sessions.session(connection, named.key)
    if row is None:
        fail(f"session {safe(named.session_id)} is not judged yet: {how_to_judge(settings)}", TRY_AGAIN)
    return row


def how_to_judge(settings: Settings) -> str:
    """How to get a run judged that is not judged yet."""
    is_up = is_daemon_up(settings)
    return "the daemon has not processed it yet, so try again" if is_up else "start `runward daemon`"


def _newest(connection: sqlite3.Connection, settings: Settings) -> SessionRow:
    """The session that started last, of those that are recorded and those that are not yet."""
    recorded = session_lists.newest_session(connection)
    candidates = unjudged(connection, settings, 1)
    if recorded is not None:
        candidates.append(as_its_files_tell(connection, settings, recorded))
    if not candidates:
        fail(
            "there is no session yet: `runward run -- COMMAND` records one, and a root of the settings brings "
            "those of an agent",
            NOT_FOUND,
        )
    return max(candidates, key=lambda row: row.started_at)


def refuse_pruned(connection: sqlite3.Connection, text: str) -> None:
    """Exit 3 if the session of this id or key was pruned, with what is left of it."""
    from runward.daemon.store.tables.prunings import tombstone

    pruned = tombstone(connection, text)
    if pruned is not None:
        fail(_of_tombstone(pruned), NOT_FOUND)


def _of_tombstone(pruned: "Tombstone") -> str:
    return (
        f"the record of {safe(pruned.session_id)} was pruned {local(pruned.pruned_at)}: it was {pruned.status} after"
        f" {counted(pruned.attempt, 'attempt', 'attempts')}, from {local(pruned.started_at)} to"
        f" {local(pruned.finished_at)}; its last event was {pruned.event}, {pruned.hash}"
    )


def session_called(connection: sqlite3.Connection, text: str) -> str | None:
    """The key of the session that `text` is or begins; exits 2 if it begins several.

    What a screen escaped in an id can be typed as it stands there.
    """
    # One more than is named shows that there are more.
    candidates = _called(text, lambda name: session_lists.sessions_called(connection, name, NAMED + 1))
    if len(candidates) > 1:
        refuse_ambiguous(text, [_shortest(each, candidates) for each in candidates])
    return candidates[0][0] if candidates else None


def unjudged_session(connection: sqlite3.Connection, settings: Settings, text: str) -> list[SessionRow]:
    """The same of runs that no daemon knows yet."""
    return _called(text, lambda name: unjudged_called(connection, settings, name))


def _called(text: str, called: Callable[[str], list[Found]]) -> list[Found]:
    return called(text) or ([] if (meant := unescaped(text)) == text else called(meant))


def session_names(connection: sqlite3.Connection) -> list[str]:
    """Ids and keys of the newest sessions, for suggestions."""
    return [word for each in session_lists.newest_sessions(connection, _COMPARED) for word in each]


def _shortest(candidate: tuple[str, str], among: list[tuple[str, str]]) -> str:
    """A candidate's id, or its key where another one has the same id."""
    key, identifier = candidate
    return identifier if sum(each[1] == identifier for each in among) == 1 else key
