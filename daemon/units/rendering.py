"""The text of the units: templates filled in with the command, the state directory and the shared parts.

The files in the checkout's `systemd/` are rendered from the same templates, for those who package Runward.
"""

from collections.abc import Sequence
from importlib import resources
from typing import Final, NamedTuple


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


def shipped() -> dict[str, str]:
    """The units for packagers of Runward, by their path below `systemd/`."""
    return {
        f"user/{USER.name}": render(USER, "%h/.local/bin/runward daemon", "%h/.local/state/runward"),
        f"system/{SYSTEM.name}": render(SYSTEM, "/usr/bin/runward daemon", SYSTEM_STATE),
        f"system/{NAMED.name}": render(NAMED, "/usr/bin/runward daemon"),
        f"sysusers.d/{SYSUSERS.name}": render(SYSUSERS),
    }


def word(text: str) -> str:
    """One word of a unit's command line or list, whatever is in it but line breaks (systemd.syntax(7))."""
    return f'"{escaped(text)}"' if set(text) & set(" \t\"'\\;$") else escaped(text)


def escaped(text: str) -> str:
    """Text between quotes in a unit: nothing in it is a specifier, an escape or an end."""
    return text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')


def _template(name: str) -> str:
    return resources.files(__package__).joinpath("templates", name).read_text().rstrip("\n")
