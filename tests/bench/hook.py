"""What a call of an agent's hook costs beside a bare interpreter: the command line that `runward hook install` writes down.

It is called as Claude Code calls it, by `sh -c` and with the payload on stdin. No daemon runs; the file is synced to the disk.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter
from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement
from tests.bench.launcher import beyond, clean_environment, runward
from tests.bench.scratch import scratch

_BY_SHELL: Final = Figure("hook-shell", "hook of Claude Code, by its shell", "ms more", Goal("at most", 15.0))
_WITHOUT_SHELL: Final = Figure("hook", "hook of Claude Code, without a shell", "ms more")
_BARE: Final = (sys.executable, "-S", "-c", "pass")
_WARM: Final = 3
_PAYLOAD: Final = json.dumps(
    {
        "session_id": "5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b11",
        "transcript_path": "/home/dev/.claude/projects/-home-dev-app/5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b11.jsonl",
        "cwd": "/home/dev/app",
        "permission_mode": "default",
        "hook_event_name": "Stop",
        "stop_hook_active": False,
        "last_assistant_message": "Done. " * 300,
    }
).encode()


def _hook(conditions: Conditions) -> list[Measured]:
    """Milliseconds more than a bare interpreter takes, taken in turn; by the shell, and the same words without it."""
    with scratch(conditions.disk) as place:
        environment = clean_environment(place.directory)
        place.fresh("state")
        command = _installed(place.directory, environment)
        words = command.removesuffix("|| :").split()
        calls = conditions.size(50, 5) * conditions.repeats
        shell = [shutil.which("sh") or "/bin/sh", "-c", command]
        problems: list[str] = []
        measured = [
            _measured(_BY_SHELL, shell, environment, calls, problems),
            _measured(_WITHOUT_SHELL, words, environment, calls, []),
        ]
        left = len(list((place.directory / "state" / "inbox").glob("*.json")))
    # What fails costs little: each call must have left its file.
    wanted = 2 * (calls + _WARM)
    if left != wanted:
        problems.append(f"{left} files in the inbox after {wanted} calls")
    return measured


def _installed(home: Path, environment: Mapping[str, str]) -> str:
    """The command line as it stands in Claude Code's settings afterwards."""
    subprocess.run(
        [*runward(), "hook", "install", "claude-code"], env=environment, check=True, capture_output=True
    )
    settings = json.loads((home / ".claude" / "settings.json").read_text())
    return TypeAdapter(str).validate_python(settings["hooks"]["Stop"][0]["hooks"][0]["command"])


def _measured(
    figure: Figure,
    command: Sequence[str],
    environment: Mapping[str, str],
    count: int,
    problems: list[str],
) -> Measured:
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(count + _WARM):
        bare.append(_milliseconds(_BARE, environment))
        ours.append(_milliseconds(command, environment))
    bare, ours = bare[_WARM:], ours[_WARM:]
    least = f"at their fastest {min(ours):.1f} ms against {min(bare):.1f}, medians of n = {count}"
    return beyond(figure, ours, bare, "ms", least, problems)


def _milliseconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=environment, input=_PAYLOAD, check=True, capture_output=True)
    return (time.perf_counter() - begin) * 1000


MEASUREMENTS: Final = (
    Measurement(
        "hook",
        "what a call of an agent's hook takes beyond a bare interpreter; its file is synced to the disk",
        (_BY_SHELL, _WITHOUT_SHELL),
        _hook,
    ),
)
