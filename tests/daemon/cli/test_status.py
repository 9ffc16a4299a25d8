"""`runward status`: what is true of the daemon, up or down."""

import json
import os
import pwd
import signal
import time
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.drawn import draw
from tests.daemon.cli.everyday import Everyday
from tests.waiting import PATIENCE_S, wait_for

from runward.config.json_value import JsonValue
from runward.daemon.cli.status import _daemons_own, due_words
from runward.daemon.store.ownership import hold, prepare
from runward.daemon.units import rendering
from runward.daemon.users import as_root
from runward.daemon.views.needs import _fix_of_root, _settings

_KEYS = [
    "running",
    "stalled_s",
    "since",
    "pid",
    "elsewhere",
    "epoch",
    "version",
    "http",
    "studio",
    "sessions",
    "chains",
    "chain_runs",
    "steps",
    "exchange",
    "approvals",
    "waiting_approvals",
    "waiting_agents",
    "waiting",
    "usage_today",
    "notices",
    "queue",
    "requests",
    "coverage",
    "lag",
    "hooks",
    "fences_refused",
    "held_by_reason",
    "degraded",
    "next_due",
    "retention_s",
    "failures",
    "settings",
    "roots",
    "problems",
    "problem_count",
    "needs",
]


def test_without_a_daemon_it_exits_3_and_tells_what_the_store_knows(recorded: Place) -> None:
    told = recorded.call("status", "--json")
    status = told.object()
    assert told.code == 3
    assert list(status) == _KEYS
    assert (status["running"], status["pid"], status["since"]) == (False, None, None)
    assert status["sessions"] == {"completed": 3, "failed": 2, "running": 1}
    assert status["queue"] == {"waiting": 0, "running": 0, "held": 0, "oldest_waiting_s": None}
    (problem,) = told.items("problems")
    assert problem["path"] == f"{recorded.runs}/broken/run.json"
    assert list(problem) == ["path", "line", "message", "fix", "mend", "since", "severity"]
    assert problem["fix"] == problem["mend"]


def test_people_are_told_how_to_start_it(recorded: Place) -> None:
    shown = recorded.call("status")
    assert shown.code == 3
    assert shown.out.startswith("runward is not running: start it with `runward daemon`\n")
    assert "\none thing needs you:\n" in shown.out
    assert f"  ! {recorded.runs}/broken/run.json:1: " in shown.out
    assert "\n1 running\n  open  plain  " in shown.out
    assert "3 completed, 2 failed, 1 running" in shown.out


def test_before_the_first_daemon_it_is_not_running(place: Place) -> None:
    told = place.call("status", "--json")
    assert (told.code, told.object()["epoch"], told.object()["sessions"]) == (3, 0, {})


def test_a_running_daemon_tells_of_itself_and_of_its_roots(place: Place) -> None:
    with place.daemon() as daemon:
        status = _until_told(place)
        assert status["pid"] == daemon.pid
    assert status["running"] is True
    assert status["epoch"] == 1
    assert str(status["since"]).endswith("Z")
    (root,) = status["roots"] if isinstance(status["roots"], list) else []
    assert isinstance(root, dict)
    assert list(root) == ["name", "path", "layout", "health", "problem"]
    assert (root["name"], root["path"]) == ("runs", str(place.runs))
    coverage = status["coverage"]
    assert isinstance(coverage, dict)
    assert list(coverage) == [
        "watched",
        "flat",
        "overflows",
        "found_by_scan",
        "last_scan_at",
        "last_scan_s",
        "unread",
    ]
    assert status["lag"] == {
        "event_to_verdict_p50_s": None,
        "event_to_verdict_p99_s": None,
        "awaited_p50_s": None,
        "awaited_p99_s": None,
    }


def _until_told(place: Place) -> dict[str, JsonValue]:
    """The status once the daemon has written its first report."""

    def report() -> dict[str, JsonValue] | None:
        told = place.call("status", "--json")
        assert told.code == 0
        return told.object() if told.object()["since"] is not None else None

    return wait_for(report, "a report of the daemon")


def test_the_report_of_a_daemon_that_is_gone_counts_for_nothing(place: Place) -> None:
    place.state.mkdir()
    (place.state / "status.json").write_text(json.dumps({"pid": 1, "since": 0.0, "degraded": ["long ago"]}))
    status = place.call("status", "--json").object()
    assert (status["since"], status["degraded"]) == (None, [])


def test_a_torn_report_counts_for_nothing(place: Place) -> None:
    with place.daemon():
        (place.state / "status.json").write_text('{"pid":')
        assert place.call("status", "--json").code == 0


