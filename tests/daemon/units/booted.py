"""A machine with a real systemd, booted next to this one's, with Runward installed from a wheel."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from tests.project.repository import ROOT
from tests.waiting import PATIENCE_S, wait_for

SCRIPT: Final = Path(__file__).with_name("booted_systemd.sh")
NEEDED: Final = (
    "unshare",
    "nsenter",
    "setpriv",
    "pivot_root",
    "ldconfig",
    "systemctl",
    "systemd-run",
    "dbus-daemon",
)
ALICE: Final = 4242
_LEFT_OUT: Final = (
    *("*.pth", "mypy*", "*__mypyc*", "pip*", "ruff*", "hypothesis*", "setuptools*", "grimp*"),
    *("importlinter*", "_pytest", "xdist"),
)  # fmt: skip
"""What only development needs."""

_PATH: Final = "/opt/runward/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CALL_S: Final = 150.0
_SPACES: Final = ("--mount", "--uts", "--ipc", "--net", "--cgroup", "--pid", "--fork", "--kill-child")
_MOUNTS: Final = """\
mount -t proc proc /proc && mount -t sysfs -o ro sysfs /sys && mount -t cgroup2 cgroup2 /sys/fs/cgroup &&
mount -t tmpfs tmpfs /tmp && mkdir /tmp/pts && mount -t devpts -o newinstance devpts /tmp/pts
"""
"""What the script asks of the kernel before anything of the stage matters."""


@dataclass(frozen=True, slots=True)
class Booted:
    """The machine, by its PID 1 as seen from here."""

    leader: int

    def run(self, *words: str, user: str = "root", home: str = "/root", **variables: str) -> str:
        """What a command says that ends well in it; its errors are shown where it doesn't."""
        ended = self.try_to(*words, user=user, home=home, **variables)
        assert ended.returncode == 0, f"{words} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout.strip()

    def try_to(
        self, *words: str, user: str = "root", home: str = "/root", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """A command in it, in a unit of its own, as systemd starts services."""
        settings = [
            f"--setenv={name}={value}" for name, value in {"PATH": _PATH, "HOME": home, **variables}.items()
        ]
        service = [
            "systemd-run",
            "--quiet",
            "--pipe",
            "--wait",
            "--collect",
            f"--uid={user}",
            *settings,
            *words,
        ]
        return self._enter(*service)

    def alice(self, *words: str) -> str:
        """A command of the user alice, in the reach of her own systemd."""
        return self.run(*words, user="alice", home="/home/alice", XDG_RUNTIME_DIR=f"/run/user/{ALICE}")

    def state(self) -> str:
        """What systemd says of the whole of it."""
        return self._enter("systemctl", "is-system-running").stdout.strip()

    def path(self, path: str) -> Path:
        """A path in it, as seen from here."""
        return Path(f"/proc/{self.leader}/root{path}")

    def _enter(self, *words: str) -> subprocess.CompletedProcess[str]:
        spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        return subprocess.run(
            ["nsenter", f"--target={self.leader}", *spaces, "--root", "--wd", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"PATH": _PATH, "LANG": "C.UTF-8"},
            timeout=_CALL_S,
            check=False,
        )


def stage_runward(stage: Path) -> None:
    """Runward as a wheel in a virtual environment in /opt, as an operator installs it; its dependencies as they are here."""
    wheels = stage.parent / "wheels"
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(words, cwd=ROOT, capture_output=True, check=True, timeout=100)
    (wheel,) = wheels.glob("*.whl")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = stage / "opt/runward"
    packages = place / "lib" / version / "site-packages"
    shutil.copytree(
        Path(pytest.__file__).parents[1],
        packages,
        ignore=shutil.ignore_patterns(*_LEFT_OUT),
        copy_function=_linked_or_copied,
    )
    zipfile.ZipFile(wheel).extractall(packages)
    home = f"{_prefix() or '/usr'}/bin"
    (place / "bin").mkdir()
    (place / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    (place / "bin/python").symlink_to(f"{home}/{version}")
    program = place / "bin/runward"
    program.write_text("#!/opt/runward/bin/python\nfrom runward.daemon.cli import main\nmain()\n")
    program.chmod(0o755)


def _linked_or_copied(source: str, target: str) -> None:
    """It is copied into the machine later anyway."""
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)


def _prefix() -> str | None:
    """Where Python lies in it, if it isn't that of the distribution."""
    return None if Path(sys.base_prefix) == Path("/usr") else "/opt/python"


@contextmanager
def booted(stage: Path, mount_point: Path) -> Iterator[Booted]:
    """A machine with what lies below `stage` in it, running. Nothing is left of it.

    Call `skip_where_impossible` before: what goes wrong here is a failure.
    """
    groups = _cgroup_of_its_own()
    mount_point.mkdir()
    boot = ["bash", str(SCRIPT), str(mount_point), str(stage), *([sys.base_prefix] if _prefix() else [])]
    into = f'echo $$ > "{groups}/cgroup.procs" && exec "$@"'
    console = mount_point.with_name("console.log")
    with console.open("wb") as output:
        unshare = subprocess.Popen(
            ["bash", "-c", into, "bash", "unshare", *_SPACES, *boot],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        machine = _wait_for_boot(unshare, console)
        yield machine
    finally:
        (groups / "cgroup.kill").write_text("1")
        unshare.wait(PATIENCE_S)
        wait_for(lambda: "populated 0" in (groups / "cgroup.events").read_text(), "the machine's end")
        for directory, _, _ in os.walk(groups, topdown=False):
            os.rmdir(directory)


def _wait_for_boot(unshare: subprocess.Popen[bytes], console: Path) -> Booted:
    def said() -> str:
        return console.read_text(errors="replace")[-2000:]

    def machine() -> Booted | None:
        if unshare.poll() is not None:
            pytest.fail(f"the machine ended with {unshare.returncode}: {said()}")
        child = _read(f"/proc/{unshare.pid}/task/{unshare.pid}/children").strip()
        if not child or _read(f"/proc/{child}/comm") != "systemd\n":
            return None
        found = Booted(int(child))
        return found if found.state() in ("running", "degraded") else None

    try:
        return wait_for(machine, "the end of the boot")
    except AssertionError as error:
        raise AssertionError(f"{error}: {said()}") from error


def _read(path: str) -> str:
    """What stands there; empty where it is gone."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def skip_where_impossible() -> None:
    """Skip where it is plain beforehand that no systemd can be booted."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if os.getuid() != 0 or _cgroups() is None or missing or not Path("/lib/systemd/systemd").exists():
        pytest.skip(f"needs root, cgroups of version 2, systemd and {', '.join(missing) or 'nothing more'}")
    if not Path("/bin").is_symlink():
        pytest.skip("needs a machine whose programs all lie below /usr")
    words = ["unshare", *_SPACES, "sh", "-c", _MOUNTS]
    tried = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if tried.returncode != 0:
        pytest.skip(f"needs namespaces, and file systems mounted in them: {tried.stderr}")


def _cgroups() -> Path | None:
    """Where cgroups of version 2 are mounted."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    return next((Path(line.split()[1]) for line in mounts if " cgroup2 " in line), None)


def _cgroup_of_its_own() -> Path:
    group = (_cgroups() or Path("/nowhere")) / f"runward-test-{uuid4().hex}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    return group
