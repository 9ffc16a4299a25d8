"""A scratch home in which a page's examples are carried out, as by a reader who follows it from the top."""

import shlex
import subprocess
from pathlib import Path

from tests.docs.pages import Block
from tests.preloaded import commands as preloaded

PATIENCE_S = 60.0


class Home:
    """A home of its own, a working directory in it, and `runward` on the PATH."""

    def __init__(self, directory: Path, path: str = "/usr/local/bin:/usr/bin:/bin", **further: str) -> None:
        self._home = directory / "home"
        self.work = self._home / "work"
        self.work.mkdir(parents=True)
        programs = directory / "bin"
        programs.mkdir()
        (programs / "runward").write_text(f'#!/bin/sh\nexec {shlex.join(preloaded.argv())} "$@"\n')
        (programs / "runward").chmod(0o755)
        self._environment = {
            "HOME": str(self._home),
            "PATH": f"{programs}:{path}",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **further,
        }

    def write(self, block: Block) -> None:
        """Write a block where its reader would."""
        assert block.file is not None
        path = self.path(block.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)

    def path(self, named: str) -> Path:
        """A path as a page names it, with `~`."""
        return Path(named.replace("~", str(self._home), 1))

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """A program in the background."""
        return subprocess.Popen(words, cwd=self.work, env=self._environment, stdin=subprocess.DEVNULL)

    def run(self, script: str, patience_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Carry a script out; it ends with the first command that fails."""
        return subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=self.work,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )


def script_of(block: Block) -> str:
    """The commands of a block: all of it, or what follows the prompts of a `console`."""
    if block.language == "sh":
        return block.text
    lines = [line for line in block.text.splitlines() if line.startswith(("$ ", "> "))]
    return "\n".join(line[2:] for line in lines) + "\n"
