"""Exit codes: one test for each code of the table, and none is left out."""

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from tests.daemon.cli.calling import Place
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.cli import exits
from runward.daemon.store.ownership import hold, prepare


def _done(place: Place) -> int:
    return place.call("session", "list").code


def _does_not_hold(place: Place) -> int:
    return place.call("contract", "verify", "--playbook", "review", "--root", ".").code


def _wrong_usage(place: Place) -> int:
    return place.call("session", "list", "--no-such-option").code


def _not_found(place: Place) -> int:
    return place.call("session", "show", "nowhere").code


def _own_bug(place: Place) -> int:
    with mock.patch(
        "runward.daemon.store.tables.session_lists.sessions", side_effect=ZeroDivisionError("by zero")
    ):
        told = place.call("session", "list")
    assert told.err.splitlines()[-1] == (
        "runward: a bug in Runward: ZeroDivisionError: by zero (--debug shows where)"
    )
    return told.code


def _try_again(place: Place) -> int:
    prepare(place.state)
    ownership = hold(place.state)
    told = place.call("daemon")
    ownership.release()
    assert f"is held by daemon {os.getpid()}" in told.err
    return told.code


def _wrong_settings(place: Place) -> int:
    (place.directory / "runward.toml").write_text("batch = 'many'\n")
    return place.call("session", "list").code


def _timed_out(place: Place) -> int:
    place.add_run("stuck", exit_code=0)
    place.daemon_once()
    place.change_store("update jobs set state = 'held' where handler = 'sessions/ended'")
    ownership = hold(place.state)  # somebody holds the directory and does nothing
    told = place.call("queue", "retry", "--all", "--wait", "--timeout", "1ms")
    ownership.release()
    return told.code


def _followed(place: Place, number: int) -> int:
    prepare(place.state)
    (place.state / "log/runward.jsonl").write_text('{"event": "ready"}\n')
    following = place.start_process("log", "-f", "--json")
    assert following.stdout is not None
    assert "ready" in following.stdout.readline()
    following.send_signal(number)
    _, err = following.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    # A shell says 128+n of a process that a signal ended.
    return following.returncode if following.returncode >= 0 else 128 - following.returncode


def _interrupted(place: Place) -> int:
    return _followed(place, signal.SIGINT)


def _terminated(place: Place) -> int:
    return _followed(place, signal.SIGTERM)


def _reader_gone(place: Place) -> int:
    for number in range(3):
        place.add_run(f"run-{number}", exit_code=0)
    place.daemon_once()
    read, write = os.pipe()
    os.close(read)
    writing = subprocess.Popen(
        place.argv("session", "list"),
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=place.directory,
        env=place.environment,
    )
    os.close(write)
    _, err = writing.communicate(timeout=PATIENCE_S)
    assert err == b""
    return writing.returncode


_PROOFS: dict[int, Callable[[Place], int]] = {
    exits.GOOD: _done,
    exits.NOT_SO: _does_not_hold,
    exits.WRONG_USAGE: _wrong_usage,
    exits.NOT_FOUND: _not_found,
    exits.OWN_BUG: _own_bug,
    exits.TRY_AGAIN: _try_again,
    exits.WRONG_SETTINGS: _wrong_settings,
    exits.TIMED_OUT: _timed_out,
    exits.INTERRUPTED: _interrupted,
    exits.READER_GONE: _reader_gone,
    exits.TERMINATED: _terminated,
}


@pytest.mark.parametrize("code", sorted(exits.MEANINGS))
def test_the_code_means_what_the_table_says(place: Place, code: int) -> None:
    assert _PROOFS[code](place) == code


