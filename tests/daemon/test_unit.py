"""The unit that we ship, in a real systemd: its stop, its restart and its kill leave the runs alone that it started."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.launch.user_systemd import user_systemd
from tests.project.repository import ROOT

SCRIPT: Final = """\
systemctl --user daemon-reload && systemctl --user start runward
id=$(runward play run waits)
run=$HOME/.local/state/runward/runs/$id
until grep -q . "$run/stdout.log"; do sleep 0.05; done
cat "$run/stdout.log"
systemctl --user stop runward
echo "$(systemctl --user is-active runward)"
systemctl --user start runward
systemctl --user kill --signal KILL --kill-who main runward
until systemctl --user is-active --quiet runward && runward status > status; do sleep 0.05; done
until runward session show "$id" --json > shown; do sleep 0.05; done
grep -c '"status": "running"' shown
touch "$HOME/go"
until [ -e "$run/exit.json" ]; do sleep 0.05; done
until runward session show "$id" --json | grep -q '"status": "completed"'; do sleep 0.05; done
tail -n 1 "$run/stdout.log"
systemctl --user stop runward
"""
PLAYBOOK: Final = """\
command:
  - sh
  - -c
  - 'echo "$(cut -d: -f3 /proc/self/cgroup | tail -n 1) ${NOTIFY_SOCKET:-quiet} $(umask)"; until [ -e "$HOME/go" ]; do sleep 0.05; done; echo over'
timeout: 1min
"""


@pytest.mark.prove
@pytest.mark.parametrize("scopes", [True, False])
def test_a_run_outlives_stop_and_kill_of_the_unit_that_started_it(tmp_path: Path, scopes: bool) -> None:
    home = tmp_path / "home"
    for directory in (".local/bin", ".config/systemd/user", ".config/runward/playbooks"):
        (home / directory).mkdir(parents=True)
    (home / ".config/runward/playbooks/waits.playbook.yaml").write_text(PLAYBOOK)
    unit = (ROOT / "systemd/user/runward.service").read_text()
    if not scopes:  # where busctl isn't there, nobody leaves the unit
        unit = unit.replace("[Service]", "[Service]\nEnvironment=PATH=/nowhere:%h/tools")
        _tools(home / "tools", "sh", "sleep", "cut", "tail")
    (home / ".config/systemd/user/runward.service").write_text(unit)
    program = home / ".local/bin/runward"
    program.write_text(f"#!{sys.executable}\nfrom runward.daemon.cli import main\nmain()\n")
    program.chmod(0o700)
    with user_systemd(home) as systemd:
        ended = subprocess.run(
            systemd.argv("timeout", "100", "bash", "-eu", "-c", SCRIPT),
            env={"PATH": f"{home}/.local/bin:{os.environ['PATH']}", "LANG": "C.UTF-8"},
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        systemd.check(ended.returncode, ended.stderr)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    begun, stopped, known, over = ended.stdout.splitlines()
    cgroup, socket, umask = begun.split()
    assert cgroup.endswith(".scope") == scopes
    assert ("runward.service" in cgroup) != scopes
    assert (socket, umask) == ("quiet", "0022")
    assert (stopped, known, over) == ("inactive", "1", "over")


def _tools(directory: Path, *names: str) -> None:
    directory.mkdir()
    for name in names:
        (directory / name).symlink_to(f"/usr/bin/{name}")