def test_a_job_has_been_waiting_since_it_was_due_or_since_it_was_refused(place: Place) -> None:
    place.add_run("one", exit_code=0)
    place.daemon_once()
    opened = "handler = 'sessions/opened'"
    place.change_store(f"update jobs set state = 'waiting', run_after = {time.time() - 60} where {opened}")
    due_for = _oldest(place)
    assert due_for is not None
    assert 0 <= due_for < 60 + PATIENCE_S
    place.change_store(f"update jobs set run_after = {time.time() + 60}, error = 'busy' where {opened}")
    assert _oldest(place) is not None


def _oldest(place: Place) -> float | None:
    queue = place.call("status", "--json").object()["queue"]
    assert isinstance(queue, dict)
    return None if queue["oldest_waiting_s"] is None else float(str(queue["oldest_waiting_s"]))


def test_held_and_waiting_jobs_are_counted_with_their_reasons(place: Place) -> None:
    for name in ("one", "two"):
        place.add_run(name, exit_code=0)
    place.daemon_once()
    place.change_store("update jobs set state = 'held', error = 'no space' where handler = 'sessions/ended'")
    place.change_store(
        "update jobs set state = 'waiting', run_after = 4102444800 where handler = 'sessions/opened'"
    )
    status = place.call("status", "--json").object()
    assert status["held_by_reason"] == {"no space": 2}
    queue = status["queue"]
    assert isinstance(queue, dict)
    assert (queue["waiting"], queue["held"]) == (2, 2)
    assert queue["oldest_waiting_s"] is None  # what is due later has not been waiting
    due = status["next_due"]
    assert isinstance(due, dict)
    assert due["at"] == "2100-01-01T00:00:00.000Z"
    assert str(due["what"]).startswith("sessions/opened of native:runs/")
    assert (
        "  ! 2 held: no space\n    -> fix the cause, then `runward queue retry --all`;"
        in place.call("status").out
    )


def test_of_very_many_wrong_files_the_first_are_listed_and_all_are_counted(place: Place) -> None:
    place.daemon_once()
    place.change_store(
        "with recursive n(i) as (values (1) union all select i + 1 from n where i < 1200)"
        " insert into problems (path, message, since) select printf('/run/%05d', i), 'is wrong', 0 from n"
    )
    status = place.call("status", "--json").object()
    problems, needs = status["problems"], status["needs"]
    assert isinstance(problems, list)
    assert isinstance(needs, list)
    assert (len(problems), status["problem_count"]) == (1000, 1200)
    files = [each for each in needs if isinstance(each, dict) and each["kind"] == "file"]
    assert len(files) == 11
    last = files[-1]
    assert (last["text"], last["count"]) == ("and 1190 more problems", 1190)
    assert last["fix"] == "`runward status --json` has the first 1000"


def test_a_wrong_playbook_is_a_problem_though_no_run_names_it(place: Place) -> None:
    with place.daemon():
        _until_told(place)
        shown = wait_for(
            lambda: told if "wrong.playbook.yaml" in (told := place.call("status").out) else None, "it"
        )
    assert "'../review.md' has a '..' in it" in shown
    assert "runs that name it have no contract" in shown


def test_a_daemon_that_is_well_says_so(place: Place) -> None:
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    with place.daemon():
        _until_told(place)
        shown = place.call("status")
    assert shown.code == 0
    assert shown.out.splitlines()[1:3] == ["all is well", ""]


def test_requests_that_were_refused_or_wait_are_counted(place: Place) -> None:
    for name in ("rejected/a.json", "rejected/b.json", "inbox/c.json", "inbox/.d.tmp"):
        (place.state / name).parent.mkdir(parents=True, exist_ok=True)
        (place.state / name).touch()
    assert place.call("status", "--json").object()["requests"] == {"waiting": 1, "rejected": 2}
    shown = place.call("status").out
    assert "  ! 2 requests were refused and are in `rejected` of the state directory\n" in shown
    assert "  ! 1 request waits for a daemon\n    -> start `runward daemon`\n" in shown


def test_a_daemon_that_is_stopped_counts_as_stalled(place: Place) -> None:
    with place.daemon() as daemon:
        assert _until_told(place)["stalled_s"] is None
        daemon.send_signal(signal.SIGSTOP)
        state = Path(f"/proc/{daemon.pid}/stat")
        wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "a daemon that stands still")
        report = json.loads((place.state / "status.json").read_text())
        (place.state / "status.json").write_text(json.dumps({**report, "told_at": report["told_at"] - 3600}))
        told, shown = place.call("status", "--json"), place.call("status")
        daemon.send_signal(signal.SIGCONT)
    assert told.code == shown.code == 1
    assert told.object()["running"] is True
    stalled = told.object()["stalled_s"]
    assert isinstance(stalled, float)
    assert stalled >= 3600
    assert " is stalled since " in shown.out
    assert "the daemon has not responded for 1h 00m: it is stopped, or stuck" in shown.out


