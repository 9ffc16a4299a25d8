"""The unit: whether systemd starts the daemon, also after a reboot, and over this state directory."""

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.doctor.commands import end_of, is_there
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.store.ownership import holder
from runward.daemon.units.placing import is_lingering
from runward.daemon.users import name_of

BOOTED: Final = Path("/run/systemd/system")
"""Where this is, systemd is the init that runs (sd_booted(3))."""

_PROPERTIES: Final = (
    "LoadState",
    "ActiveState",
    "UnitFileState",
    "MainPID",
    "Environment",
    "FragmentPath",
    "LoadError",
)
_INSTALL: Final = "`runward daemon install`"
_WITHIN_S: Final = 5.0


class Unit(NamedTuple):
    """A unit as systemd shows it: the words that name it to systemctl, and its properties."""

    words: tuple[str, ...]
    properties: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.words[-1]

    @property
    def is_users(self) -> bool:
        return "--user" in self.words

    @property
    def state_dir(self) -> str | None:
        """The state directory that the unit sets."""
        for each in shlex.split(self.properties.get("Environment", "")):
            name, _, value = each.partition("=")
            if name == "RUNWARD_STATE_DIR":
                return value
        return None

    def systemctl(self, verb: str) -> str:
        """The command line that does this to the unit."""
        return " ".join(["systemctl", *self.words[:-1], verb, self.name])


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Every unit of Runward's that systemd knows, and lingering for the user's own."""
    user = name_of(os.geteuid())
    units = list(_asked(user, installation.environment, patience))
    if not units:
        fix = "have the service manager of this machine run `runward daemon`"
        yield Finding("skipped", "systemd does not answer here: nothing starts the daemon automatically", fix)
        return
    installed = [each for each in units if each.properties.get("LoadState") != "not-found"]
    if not installed:
        said = "no unit is installed: nothing starts the daemon automatically"
        if not any(unit.is_users for unit in units):
            said = f"{said}; systemd --user of {user} doesn't answer"
        yield Finding("warning", said, _INSTALL)
    for unit in installed:
        yield from _of_unit(unit, installation)
    if any(unit.is_users for unit in installed):
        yield _lingering(user)
    if sum(unit.properties.get("ActiveState") == "active" for unit in installed) > 1:
        names = ", ".join(unit.systemctl("stop") for unit in installed)
        yield Finding(
            "warning", "more than one unit of Runward is active", f"keep one, stop the others: {names}"
        )


def _asked(user: str, environment: Mapping[str, str], patience: Patience) -> Iterator[Unit]:
    """Our units, as far as systemd answers: the user's own manager, and the machine's if it is the init there."""
    if not is_there("systemctl", environment):
        return
    of_machine = (("runward.service",), (f"runward@{user}.service",)) if BOOTED.is_dir() else ()
    for words in (("--user", "runward.service"), *of_machine):
        unit = _shown(words, environment, patience)
        if unit is not None:
            yield unit


def _shown(words: tuple[str, ...], environment: Mapping[str, str], patience: Patience) -> Unit | None:
    """What systemd says about a unit; None if it doesn't answer."""
    flags = [word for name in _PROPERTIES for word in ("--property", name)]
    ended = end_of(["systemctl", *words[:-1], "show", *flags, words[-1]], environment, patience, _WITHIN_S)
    if ended.code != 0:
        return None
    lines = (line.partition("=") for line in ended.out.splitlines())
    return Unit(words, {name: value for name, _, value in lines})


def _of_unit(unit: Unit, installation: Installation) -> Iterator[Finding]:
    said = f"unit {' '.join(unit.words)} ({unit.properties.get('FragmentPath') or 'no file'})"
    load, active = unit.properties.get("LoadState"), unit.properties.get("ActiveState")
    if load != "loaded":
        why = unit.properties.get("LoadError") or load
        yield Finding("failed", f"{said} can't be loaded: {why}", f"fix it, or {_INSTALL}")
        return
    if not unit.properties.get("UnitFileState", "").startswith("enabled"):
        yield Finding(
            "warning", f"{said} isn't enabled: it isn't started automatically", unit.systemctl("enable --now")
        )
    if active == "failed":
        why = unit.systemctl("status")
        yield Finding("failed", f"{said} failed", f"`{why}` says why; then `{unit.systemctl('restart')}`")
    elif active == "active":
        yield _of_active(unit, said, installation)
    else:
        yield Finding("warning", f"{said} is {active}", unit.systemctl("start"))
    yield from _of_state_dir(unit, said, installation)


def _of_active(unit: Unit, said: str, installation: Installation) -> Finding:
    main, pid = unit.properties.get("MainPID", "0"), holder(installation.state)
    if pid is not None and pid and str(pid) != main:
        return Finding(
            "failed",
            f"{said} is active as process {main}, but process {pid} has {installation.state} locked",
            f"stop that one, then `{unit.systemctl('restart')}`",
        )
    return Finding("ok", f"{said} is active")


def _of_state_dir(unit: Unit, said: str, installation: Installation) -> Iterator[Finding]:
    theirs, ours = unit.state_dir, installation.settings.state_dir
    if theirs is not None and os.path.realpath(theirs) != os.path.realpath(ours):
        yield Finding(
            "warning",
            f"{said} keeps its state in {theirs}, but this command uses {ours}",
            f"set RUNWARD_STATE_DIR={shlex.quote(theirs)} for the command, or state_dir in the settings of both",
        )


def _lingering(user: str) -> Finding:
    if is_lingering(user):
        return Finding("ok", f"{user} lingers: the daemon also runs while no one is logged in")
    said = f"{user} doesn't linger: the daemon ends with the last login, and doesn't start after a reboot"
    return Finding("warning", said, f"loginctl enable-linger {user}")
