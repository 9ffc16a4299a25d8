"""`runward restore`: what people and scripts see of it."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_chain import over
from tests.daemon.cli.test_chain_approvals import fire, furnished, out, waiting, waits
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript, good_turn
from tests.waiting import wait_for

from runward.config.json_value import JsonValue

PARTS = ("REPLAY.jsonl", "PR_SUMMARY.md", "RECEIPT.json")
TRACE = (
    '{"event":"ToolCall","id":"a","tool":"Read","params":{"path":"x"},"t":"2026-02-03T04:05:07Z"}\n'
    '{"event":"ToolResult","id":"a","output":{"content":"y"},"t":"2026-02-03T04:05:08Z"}\n'
)


@pytest.fixture
def backed_up(place: Place) -> Place:
    """One run is in the backup, another was judged after it."""
    place.add_run("one", exit_code=0)
    place.daemon_once()
    assert place.call("backup", "copy.db").code == 0
    place.add_run("two", exit_code=0)
    place.daemon_once()
    return place


def sessions(place: Place) -> list[tuple[object, ...]]:
    return place.rows("select session_id from sessions order by 1")


def test_a_dry_run_says_what_would_be_done_and_does_nothing(backed_up: Place) -> None:
    result = backed_up.call("restore", "copy.db", "--dry-run")
    assert result.code == 0
    assert "would be restored: 1 session," in result.out
    assert "would be kept: the previous store" in result.out
    assert "had 3 later events" in result.out
    assert sessions(backed_up) == [("one",), ("two",)]
    assert list(backed_up.state.glob("*before-restore*")) == []
    assert (backed_up.state / "epoch").read_text() == f"{2:020d}\n"


def test_what_was_judged_later_is_judged_again_by_the_next_daemon(backed_up: Place) -> None:
    journal = (backed_up.runs / "two" / "events.jsonl").read_bytes()
    result = backed_up.call("restore", "copy.db", "--json")
    assert result.code == 0, result.err
    told = result.json()
    assert isinstance(told, dict)
    assert (told["restored"], told["sessions"], told["newer_events"], told["epoch"]) == (True, 1, 3, 3)
    assert (told["starts_given_up"], told["jobs_held"]) == ([], [])
    assert sessions(backed_up) == [("one",)]
    backed_up.daemon_once()
    assert sessions(backed_up) == [("one",), ("two",)]
    assert (backed_up.runs / "two" / "events.jsonl").read_bytes() == journal
    verified = backed_up.call("session", "verify", "two")
    assert "3 lines  as written" in verified.out


def test_a_daemon_that_runs_is_not_robbed(backed_up: Place) -> None:
    with backed_up.daemon():
        result = backed_up.call("restore", "copy.db")
    assert result.code == 75
    assert "stop it first" in result.err
    assert sessions(backed_up) == [("one",), ("two",)]


def test_what_is_no_sound_backup_is_refused(backed_up: Place) -> None:
    assert backed_up.call("restore", "nowhere.db").code == 3
    (backed_up.directory / "torn.db").write_bytes((backed_up.directory / "copy.db").read_bytes()[:9000])
    result = backed_up.call("restore", "torn.db")
    assert (result.code, "nothing was changed" in result.err) == (1, True)
    newer = bytearray((backed_up.directory / "copy.db").read_bytes())
    newer[60:64] = (9999).to_bytes(4, "big")  # the schema's version, in SQLite's header
    (backed_up.directory / "newer.db").write_bytes(newer)
    result = backed_up.call("restore", "newer.db")
    assert (result.code, "install a newer one" in result.err) == (78, True)
    assert sessions(backed_up) == [("one",), ("two",)]


@pytest.fixture
def elsewhere(place: Place) -> Place:
    """A place whose runs are in a root outside of its state directory; one of them is in the backup."""
    runs = place.directory / "app runs"
    runs.mkdir()
    settings = place.directory / "runward.toml"
    settings.write_text(f'{settings.read_text()}[[roots]]\nname = "app"\npath = "app runs"\n')
    place.add_run("one", exit_code=0)
    (place.runs / "one").rename(runs / "one")
    place.daemon_once()
    assert place.call("backup", "copy.db").code == 0
    return place


def test_a_restore_without_a_root_of_the_backup_is_refused_and_says_what_to_do(elsewhere: Place) -> None:
    place, runs = elsewhere, elsewhere.directory / "app runs"
    shutil.rmtree(runs)
    before = store_and_epoch(place)
    for words in (["--dry-run"], []):
        refused = place.call("restore", "copy.db", *words)
        assert refused.code == 1
        assert "nothing was changed" in refused.err
        assert f"root app ({runs}) does not exist" in refused.err
        assert f"(mkdir -p '{runs}')" in refused.err
    assert store_and_epoch(place) == before
    runs.mkdir()
    assert place.call("restore", "copy.db").code == 0
    place.daemon_once()
    assert place.call("session", "list", "--json").code == 0


def test_a_backup_of_another_state_directory_is_not_restored(elsewhere: Place) -> None:
    place, former = elsewhere, str(elsewhere.state)
    refused = place.call("restore", "copy.db", RUNWARD_STATE_DIR=f"{former}-other")
    assert refused.code == 1
    assert f"it is of the state directory {former}, and this one is {former}-other" in refused.err
    assert f"restore it there (RUNWARD_STATE_DIR={former})" in refused.err
    assert not (place.directory / "state-other").exists()


def test_roots_in_the_state_directory_and_roots_without_sessions_may_be_gone(backed_up: Place) -> None:
    shutil.rmtree(backed_up.state)
    with closing(sqlite3.connect(backed_up.directory / "copy.db", isolation_level=None)) as backup:
        backup.execute(
            "insert into roots (name, path, layout, first_seen_at) values ('old', '/nowhere', 'show', 0)"
        )
    assert backed_up.call("restore", "copy.db").code == 0


def store_and_epoch(place: Place) -> list[bytes]:
    return [(place.state / name).read_bytes() for name in ("runward.db", "epoch")]


def with_trace(place: Place, *names: str) -> list[Path]:
    """Runs that are over, each with one call in its trace."""
    runs = [place.add_run(name) for name in names]
    for run in runs:
        (run / "trace.jsonl").write_text(TRACE)
        place.end_run(run.name, 0)
    return runs


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in PARTS if (directory / name).exists()}


def bundle(place: Place, name: str) -> dict[str, JsonValue]:
    found = place.call("session", "show", name, "--json").object()["bundle"]
    assert isinstance(found, dict)
    return found


def test_parts_of_bundles_that_are_missing_are_made_again_as_they_were(place: Place) -> None:
    (pruned,) = with_trace(place, "pruned")
    place.daemon_once()
    assert place.call("prune", "--older-than", "1h").code == 0
    place.daemon_once()
    every, some, changed, away, edited = with_trace(place, "every", "some", "changed", "away", "edited")
    place.daemon_once()
    assert place.call("backup", "copy.db").code == 0
    before = {run: contents(run) for run in (every, some)}
    for run in (pruned, every, changed):
        for name in PARTS:
            (run / name).unlink()
    (some / "REPLAY.jsonl").unlink()
    (changed / "trace.jsonl").write_text(TRACE.replace('"x"', '"z"'))
    shutil.rmtree(away)
    (edited / "RECEIPT.json").write_text("mine")

    assert place.call("restore", "copy.db").code == 0
    waiting = bundle(place, "every")
    assert (waiting["state"], waiting["problem"]) == ("pending", "its parts are looked for after a restore")
    place.daemon_once()

    assert {run: contents(run) for run in before} == before
    for run in before:
        assert place.call("receipt", "verify", run.name).code == 0
        assert (bundle(place, run.name)["valid"], bundle(place, run.name)["problem"]) == (True, None)
        assert not [each for each in run.iterdir() if each.name.startswith(".")]
    assert "the session's files have changed since" in str(bundle(place, "changed")["problem"])
    assert "the session's files have changed since" in place.call("session", "show", "changed").out
    assert bundle(place, "away")["problem"] == "its directory is gone"
    assert (contents(changed), contents(pruned)) == ({}, {})
    assert (edited / "RECEIPT.json").read_text() == "mine", "what has the name of a part stays"
    assert bundle(place, "edited")["valid"] is False
    assert place.call("receipt", "chain").code == 0
    (every / "RECEIPT.json").unlink()
    place.daemon_once()
    assert "RECEIPT.json" not in contents(every), "they are looked for once after a restore"


def test_with_the_state_directory_lost_the_bundles_of_other_tools_sessions_are_made_again(
    place: Place,
) -> None:
    transcripts = place.directory / "claude" / "-app"
    transcripts.mkdir(parents=True)
    settings = place.directory / "runward.toml"
    root = '[[roots]]\nname = "claude"\npath = "claude"\nlayout = "claude-code"\n'
    settings.write_text(f"{settings.read_text()}{root}")
    place.daemon_once()
    gone = "0" * 8 + SESSION[8:]
    for session in (SESSION, gone):
        transcript = Transcript(session)
        good_turn(transcript)
        transcript.last_prompt()
        (transcripts / f"{session}.jsonl").write_bytes(transcript.content())
    place.daemon_once()
    assert place.call("backup", "copy.db").code == 0
    directory = Path(str(bundle(place, SESSION)["directory"]))
    before = contents(directory)
    assert set(before) == set(PARTS)
    shutil.rmtree(place.state / "sessions")
    (transcripts / f"{gone}.jsonl").unlink()

    assert place.call("restore", "copy.db").code == 0
    place.daemon_once()

    assert contents(directory) == before
    assert place.call("receipt", "verify", SESSION).code == 0
    assert "the session's files have changed since" in str(bundle(place, gone)["problem"])


@pytest.mark.prove
@pytest.mark.parametrize("is_approved_since", [False, True])
def test_what_waits_for_a_person_is_named_and_a_step_that_ran_since_the_backup_is_not_run_again(
    place: Place, is_approved_since: bool
) -> None:
    furnished(place, "{expires: 1h}")
    with place.daemon():
        fired = fire(place)
        asked = str(waits(place)["approval_id"])
        assert place.call("backup", "copy.db").code == 0
        if is_approved_since:
            assert place.call("chain", "approve", fired).code == 0
            wait_for(lambda: over(place, 1), "the end of the chain run")
    timers = "select id from jobs where handler = 'timers/ring' and state = 'waiting'"
    timer = place.rows(timers)[0][0] if not is_approved_since else None

    said = place.call("restore", "copy.db", "--dry-run")
    assert f"waits for a person: step step1 of {fired} (merge); `runward chain approvals`" in said.out
    assert "(timers/ring of timer:" in said.out, "the approval expires by a timer, which may have rung since"
    told = place.call("restore", "copy.db", "--json").object()
    step = {"index": 1, "id": "step1"}
    waits_for_a_person = {"approval_id": asked, "chain_run_id": fired, "chain": "merge", "step": step}
    assert told["approvals"] == [waits_for_a_person]
    held = told["jobs_held"]
    assert isinstance(held, list)
    assert held
    assert timer is None or timer in held
    assert "1 step of chains waits for a person" in place.call("status").out
    assert f"{len(held)} held: the store was restored" in " ".join(place.call("status").out.split())
    assert [each["approval_id"] for each in waiting(place)] == [asked]
    assert f"approval {asked}" in place.call("why", fired).out

    with place.daemon():
        approved = place.call("chain", "approve", asked)
        assert approved.code == 0, approved.err
        wait_for(lambda: over(place, 1), "the end of the chain run")
    assert out(place).read_text().count("7-fast-") == 1, "the step ran once"
    assert waiting(place) == []
