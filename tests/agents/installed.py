"""The real programs of the agents, in pinned versions, from npm: installed once, and kept for the next run of the tests.

They go to the directory that RUNWARD_AGENTS_CACHE names, else to one of this user's among the temporary files. What
can't be had skips its tests, with the reason.
"""

import fcntl
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

LONGEST_INSTALLATION: Final = 120.0
"""Seconds after which a registry that doesn't answer counts as one that can't be reached."""

LONGEST_START: Final = 120.0
"""Seconds after which a program that doesn't say its version counts as one that doesn't start: the first start reads 200 MB."""

FAILURE_HOLDS: Final = 600.0
"""Seconds for which nobody asks a registry again that could not be reached: one run of the tests at least."""


class Pinned(NamedTuple):
    """A program by its npm package. `executable` is where it lies below node_modules, as a pattern; `node` is the one
    that a script needs, if an older one won't do.
    """

    package: str
    version: str
    executable: str
    node: "Pinned | None" = None


_ARCHITECTURE: Final = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
NODE: Final = Pinned(f"node-linux-{_ARCHITECTURE}", "22.23.3", "node-linux-*/bin/node")

CLAUDE_CODE: Final = Pinned(
    "@anthropic-ai/claude-code", "2.1.197", "@anthropic-ai/claude-code-linux-*/claude"
)
CLAUDE_CODE_2_1_332: Final = CLAUDE_CODE._replace(version="2.1.332")
"""The first one here that also says `busy` or `idle` if a program drives it."""
CLAUDE_CODE_2_0: Final = Pinned("@anthropic-ai/claude-code", "2.0.30", "@anthropic-ai/claude-code/cli.js")
CODEX: Final = Pinned(
    "@openai/codex", "0.169.0", f"@openai/codex-linux-*/vendor/{platform.machine()}-*/bin/codex"
)
CODEX_0_104: Final = Pinned(
    "@openai/codex", "0.104.0", f"@openai/codex-linux-*/vendor/{platform.machine()}-*linux*/codex/codex"
)
CODEX_0_98: Final = Pinned(
    "@openai/codex", "0.98.0", f"@openai/codex/vendor/{platform.machine()}-*linux*/codex/codex"
)
COPILOT: Final = Pinned("@github/copilot", "1.0.102", "@github/copilot-linux-*/copilot")
CLINE: Final = Pinned(
    f"@cline/cli-linux-{_ARCHITECTURE}", "3.0.65", f"@cline/cli-linux-{_ARCHITECTURE}/bin/cline"
)
DROID: Final = Pinned(
    f"@factory/cli-linux-{_ARCHITECTURE}", "0.215.0", f"@factory/cli-linux-{_ARCHITECTURE}/bin/droid"
)
KIMI: Final = Pinned("@moonshot-ai/kimi-code", "2.1.0", "@moonshot-ai/kimi-code/dist/main.mjs", NODE)
KILO: Final = Pinned("@kilocode/cli", "7.7.7", "@kilocode/cli-linux-*/bin/kilo")
OPENCODE: Final = Pinned("opencode-ai", "1.18.33", "opencode-linux-*/bin/opencode")
PI: Final = Pinned(
    "@earendil-works/pi-coding-agent", "1.5.2", "@earendil-works/pi-coding-agent/dist/bundle/cli.js", NODE
)
QWEN: Final = Pinned("@qwen-code/qwen-code", "0.24.4", "@qwen-code/qwen-code/cli-entry.js", NODE)


class NotToBeHadError(Exception):
    """A program that can't be installed or started here; says why."""


@cache
def program(pinned: Pinned) -> tuple[str, ...]:
    """How to start it. Raises `NotToBeHadError`."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise NotToBeHadError("npm or node is not installed here")
    place = cache_directory()
    directory = place / f"{pinned.package.rpartition('/')[2]}-{pinned.version}"
    node = "node" if pinned.node is None else program(pinned.node)[0]
    with alone(place / f"{directory.name}.lock"):
        if not directory.is_dir():
            _install(pinned, directory, place / "failure", node)
    return _start_of(pinned, directory, node)


def cache_directory() -> Path:
    named = os.environ.get("RUNWARD_AGENTS_CACHE")
    place = Path(named) if named else Path(tempfile.gettempdir()) / f"runward-agents-{os.getuid()}"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.stat().st_uid != os.getuid():
        raise NotToBeHadError(f"{place} belongs to somebody else")
    return place


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Only one at a time; the others find what it left."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _install(pinned: Pinned, directory: Path, failure: Path, node: str) -> None:
    """Install it, all or nothing. A `failure` holds for all programs: there is one registry."""
    if failure.is_file() and time.time() - failure.stat().st_mtime < FAILURE_HOLDS:
        raise NotToBeHadError(failure.read_text())
    partial = directory.with_name(f"{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        _run_npm(f"{pinned.package}@{pinned.version}", partial)
        _start_of(pinned, partial, node)
    except NotToBeHadError as error:
        failure.write_text(str(error))
        raise
    partial.rename(directory)


def _run_npm(named: str, prefix: Path) -> None:
    options = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--fetch-retries=1"]
    command = ["npm", "install", *options, "--prefix", str(prefix), named]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST_INSTALLATION, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotToBeHadError(f"npm did not install {named} within {LONGEST_INSTALLATION:g} s") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not line.startswith("npm warn")]
        raise NotToBeHadError(f"npm can't install {named}: {'; '.join(said[:3])}")


def _start_of(pinned: Pinned, directory: Path, node: str) -> tuple[str, ...]:
    found = sorted((directory / "node_modules").glob(pinned.executable))
    if not found:
        raise NotToBeHadError(f"{pinned.package} {pinned.version} has no program for this machine")
    start = (node, str(found[0])) if found[0].suffix in (".js", ".mjs") else (str(found[0]),)
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    command = [*start, "--version"]
    try:
        said = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LONGEST_START, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotToBeHadError(f"{start[-1]} didn't say its version within {LONGEST_START:g} s") from None
    if said.returncode or pinned.version not in said.stdout:
        raise NotToBeHadError(f"{start[-1]} doesn't start here: {(said.stdout + said.stderr).strip()[-400:]}")
    return start
