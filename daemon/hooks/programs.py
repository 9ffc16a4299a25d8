"""The agents' programs that are installed here, and their versions."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

Version: TypeAlias = tuple[int, int, int]


class _Known(NamedTuple):
    """What a program is called by people and on the PATH, and where else below a home it is."""

    name: str
    command: str
    places: tuple[str, ...] = ()


_KNOWN: Final = {
    "claude-code": _Known("Claude Code", "claude", (".local/bin/claude", ".claude/local/claude")),
    "cline": _Known("Cline", "cline"),
    "codex": _Known("Codex", "codex"),
    "copilot": _Known("GitHub Copilot", "copilot"),
    "droid": _Known("Droid", "droid"),
    "kimi": _Known("Kimi Code", "kimi"),
    "kilo": _Known("Kilo", "kilo"),
    "opencode": _Known("opencode", "opencode"),
    "pi": _Known("Pi", "pi"),
    "qwen": _Known("Qwen Code", "qwen"),
}
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
_VERSION_S: Final = 20.0
_NOBODY: Final = "http://127.0.0.1:9"


class Program(NamedTuple):
    """An installed agent. `version` is None if it doesn't report one."""

    agent: str
    path: str
    version: Version | None

    @property
    def title(self) -> str:
        """What it is called, with its version."""
        version = (
            "of a version that it doesn't say" if self.version is None else ".".join(map(str, self.version))
        )
        return f"{name_of(self.agent)} {version}"

    @property
    def name(self) -> str:
        """The same, with where it is."""
        return f"{self.title} ({self.path})"


def name_of(agent: str) -> str:
    """What people call the agent."""
    return _KNOWN[agent].name


def path_of(agent: str, environment: Mapping[str, str]) -> str | None:
    """Where the agent's program is; None if it is not installed here."""
    known, home = _KNOWN[agent], environment.get("HOME", "")
    usual = (os.path.join(home, place) for place in known.places) if home else ()
    program = shutil.which(known.command, path=environment.get("PATH"))
    return program or next((place for place in usual if os.access(place, os.X_OK)), None)


def installed(agent: str, environment: Mapping[str, str]) -> Program | None:
    """The agent's program, or None. It is run to ask for its version."""
    path = path_of(agent, environment)
    if path is None:
        return None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        try:
            # Nothing of the person's is in reach: only the program is examined, not its settings.
            variables = alone(environment, scratch)
            with started_alone((path, "--version"), scratch, variables, subprocess.PIPE) as process:
                said, _ = process.communicate(timeout=_VERSION_S)
        except (OSError, subprocess.TimeoutExpired):
            return Program(agent, path, None)
    version = _VERSION.search(said.decode(errors="replace"))
    found = None if version is None else (int(version[1]), int(version[2]), int(version[3]))
    return Program(agent, path, found)


def alone(environment: Mapping[str, str], scratch: str) -> dict[str, str]:
    """An environment for a program that must not reach anything of the person's."""
    config = os.path.join(scratch, "config")
    os.makedirs(config, exist_ok=True)
    return {
        "PATH": environment.get("PATH", os.defpath),
        "HOME": scratch,
        "CLAUDE_CONFIG_DIR": config,
        "CODEX_HOME": config,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": _NOBODY,
        "HTTP_PROXY": _NOBODY,
        "HTTPS_PROXY": _NOBODY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


@contextmanager
def started_alone(
    words: Sequence[str], scratch: str, variables: Mapping[str, str], pipes: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs in `scratch`, with `pipes` for its input and output. At the end it is killed. Raises `OSError`."""
    with subprocess.Popen(
        words,
        bufsize=0,
        cwd=scratch,
        env=variables,
        stdin=pipes,
        stdout=pipes,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            try:
                # The whole group: it may have started others.
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
