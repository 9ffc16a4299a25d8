"""`runward play run`: a playbook's command, asked for by one command, started by a real daemon, watched to its end."""

import getpass
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.daemon.cli.calling import Place, Result
from tests.daemon.cli.screens import screen
from tests.daemon.launching import is_alive, members
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.cli import play_run
from runward.daemon.cli.terminal.options import values_of
from runward.daemon.configuration.settings import load_settings
from runward.daemon.processes.proc import send_signal
from runward.daemon.store.ownership import hold, prepare

SHELL = """\
command: [sh, -c, "{{ with.script }}", with, "{{ with.word }}"]
grace: 100ms
"""
DELIVERS = """\
command: [sh, -c, "echo fine > $RUNWARD_ARTIFACTS_DIR/review.md"]
artifacts:
  expected:
    - {id: review, path: review.md}
"""


@pytest.fixture
def furnished(place: Place) -> Iterator[Place]:
    """A place with playbooks that have commands; no run outlives a test."""
    books = place.directory / "playbooks"
    (books / "shell.playbook.yaml").write_text(SHELL)
    (books / "delivers.playbook.yaml").write_text(DELIVERS)
    (books / "bad.playbook.yaml").write_text('command: ["{{ pr }}"]\n')
    (books / "lost.playbook.yaml").write_text("command: [make]\nagent: nobody\n")
    yield place
    wait_for(lambda: _killed(place.runs), "the end of every run")


def _killed(runs: Path) -> bool:
    left = members(str(runs))
    for pid in left:
        send_signal(pid, signal.SIGKILL)
    return not left


def shell(place: Place, script: str, *options: str, word: str = "x") -> Result:
    """Run a script by its playbook, in a process of its own."""
    process = start_shell(place, script, *options, word=word)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Result(process.returncode, out, err)


def start_shell(place: Place, script: str, *options: str, word: str = "x") -> subprocess.Popen[str]:
    return place.start("play", "run", "shell", f"script={script}", f"word={word}", *options)


def inbox(place: Place) -> list[Path]:
    directory = place.state / "inbox"
    return list(directory.iterdir()) if directory.is_dir() else []


# What is checked before anything is asked.


def test_values_are_text_or_json() -> None:
    given = values_of(["a=1", "b:=1", 'c:={"d": [true]}', "e=", "f=x=y:=z", "g_h-i= a\nb "])
    assert given == {"a": "1", "b": 1, "c": {"d": [True]}, "e": "", "f": "x=y:=z", "g_h-i": " a\nb "}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["pr"], "'pr' is not a value: write KEY=TEXT or KEY:=JSON"),
        (["=12"], "'=12' is not a value"),
        (["1x=2"], "'1x=2' is not a value"),
        (["a.b=2"], "'a.b=2' is not a value"),
        (["word=1", "word=2"], "'word' is given twice"),
        (["word:={"], "word:=:1:2: is not JSON"),
        (["word:=NaN"], "word:=: NaN is not JSON"),
        (["script=x", "word=" + "x" * (1 << 20)], "the values are too long for a request (1 MiB)"),
        (['word:={"a":1,"a":2}'], "word:=: key 'a' appears twice"),
    ],
)
def test_a_value_that_is_none_is_refused_and_nothing_is_asked(
    furnished: Place, words: list[str], complaint: str
) -> None:
    refused = furnished.call("play", "run", "shell", *words)
    assert refused.code == 2
    assert complaint in refused.err
    assert inbox(furnished) == []


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["shell", "script=x"], 2, "shell.playbook.yaml:1:46: command[4]: with.word is not given"),
        (["delivers", "x=1"], 2, "delivers.playbook.yaml:1:10: command: uses no value named 'x'"),
        (["plain"], 2, "plain.playbook.yaml:1:1: has no 'command'"),
        (["wrong"], 2, "wrong.playbook.yaml:3:26: "),
        (["bad"], 2, "bad.playbook.yaml:1:11: command[0]: 'pr' between braces is not a look-up"),
        (["lost"], 2, "there is no agent 'nobody'"),
        (["shel"], 3, "there is no playbook 'shel'"),
        (["./playbooks/shell.playbook.yaml"], 2, "is a file: name a playbook of the settings"),
        (["shell.playbook.yaml"], 2, "is a file: name a playbook of the settings"),
    ],
)
def test_a_playbook_that_can_not_be_started_is_refused_at_once_with_its_place(
    furnished: Place, words: list[str], code: int, complaint: str
) -> None:
    refused = furnished.call("play", "run", *words)
    assert (refused.code, refused.out) == (code, "")
    assert complaint in refused.err
    assert inbox(furnished) == []


