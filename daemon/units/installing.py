"""Installing the units and removing them: which files, what a person changed and keeps, and which requests to systemd; with a record."""

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from runward.config.settings import Settings
from runward.daemon.configuration.settings import SYSTEM_FILE, home_of
from runward.daemon.disk.durable import sync_directory, write_durably
from runward.daemon.units import rendering
from runward.daemon.units.rendering import NAMED, SYSTEM, SYSTEM_STATE, SYSUSERS, USER, escaped, render, word

Deed = Literal["written", "updated", "unchanged", "removed", "absent"]

KEPT: Final = ".kept"
"""The suffix of a file that a person has changed: systemd doesn't read such a file."""

_SEAL: Final = re.compile(r"# Written by `runward daemon install` \(([0-9a-f]{16})\)[^\n]*\n")
_MAXIMUM: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one file, and where a person's changes are kept, if there are any."""

    path: str
    deed: Deed
    kept: str | None = None


def plan(path: str, text: str | None) -> Change:
    """What is needed for `path` to hold `text`; None: for nothing to be there. Raises `OSError`."""
    there = _read(path)
    if there is None:
        return Change(path, "absent" if text is None else "written")
    if text is not None and there == sealed(text):
        return Change(path, "unchanged")
    # Whatever a person wrote there is never overwritten or removed: it moves aside, under a name that systemd ignores.
    kept = None if is_untouched(there) else _free(f"{path}{KEPT}")
    return Change(path, "removed" if text is None else "updated", kept)


def carry_out(change: Change, text: str | None) -> None:
    """Carry out the plan. Raises `OSError`."""
    directory, name = os.path.split(change.path)
    if change.kept is not None:
        os.rename(change.path, change.kept)
    if change.deed in ("written", "updated") and text is not None:
        os.makedirs(directory, exist_ok=True)
        write_durably(directory, name, sealed(text).encode())
        os.chmod(change.path, 0o644)
    elif change.deed == "removed" and change.kept is None:
        os.unlink(change.path)
    if change.deed == "removed":
        sync_directory(directory)


def sealed(text: str) -> str:
    """The text after a line that shows later whether a person has changed it."""
    return f"# Written by `runward daemon install` ({_digest(text)}). Put changes into a drop-in: systemctl edit\n{text}"


def is_untouched(text: str) -> bool:
    """Whether this is exactly what some version of us has sealed."""
    seal = _SEAL.match(text)
    return seal is not None and seal.group(1) == _digest(text[seal.end() :])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _read(path: str) -> str | None:
    """The content; a link (systemd masks units this way) counts as what it leads to."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_MAXIMUM)
    except FileNotFoundError:
        return "" if os.path.islink(path) else None


def _free(path: str) -> str:
    """`path`, or with a number appended, such that nothing is there."""
    candidate, number = path, 1
    while os.path.lexists(candidate):
        number += 1
        candidate = f"{path}{number}"
    return candidate


PATIENCE: Final = 180.0
"""Seconds that a call may take: a restart ends when the daemon is ready, or the unit's limits have passed."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A call: its words, its exit code, and what it printed."""

    words: tuple[str, ...]
    code: int
    printed: str


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
        return None if asked.code == 0 else asked.printed or f"systemctl ended with {asked.code}"

    def property(self, name: str, unit: str) -> str:
        """A property of a unit according to systemd; empty if systemd gives none."""
        return self._call(*self.words("show", "--value", f"--property={name}", unit)).printed

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


UNIT: Final = "runward.service"
NAMED_UNITS: Final = "runward@*.service"


@dataclass(slots=True)
class Done:
    """What was done, or would be: to files, and by systemd. `silence` is why systemd did not answer."""

    is_user: bool
    is_dry: bool
    changes: list[Change] = field(default_factory=list)
    texts: dict[str, str | None] = field(default_factory=dict)
    systemctl: Systemctl = field(default_factory=lambda: Systemctl(is_user=True))
    planned: list[tuple[str, ...]] = field(default_factory=list)
    """The calls that a dry run leaves out."""
    silence: str | None = None

    @property
    def failed(self) -> bool:
        """Whether systemd refused something."""
        return any(ran.code != 0 for ran in self.systemctl.ran)

    def call(self, *words: str) -> bool:
        """Run a program that changes something; a dry run only records it. Returns whether to continue."""
        if self.is_dry:
            self.planned.append(words)
            return True
        return self.systemctl.call(*words).code == 0

    def change(self, *arguments: str) -> bool:
        """The same by systemctl."""
        return self.call(*self.systemctl.words(*arguments))