def test_each_root_that_is_ill_needs_somebody(place: Place) -> None:
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write('[[roots]]\nname = "away"\npath = "away"\n')
    with place.daemon():

        def ill() -> str | None:
            shown = place.call("status").out
            return shown if "! root away: " in shown else None

        shown = wait_for(ill, "the daemon's word on the root")
    assert shown.count("root away") == 1
    assert "    -> check that it exists and is readable; the daemon notices by itself" in shown


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("timers/ring of timer:schedule:nightly/1795666917.19 313fe05187102348", "schedule:nightly"),
        ("sessions/deadline of native:runs/a", "sessions/deadline of native:runs/a"),
    ],
)
def test_what_is_due_next_is_said_without_what_only_programs_read(what: str, words: str) -> None:
    assert due_words(what) == words


def test_settings_that_the_store_could_not_take_need_no_correction() -> None:
    locked: dict[str, JsonValue] = {
        "refused": ["the store can't be written: database is locked"],
        "changed": ["/c/runward.toml"],
        "store_fix": "end the program that holds runward.db",
    }
    (need,) = _settings(locked)
    assert "the store can't be written: database is locked" in str(need)
    assert "end the program that holds runward.db; the daemon then takes them over by itself" in str(need)
    assert "correct" not in str(need)
    (need,) = _settings({**locked, "store_fix": None})
    assert "correct them" in str(need)


def test_a_daemon_that_has_not_reported_yet_is_starting(place: Place) -> None:
    place.daemon_once()
    status = place.call("status", "--json").object()
    lines = list(_daemons_own({**status, "running": True, "since": None}, time.time()))
    assert lines == [("starting", "it has not reported anything yet")]


def test_runs_that_the_daemon_can_not_read_are_shown_with_who_may_start_runs_and_how(place: Place) -> None:
    user = next(each for each in pwd.getpwall() if each.pw_uid not in (0, os.geteuid()))
    place.state.mkdir()
    try:
        os.chown(place.state, user.pw_uid, -1)
    except PermissionError:
        pytest.skip("only root may give a directory away")
    fix = _fix_of_root(
        "runs in it can't be read, and are not judged: x (Permission denied)", str(place.state)
    )
    how = f"sudo -u {user.pw_name} RUNWARD_STATE_DIR={place.state} runward run -- COMMAND"
    assert f"the daemon runs as {user.pw_name}" in fix
    assert f"`{how}`" in fix
    daemon = f"sudo -u {user.pw_name} RUNWARD_STATE_DIR={place.state} runward daemon"
    assert place.call("status").out.startswith(f"runward is not running: start it with `{daemon}`\n")
    refused = place.start("run", "--", "true")
    _, said = refused.communicate(timeout=PATIENCE_S)
    assert refused.returncode == 78
    assert f"Only {user.pw_name} may start runs there: `{how}`" in said
    assert list(place.state.iterdir()) == []


def test_the_machines_daemon_is_started_by_its_unit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "SYSTEM_STATE", str(place.state))
    monkeypatch.setattr(rendering, "SYSTEM_UNITS", str(place.directory))
    assert "start it with `runward daemon`" in place.call("status").out
    (place.directory / "runward.service").touch()
    assert f"start it with `{as_root('systemctl start runward.service')}`" in place.call("status").out


def test_where_the_machines_daemon_works_over_its_own_directory_status_says_so(
    recorded: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = recorded.directory / "machines"
    prepare(machines)
    monkeypatch.setattr(rendering, "SYSTEM_STATE", str(machines))
    assert recorded.call("status", "--json").object()["elsewhere"] is None
    held = hold(machines)
    try:
        told = recorded.call("status")
        shown = recorded.call("status", "--json")
        own = recorded.call("status", RUNWARD_STATE_DIR=str(machines))
    finally:
        held.release()
    assert (told.code, shown.object()["elsewhere"]) == (3, {"state_dir": str(machines), "pid": os.getpid()})
    assert told.out.startswith(
        f"runward is not running over {recorded.state}; the machine's daemon (pid {os.getpid()}) works over {machines}:"
        f" `RUNWARD_STATE_DIR={machines} runward status` shows it\n"
    )
    assert own.code == 0


def test_it_says_which_agents_that_are_here_have_the_hook(place: Place) -> None:
    assert place.call("status", "--json").object()["hooks"] == {}
    for home in (".claude", ".codex"):
        (place.directory / home).mkdir()
    assert place.call("hook", "install", "codex").code == 0
    told = place.call("status", "--json").object()
    assert told["hooks"] == {"claude-code": "not installed", "codex": "installed"}
    (place.directory / ".claude/settings.json").write_text("{")
    broken = place.call("status", "--json").object()["hooks"]
    assert isinstance(broken, dict)
    assert "not" in str(broken["claude-code"])
    assert broken["codex"] == "installed"
    person = Everyday(place.directory)
    person.now = time.time()
    assert "codex: installed" in " ".join(draw(person, (80, 24), "status").text.split())