def test_without_a_native_root_there_is_nowhere_to_run(furnished: Place) -> None:
    assert furnished.call("play", "run", "delivers", RUNWARD_ROOTS="[]").code == 78


# Asking.


def test_a_person_is_told_as_whom_the_daemon_starts_it(furnished: Place) -> None:
    me = getpass.getuser()
    with screen(furnished, 24, 80, "play", "run", "delivers") as shown:
        assert f"the daemon starts it as {me}" in shown.until("when a daemon does")
        assert shown.end() == 0
    settings = load_settings(None, furnished.environment, str(furnished.directory)).value
    assert settings is not None
    with (
        mock.patch("os.geteuid", return_value=os.geteuid() + 1),
        mock.patch.object(play_run, "note") as noted,
    ):
        play_run._say_as_whom(settings)
    noted.assert_called_once_with(f"the daemon starts it as {me}, and not as you")


def test_a_request_is_durable_without_a_daemon_and_says_which_session_it_will_be(furnished: Place) -> None:
    asked = furnished.call("play", "run", "delivers", TRACEPARENT="00-trace")
    assert asked.code == 0
    name = asked.out.strip()
    assert name.startswith("delivers-")
    assert asked.err == "runward: no daemon is running: it will start when a daemon does\n"
    (request,) = inbox(furnished)
    payload = json.loads(request.read_text())["payload"]
    assert (payload["playbook"], payload["cwd"], payload["traceparent"]) == (
        "delivers",
        str(furnished.directory),
        "00-trace",
    )
    waiting = furnished.call("why", name[:20], "--json").object()
    assert (waiting["status"], waiting["subject"]) == ("asked", {"noun": "start", "id": name})
    assert "no daemon is running" in furnished.call("why", name).out
    with furnished.daemon():
        wait_for(lambda: furnished.call("session", "show", name).code == 0, "the session")
        wait_for(lambda: (furnished.runs / name / "exit.json").exists(), "its end")
    furnished.daemon_once()
    shown = furnished.call("session", "show", name, "--json").object()
    assert (shown["session_id"], shown["status"], shown["delivery"]) == (name, "completed", "passed")
    assert (shown["playbook"], shown["contract_basis"]) == ("delivers", "launcher")


def test_json_names_request_session_and_key(furnished: Place) -> None:
    asked = furnished.call("play", "run", "delivers", "--json").object()
    (request,) = inbox(furnished)
    assert request.name == f"{asked['request']}.json"
    assert asked["key"] == f"native:runs/{asked['session_id']}"
    assert (asked["status"], asked["problem"]) == ("asked", None)


def test_nobody_waits_for_a_daemon_that_is_not_there(furnished: Place) -> None:
    for option in ("--wait", "--follow"):
        refused = furnished.call("play", "run", "delivers", option)
        assert refused.code == 75
        assert "nothing was requested" in refused.err
    assert inbox(furnished) == []


def test_a_daemon_that_only_runs_once_starts_it_and_judges_it(furnished: Place) -> None:
    name = furnished.call("play", "run", "delivers").out.strip()
    furnished.daemon_once()
    assert furnished.call("session", "show", name, "--json").object()["status"] == "completed"


# Waiting and following, beside a daemon.


@pytest.mark.parametrize(
    ("script", "code", "status"),
    [
        ("true", 0, "completed (run.completed.ok, exited with 0)"),
        ("exit 3", 1, "failed (run.failed.exit_nonzero, exited with 3)"),
    ],
)
def test_whoever_waits_ends_by_what_became_of_it(
    furnished: Place, script: str, code: int, status: str
) -> None:
    with furnished.daemon():
        ended = shell(furnished, script, "--wait")
    assert ended.code == code, ended
    name, said = ended.out.splitlines()
    assert said == f"{name}: {status}"


@pytest.mark.parametrize(
    ("number", "code", "status"),
    [
        (signal.SIGTERM, 143, "cancelled (run.cancelled.sigterm"),
        (signal.SIGINT, 130, "aborted (run.aborted.user"),
    ],
)
def test_whoever_waits_ends_as_one_that_was_told_to_stop(
    furnished: Place, number: signal.Signals, code: int, status: str
) -> None:
    with furnished.daemon():
        process = start_shell(furnished, "sleep 60", "--wait")
        os.kill(_launcher(furnished), number)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, out
    assert status in out.splitlines()[-1]


