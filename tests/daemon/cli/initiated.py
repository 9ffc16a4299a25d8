"""A home in which `runward init` is called, with a systemctl that only remembers, and kills at every operation on files."""

import os
import signal
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from tests.daemon.cli.calling import Place, Result

SYSTEMCTL = """\
#!/bin/sh
cd {tools}
case " $* " in *" {refused} "*) echo "refused: $*" >&2; exit 1;; esac
case "$*" in
*--property=Version*) {answer};;
*--property=UnitFileState*) if [ -e enabled ]; then echo enabled; else echo disabled; fi;;
*--property=ActiveState*) if [ -e active ]; then echo active; else echo inactive; fi;;
*"enable runward.service") : > enabled;;
*"disable runward.service") /bin/rm -f enabled;;
*"restart runward.service") : > active;;
*"stop runward.service") /bin/rm -f active;;
esac
case "$*" in *" show "*) ;; *) echo "$*" >> calls;; esac
"""

FOREIGN: dict[str, str] = {
    ".claude/settings.json": '{\r\n\t"model": "opus",\r\n\t"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}\r\n}',
    ".codex/config.toml": '# mine\nnotify = [ "say" ] # loud\n[tui]\n',
}
"""Settings of agents that have hooks already."""

_SAYS = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}'
_MODULE = "export const Mine = async () => ({});\n"

EVERY_AGENT: dict[str, str] = {
    **FOREIGN,
    ".codex/hooks.json": _SAYS,
    ".copilot/hooks/mine.json": '{"version": 1, "hooks": {"agentStop": [{"type": "command", "bash": "say done"}]}}',
    ".factory/settings.json": _SAYS.replace(": ", ":\r\n\t"),
    ".kimi-code/config.toml": '# mine\n[[hooks]]\nevent = "Stop"\ncommand = "say done" # loud\n\n\n[tui]\na = 1',
    ".config/kilo/plugin/mine.js": _MODULE,
    ".config/opencode/plugin/mine.js": _MODULE,
    ".local/share/kilo/kilo.db": "",
    ".local/share/opencode/opencode.db": "",
    ".pi/agent/extensions/mine.js": _MODULE,
    ".qwen/settings.json": '{\n    // mine\n    "hooks": '
    + _SAYS[len('{"hooks": ') : -1]
    + " /* no more */\n}",
}
"""All agents with hooks are here, and each has hooks of its person's already, where hooks are written."""


class Home:
    """A home, and beside it what is on the PATH."""

    def __init__(self, directory: Path, *, has_systemd: bool = True) -> None:
        self.directory = directory / "home"
        self.tools = directory / "tools"
        self.directory.mkdir()
        self.tools.mkdir()
        self.place = Place(self.directory)
        self.state = self.directory / ".local/state/runward"
        (self.tools / "runward").write_text("#!/bin/sh\n")
        (self.tools / "runward").chmod(0o755)
        self.systemctl(has_systemd)

    def systemctl(self, answers: bool = True, refused: str = "nothing") -> None:
        """Put the program there."""
        answer = "exit 0" if answers else "echo No medium found >&2; exit 1"
        path = self.tools / "systemctl"
        path.write_text(SYSTEMCTL.format(tools=self.tools, answer=answer, refused=refused))
        path.chmod(0o755)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            path.chmod(0o640)

    def init(self, *arguments: str, **environment: str) -> Result:
        with mock.patch.object(sys, "argv", [str(self.tools / "runward")]):
            return self.place.call("init", *arguments, PATH=str(self.tools), **environment)

    def everything(self) -> dict[str, tuple[int, bytes | None]]:
        """Each file and each link with its mode and content, each directory, and what systemd was left with."""
        found: dict[str, tuple[int, bytes | None]] = {}
        for path in sorted(self.directory.rglob("*")):
            name, mode = str(path.relative_to(self.directory)), path.lstat().st_mode
            content = path.read_bytes() if stat.S_ISREG(mode) else None
            found[name] = (mode, os.fsencode(path.readlink()) if path.is_symlink() else content)
        for name in ("enabled", "active"):
            found[f"systemd: {name}"] = (int((self.tools / name).exists()), None)
        return found

    def files(self) -> dict[str, tuple[int, bytes | None]]:
        """The same without Runward's own state."""
        return {name: each for name, each in self.everything().items() if not name.startswith(".local")}


OPERATIONS = ("open", "write", "fsync", "rename", "mkdir", "rmdir", "unlink", "fchmod", "fchown")


def killed_after(number: int, home: Home, *arguments: str) -> bool:
    """Call `init` in a process that is killed after so many operations on files; returns whether it came to that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the child has none
        child = os.fork()
    if child == 0:
        code = 70
        try:
            code = _counting(number, home, *arguments)
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0


def _counting(number: int, home: Home, *arguments: str) -> int:
    done = 0

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **further: Any) -> Any:
            nonlocal done
            result = operation(*words, **further)
            if operation is opening and not words[1] & os.O_CREAT:
                return result
            if operation is running and "show" in words[0]:
                return result
            done += 1
            if done == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    opening, running = os.open, subprocess.run
    patches = [mock.patch.object(os, each, counted(getattr(os, each))) for each in OPERATIONS]
    patches.append(mock.patch.object(subprocess, "run", counted(running)))
    for patch in patches:
        patch.start()
    return home.init(*arguments).code
