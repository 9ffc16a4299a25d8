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
from tests.bench.figure import Figure, Goal
from tests.bench.launcher import beyond, clean_environment, runward
from tests.bench.scratch import scratch

_TIME: Final = Goal("at most", 15.0)
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


def hook(disk: Path, count: int, repeats: int) -> list[Figure]:
    """Milliseconds more than a bare interpreter takes, taken in turn; by the shell, and the same words without it."""
    with scratch(disk) as place:
        environment = clean_environment(place.directory)
        place.fresh("state")
        command = _installed(place.directory, environment)
        words = command.removesuffix("|| :").split()
        calls = count * repeats
        shell = [shutil.which("sh") or "/bin/sh", "-c", command]
        figures = [
            _figure("hook of Claude Code, by its shell", shell, environment, calls, _TIME),
            _figure("the same without the shell", words, environment, calls, None),
        ]
        left = len(list((place.directory / "state" / "inbox").glob("*.json")))
    # What fails costs little: each call must have left its file.
    wanted = 2 * (calls + _WARM)
    if left != wanted:
        figures[0].problems.append(f"{left} files in the inbox after {wanted} calls")
    return figures


def _installed(home: Path, environment: Mapping[str, str]) -> str:
    """The command line as it stands in Claude Code's settings afterwards."""
    subprocess.run(
        [*runward(), "hook", "install", "claude-code"], env=environment, check=True, capture_output=True
    )
    settings = json.loads((home / ".claude" / "settings.json").read_text())
    return TypeAdapter(str).validate_python(settings["hooks"]["Stop"][0]["hooks"][0]["command"])


def _figure(
    name: str, command: Sequence[str], environment: Mapping[str, str], count: int, goal: Goal | None
) -> Figure:
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(count + _WARM):
        bare.append(_milliseconds(_BARE, environment))
        ours.append(_milliseconds(command, environment))
    bare, ours = bare[_WARM:], ours[_WARM:]
    least = f"at their fastest {min(ours):.1f} ms against {min(bare):.1f}, medians of n = {count}"
    return beyond(name, ours, bare, "ms", goal, least)


def _milliseconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=environment, input=_PAYLOAD, check=True, capture_output=True)
    return (time.perf_counter() - begin) * 1000
