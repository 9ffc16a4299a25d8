"""The SDKs that drive the agents, in pinned versions: installed once, kept beside the agents, and no dependency of ours."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.agents.installed import NotToBeHadError, alone, cache_directory

LONGEST_INSTALLATION: Final = 300.0
"""Seconds: Claude's SDK brings a Claude Code of its own, which the tests don't use."""


@cache
def python_library(named: str) -> Path:
    """A directory for PYTHONPATH that has this package of PyPI, and all that it needs. Raises `NotToBeHadError`."""
    return _kept(named, [sys.executable, "-m", "pip", "install", "--quiet", named, "--target"])


@cache
def npm_library(named: str) -> Path:
    """A directory whose node_modules has this package of npm, without what is optional. Raises `NotToBeHadError`."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise NotToBeHadError("npm or node is not installed here")
    options = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--omit=optional"]
    return _kept(named, ["npm", "install", *options, named, "--prefix"])


def _kept(named: str, command: Sequence[str]) -> Path:
    """The directory of a package, which a command fills that is given it as its last word."""
    place = cache_directory()
    directory = place / named.strip("@").replace("/", "-")
    partial = directory.with_name(f"{directory.name}.partial")
    with alone(place / f"{directory.name}.lock"):
        if not directory.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                done = subprocess.run(
                    [*command, str(partial)],
                    capture_output=True,
                    text=True,
                    timeout=LONGEST_INSTALLATION,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise NotToBeHadError(f"{named} can't be installed: {error}") from None
            if done.returncode:
                raise NotToBeHadError(f"{named} can't be installed: {done.stderr.strip()[-400:]}")
            partial.rename(directory)
    return directory
