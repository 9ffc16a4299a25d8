"""`runward session cancel`: a running session is ended, with whom and why, or it is said why not."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.launching import members
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.store.ownership import hold


@contextmanager
def running(place: Place, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A launcher with a run called `mine`, whose command is let go."""
    with place.start_process("run", "--name", "mine", "--grace", "1s", "--", *command) as process:
        wait_for(lambda: members(str(place.runs / "mine")), "the command")
        yield process
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def seen(place: Place, name: str = "mine") -> None:
    """Until the daemon knows the run and its command, and the session is opened."""
    file = place.runs / name / "process.json"
    wait_for(file.exists, "the command")
    pid = json.loads(file.read_text())["pid"]

    def known() -> bool:
        named = any(str(pid) in str(state) for (state,) in place.rows("select state from cursors"))
        return named and place.rows(f"select 1 from sessions where session_id = '{name}'") != []

    wait_for(known, "the run and its command to be seen")


def test_a_run_is_cancelled_while_one_waits_and_why_tells_the_whole_story(place: Place) -> None:
    with place.daemon(), running(place, "sleep", "1000") as process:
        seen(place)
        asked = place.call("session", "cancel", "mine", "--reason", "wrong branch", "--wait", "--json")
        assert asked.code == 0, asked.err
        said = asked.object()
        assert process.wait(PATIENCE_S) == 143
        wait_for(lambda: "was told" in place.call("why", "mine").out, "what came of the order")
        why = place.call("why", "mine")
        causes = place.call("why", "mine", "--json").items("causes")
        shown = place.call("session", "show", "mine", "--json").object()
    assert list(said) == ["session", "request", "status", "reason_code", "refusal", "outcome"]
    assert (said["status"], said["reason_code"]) == ("cancelled", "run.cancelled.user")
    assert said["refusal"] is None
    assert shown["ended_by"] == "declared"
    assert [each["source"] for each in shown["history"]] == ["daemon", "launcher"]  # type: ignore[union-attr, index, call-overload]  # a list of objects
    ending = json.loads((place.runs / "mine" / "exit.json").read_text())
    assert (ending["cause"], ending["signal"]) == ("cancelled", None)
    assert ending["error"].startswith("cancelled by ")
    assert ending["error"].endswith(": wrong branch")
    assert "asked to cancel attempt 1: wrong branch" in why.out
    assert f"its launcher, process {process.pid}, was told" in why.out
    kinds = [each["kind"] for each in causes if each["event"] == said["request"]]
    assert kinds == ["event", "decision", "order"]


def test_a_request_is_durable_without_a_daemon_and_carried_out_by_the_next(place: Place) -> None:
    with running(place, "sleep", "1000") as process:
        place.daemon_once()
        asked = place.call("session", "cancel", "@last")
        assert (asked.code, asked.out) == (0, "session mine will be cancelled\n")
        assert "no daemon is running: it will be done when one starts" in asked.err
        assert process.poll() is None
        place.daemon_once()
        assert process.wait(PATIENCE_S) == 143
    place.daemon_once()
    assert place.call("session", "show", "mine", "--json").object()["status"] == "cancelled"


@pytest.mark.prove
def test_a_run_whose_launcher_was_killed_is_cancelled_through_its_command(place: Place) -> None:
    with place.daemon(), running(place, "sleep", "1000") as process:
        seen(place)
        process.kill()
        process.wait(PATIENCE_S)
        asked = place.call("session", "cancel", "mine", "--wait", "--json")
    assert asked.code == 0, asked.err
    assert (asked.object()["status"], asked.object()["reason_code"]) == ("cancelled", "run.cancelled.user")


def test_only_a_running_session_can_be_cancelled(recorded: Place) -> None:
    refused = recorded.call("session", "cancel", "plain")
    assert (refused.code, refused.err) == (
        1,
        "runward: session plain is completed: only a running one can be cancelled\n",
    )
    assert not list((recorded.state / "inbox").glob("*.json"))


def test_another_tools_session_is_refused_with_what_to_do(recorded: Place, tmp_path: Path) -> None:
    place = recorded.copy_to(tmp_path)
    place.change_store("update sessions set layout = 'claude-code' where session_id = 'open'")
    refused = place.call("session", "cancel", "open")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        "runward: session open is of claude-code: only what `runward run` or `runward play run` started can be"
        " cancelled: end the agent yourself\n"
    )
    assert not list((place.state / "inbox").glob("*.json"))


def test_of_a_session_that_is_pruned_while_one_waits_it_is_said(
    recorded: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = recorded.copy_to(tmp_path)

    def prune(*_: object, **__: object) -> None:
        place.change_store(
            "insert into tombstones (session_key, session_id, status, attempt, started_at, finished_at, event, hash,"
            " pruned_at, kept) select key, session_id, 'completed', 1, 1.0, 2.0, 9, printf('%064d', 0), 3.0, '{}'"
            " from sessions where session_id = 'open'"
        )
        place.change_store("delete from attempts where session_key = 'native:runs/open'")
        place.change_store("delete from sessions where session_id = 'open'")

    monkeypatch.setattr("runward.daemon.inbox.spool.put", prune)
    ownership = hold(place.state)
    gone = place.call("session", "cancel", "open", "--wait")
    ownership.release()
    assert gone.code == 3
    assert gone.err.startswith("runward: the record of open was pruned 1970-01-01 00:00:03")


def test_waiting_without_a_daemon_asks_for_nothing_and_exits_75(recorded: Place) -> None:
    asked = recorded.call("session", "cancel", "open", "--wait")
    assert asked.code == 75
    assert "no daemon is running" in asked.err
    assert not list((recorded.state / "inbox").glob("*.json"))


@pytest.mark.longest
def test_a_session_that_names_no_process_is_refused_and_the_reason_told(
    recorded: Place, tmp_path: Path
) -> None:
    place = recorded.copy_to(tmp_path)
    with place.daemon():
        asked = place.call("session", "cancel", "open", "--wait", "--reason", "enough")
    assert asked.code == 1
    assert "its files name no process that could be asked to end" in asked.out
    assert "not cancelled by" in place.call("why", "open").out


@pytest.mark.parametrize("identifier", ["nobody", "@never"])
def test_an_unknown_session_is_not_found(recorded: Place, identifier: str) -> None:
    assert recorded.call("session", "cancel", identifier).code == 3


def test_a_duration_without_a_unit_is_wrong_usage(recorded: Place) -> None:
    assert recorded.call("session", "cancel", "open", "--wait", "--timeout", "5").code == 2
