"""Why a row of a list is as it is: its story, and that in short."""

import sqlite3
from pathlib import Path

from runward.config.settings import Settings
from runward.daemon.store.ownership import holder
from runward.daemon.store.tables import sessions
from runward.daemon.views.answers import Answer, answer_of
from runward.daemon.views.rows import Row
from runward.daemon.views.unjudged import as_its_files_tell, unjudged_called
from runward.daemon.views.why import Story, chain_run_story, session_story


def story_of_row(connection: sqlite3.Connection, settings: Settings, row: Row, now: float) -> Story | None:
    """The story of what the row is about; None if that is not known any more."""
    is_up = holder(Path(settings.state_dir)) is not None
    if row.noun == "chain run":
        from runward.daemon.store.tables.chain_runs import chain_runs_called

        run = next((each for each in chain_runs_called(connection, row.key, 1) if each.id == row.key), None)
        return None if run is None else chain_run_story(connection, run, is_up)
    recorded = sessions.session(connection, row.key)
    if recorded is not None:
        return session_story(connection, as_its_files_tell(connection, settings, recorded), is_up, now)
    unjudged = next(
        (each for each in unjudged_called(connection, settings, row.key) if each.key == row.key), None
    )
    return None if unjudged is None else session_story(connection, unjudged, is_up, now)


def answer_of_row(connection: sqlite3.Connection, settings: Settings, row: Row, now: float) -> Answer | None:
    """The same in short."""
    story = story_of_row(connection, settings, row, now)
    return None if story is None else answer_of(connection, story)