@pytest.mark.parametrize(
    ("redirection", "command", "code"),
    [
        (">/dev/full", "--help", exits.TRY_AGAIN),
        (">/dev/full", "config show", exits.TRY_AGAIN),
        ("2>/dev/full", "nonsense", exits.WRONG_USAGE),
        (">/dev/full 2>&1", "nonsense", exits.WRONG_USAGE),
    ],
)
def test_output_that_can_not_be_written_changes_no_other_exit_code(
    place: Place, redirection: str, command: str, code: int
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    shell = f"exec {shlex.join(place.argv(*command.split()))} {redirection}"
    ended = subprocess.run(["sh", "-c", shell], env=place.environment, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "command", ["--version", "--help", "config show", "config show --json", "run --help", "schema settings"]
)
def test_a_full_stdout_is_named_in_one_line(place: Place, command: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    ended = _redirected(place, f"{command} >/dev/full")
    assert ended.returncode == exits.TRY_AGAIN
    prefix = "runward run" if command.startswith("run ") else "runward"
    assert ended.stderr == f"{prefix}: can't write to stdout: No space left on device\n"


@pytest.mark.parametrize("form", ["", " --raw", " --json"])
def test_a_log_is_not_blamed_for_a_stdout_that_takes_no_more(place: Place, form: str) -> None:
    run = place.add_run("chatty", exit_code=0)
    (run / "stdout.log").write_bytes(b"much to tell\n" * 20_000)
    place.daemon_once()
    if Path("/dev/full").exists():
        ended = _redirected(place, f"session logs chatty{form} >/dev/full")
        assert ended.returncode == exits.TRY_AGAIN
        assert ended.stderr == "runward: can't write to stdout: No space left on device\n"
    read, write = os.pipe()
    os.close(read)
    writing = subprocess.Popen(
        place.argv("session", "logs", "chatty", *form.split()),
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=place.directory,
        env=place.environment,
    )
    os.close(write)
    _, err = writing.communicate(timeout=PATIENCE_S)
    assert (writing.returncode, err) == (exits.READER_GONE, b"")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("session list >&-", exits.GOOD),
        ("session list <&- >&- 2>&-", exits.GOOD),
        ("session show nope >&-", exits.NOT_FOUND),
        ("session show nope 2>&-", exits.NOT_FOUND),
        ("session show nope 2>/dev/full", exits.NOT_FOUND),
        ("session list --status 2>/dev/full", exits.WRONG_USAGE),
        ("2>/dev/full", exits.WRONG_USAGE),
        ("status >&-", exits.NOT_FOUND),
        ("--version >&-", exits.GOOD),
        ("daemon --once 2>&-", exits.GOOD),
        ("daemon --once --quiet <&- >&- 2>&-", exits.GOOD),
    ],
)
def test_a_standard_stream_that_is_closed_or_full_changes_no_exit_code(
    place: Place, command: str, code: int
) -> None:
    if "/dev/full" in command and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    ended = _redirected(place, command)
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr


def test_a_daemon_without_stderr_ends_in_order(place: Place) -> None:
    shell = f"exec {shlex.join(place.argv('daemon'))} 2>&-"
    process = subprocess.Popen(["sh", "-c", shell], cwd=place.directory, env=place.environment)
    wait_for(lambda: b'"ready"' in _log_of(place), "a daemon that is ready")
    process.terminate()
    assert process.wait(PATIENCE_S) == exits.GOOD


def _log_of(place: Place) -> bytes:
    log = place.state / "log/runward.jsonl"
    return log.read_bytes() if log.exists() else b""


def _redirected(place: Place, command: str) -> "subprocess.CompletedProcess[str]":
    """The command as a shell starts it, with its redirections."""
    shell = f"exec {shlex.join(place.argv())} {command}"
    return subprocess.run(
        ["sh", "-c", shell],
        cwd=place.directory,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_codes_are_the_promised_ones() -> None:
    assert {0, 1, 2, 3, 75, 78, 124, 130, 143} <= set(exits.MEANINGS)


def test_an_error_is_one_line_without_a_traceback_unless_debug_is_given(place: Place) -> None:
    with mock.patch("runward.daemon.store.tables.session_lists.sessions", side_effect=ZeroDivisionError):
        assert "Traceback" not in place.call("session", "list").err
        debugged = place.call("session", "list", "--debug")
    assert "Traceback (most recent call last)" in debugged.err
    assert debugged.code == exits.OWN_BUG


@pytest.mark.parametrize(
    "words", [("daemon",), ("daemon", "--once"), ("play", "run", "plain"), ("prune", "--older-than", "1d")]
)
def test_a_state_directory_that_others_may_write_to_is_refused(place: Place, words: tuple[str, ...]) -> None:
    prepare(place.state)
    (place.directory / "playbooks/plain.playbook.yaml").write_text("name: plain\ncommand: ['true']\n")
    (place.state / "inbox").chmod(0o777)
    told = place.call(*words)
    assert told.code == exits.WRONG_SETTINGS
    assert f"chmod go-w {place.state}/inbox" in told.err
    assert not (place.state / "runward.db").exists()


def test_a_store_that_is_none_says_so_and_what_to_do(place: Place) -> None:
    prepare(place.state)
    (place.state / "runward.db").write_bytes(b"no database at all, but long enough for a header " * 100)
    told = place.call("session", "list")
    assert (told.code, told.err.count("\n")) == (exits.TRY_AGAIN, 1)
    assert f"{place.state}/runward.db" in told.err


def test_a_store_that_a_daemon_is_about_to_make_is_empty(place: Place) -> None:
    prepare(place.state)
    (place.state / "runward.db").touch(0o600)
    told = place.call("session", "list")
    assert (told.code, told.out) == (0, "no sessions\n")


def test_a_store_of_another_version_says_so_and_what_to_do(ended: Place, tmp_path: Path) -> None:
    place = ended.copy_to(tmp_path)
    place.change_store("pragma user_version = 999")
    told = place.call("session", "list")
    assert told.code == exits.WRONG_SETTINGS
    assert "install that one" in told.err
    place.change_store("pragma user_version = 0")
    told = place.call("session", "list")
    assert told.code == exits.TRY_AGAIN
    assert "start the daemon of this version once" in told.err