def _launcher(place: Place) -> int:
    """The launcher of the only run, once its command runs."""
    wait_for(lambda: members(str(place.runs)), "a run")
    (run,) = place.runs.iterdir()
    pid = json.loads((run / "run.json").read_text())["launcher"]["pid"]
    assert isinstance(pid, int)
    return pid


def test_a_run_over_its_time_ends_the_waiting_as_timeout_does(furnished: Place) -> None:
    book = furnished.directory / "playbooks" / "slow.playbook.yaml"
    book.write_text('command: ["sleep", "60"]\ntimeout: 200ms\ngrace: 100ms\n')
    with furnished.daemon():
        waited = furnished.call("play", "run", "slow", "--wait", "--json")
    assert waited.code == 124
    result = waited.object()
    assert (result["status"], result["problem"]) == ("timed_out", None)
    assert result["reason"] == {"code": "run.timed_out.deadline", "summary": "its deadline passed"}


def test_one_word_stays_one_word_whatever_it_holds(furnished: Place) -> None:
    word = "a b; $(touch evil) `touch evil` 'x' \"y\" * {{ with.script }}"
    with furnished.daemon():
        followed = shell(furnished, 'printf "%s" "$1"', "--follow", word=word)
    assert followed.code == 0
    assert followed.out.splitlines()[1] == word
    assert not (furnished.directory / "evil").exists()


def test_whoever_follows_sees_output_and_journal_and_the_verdict(furnished: Place) -> None:
    with furnished.daemon():
        followed = shell(furnished, "echo out; echo err >&2; printf unfinished; exit 1", "-f")
    assert followed.code == 1
    name, *output = followed.out.splitlines()
    assert name.startswith("shell-")
    assert output == ["out", "unfinished"]
    assert "err" in followed.err.splitlines()
    told = [line.split()[4] for line in followed.err.splitlines() if "  runward  " in line]
    assert told == ["session_started", "status_changed", "session_finished"]
    assert followed.err.splitlines()[-1] == f"{name}: failed (run.failed.exit_nonzero, exited with 1)"


def test_what_a_command_writes_can_not_steer_the_terminal(furnished: Place) -> None:
    with furnished.daemon():
        followed = shell(furnished, "printf '\\033[2J\\033]0;evil\\007\\n'; printf '\\377\\n'", "--follow")
    assert "\x1b" not in followed.out
    assert followed.out.splitlines()[1:] == ["\\x1b[2J\\x1b]0;evil\\x07", "\\xff"]


def test_a_stream_of_json_ends_with_the_result(furnished: Place) -> None:
    with furnished.daemon():
        followed = shell(furnished, "echo out; echo err >&2", "--follow", "--json")
    *values, result = [json.loads(line) for line in followed.out.splitlines()]
    assert {"stream": "stdout", "value": "out"} in values
    assert {"stream": "stderr", "value": "err"} in values
    told = [each["value"]["event"] for each in values if each["stream"] == "events"]
    assert told == ["session_started", "status_changed", "session_finished"]
    assert (result["status"], result["reason"]["code"]) == ("completed", "run.completed.ok")


def test_control_c_ends_only_the_waiting(furnished: Place) -> None:
    with furnished.daemon():
        process = start_shell(furnished, "while [ ! -e go ]; do sleep 0.05; done", "--wait")
        _launcher(furnished)
        # Who waits says so first, which may be after the run has begun.
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, out) == (130, "")
        assert "it continues" in err
        assert len(members(str(furnished.runs))) >= 1
        (furnished.directory / "go").touch()
        wait_for(
            lambda: furnished.call("session", "show", name, "--json").object()["status"] == "completed",
            "the end",
        )


def test_what_the_daemon_refuses_ends_the_waiting_as_wrong_usage(furnished: Place) -> None:
    """The playbook is right for who asks, and gone for the daemon, which has other settings."""
    with furnished.daemon():
        books = furnished.directory / "others"
        (furnished.directory / "playbooks").rename(books)
        refused = furnished.call("play", "run", "delivers", "--wait", RUNWARD_PLAYBOOKS=f'["{books}"]')
        as_json = furnished.call(
            "play", "run", "delivers", "--wait", "--json", RUNWARD_PLAYBOOKS=f'["{books}"]'
        )
    assert refused.code == 2
    assert "delivers is not started" in refused.err
    assert "there is no playbook 'delivers'" in refused.err
    assert (as_json.code, as_json.object()["status"]) == (2, "refused")
    name = refused.out.strip()
    told = furnished.call("why", name, "--json").object()
    assert (told["status"], told["subject"]) == ("refused", {"noun": "start", "id": name})
    assert "there is no playbook 'delivers'" in str(told["summary"])


