"""A state directory, a root and settings of the doctor's own, in which real commands are tried."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runward.daemon.doctor import commands
from runward.daemon.doctor.commands import Ended
from runward.daemon.doctor.findings import Patience

PLAYBOOK: Final = "canary"
PROOF: Final = "proof.txt"
"""What a run has to leave behind by this playbook."""

_SETTINGS: Final = 'state_dir = "state"\nplaybooks = ["playbooks"]\nagents = []\n'
_PLAYBOOK: Final = f"name: {PLAYBOOK}\nartifacts:\n  expected:\n    - {{id: proof, path: {PROOF}}}\n"
_NOT_HANDED_ON: Final = ("RUNWARD_", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_", "TRACEPARENT")
_PR_SET_PDEATHSIG: Final = 1
_ENTRY: Final = (
    f"import ctypes\nctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, 9)\n"
    "from runward.daemon.cli import main\nmain()"
)
"""The command, which doesn't outlive a doctor that is killed."""

_COMMAND_S: Final = 60.0
"""Seconds that one command may take."""


@dataclass(frozen=True, slots=True)
class PrivatePlace:
    """`directory` has the settings; a command finds nothing of the real installation."""

    directory: Path
    environment: Mapping[str, str]
    patience: Patience
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def state(self) -> Path:
        """Its state directory."""
        return self.directory / "state"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A `runward` command in the background, killed at the end at the latest. Raises `OSError`."""
        settings = str(self.directory / "runward.toml")
        words = [sys.executable, "-c", _ENTRY, *arguments[:1], "--config", settings, *arguments[1:]]
        self.started.append(commands.start(words, self.environment, self.directory))
        return self.started[-1]

    def call(self, *arguments: str) -> Ended:
        """Run a `runward` command to its end. Raises `OSError` and `OutOfTime`."""
        return self.finish(self.start(*arguments))

    def finish(self, process: subprocess.Popen[str]) -> Ended:
        """Wait for the end of a command that was started. Raises `OutOfTime`."""
        return commands.finish(process, self.patience, _COMMAND_S)


@contextmanager
def private_place(environment: Mapping[str, str], patience: Patience) -> Iterator[PrivatePlace]:
    """A temporary place, removed at the end with everything that was started there. Raises `OSError`."""
    directory = Path(tempfile.mkdtemp(prefix="runward-doctor-"))
    handed_on = {
        name: value for name, value in environment.items() if not name.startswith(_NOT_HANDED_ON)
    } | {"PYTHONPATH": os.pathsep.join(filter(None, (_sources(), environment.get("PYTHONPATH"))))}
    place = PrivatePlace(directory, handed_on, patience)
    try:
        (directory / "runward.toml").write_text(_SETTINGS)
        (directory / "playbooks").mkdir()
        (directory / "playbooks" / f"{PLAYBOOK}.playbook.yaml").write_text(_PLAYBOOK)
        yield place
    finally:
        for process in place.started:
            commands.end(process)
        shutil.rmtree(directory, ignore_errors=True)


def _sources() -> str:
    """Where this very program was imported from."""
    import runward.daemon

    return str(Path(runward.daemon.__file__).parents[2])
