"""The daemon under a real journald: what journalctl finds by which field, and what `runward log` makes of it."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.cli import real_journald
from tests.daemon.cli.calling import Place

from runward.daemon.log import IN_JOURNAL, LOG

_UNTIL = """
until_said() {  # journald writes in its own time
    for again in $(seq 600); do
        if [ "$(journalctl -q -o cat RUNWARD_EVENT=stopped | wc -l)" = "$1" ]; then return; fi
        sleep 0.1
    done
    exit 70
}
"""


def _carried_out(place: Place, script: str) -> str:
    """What a script printed in which `runward` is the command and `as_service` runs one under a real journald."""
    for program in ("unshare", "mount", "journalctl"):
        if shutil.which(program) is None:
            pytest.skip(f"this machine has no {program}")
    if not real_journald.JOURNALD.exists() or not Path("/etc/machine-id").exists():
        pytest.skip("this machine has no systemd-journald or no machine-id")
    spaces = ["unshare", "--mount", "--net", "--propagation", "private"]
    if subprocess.run(
        [*spaces, "mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True, check=False
    ).returncode:
        pytest.skip("this machine lets nobody make namespaces and mount in them")
    runward = (
        f'runward() {{ {shlex.join(place.argv())} "$@"; }}\nrunward_words=({shlex.join(place.argv())})\n'
    )
    ended = subprocess.run(
        [*spaces, sys.executable, real_journald.__file__, runward + _UNTIL + script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        cwd=place.directory,
        env=place.environment,
        check=False,
    )
    if ended.returncode == 77:
        pytest.skip("systemd-journald doesn't start here")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.prove
def test_journalctl_and_runward_log_find_the_lines_of_a_service(place: Place) -> None:
    place.add_run("delivered", exit_code=0)
    place.add_run("crashed", exit_code=3)
    said = _carried_out(
        place,
        """
        as_service "${runward_words[@]}" daemon --once
        until_said 1
        journalctl -q -a -o json RUNWARD_SESSION=delivered RUNWARD_EVENT=session.finished
        runward log --json
        runward log --json --session crashed --level info --event 'session.*'
        runward log --json --level error
        """,
    )
    entry, everything, chosen, none = (json.loads(line) for line in said.splitlines())
    assert entry["SYSLOG_IDENTIFIER"] == "runward"
    assert entry["PRIORITY"] == "6"
    assert entry["RUNWARD_STATUS"] == "completed"
    assert entry["RUNWARD_SESSION"] == ["native:runs/delivered", "runs/delivered", "delivered"]
    events = [line["event"] for line in everything]
    assert (events[0], events[-1], events.count("session.finished")) == ("started", "stopped", 2)
    assert json.loads(entry["RUNWARD_JSON"]) in everything
    assert [line["session"] for line in chosen] == ["native:runs/crashed"]
    assert none == []
    assert (place.state / IN_JOURNAL).exists()
    assert not (place.state / LOG).exists()


@pytest.mark.prove
def test_a_service_is_followed_in_the_journal(place: Place) -> None:
    place.add_run("first", exit_code=0)
    said = _carried_out(
        place,
        """
        as_service "${runward_words[@]}" daemon --once
        until_said 1
        coproc following { exec "${runward_words[@]}" log -f -n 1 --json --event stopped --event started; }
        read -r line <&"${following[0]}"
        echo "$line"
        as_service "${runward_words[@]}" daemon --once
        for again in 1 2; do read -r line <&"${following[0]}"; echo "$line"; done
        kill "$following_PID"
        """,
    )
    assert [json.loads(line)["event"] for line in said.splitlines()] == ["stopped", "started", "stopped"]
