"""Runs that no daemon has looked at, or whose end none has judged: commands look for themselves and say so."""

import os
import sqlite3
import time
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from tests.daemon.cli.calling import CONTRACT, Place
from tests.waiting import wait_for


def _later(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def test_a_run_that_failed_without_a_daemon_is_shown_and_last(place: Place) -> None:
    assert place.call("session", "list").code == 0
    process = place.start("run", "--name", "bad", "--", "sh", "-c", "exit 3")
    process.communicate()
    assert process.returncode == 3
    for name in ("bad", "ba", "native:runs/bad", "@last"):
        shown = place.call("session", "show", name, "--json").object()
        assert (shown["session_id"], shown["status"], shown["not_judged_yet"]) == ("bad", "failed", True)
    page = place.call("session", "show", "bad")
    assert page.code == 0
    assert "not judged yet" in page.out
    assert "exited with 3" in page.out
    listed = place.call("session", "list")
    assert "failed, not judged yet" in listed.out
    assert "start `runward daemon`" in listed.err


def test_a_run_that_is_seen_and_not_opened_yet_is_found_all_the_same(ended: Place, tmp_path: Path) -> None:
    place = ended.copy_to(tmp_path)
    place.add_run("fresh", exit_code=3, started_at="2026-05-02T03:04:05Z")
    place.daemon_once()
    with closing(sqlite3.connect(place.state / "runward.db")) as store:
        # As it is between the transaction that records the look and the one that opens the session.
        store.execute("drop trigger sessions_are_not_replaced")
        for table in ("attempts", "status_history", "files"):
            store.execute(f"delete from {table} where session_key = 'native:runs/fresh'")
        store.execute("delete from sessions where key = 'native:runs/fresh'")
        store.execute("update jobs set state = 'running', token = 't' where lane = 'native:runs/fresh'")
        store.commit()
    assert place.call("session", "show", "fresh", "--json").object()["not_judged_yet"] is True
    assert "fresh" in place.call("session", "list").out


def test_the_last_is_the_newest_whether_it_is_judged_or_not(ended: Place, tmp_path: Path) -> None:
    place = ended.copy_to(tmp_path)
    place.add_run("fresh", exit_code=0, started_at="2026-05-02T03:04:05Z")
    assert place.call("session", "show", "@last", "--json").object()["session_id"] == "fresh"
    ids = [each["session_id"] for each in place.call("session", "list", "--json").objects()]
    assert ids == ["fresh", "stuck"]
    flags = [each["not_judged_yet"] for each in place.call("session", "list", "--json").objects()]
    assert flags == [True, False]
    place.daemon_once()
    (fresh, _) = place.call("session", "list", "--json").objects()
    assert (fresh["session_id"], fresh["not_judged_yet"]) == ("fresh", False)


def test_an_end_that_no_daemon_has_seen_is_told(place: Place) -> None:
    place.add_run("open")
    place.daemon_once()
    (before,) = place.call("session", "list", "--json").objects()
    assert (before["status"], before["not_judged_yet"]) == ("running", False)
    place.end_run("open", 7)
    (after,) = place.call("session", "list", "--json").objects()
    assert (after["status"], after["not_judged_yet"]) == ("failed", True)
    assert after["reason"] == {
        "code": "run.failed.exit_nonzero",
        "summary": "exited with 7",
        "evidence_refs": [],
    } | {"evidence_refs": after["reason"]["evidence_refs"]}  # type: ignore[index, call-overload]


def test_a_clean_end_without_its_artifacts_is_no_success(place: Place) -> None:
    place.add_run("silent", exit_code=0, contract=CONTRACT, files={"report.md": "r"})
    shown = place.call("session", "show", "silent", "--json").object()
    assert (shown["status"], shown["delivery"]) == ("failed", "partial")
    place.daemon_once()
    judged = place.call("session", "show", "silent", "--json").object()
    assert [judged[key] for key in ("status", "delivery", "reason")] != []
    assert (judged["status"], judged["delivery"]) == (shown["status"], shown["delivery"])


def test_filters_hold_for_runs_that_are_not_judged(place: Place) -> None:
    place.add_run("good", exit_code=0)
    place.add_run("bad", exit_code=1)
    for arguments, expected in (
        (("--status", "failed"), ["bad"]),
        (("--layout", "codex"), []),
        (("--limit", "1"), ["bad"]),
        (("--playbook", "x"), []),
    ):
        listed = place.call("session", "list", "--json", *arguments).objects()
        assert [each["session_id"] for each in listed] == expected


def test_what_is_no_run_is_not_shown(place: Place) -> None:
    place.runs.mkdir(parents=True)
    (place.runs / "empty").mkdir()
    (place.runs / ".hidden").mkdir()
    (place.runs / "file").write_text("")
    elsewhere = place.directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "run.json").write_text('{"schema": "runward-run-v1"}')
    (place.runs / "link").symlink_to(elsewhere)
    os.mkdir(os.fsencode(place.runs) + b"/caf\xe9")
    assert place.call("session", "list", "--json").json() == []
    assert place.call("session", "show", "link").code == 3