def settings_to_name(file: str | None) -> str | None:
    """The settings file if the unit must name it, because it is where a service doesn't look."""
    usual = (f"{home_of(os.environ)}/.config/runward/runward.toml", SYSTEM_FILE)
    return None if file is None or file in usual else file


def user_files(program: str, config: str | None, settings: Settings) -> dict[str, str]:
    """The caller's one unit, over the state directory of the settings in force."""
    text = render(USER, _command(program, config), escaped(settings.state_dir))
    return {f"{rendering.user_units()}/{USER.name}": text}


def system_files(program: str, config: str | None, settings: Settings) -> dict[str, str]:
    """The units of the machine: its own, the one for named users, and the user that the first one runs as."""
    command = _command(program, config)
    inside = f"{SYSTEM_STATE}/"
    writable = [root.path for root in settings.roots if not f"{root.path}/".startswith(inside)]
    return {
        f"{rendering.SYSTEM_USERS}/{SYSUSERS.name}": render(SYSUSERS),
        f"{rendering.SYSTEM_UNITS}/{SYSTEM.name}": render(SYSTEM, command, SYSTEM_STATE, writable),
        f"{rendering.SYSTEM_UNITS}/{NAMED.name}": render(NAMED, command),
    }


def _command(program: str, config: str | None) -> str:
    named = () if config is None else (f"--config={config}",)
    return " ".join(word(each) for each in (program, *named, "daemon"))


def install(files: dict[str, str], is_user: bool, is_dry: bool) -> Done:
    """Put the files in place, enable and (re)start the unit. Raises `OSError`."""
    done = Done(is_user, is_dry, systemctl=Systemctl(is_user))
    _change_files(done, dict(files))
    done.silence = done.systemctl.silence()
    if done.silence is None:
        _start(done, [path for path in files if path.startswith(f"{rendering.SYSTEM_USERS}/")])
    return done


def _start(done: Done, users: Sequence[str]) -> None:
    # The user first: a unit whose User= doesn't exist fails to start.
    calls: list[tuple[str, ...]] = [("systemd-sysusers", path) for path in users]
    calls += [
        done.systemctl.words(*each) for each in (("daemon-reload",), ("enable", UNIT), ("restart", UNIT))
    ]
    if not done.is_user:
        calls.append(done.systemctl.words("try-restart", NAMED_UNITS))
    for words in calls:
        if not done.call(*words):
            return


def uninstall(is_user: bool, is_dry: bool) -> Done:
    """Stop and disable the units, and remove the files; the state stays. Raises `OSError`."""
    directory = rendering.user_units() if is_user else rendering.SYSTEM_UNITS
    files: dict[str, str | None] = {f"{directory}/{USER.name}": None}
    if not is_user:
        files |= {f"{directory}/{NAMED.name}": None, f"{rendering.SYSTEM_USERS}/{SYSUSERS.name}": None}
    done = Done(is_user, is_dry, systemctl=Systemctl(is_user))
    if any(os.path.lexists(path) for path in files):
        done.silence = done.systemctl.silence()
        if done.silence is None:
            # As long as the files are there: without them, systemd can't disable the units.
            _stop(done, directory)
    _change_files(done, files)
    if done.silence is None and any(change.deed == "removed" for change in done.changes):
        done.change("daemon-reload")
    return done


def _stop(done: Done, directory: str) -> None:
    if os.path.lexists(f"{directory}/{UNIT}"):
        done.change("disable", "--now", UNIT)
    if not done.is_user and os.path.lexists(f"{directory}/{NAMED.name}"):
        done.change("stop", NAMED_UNITS)
        done.change("disable", NAMED.name)


def _change_files(done: Done, files: dict[str, str | None]) -> None:
    for path, text in files.items():
        change = plan(path, text)
        if not done.is_dry:
            carry_out(change, text)
        done.changes.append(change)
        done.texts[path] = text
