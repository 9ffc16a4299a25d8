"""The journals' lines: valid JSON, a line each, with what the CTCP contracts want first."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.examples import HASH, REVIEW, declaration, ended, planned, started

from runward.config.contract import Contract, ContractEntry
from runward.handlers.contracts.verify import verify
from runward.handlers.journal import lines
from runward.handlers.model.files import FileFact, RootFacts
from runward.handlers.model.sessions import AttemptEnded, AttemptStarted, Reason
from runward.handlers.times import iso_time

EVENT_LINES: dict[str, Callable[[AttemptStarted, AttemptEnded, str], bytes]] = {
    "session_started": lambda start, end, text: lines.session_started(
        start, HASH, declaration(session_id=text, playbook=text, agent=text)
    ),
    "session_resumed": lambda start, end, text: lines.session_resumed(start, HASH),
    "contract_snapshotted": lambda start, end, text: lines.contract_snapshotted(
        start, HASH, Contract((ContractEntry("a", text, True, text, "playbook"),)), "launcher"
    ),
    "artifact_verified": lambda start, end, text: lines.artifact_verified(
        end,
        HASH,
        verify(Contract((REVIEW._replace(path=text),)), RootFacts(True, (FileFact("file", 3),)), 1.0),
    ),
    "status_changed": lambda start, end, text: lines.status_changed(
        end, HASH, "running", "failed", Reason("run.failed.exception", text), "daemon"
    ),
    "session_finished": lambda start, end, text: lines.session_finished(
        end, HASH, "failed", Reason("run.failed.exception", text), None
    ),
}
foreign = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
times = st.floats(0.0, 253_402_300_799.0)


@pytest.mark.parametrize("name", EVENT_LINES)
@given(text=foreign, at=times)
def test_every_event_line_is_json_with_ts_role_event_and_path_first(name: str, text: str, at: float) -> None:
    written = EVENT_LINES[name](
        AttemptStarted("k", 2, at, None), AttemptEnded("k", 2, at, "declared", "failed", "c", text), text
    )
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    line = json.loads(written)
    assert list(line)[:5] == ["ts", "role", "event", "path", "hash"]
    assert (line["role"], line["event"], line["path"], line["hash"]) == ("runward", name, "", HASH)
    assert line["ts"] == iso_time(at)


def test_a_fold_says_of_which_legs_it_is_and_what_they_are_to_leave() -> None:
    entry = REVIEW._replace(id="one__review", path="one/review.md", source="role_default")
    line = json.loads(lines.contract_folded(planned(), HASH, (entry,), "late", None))
    assert list(line)[:5] == ["ts", "role", "event", "path", "hash"]
    assert (line["ts"], line["role"], line["event"]) == (iso_time(150.0), "runward", "contract_folded")
    assert (line["path"], line["basis"]) == ("flow.json", "late")
    assert line["legs"] == [
        {"id": "one", "agent": "reviewer", "path": "one"},
        {"id": "two", "agent": "critic", "path": "legs/two"},
    ]
    assert line["expected"] == [
        {"id": "one__review", "path": "one/review.md", "required": True, "source": "role_default"}
    ]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (1_790_000_000.25, "2026-09-21T14:13:20.250000Z"),
        (253_402_300_799.0, "9999-12-31T23:59:59.000000Z"),
    ],
)
def test_times_are_iso_8601_with_z(at: float, text: str) -> None:
    assert iso_time(at) == text


def test_the_lines_of_a_fact_bear_its_own_time_and_not_that_of_their_writing() -> None:
    assert json.loads(lines.session_resumed(started(attempt=2), HASH))["ts"] == iso_time(100.0)
    finished = lines.session_finished(ended(at=7.0), HASH, "failed", Reason("c", "s"), "missing")
    assert json.loads(finished)["ts"] == iso_time(7.0)


def test_a_finish_says_all_of_the_verdict() -> None:
    line = json.loads(
        lines.session_finished(ended(), HASH, "failed", Reason("run.failed.signal", "s"), "partial")
    )
    assert {key: line[key] for key in ("attempt", "status", "reason_code", "delivery", "ended_by")} == {
        "attempt": 1,
        "status": "failed",
        "reason_code": "run.failed.signal",
        "delivery": "partial",
        "ended_by": "declared",
    }
