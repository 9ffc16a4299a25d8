"""The units' text: what the checkout shows is what is rendered, and systemd takes it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.project.repository import ROOT

from runward.daemon.units.rendering import (
    NAMED,
    SYSTEM,
    SYSTEM_STATE,
    SYSUSERS,
    USER,
    escaped,
    render,
    word,
)

SHIPPED = {
    f"user/{USER.name}": render(USER, "%h/.local/bin/runward daemon", "%h/.local/state/runward"),
    f"system/{SYSTEM.name}": render(SYSTEM, "/usr/bin/runward daemon", SYSTEM_STATE),
    f"system/{NAMED.name}": render(NAMED, "/usr/bin/runward daemon"),
    f"sysusers.d/{SYSUSERS.name}": render(SYSUSERS),
}
"""The units for packagers of Runward, by their path below `systemd/`."""


def test_the_checkout_has_what_is_rendered() -> None:
    top = ROOT / "systemd"
    there = {str(path.relative_to(top)): path.read_text() for path in top.rglob("*") if path.is_file()}
    assert there == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_nothing_is_left_to_be_put_in(name: str) -> None:
    assert re.findall(r"@[A-Z]+@", SHIPPED[name]) == []


@pytest.mark.parametrize("name", [name for name in SHIPPED if name.endswith(".service")])
def test_a_stop_ends_no_run_and_empties_nothing_of_it(name: str) -> None:
    text = SHIPPED[name]
    assert "\nKillMode=process\n" in text
    for emptied in ("PrivateTmp=yes", "RemoveIPC=yes"):
        assert f"\n{emptied}" not in text
    assert ("\nRuntimeDirectory=" in text) == ("\nRuntimeDirectoryPreserve=yes\n" in text)


@pytest.mark.parametrize("name", [name for name in SHIPPED if name.endswith(".service")])
def test_what_breaks_runs_is_left_out(name: str) -> None:
    text = SHIPPED[name]
    for breaking in (
        "MemoryDenyWriteExecute=",
        "ProcSubset=",
        "ProtectProc=",
        "PrivateNetwork=",
        "DynamicUser=",
        "ProtectHostname=",
    ):
        assert f"\n{breaking}" not in text
    for line in re.findall(r"^RestrictNamespaces=(.*)$", text, re.MULTILINE):
        assert {"user", "mnt", "pid", "net", "ipc", "uts"} <= set(line.split())
    for line in re.findall(r"^RestrictAddressFamilies=(.*)$", text, re.MULTILINE):
        assert {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"} <= set(line.split())
    if calls := re.findall(r"^SystemCallFilter=([^~].*)$", text, re.MULTILINE):
        assert {"@mount", "seccomp", "sethostname", "setpriority", "sched_setscheduler"} <= set(
            " ".join(calls).split()
        )


def test_roots_outside_of_the_state_are_writable() -> None:
    text = render(SYSTEM, "/opt/runward daemon", SYSTEM_STATE, ["/srv/runs", "/srv/with space"])
    assert 'ReadWritePaths=-/srv/runs\nReadWritePaths="-/srv/with space"\n' in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/usr/bin/runward", "/usr/bin/runward"),
        ("/a b", '"/a b"'),
        ("/100%", "/100%%"),
        ('/"quoted"', '"/\\"quoted\\""'),
        ("/back\\slash", '"/back\\\\slash"'),
    ],
)
def test_a_word_is_one_word_to_systemd(text: str, shown: str) -> None:
    assert word(text) == shown


def _analyze(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    return subprocess.run(
        ["systemd-analyze", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("name", ["runward.service", "runward@.service"])
def test_the_units_of_the_machine_are_exposed_by_at_most_two_point_six(name: str) -> None:
    version = _analyze("--version", cwd=ROOT).stdout.split()[1:2]
    if version != ["252"]:
        pytest.skip(
            f"what is rated differs between versions of systemd: measured with 252, here is {version}"
        )
    rated = _analyze("security", "--offline=true", "--threshold=26", f"systemd/system/{name}", cwd=ROOT)
    assert rated.returncode == 0, rated.stdout[-200:] + rated.stderr


@pytest.mark.parametrize(("unit", "state"), [(USER, "/home/50% off/state"), (SYSTEM, SYSTEM_STATE)])
def test_systemd_has_nothing_to_say_against_a_unit(tmp_path: Path, unit: tuple[str, str], state: str) -> None:
    program = tmp_path / "with space" / "runward"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    rendered = USER if unit == USER else SYSTEM
    text = render(rendered, f"{word(str(program))} daemon", escaped(state), ["/srv/50% off"])
    (tmp_path / "runward.service").write_text(text.replace("User=runward\n", ""))
    said = _analyze(
        "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "runward.service"), cwd=tmp_path
    )
    ours = [line for line in said.stderr.splitlines() if re.search(r"runward\.service:\d+:|executable", line)]
    assert ours == []