def test_what_needs_the_record_says_that_there_is_none_yet(place: Place) -> None:
    place.add_run("fresh", exit_code=0)
    for command in ("verify", "cancel"):
        refused = place.call("session", command, "@last")
        assert (refused.code, refused.out) == (75, "")
        assert "session fresh is not judged yet: start `runward daemon`" in refused.err


def test_why_says_what_a_run_waits_for(place: Place) -> None:
    place.add_run("fresh", exit_code=4, finished_at=_later(0))
    for name in ("fresh", "@last"):
        told = place.call("why", name, "--json").object()
        assert told["subject"] == {"noun": "session", "id": "native:runs/fresh"}
        assert told["status"] == "failed"
        assert "start `runward daemon`" in str(told["not_done"])


def test_a_root_that_did_not_change_since_the_last_event_is_not_listed(
    ended: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ended.copy_to(tmp_path)
    place.change_store("update roots set path = ?", str(place.runs))
    old = time.time() - 3600
    os.utime(place.runs, (old, old))
    listed: list[object] = []
    listdir = os.listdir

    def noticed(path: str) -> list[str]:
        listed.append(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", noticed)
    assert len(place.call("session", "list", "--json").objects()) == 1
    assert str(place.runs) not in listed


@pytest.mark.parametrize("daemon", ["up", "down"])
def test_an_end_that_the_command_forged_is_not_shown_while_the_run_goes_on(place: Place, daemon: str) -> None:
    forge = "cd $RUNWARD_RUN_DIR; echo '{\"exit_code\":0}' >x; mv x exit.json; : >ready; until [ -e go ]; do sleep 0.05; done"
    with place.daemon() if daemon == "up" else nullcontext():
        process = place.start("run", "--name", "forger", "--", "sh", "-c", forge)
        try:
            wait_for(lambda: (place.runs / "forger" / "ready").exists(), "its exit.json")
            (listed,) = place.call("session", "list", "--json").objects()
            shown = place.call("session", "show", "forger", "--json").object()
            (inspected,) = place.call("inspect", str(place.runs / "forger"), "--json").objects()
            page = place.call("session", "show", "forger").out
        finally:
            (place.runs / "forger" / "go").touch()
            process.communicate()
    assert (listed["status"], shown["status"], inspected["state"]) == ("running", "running", "running")
    assert "exit.json was not written by the launcher of this run" in page
    assert "was not written by the launcher" in str(inspected["problems"])
    assert place.call("session", "show", "forger", "--json").object()["status"] == "completed"


def test_an_end_counts_at_once_when_nothing_of_its_command_is_left(place: Place) -> None:
    place.start("run", "--name", "done", "--", "true").communicate()
    (inspected,) = place.call("inspect", str(place.runs / "done"), "--json").objects()
    assert inspected["state"] == "completed"
