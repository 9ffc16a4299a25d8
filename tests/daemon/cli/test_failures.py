"""What failed lately needs a person, in `status`, until that person has seen it."""

import time

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.screens import screen
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.daemon.inbox.requests import load_request
from runward.daemon.inbox.spool import list_inbox
from runward.handlers.model.requests import SessionSeenRequested


def _ago(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))


def _fail(place: Place, name: str, ago: float = 60.0, exit_code: int = 1) -> None:
    place.add_run(name, exit_code=exit_code, started_at=_ago(ago + 10), finished_at=_ago(ago))


def _failures(place: Place) -> tuple[JsonValue, list[str]]:
    failures = place.call("status", "--json").object()["failures"]
    assert isinstance(failures, dict)
    newest = failures["newest"]
    assert isinstance(newest, list)
    return failures["count"], [str(each["session_id"]) for each in newest if isinstance(each, dict)]


def _until(place: Place, *names: str) -> None:
    wait_for(lambda: _failures(place) == (len(names), list(names)) or None, f"failures: {names}")


def test_the_failures_of_the_last_day_need_somebody(place: Place) -> None:
    _fail(place, "bad", ago=50)
    _fail(place, "worse", ago=100)
    _fail(place, "old", ago=90_000)
    _fail(place, "good", exit_code=0)
    place.daemon_once()
    assert _failures(place) == (2, ["bad", "worse"])
    page = place.call("status").out
    said = "2 sessions failed in the last 24 hours: bad (run.failed.exit_nonzero), worse (run.failed.exit_nonzero)"
    assert said in page


def test_what_a_person_ended_is_no_failure(place: Place) -> None:
    run = place.add_run("stopped", started_at=_ago(100))
    said = f'{{"exit_code": null, "signal": 2, "cause": "cancelled", "finished_at": "{_ago(50)}"}}'
    (run / "exit.json").write_text(said)
    place.daemon_once()
    assert place.call("session", "show", "stopped", "--json").object()["status"] == "aborted"
    assert _failures(place) == (0, [])


def test_all_is_not_well_until_failures_are_seen(place: Place) -> None:
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    with place.daemon():
        for number in range(5):
            _fail(place, f"bad-{number}", ago=50 + number)
        _until(place, *(f"bad-{number}" for number in range(5)))
        page = place.call("status").out
        assert "all is well" not in page
        assert "and 2 more" in page
        told = place.call("session", "seen", "bad-0", "bad-3", "--wait", "--json")
        assert [each["session"] for each in told.objects()] == ["native:runs/bad-0", "native:runs/bad-3"]
        assert _failures(place) == (3, ["bad-1", "bad-2", "bad-4"])
        assert place.call("session", "seen", "--all", "--wait").out == "3 failures seen\n"
        assert "all is well" in place.call("status").out
        assert "Seen" not in place.call("why", "bad-0").out


def test_a_failure_that_was_shown_in_full_on_a_terminal_was_seen(place: Place) -> None:
    with place.daemon():
        _fail(place, "bad", ago=50)
        _fail(place, "other", ago=60)
        _until(place, "bad", "other")
        place.call("session", "show", "bad", "--json")
        place.call("session", "list")
        assert place.call("session", "show", "bad").code == 0  # into a pipe, which may cut it short
        # A request that was put later is recorded: so would be one for `bad`.
        assert place.call("session", "seen", "other", "--wait").code == 0
        assert _failures(place) == (1, ["bad"])
        with screen(place, 50, 120, "session", "show", "bad") as shown:
            shown.until("exited with")
            shown.end()
        _until(place)


def test_without_a_daemon_only_who_says_so_has_seen_it(place: Place) -> None:
    _fail(place, "bad")
    place.daemon_once()
    place.call("session", "show", "bad")
    assert list_inbox(place.state) == ()
    told = place.call("session", "seen", "bad")
    assert (told.code, told.out) == (0, "1 failure seen\n")
    assert "it will be recorded when one starts" in told.err
    assert place.call("session", "seen", "bad", "--wait").code == 75
    place.daemon_once()
    assert _failures(place) == (0, [])


def test_a_further_attempt_that_fails_was_not_seen(place: Place) -> None:
    run = place.add_run("bad", started_at=_ago(100))
    (run / "exit.json").write_text(f'{{"exit_code": 1, "finished_at": "{_ago(50)}"}}')
    place.daemon_once()
    place.call("session", "seen", "bad")
    place.daemon_once()
    assert _failures(place) == (0, [])
    (run / "exit.json").unlink()
    (run / "run.json").write_text(f'{{"schema": "runward-run-v1", "started_at": "{_ago(40)}"}}')
    place.daemon_once()
    (run / "exit.json").write_text(f'{{"exit_code": 2, "finished_at": "{_ago(30)}"}}')
    place.daemon_once()
    assert place.call("session", "show", "bad", "--json").object()["attempt"] == 2
    assert _failures(place) == (1, ["bad"])


def test_seen_says_what_is_no_failure(place: Place) -> None:
    _fail(place, "good", exit_code=0)
    place.daemon_once()
    told = place.call("session", "seen", "good")
    assert (told.code, told.out) == (0, "0 failures seen\n")
    assert "good is completed" in told.err
    assert place.call("session", "seen").code == 2
    assert place.call("session", "seen", "good", "--all").code == 2
    assert place.call("session", "seen", "nobody").code == 3


def test_the_request_that_is_left_has_the_name_that_was_printed(place: Place) -> None:
    _fail(place, "bad")
    place.daemon_once()
    (printed,) = place.call("session", "seen", "bad", "--json").objects()
    (file,) = list_inbox(place.state)
    event = load_request(file)
    assert isinstance(event, SessionSeenRequested)
    assert printed == {"session": "native:runs/bad", "request": event.request}
    assert (event.session_key, event.attempt) == ("native:runs/bad", 1)
    assert event.key == "native:runs/bad#1/seen"


@pytest.mark.parametrize(("exit_code", "level"), [(0, "info"), (3, "warning")])
def test_a_failed_verdict_is_a_warning_in_the_log(place: Place, exit_code: int, level: str) -> None:
    _fail(place, "run", exit_code=exit_code)
    place.daemon_once()
    (line,) = place.call("log", "--event", "session.finished", "--json").objects()
    assert line["level"] == level
    warnings = place.call("log", "--level", "warning", "--session", "run", "--json").objects()
    assert len(warnings) == (exit_code != 0)
