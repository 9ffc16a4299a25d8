"""What follows from a damaged journal: which lines are owed again, what is told, and what is kept of it."""

import json

import pytest
from tests.handlers.examples import HASH
from tests.handlers.played import Need, played

from runward.handlers.journal import lines
from runward.handlers.journal.lines import describe
from runward.handlers.model.effects import Explain
from runward.handlers.model.journal import AppendLines, JournalDamaged, RepairJournal
from runward.handlers.model.sessions import SessionOf

KEY = "native:runs/a"
decide = played(lines.repair_journal)


def damaged(lost: int = 0, torn_bytes: int = 0, changed: int = 0, moved: int = 0) -> JournalDamaged:
    return JournalDamaged(
        KEY, 5.0, 3, "/runs/a", "REPLAY.jsonl", (256, 512), lost, torn_bytes, changed, moved
    )


def decided(event: JournalDamaged) -> tuple[object, ...]:
    answer = decide(event, HASH, {SessionOf(KEY): None}, 9.0)
    assert isinstance(answer, tuple)
    return answer


def test_whether_the_run_lives_is_asked_first() -> None:
    assert decide(damaged(lost=1), HASH, {}, 9.0) == Need(SessionOf(KEY))


def test_what_a_crash_took_is_owed_again_and_told() -> None:
    repair, explained, told = decided(damaged(lost=2, torn_bytes=30))
    assert repair == RepairJournal("/runs/a", "REPLAY.jsonl", (256, 512), live=False)
    assert isinstance(explained, Explain)
    assert explained.summary == (
        "REPLAY.jsonl: 2 of Runward's lines were missing (30 bytes of a torn one are left), written again"
    )
    assert isinstance(told, AppendLines)
    assert (told.name, told.directory) == ("events.jsonl", "/runs/a"), "whichever journal it was"
    assert json.loads(told.content) == {
        "ts": "1970-01-01T00:00:05.000000Z",
        "role": "runward",
        "event": "journal_repaired",
        "path": "REPLAY.jsonl",
        "hash": HASH,
        "lines_written_again": 2,
        "lines_changed": 0,
        "bytes_torn": 30,
    }


def test_what_somebody_changed_is_a_problem_beside_that() -> None:
    repair, _, told = decided(damaged(lost=1, changed=1))
    assert isinstance(repair, RepairJournal)
    assert (
        repair.problem
        == "1 of Runward's lines was changed or removed by somebody; the correct text is appended again"
    )
    assert isinstance(told, AppendLines)
    assert json.loads(told.content)["lines_changed"] == 1


def test_lines_that_only_stand_elsewhere_are_looked_up_and_nothing_is_told() -> None:
    repair, explained = decided(damaged(moved=2))
    assert isinstance(repair, RepairJournal)
    assert repair.problem is None
    assert isinstance(explained, Explain)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (damaged(changed=1), "1 of Runward's lines was changed or removed by somebody, written again"),
        (damaged(moved=1), "1 of Runward's lines was found elsewhere in the file"),
        (
            damaged(lost=1, changed=2, moved=3),
            (
                "1 of Runward's lines was missing, written again; 2 of Runward's lines were changed or removed by somebody,"
                " written again; 3 of Runward's lines were found elsewhere in the file"
            ),
        ),
    ],
)
def test_what_was_found_is_said_in_a_sentence(event: JournalDamaged, said: str) -> None:
    assert describe(event) == said
