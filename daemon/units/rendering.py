"""The units: their text, where they go, which program they run, and whether a unit can see it.

The files in the checkout's `systemd/` are rendered from the same templates, for those who package Runward.
"""

import os
import pwd
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import runward.daemon
from runward.daemon.users import name_of


class Unit(NamedTuple):
    """One of the unit files, by its name and that of its template."""

    name: str
    template: str


USER: Final = Unit("runward.service", "user.service")
SYSTEM: Final = Unit("runward.service", "system.service")
NAMED: Final = Unit("runward@.service", "named.service")
SYSUSERS: Final = Unit("runward.conf", "sysusers.conf")

SYSTEM_STATE: Final = "/var/lib/runward"
"""Where the system unit keeps its state."""


def render(unit: Unit, command: str = "", state: str = "", writable: Sequence[str] = ()) -> str:
    """The unit's text. `command` and `state` are put into it as they are: see `word` and `escaped`.

    `writable` are directories outside of the state into which the daemon may write.
    """
    parts = {
        "@TERMS@": _template("terms.conf"),
        "@HARDENING@": _template("hardening.conf"),
        "@WRITABLE@": "\n".join(f"ReadWritePaths={word(f'-{path}')}" for path in writable),
        "@COMMAND@": command,
        "@STATE@": state,
    }
    text = _template(unit.template)
    for name, part in parts.items():
        text = text.replace(f"{name}\n", f"{part}\n" if part else "").replace(name, part)
    return f"{text}\n"


def word(text: str) -> str:
    """One word of a unit's command line or list, whatever is in it but line breaks (systemd.syntax(7))."""
    return f'"{escaped(text)}"' if set(text) & set(" \t\"'\\;$") else escaped(text)


def escaped(text: str) -> str:
    """Text between quotes in a unit: nothing in it is a specifier, an escape or an end."""
    return text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')


def _template(name: str) -> str:
    return Path(__file__).with_name("templates").joinpath(name).read_text().rstrip("\n")


SYSTEM_UNITS: Final = "/etc/systemd/system"
SYSTEM_USERS: Final = "/etc/sysusers.d"
LINGER: Final = "/var/lib/systemd/linger"
"""Where logind(8) keeps a file for each user whose services continue after logging out."""

HIDDEN: Final = ("/home", "/root", "/run/user")
"""What the system units see empty, or can't look into."""


class NoProgram(Exception):
    """It is not known which program the unit must run."""


def user_units() -> str:
    """Where a user's own units are."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    home = os.environ.get("HOME") or os.path.expanduser("~")
    return f"{base if base.startswith('/') else home + '/.config'}/systemd/user"


def program() -> str:
    """The `runward` that runs now, by the path that it was called by: an upgrade puts the new one there.

    Raises `NoProgram`.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "runward")
    for path in (shutil.which(sys.argv[0]), beside, shutil.which("runward")):
        if path and os.path.basename(path) == "runward" and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise NoProgram("no program `runward` is installed where this one runs")


def unseen(program: str, also: Sequence[str] = ()) -> str | None:
    """What of the program (or of the files `also`) is where no system unit can see it; None: nothing."""
    parts = [program, sys.executable, sys.prefix, runward.daemon.__file__, *also]
    homes = _homes(program)
    # The system units start without the homes (ProtectHome=). A program in one would fail there with "no such file".
    for part in parts:
        for path in (os.path.abspath(part), os.path.realpath(part)):
            if any(f"{path}/".startswith(f"{home}/") for home in homes):
                return path
    return None


def _homes(program: str) -> set[str]:
    """The usual ones, the caller's, and that of the program's owner."""
    homes = {os.path.realpath(os.environ.get("HOME") or "/"), *HIDDEN}
    try:
        homes.add(os.path.realpath(pwd.getpwuid(os.stat(program).st_uid).pw_dir or "/"))
    except (OSError, KeyError):
        return homes - {"/"}
    return homes - {"/"}


def user_name() -> str:
    """The caller's name, as logind knows it."""
    return name_of(os.geteuid())


def is_lingering(user: str) -> bool:
    """Whether the user's services start with the machine and keep running after logging out."""
    return os.path.exists(f"{LINGER}/{user}")
