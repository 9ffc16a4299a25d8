"""Installing the units and removing them: which files, and which requests to systemd; with a record of both."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from runward.config.settings import Settings
from runward.daemon.units import placing
from runward.daemon.units.files import Change, carry_out, plan
from runward.daemon.units.rendering import NAMED, SYSTEM, SYSTEM_STATE, SYSUSERS, USER, escaped, render, word
from runward.daemon.units.systemctl import Systemctl

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


def user_files(program: str, config: str | None, settings: Settings) -> dict[str, str]:
    """The caller's one unit, over the state directory of the settings in force."""
    text = render(USER, _command(program, config), escaped(settings.state_dir))
    return {f"{placing.user_units()}/{USER.name}": text}


def system_files(program: str, config: str | None, settings: Settings) -> dict[str, str]:
    """The units of the machine: its own, the one for named users, and the user that the first one runs as."""
    command = _command(program, config)
    inside = f"{SYSTEM_STATE}/"
    writable = [root.path for root in settings.roots if not f"{root.path}/".startswith(inside)]
    return {
        f"{placing.SYSTEM_USERS}/{SYSUSERS.name}": render(SYSUSERS),
        f"{placing.SYSTEM_UNITS}/{SYSTEM.name}": render(SYSTEM, command, SYSTEM_STATE, writable),
        f"{placing.SYSTEM_UNITS}/{NAMED.name}": render(NAMED, command),
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
        _start(done, [path for path in files if path.startswith(f"{placing.SYSTEM_USERS}/")])
    return done


def _start(done: Done, users: Sequence[str]) -> None:
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
    directory = placing.user_units() if is_user else placing.SYSTEM_UNITS
    files: dict[str, str | None] = {f"{directory}/{USER.name}": None}
    if not is_user:
        files |= {f"{directory}/{NAMED.name}": None, f"{placing.SYSTEM_USERS}/{SYSUSERS.name}": None}
    done = Done(is_user, is_dry, systemctl=Systemctl(is_user))
    if any(os.path.lexists(path) for path in files):
        done.silence = done.systemctl.silence()
        if done.silence is None:
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
