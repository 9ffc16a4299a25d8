"""What `runward init` finds on a machine: agents, the user's systemd, a desktop, and a daemon that works already."""

import glob
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.configuration.agent_homes import agent_home, homes_there, session_files, sessions_in
from runward.daemon.configuration.settings import home_of, working_directory
from runward.daemon.hooks.programs import Program, installed
from runward.daemon.store.ownership import holder
from runward.daemon.units.installing import Systemctl
from runward.daemon.world.desktop import why_no_desktop

_MOST_COUNTED: Final = 10_000


class Agent(NamedTuple):
    """An agent whose home is there. `program` is None if it is not found."""

    layout: str
    home: str
    sessions: int
    program: Program | None

    @property
    def version(self) -> str | None:
        """Its version, if it says one."""
        known = self.program is not None and self.program.version
        return ".".join(map(str, known)) if known else None


class Found(NamedTuple):
    """What is there. `silence` is why the user's systemd doesn't answer, `no_desktop` why no desktop would show a notice.

    `daemon` is the pid of a daemon that works.
    """

    agents: tuple[Agent, ...]
    silence: str | None
    no_desktop: str | None
    daemon: int | None

    @property
    def json(self) -> JsonValue:
        """The same for a program."""
        return {
            "agents": [
                {"layout": each.layout, "version": each.version, "home": each.home, "sessions": each.sessions}
                for each in self.agents
            ],
            "systemd": self.silence or "answers",
            "notify_send": self.no_desktop is None,
            "daemon": self.daemon,
        }


def find(settings: Settings, environment: Mapping[str, str], *, asks_systemd: bool) -> Found:
    """Look around. Nothing is changed."""
    return Found(
        tuple(_agents(environment)),
        Systemctl(is_user=True).silence() if asks_systemd else None,
        why_no_desktop(environment),
        holder(Path(settings.state_dir)),
    )


def _agents(environment: Mapping[str, str]) -> Iterator[Agent]:
    home, cwd = home_of(environment), working_directory()
    there = {
        layout: os.path.normpath(agent_home(layout, environment, home, cwd))
        for layout in homes_there(environment, home, cwd)
    }
    for layout, directory in there.items():
        found = glob.iglob(f"{glob.escape(sessions_in(layout, directory))}/{session_files(layout)}")
        count = sum(1 for _ in islice(found, _MOST_COUNTED))
        yield Agent(layout, directory, count, installed(layout, environment))
