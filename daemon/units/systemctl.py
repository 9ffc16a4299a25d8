"""Asking systemd for something, the user's or the machine's, by systemctl(1)."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PATIENCE: Final = 180.0
"""Seconds that a call may take: a restart ends when the daemon is ready, or the unit's limits have passed."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A call: its words, its exit code, and what it said."""

    words: tuple[str, ...]
    code: int
    said: str


@dataclass(slots=True)
class Systemctl:
    """Calls to one of the two; `ran` are those that were meant to change something."""

    is_user: bool
    ran: list[Ran] = field(default_factory=list)

    def words(self, *arguments: str) -> tuple[str, ...]:
        """The whole command line of a call."""
        return ("systemctl", *(("--user",) if self.is_user else ()), *arguments)

    def silence(self) -> str | None:
        """Why systemd does not answer; None if it does."""
        asked = self._call(*self.words("show", "--property=Version"))
        return None if asked.code == 0 else asked.said or f"systemctl ended with {asked.code}"

    def property(self, name: str, unit: str) -> str:
        """A property of a unit according to systemd; empty if systemd gives none."""
        return self._call(*self.words("show", "--value", f"--property={name}", unit)).said

    def change(self, *arguments: str) -> Ran:
        """Have something changed."""
        ran = self._call(*self.words(*arguments))
        self.ran.append(ran)
        return ran

    def call(self, *words: str) -> Ran:
        """Have another program change something."""
        ran = self._call(*words)
        self.ran.append(ran)
        return ran

    def _call(self, *words: str) -> Ran:
        try:
            ended = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(os.environ, os.geteuid()) if self.is_user else None,
                timeout=PATIENCE,
                check=False,
            )
        except FileNotFoundError:
            return Ran(words, 127, f"{words[0]} is not installed")
        except OSError as error:
            return Ran(words, 126, f"{words[0]}: {error.strerror}")
        except subprocess.TimeoutExpired:
            return Ran(words, 124, f"no answer within {PATIENCE:g} s")
        return Ran(words, ended.returncode, ended.stdout.decode(errors="replace").strip())


def _environment(ours: Mapping[str, str], uid: int) -> dict[str, str]:
    """Where the user's systemd is, also for a shell of su(1), which doesn't get that."""
    environment = dict(ours)
    usual = f"/run/user/{uid}"
    if not environment.get("XDG_RUNTIME_DIR") and os.path.isdir(usual):
        environment["XDG_RUNTIME_DIR"] = usual
    return environment
