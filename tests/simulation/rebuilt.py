"""The state of sessions in the store, held against what the lines that their journals were owed tell of it."""

from typing import Final

from tests.simulation.broken import Broken
from tests.simulation.universe import Universe

from runward.daemon.doctor.state import differences
from runward.daemon.store.session_state import FreshStore, state_of
from runward.handlers.foreign_json import read_json
from runward.handlers.journal.folding import fold_lines

LINES: Final = (
    "select l.content from events e join journal_lines l on l.id between 256 * e.seq and 256 * e.seq + 255"
    " where e.lane = ? order by l.id"
)
SESSIONS: Final = "select key from sessions where packed = 0 and origin = 'live' and key not in (select session_key from tombstones)"

LINKED: Final = "select 1 from events where lane = ? and type = 'StartedEarlier'"


def check_rebuilt(universe: Universe) -> None:
    """Every field of every live session follows from its journal's lines."""
    connection = universe.disk.world
    with FreshStore() as fresh:
        for (key,) in connection.execute(SESSIONS).fetchall():
            written = [
                read_json(line)
                for (content,) in connection.execute(LINES, (key,))
                for line in content.splitlines()
            ]
            folded = fold_lines(key, [value for value in written if isinstance(value, dict)])
            if folded.lacking:
                raise Broken(f"the lines of {key} do not tell {sorted(folded.lacking)}")
            found = differences(key, state_of(connection, key), fresh.state(key, folded.effects))
            # No line says to which invocation a session belongs that began before its order was recorded.
            if connection.execute(LINKED, (key,)).fetchone() is not None:
                found = [each for each in found if each.field != "invocation_id"]
            if found:
                raise Broken(f"the journal of {key} tells otherwise than the store: {found[:3]}")
            universe.tally.reached["a state was made again from its journal"] += 1
