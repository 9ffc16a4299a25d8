"""The attempts to escape from the sandbox, inside the hardened unit under a real systemd, with each of the means."""

import json
import re
import shutil
from ctypes.util import find_library
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.units.booted import booted, skip_where_impossible, stage_runward
from tests.project.repository import ROOT

NEEDED: Final = ("waiting.py", "daemon/sandbox/attempts.py", "daemon/sandbox/machine.py")
TELLS: Final = "/var/tmp/attempts.json"  # in the booted machine
TRIES: Final = f"""\
import json, sys
sys.path.insert(0, "/opt/attempts")
from tests.daemon.sandbox.attempts import ATTEMPTS, BY_THE_MEANS
from tests.daemon.sandbox.machine import machine_for_attempts, surprises
told = {{}}
for sandbox, attempts in (("bubblewrap", ATTEMPTS), ("landlock", BY_THE_MEANS)):
    with machine_for_attempts() as machine:
        told[sandbox] = surprises(sandbox, machine.told(), attempts)
        machine.is_untouched()
open("{TELLS}", "w").write(json.dumps(told))
"""

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]


def test_each_of_the_means_stops_what_it_promises_in_the_hardened_unit(tmp_path: Path) -> None:
    skip_where_impossible()
    if shutil.which("bwrap") is None or find_library("seccomp") is None:
        pytest.skip("needs bubblewrap and libseccomp")
    stage = tmp_path / "stage"
    stage.mkdir()
    stage_runward(stage)
    for each in NEEDED:
        target = stage / "opt/attempts/tests" / each
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / "tests" / each, target)
    (stage / "opt/attempts/try.py").write_text(TRIES)
    unit = (ROOT / "systemd/system/runward.service").read_text()
    for key, value in {
        "Type": "oneshot",
        "User": "alice",
        "ExecStart": "/opt/runward/bin/python /opt/attempts/try.py",
        "Restart": "no",
    }.items():
        unit, count = re.subn(f"(?m)^{key}=.*$", f"{key}={value}", unit)
        assert count == 1, key
    for directory in ("etc/systemd/system", "home/alice", "home/bob"):
        (stage / directory).mkdir(parents=True)
    (stage / "etc/systemd/system/attempts.service").write_text(unit)
    with booted(stage, tmp_path / "root") as machine:
        started = machine.try_to("systemctl", "start", "attempts.service")
        said = machine.run("journalctl", "--unit=attempts", "--output=cat")
        assert started.returncode == 0, said
        assert json.loads(machine.path(TELLS).read_text()) == {"bubblewrap": [], "landlock": []}
