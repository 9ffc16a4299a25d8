"""`runward doctor` as it is called: up or down, with right settings and with broken ones."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.screens import screen
from tests.daemon.session_bus import session_bus
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.doctor.checks import CHECKS
from runward.daemon.store.ownership import holder

QUICK = [
    option
    for check in CHECKS
    if check.name not in ("canary", "containment", "sandbox", "unit", "settings")
    for option in ("--only", check.name)
]


def test_each_check_says_what_it_found_and_its_fix(recorded: Place) -> None:
    told = recorded.call("doctor", "--json", *QUICK)
    value = told.object()
    checks = told.items("checks")
    assert list(value) == ["well", "checks"]
    assert all(list(each) == ["name", "result", "found", "fix"] for each in checks)
    assert {each["result"] for each in checks} <= {"ok", "warning", "failed", "skipped"}
    assert list(dict.fromkeys(each["name"] for each in checks)) == QUICK[1::2]
    assert told.code == (0 if value["well"] else 1)
    assert [each for each in checks if each["result"] == "failed"] == []
    assert told.err == ""


def test_beside_a_daemon_it_is_found_alive_and_alone(place: Place) -> None:
    with place.daemon_process() as daemon:
        wait_for(lambda: (place.state / "status.json").exists(), "the daemon's report")
        told = place.call("doctor", "--json", "--only", "notifications", "--only", "daemon")
        (*_, first) = told.items("checks")
    assert (
        first["result"],
        str(first["found"]).startswith(f"daemon {daemon.pid} is the only one running"),
    ) == (
        "ok",
        True,
    )
    assert "since the daemon started" in str(told.items("checks")[1]["found"])
    assert told.code == 0


@pytest.mark.parametrize(("does", "result"), [("returns", "ok"), ("fails", "warning")])
def test_a_desktop_is_asked_whether_it_would_show_a_notice(
    place: Place, tmp_path: Path, does: str, result: str
) -> None:
    settings = place.directory / "runward.toml"
    settings.write_text(f'{settings.read_text()}\n[[notify]]\non = ["session.failed"]\ndesktop = true\n')
    tool = place.directory / "tools/notify-send"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    with session_bus(tmp_path / "b", does) as bus:
        told = place.call("doctor", "--json", "--only", "notices", PATH=str(tool.parent), **bus)
    first = told.items("checks")[0]
    assert first["result"] == result, first
    assert (does == "returns") != ("no notification service answers: there is none" in str(first["found"]))


def test_a_daemon_that_is_stopped_fails(place: Place) -> None:
    with place.daemon_process() as daemon:
        report = place.state / "status.json"
        wait_for(report.exists, "the daemon's report")
        daemon.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, daemon.pid, os.WSTOPPED | os.WNOWAIT)
        told = json.loads(report.read_text())
        report.write_text(json.dumps({**told, "told_at": told["told_at"] - 3600}))
        found = place.call("doctor", "--json", "--only", "daemon")
        daemon.send_signal(signal.SIGCONT)
    assert found.code == 1
    assert "has not responded" in str(found.items("checks")[0]["found"])


def test_held_jobs_fail_and_refused_requests_are_told_of(tmp_path: Path, ended: Place) -> None:
    place = ended.copy_to(tmp_path)
    assert place.call("doctor", "--only", "queue").code == 0
    place.change_store("update jobs set state = 'held', error = 'no space' where handler = 'sessions/ended'")
    (place.state / "rejected").mkdir()
    (place.state / "rejected" / "a.json").touch()
    (place.state / "inbox" / "b.json").touch()
    told = place.call("doctor", "--json", "--only", "queue")
    assert told.code == 1
    assert [(each["result"], str(each["found"]).split(" and is")[0]) for each in told.items("checks")] == [
        ("failed", "1 job is held: no space"),
        ("warning", "1 request was refused"),
        ("warning", "1 request waits for a daemon"),
    ]
    assert all(each["fix"] for each in told.items("checks"))


def test_complaints_about_settings_fail_and_the_rest_is_examined_all_the_same(place: Place) -> None:
    (place.directory / "runward.toml").write_text('state_dir = "state"\nbatch = "many"\n')
    told = place.call("doctor", "--only", "settings", "--only", "lock")
    first, *_ = told.out.splitlines()
    assert told.code == 1
    assert first.startswith(f"failed   settings: {place.directory}/runward.toml:2:9: batch:")
    assert "ok       lock:" in told.out
    assert told.out.splitlines()[-1] == "not well: 1 failed, 1 warning"


def test_a_wrong_variable_is_a_complaint_like_any_other(place: Place) -> None:
    told = place.call("doctor", "--only", "settings", RUNWARD_BATCH="many")
    assert (told.code, "RUNWARD_BATCH" in told.out) == (1, True)


def test_a_mistyped_check_suggests_the_nearest(place: Place) -> None:
    told = place.call("doctor", "--only", "canari")
    assert (told.code, "did you mean 'canary'?" in told.err) == (2, True)


@pytest.fixture
def held(place: Place) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A doctor whose canary has come to its first run, which goes on for ever; and where its temporary files are."""
    temporary, programs, gate = (place.directory / name for name in ("temporary", "programs", "gate"))
    temporary.mkdir()
    programs.mkdir()
    os.mkfifo(gate)
    (programs / "sh").write_text(f"#!/bin/sh\nread line < {gate}\n")
    (programs / "sh").chmod(0o755)
    path = f"{programs}:{place.environment['PATH']}"
    process = place.start_process("doctor", "--only", "canary", TMPDIR=str(temporary), PATH=path)
    opened = wait_for(lambda: _opened(gate), "the canary's first run")
    try:
        yield process, temporary
    finally:
        os.close(opened)  # by which a run that is left ends
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def _opened(gate: Path) -> int | None:
    """The gate's other end, once somebody waits at it."""
    try:
        return os.open(gate, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


@pytest.mark.prove
def test_an_interrupt_ends_it_and_leaves_nothing_behind(held: tuple[subprocess.Popen[str], Path]) -> None:
    process, temporary = held
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    assert list(temporary.iterdir()) == []


@pytest.mark.prove
def test_a_doctor_that_is_killed_leaves_no_daemon_behind(held: tuple[subprocess.Popen[str], Path]) -> None:
    process, temporary = held
    (lock,) = temporary.glob("*/state/lock")
    assert holder(lock.parent) is not None
    process.kill()
    wait_for(lambda: holder(lock.parent) is None, "the end of the canary's daemon")


def test_on_a_terminal_it_says_what_it_does_meanwhile_and_breaks_lines_between_words(recorded: Place) -> None:
    with screen(recorded, 24, 48, "doctor", "--only", "lock") as shown:
        page = shown.until("all is well")
    assert "lock: a lock is tried against another process…" in page
    lines = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", line) for line in page.splitlines()]
    assert [line for line in lines if line.startswith(" " * 9)], lines


def test_without_bubblewrap_it_says_how_to_get_it(place: Place) -> None:
    told = place.call("doctor", "--json", "--only", "sandbox", PATH="/nowhere")
    (found,) = told.items("checks")
    said = "no sandbox: bubblewrap isn't installed; code of the exchange is refused"
    assert (found["result"], found["found"]) == ("warning", said)
    assert found["fix"] == "install the package bubblewrap"


@pytest.mark.parametrize("sandbox", ["bubblewrap", "landlock"])
def test_the_sandbox_of_the_settings_stops_attempts_without_a_home(
    place: Place, tmp_path: Path, sandbox: str
) -> None:
    (tmp_path / "home").mkdir()
    settings = json.dumps({"executor": {"sandbox": sandbox}})
    options = ("doctor", "--json", "--only", "sandbox")
    told = place.call(*options, HOME=str(tmp_path / "home"), RUNWARD_EXCHANGE=settings)
    (found,) = told.items("checks")
    if "no sandbox" in str(found["found"]):
        assert (found["result"], bool(found["fix"])) == ("warning", True)
        pytest.skip(str(found["found"]))
    said = f"({sandbox}+seccomp), and 7 attempts to escape or to keep running were stopped"
    assert (found["result"], said in str(found["found"])) == ("ok", True), found
