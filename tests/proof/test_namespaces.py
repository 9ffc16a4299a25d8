"""Runs, agents and daemons in PID namespaces of their own: by its number alone no process there is known."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript
from tests.proof.place import Place
from tests.proof.test_killed_launchers import verdicts
from tests.waiting import wait_for

from runward.daemon.processes.proc import identity_of
from runward.handlers.sessions.observe import GRACE

RUNWARD = Path(sys.executable).with_name("runward")
UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


def skip_without_namespaces() -> None:
    if shutil.which("unshare") is None or subprocess.run([*UNSHARE, "true"], check=False).returncode != 0:
        pytest.skip("no PID namespace can be made here")


@pytest.mark.prove
def test_a_daemon_in_a_pid_namespace_believes_no_agent_outside_it_dead(place: Place) -> None:
    """There the boot is the same, and each number outside is missing."""
    skip_without_namespaces()
    transcript = Transcript(entrypoint="cli")
    transcript.prompt("fix it")
    projects, sessions = place.directory / ".claude/projects", place.directory / ".claude/sessions"
    log = projects / "-src" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    sessions.mkdir()
    log.write_bytes(transcript.content())
    text = f'state_dir = "{place.state}"\nplaybooks = []\nagents = []\n'
    root = f'[[roots]]\nname = "claude"\npath = "{projects}"\nlayout = "claude-code"\nhistory = "live"\n'
    place.settings.write_text(text + root)
    environment = {
        "HOME": str(place.directory),
        "PATH": os.environ["PATH"],
        "RUNWARD_CONFIG": str(place.settings),
    }
    statuses = "select status from status_history order by id"
    agent = subprocess.Popen(["sleep", "1000"])
    inside = [*UNSHARE, "--kill-child", str(RUNWARD), "daemon"]
    daemon = subprocess.Popen(inside, env=environment, stderr=subprocess.DEVNULL)
    try:
        ticks = str(identity_of(agent.pid).start_ticks)
        said = {"pid": agent.pid, "sessionId": SESSION, "procStart": ticks}
        (sessions / f"{agent.pid}.json").write_text(json.dumps(said))
        wait_for(lambda: place.rows(statuses), "its session")
        since = time.monotonic()
        wait_for(lambda: time.monotonic() - since > 2 * GRACE, "more than the grace")
        assert place.rows(statuses) == [("running",)]
    finally:
        for each in (daemon, agent):
            each.send_signal(signal.SIGKILL)
            each.wait()


@pytest.mark.prove
def test_a_run_in_another_pid_namespace_is_not_gone_while_it_lives(place: Place) -> None:
    skip_without_namespaces()
    place.wait_ready(place.daemon())
    environment = {
        "HOME": str(place.directory),
        "PATH": os.environ["PATH"],
        "RUNWARD_CONFIG": str(place.settings),
    }
    script = f"sleep {4 * GRACE}"
    command = [*UNSHARE, str(RUNWARD), "run", "--name", "inside", "--", "sh", "-c", script]
    with subprocess.Popen(command, env=environment) as process:
        wait_for(lambda: "inside" in verdicts(place), "its session")
        while process.poll() is None:
            found = verdicts(place)["inside"]
            assert found[0] == "running" or (place.runs / "inside" / "exit.json").exists(), found
    wait_for(lambda: verdicts(place)["inside"][0] != "running", "its verdict")
    assert verdicts(place)["inside"] == ("completed", "run.completed.ok", "declared")
    history = place.rows("select status from status_history order by id")
    assert history == [("running",), ("completed",)]
