"""What the doctor finds beside a real systemd of a user: our unit, running, and scopes for runs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.launch.user_systemd import user_systemd
from tests.project.repository import ROOT

SCRIPT: Final = """\
systemctl --user daemon-reload && systemctl --user enable --now --quiet runward
until runward status --json | grep -q '"since": "'; do sleep 0.05; done
runward doctor --json --only unit --only daemon --only containment > well || cat well
systemctl --user stop runward
systemctl --user disable --quiet runward
runward doctor --json --only unit > stopped || cat stopped
"""


@pytest.mark.prove
def test_a_unit_that_runs_is_found_well_and_one_that_is_stopped_is_told_of(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for directory in (".local/bin", ".config/systemd/user"):
        (home / directory).mkdir(parents=True)
    (home / ".config/systemd/user/runward.service").write_text(
        (ROOT / "systemd/user/runward.service").read_text()
    )
    program = home / ".local/bin/runward"
    program.write_text(f"#!{sys.executable}\nfrom runward.daemon.cli import main\nmain()\n")
    program.chmod(0o700)
    with user_systemd(home) as systemd:
        ended = subprocess.run(
            systemd.argv("timeout", "200", "bash", "-eu", "-c", SCRIPT),
            env={"PATH": f"{home}/.local/bin:{os.environ['PATH']}", "LANG": "C.UTF-8"},
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        systemd.check(ended.returncode, ended.stderr)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stdout + ended.stderr
    found = [(each["name"], each["result"], each["found"]) for each in _checks(home / "well")]
    units = [(result, said) for name, result, said in found if name == "unit"]
    assert units[0][0] == "ok", found
    assert units[0][1].endswith("is active")
    assert [result for name, result, _ in found if name == "daemon"] == ["ok"], found
    assert ("containment", "ok") in [(name, result) for name, result, _ in found]
    assert any("runs are contained by scope" in said for _, _, said in found), found
    stopped = [each["found"] for each in _checks(home / "stopped")]
    assert any("isn't enabled" in each for each in stopped), stopped
    assert any("is inactive" in each for each in stopped), stopped


def _checks(path: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(path.read_text())["checks"]
    return found