def test_a_run_that_never_can_begin_ends_the_waiting(furnished: Place) -> None:
    furnished.runs.mkdir(parents=True)
    with furnished.daemon() as daemon:
        daemon.send_signal(signal.SIGSTOP)
        waiting = furnished.start("play", "run", "delivers", "--wait")
        wait_for(lambda: inbox(furnished), "the request")
        assert waiting.stdout is not None
        name = waiting.stdout.readline().strip()
        (furnished.runs / name).mkdir()
        (furnished.runs / name / "notes.md").write_text("mine")
        daemon.send_signal(signal.SIGCONT)
        _, err = waiting.communicate(timeout=PATIENCE_S)
        assert waiting.returncode == 1
        assert "it already contains 'notes.md'" in err
    told = furnished.call("why", name, "--json").object()
    assert told["status"] == "failed"
    assert (furnished.runs / name / "notes.md").read_text() == "mine"


def test_why_a_session_ran_begins_with_who_asked_for_it(furnished: Place) -> None:
    with furnished.daemon():
        name = shell(furnished, "true", "--wait", word="w").out.splitlines()[0]
    told = furnished.call("why", name, "--json").object()
    causes = told["causes"]
    assert isinstance(causes, list)
    first = causes[0]
    assert isinstance(first, dict)
    assert first["type"] == "PlayRunRequested"
    assert 'asked for the playbook shell with {"script": "true", "word": "w"}' in str(first["summary"])
    second = causes[1]
    assert isinstance(second, dict)
    assert (second["kind"], second["verdict"]) == ("decision", "decided")


# Daemons that go away.


def test_a_run_survives_the_daemons_kill_and_is_known_again(furnished: Place) -> None:
    with furnished.daemon() as daemon:
        process = start_shell(furnished, "while [ ! -e go ]; do sleep 0.05; done; exit 4", "--wait")
        launcher = _launcher(furnished)
        daemon.kill()
        daemon.wait()
        assert is_alive(launcher)
    with furnished.daemon():
        (name,) = (path.name for path in furnished.runs.iterdir())
        wait_for(lambda: furnished.call("session", "show", name).code == 0, "the session")
        shown = furnished.call("session", "show", name, "--json").object()
        assert shown["status"] == "running"
        (furnished.directory / "go").touch()
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, "the one who waited waited on"
    assert "exited with 4" in out
    assert len(list(furnished.runs.iterdir())) == 1


@pytest.mark.prove
def test_a_killed_launcher_is_a_run_of_which_nobody_saw_the_end(furnished: Place) -> None:
    with furnished.daemon():
        process = start_shell(furnished, "sleep 60", "--wait")
        launcher = _launcher(furnished)
        for pid in members(str(furnished.runs)):
            send_signal(launcher, signal.SIGKILL)
            send_signal(pid, signal.SIGKILL)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "aborted (run.aborted.process_gone" in out


def test_whoever_waits_gives_up_when_the_daemon_stays_away(
    furnished: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runward.daemon.cli.shell.asking._AWAY_S", 0.3)
    prepare(furnished.state)
    held = hold(furnished.state)
    real = time.sleep

    def let_go(seconds: float) -> None:
        nonlocal held
        if held is not None:
            held.release()
            held = None  # type: ignore[assignment]  # only once
        real(seconds)

    monkeypatch.setattr("runward.daemon.cli.play_run.time.sleep", let_go)
    waited = furnished.call("play", "run", "delivers", "--wait")
    assert waited.code == 75
    assert "the daemon ended; the request is kept" in waited.err
    assert len(inbox(furnished)) == 1


def test_the_shell_completes_playbooks_and_the_values_that_they_take(furnished: Place) -> None:
    def completed(words: str, current: int) -> list[str]:
        found = furnished.call(
            _RUNWARD_COMPLETE="bash_complete", COMP_WORDS=f"runward play run {words}", COMP_CWORD=str(current)
        )
        return [line.partition(",")[2] for line in found.out.splitlines()]

    assert completed("", 3) == ["bad", "delivers", "lost", "plain", "review", "shell", "wrong"]
    assert completed("shell ", 4) == ["script=", "word="]
    assert completed("shell script=x ", 5) == ["word="]
    assert completed("nope ", 4) == [""]
