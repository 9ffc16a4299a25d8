"""What agents call: one file in the inbox, no word, and 0, whatever happens."""

import base64
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from runward.daemon.hooks import runward_hook
from runward.daemon.hooks.agents import AGENTS
from runward.daemon.hooks.settings_file import SCRIPT, shell_command
from runward.daemon.inbox.spool import list_inbox
from runward.daemon.processes.proc import current_boot_id, identity_of
from runward.handlers.layouts.hooks import HOOKS

PAYLOAD = b'{"session_id": "s", "hook_event_name": "Stop", "last_assistant_message": "\xc3\xa4\\n"}'


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


def call(
    *words: str, payload: bytes | None = None, environment: dict[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[bytes]:
    """The hook as an agent calls it; it must be silent and end with 0."""
    given = {"input": payload} if payload is not None else {"stdin": subprocess.DEVNULL}
    ended = subprocess.run(
        [sys.executable, "-S", "-E", SCRIPT, *words],
        env=environment or {},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        **{**given, **more},
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended


def notes(state: Path) -> list[dict[str, Any]]:
    return [json.loads(file.content) for file in list_inbox(state)]


def test_claude_codes_payload_becomes_one_whole_private_file(state: Path) -> None:
    before = time.time()
    environment = {"RUNWARD_SESSION_ID": "night ä"}
    assert call("claude-code", "--state", str(state), payload=PAYLOAD, environment=environment).stdout == b""
    (note,) = notes(state)
    assert base64.b64decode(note["payload"]) == PAYLOAD
    assert (note["hook"], note["version"], note["launcher_session"]) == ("claude-code", 1, "night ä")
    assert before - 0.001 <= note["at"] <= time.time()
    (file,) = (state / "inbox").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert (state / "inbox").stat().st_mode & 0o777 == 0o700


def test_it_names_those_that_it_descends_from(state: Path) -> None:
    call("claude-code", "--state", str(state), payload=PAYLOAD)
    (note,) = notes(state)
    us = identity_of(os.getpid())
    assert note["ancestors"][0] == [us.pid, us.start_ticks]
    assert note["boot_id"] == current_boot_id()
    assert 1 <= len(note["ancestors"]) <= runward_hook.MOST_ANCESTORS


def test_behind_a_shell_the_agent_is_still_among_them(state: Path) -> None:
    command = shell_command("claude-code", str(state))
    subprocess.run(["sh", "-c", f"({command}); true"], input=PAYLOAD, check=True, timeout=PATIENCE_S)
    (note,) = notes(state)
    assert os.getpid() in [pid for pid, _ in note["ancestors"]]


def test_codex_gives_its_payload_as_the_last_word(state: Path) -> None:
    call("codex", "--state", str(state), PAYLOAD.decode())
    (note,) = notes(state)
    assert (note["hook"], base64.b64decode(note["payload"])) == ("codex", PAYLOAD)
    assert note["launcher_session"] is None


@pytest.mark.parametrize("inbox", ["stands", "can't be written"])
def test_the_program_that_was_there_before_is_called_with_the_same_payload(state: Path, inbox: str) -> None:
    program = state / "program"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$# $1 $2"\n')
    program.chmod(0o700)
    where = state if inbox == "stands" else state / "nowhere"
    ended = call("codex", "--state", str(where), "--", str(program), "a b", PAYLOAD.decode())
    assert ended.stdout == b"2 a b " + PAYLOAD + b"\n"
    assert len(notes(state)) == (1 if inbox == "stands" else 0)


@pytest.mark.parametrize("then", [["--"], ["--", "/nowhere/program"]])
def test_no_program_or_one_that_is_gone_hurts_nobody(state: Path, then: list[str]) -> None:
    call("codex", "--state", str(state), *then, PAYLOAD.decode())
    assert len(notes(state)) == 1


def test_the_state_directory_is_the_one_of_the_command_then_of_the_environment_then_the_usual_one(
    tmp_path: Path,
) -> None:
    for name in ("told", "variable", "base/runward", "home/.local/state/runward"):
        (tmp_path / name).mkdir(parents=True)
    environment = {"HOME": f"{tmp_path}/home"}
    call("claude-code", payload=PAYLOAD, environment=environment)
    environment["XDG_STATE_HOME"] = f"{tmp_path}/base"
    call("claude-code", payload=PAYLOAD, environment=environment)
    environment["RUNWARD_STATE_DIR"] = f"{tmp_path}/variable"
    call("claude-code", payload=PAYLOAD, environment=environment)
    call("claude-code", "--state", f"{tmp_path}/told", payload=PAYLOAD, environment=environment)
    for name in ("told", "variable", "base/runward", "home/.local/state/runward"):
        assert len(notes(tmp_path / name)) == 1, name


@pytest.mark.parametrize(
    "words", [[], ["claude-code"], ["codex"], ["other"], ["--state"], ["codex", "--state"], ["--", "--"]]
)
def test_a_command_that_says_too_little_is_passed_over(words: list[str]) -> None:
    call(*words, payload=b"[1]")


@pytest.mark.parametrize(
    "payload", [b"", b"no JSON", b"[]", b"\xff\xfe", b"{" * (runward_hook.MAXIMUM_PAYLOAD + 1)]
)
def test_what_can_be_no_payload_is_dropped(state: Path, payload: bytes) -> None:
    call("claude-code", "--state", str(state), payload=payload)
    assert notes(state) == []


def test_the_largest_payload_fits_into_an_inbox_file(state: Path) -> None:
    payload = b'{"a":"' + b"x" * (runward_hook.MAXIMUM_PAYLOAD - 8) + b'"}'
    call("claude-code", "--state", str(state), payload=payload)
    (note,) = notes(state)
    assert base64.b64decode(note["payload"]) == payload


def test_a_state_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    call("claude-code", "--state", str(tmp_path / "none"), payload=PAYLOAD)
    assert not (tmp_path / "none").exists()


def test_an_inbox_that_is_a_file_or_a_loop_is_left_alone(state: Path) -> None:
    (state / "inbox").write_text("mine")
    call("claude-code", "--state", str(state), payload=PAYLOAD)
    assert (state / "inbox").read_text() == "mine"
    (state / "inbox").unlink()
    (state / "inbox").symlink_to("inbox")
    call("claude-code", "--state", str(state), payload=PAYLOAD)


def test_a_full_disk_leaves_nothing_behind(state: Path) -> None:
    """A limit on the size of files stands for the disk: the write fails in its middle."""
    command = shlex.join([sys.executable, "-S", "-E", SCRIPT, "claude-code", "--state", str(state)])
    large = b'{"a":"' + b"x" * 100_000 + b'"}'
    ended = subprocess.run(
        ["bash", "-c", f"trap '' XFSZ; ulimit -f 4; {command}"],
        input=large,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert list((state / "inbox").iterdir()) == []


def test_without_any_descriptor_it_ends_as_well(state: Path) -> None:
    command = shell_command("claude-code", str(state))
    ended = subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], check=False, timeout=PATIENCE_S)
    assert ended.returncode == 0


@pytest.mark.prove
def test_a_stdin_that_never_ends_holds_nobody_up(state: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"half":')
    try:
        call("claude-code", "--state", str(state), stdin=reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert notes(state) == []


def test_a_full_inbox_gets_no_more(state: Path) -> None:
    (state / "inbox").mkdir()
    for number in range(runward_hook.MOST_WAITING):
        (state / "inbox" / f"{number}.json").touch()
    call("claude-code", "--state", str(state), payload=PAYLOAD)
    assert len(list((state / "inbox").iterdir())) == runward_hook.MOST_WAITING


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a directory away")
def test_the_inbox_of_another_user_is_left_alone(state: Path) -> None:
    (state / "inbox").mkdir()
    os.chown(state / "inbox", 65534, 65534)
    call("claude-code", "--state", str(state), payload=PAYLOAD)
    assert notes(state) == []


def test_an_installed_command_ends_with_0_even_where_python_or_the_script_are_gone(state: Path) -> None:
    """Claude Code takes 2, with which Python ends where it finds no script, for a veto."""
    command = shell_command("claude-code", str(state))
    for gone in (SCRIPT, sys.executable):
        broken = command.replace(gone, f"{gone}.gone")
        ended = subprocess.run(
            ["sh", "-c", broken], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        assert (ended.returncode, ended.stdout) == (0, b"")


def test_it_imports_next_to_nothing() -> None:
    program = f"import sys, runpy\nsys.argv = ['x']\nbefore = set(sys.modules)\nimport os\nos._exit = print\nsys.path.insert(0, {str(Path(SCRIPT).parent)!r})\nimport runward_hook\nprint(*set(sys.modules) - before - {{'runpy'}})"
    ran = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program], capture_output=True, text=True, check=True
    )
    assert set(ran.stdout.split()) <= {"runward_hook", "binascii", "__future__", "time"}


@pytest.mark.prove
def test_a_call_costs_hardly_more_than_bare_python(state: Path) -> None:
    def took(*words: str) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-S", *words], input=PAYLOAD, check=True)
        return time.perf_counter() - begun

    bare: list[float] = []
    ours: list[float] = []
    # What it costs is the least of many, and not what the machine's other work does to it.
    while len(ours) < 40 or (len(ours) < 400 and min(ours) >= min(bare) + 0.015):
        bare.append(took("-c", "pass"))
        ours.append(took("-E", SCRIPT, "claude-code", "--state", str(state)))
    assert len(notes(state)) == len(ours)
    assert min(ours) < min(bare) + 0.015


def test_the_script_passes_on_what_the_daemon_reads_and_the_settings_can_hold() -> None:
    assert set(runward_hook.AGENTS) == set(HOOKS) == set(AGENTS)
