"""The installed Claude Code: which hook events its version knows, and whether it accepts settings with them.

If a version meets an event that it doesn't know, it drops the whole settings file, and the person's permissions with
it.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

Version: TypeAlias = tuple[int, int, int]

KNOWN_SINCE: Final[Mapping[str, Version]] = MappingProxyType(
    {
        "SessionStart": (1, 0, 62),
        "UserPromptSubmit": (1, 0, 54),
        "Stop": (1, 0, 38),
        "StopFailure": (2, 1, 78),
        "SessionEnd": (1, 0, 85),
    }
)
"""The hooks that tell something which the daemon can use, each with the first version that knows it."""

_NOT_FOUND: Final[Version] = (2, 0, 0)
"""The version that is assumed if the program is not found: almost nobody still uses an older one."""

_PLACES: Final = (".local/bin/claude", ".claude/local/claude")
"""Where it is installed below a home without being on everybody's PATH."""

_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
_VERSION_S: Final = 20.0
_ACCEPTS_S: Final = 30.0
_TURN_S: Final = 0.05
_NOBODY: Final = "http://127.0.0.1:9"
_ASKED: Final = ("-p", "hello")
_EARLIEST: Final = "UserPromptSubmit"
"""The first event that a start reports and that every version knows that knows either of them."""


class Program(NamedTuple):
    """An installed Claude Code. `version` is None if it doesn't report one."""

    path: str
    version: Version | None

    @property
    def name(self) -> str:
        """Its name in a message."""
        said = (
            "of a version that it doesn't say" if self.version is None else ".".join(map(str, self.version))
        )
        return f"Claude Code {said} ({self.path})"


def installed(environment: Mapping[str, str]) -> Program | None:
    """The program that `claude` starts, or None."""
    home = environment.get("HOME", "")
    usual = (os.path.join(home, place) for place in _PLACES) if home else ()
    found = shutil.which("claude", path=environment.get("PATH"))
    path = found or next((place for place in usual if os.access(place, os.X_OK)), None)
    if path is None:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        try:
            ended = subprocess.run(
                [path, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_VERSION_S,
                check=False,
                env=_alone(environment, scratch),
            )
        except (OSError, subprocess.TimeoutExpired):
            return Program(path, None)
    said = _VERSION.search(ended.stdout)
    return Program(path, None if said is None else (int(said[1]), int(said[2]), int(said[3])))


def events_of(program: Program | None) -> tuple[str, ...]:
    """The events that the program knows; without one, or a version, those that it very probably does."""
    version = (program.version if program is not None else None) or _NOT_FOUND
    return tuple(event for event, since in KNOWN_SINCE.items() if since <= version)


def accepts(program: Program, events: Sequence[str], environment: Mapping[str, str]) -> bool | None:
    """Whether the program accepts settings with hooks for these events; None if it can't be found out.

    It is started in a home of its own, where it reaches no model and needs no account: it calls its first hook before
    it asks for anything. None of the person's files are read or written.
    """
    if _calls(program, events, environment):
        return True
    return False if _calls(program, (_EARLIEST,), environment) else None


def _calls(program: Program, events: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether it calls a hook from settings that have exactly these."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        called = Path(scratch, "called")
        hook = {"type": "command", "command": f"touch {shlex.quote(str(called))}", "timeout": 10}
        hooks = {event: [{"hooks": [hook]}] for event in events}
        variables = _alone(environment, scratch)
        Path(variables["CLAUDE_CONFIG_DIR"], "settings.json").write_text(json.dumps({"hooks": hooks}))
        try:
            process = subprocess.Popen(
                [program.path, *_ASKED],
                cwd=scratch,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return False
        try:
            until = time.monotonic() + _ACCEPTS_S
            while not called.exists() and process.poll() is None and time.monotonic() < until:
                time.sleep(_TURN_S)
            return called.exists()
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def _alone(environment: Mapping[str, str], scratch: str) -> dict[str, str]:
    """An environment for a program that must not reach anything of the person's."""
    config = os.path.join(scratch, "config")
    os.makedirs(config, exist_ok=True)
    return {
        "PATH": environment.get("PATH", os.defpath),
        "HOME": scratch,
        "CLAUDE_CONFIG_DIR": config,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": _NOBODY,
        "HTTP_PROXY": _NOBODY,
        "HTTPS_PROXY": _NOBODY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
