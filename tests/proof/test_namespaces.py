"""A run in a PID namespace of its own: from outside nobody can tell by its numbers whether it lives."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.proof.place import Place
from tests.proof.test_killed_launchers import verdicts
from tests.waiting import wait_for

from runward.handlers.sessions.observe import GRACE

RUNWARD = Path(sys.executable).with_name("runward")
UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


@pytest.mark.prove
def test_a_run_in_another_pid_namespace_is_not_gone_while_it_lives(place: Place) -> None:
    if shutil.which("unshare") is None or subprocess.run([*UNSHARE, "true"], check=False).returncode != 0:
        pytest.skip("no PID namespace can be made here")
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
