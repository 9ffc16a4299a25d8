"""Recordings of real programs as they lie in their homes, to be cut and to be replayed in copies."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.handlers.layouts.test_conversations import AGENTS, RECORDED

from runward.daemon.rundir.session_places import Place, sessions_under
from runward.handlers.layouts import cline
from runward.handlers.layouts.layout import DirectoryLayout, LogLayout
from runward.handlers.layouts.places import named
from runward.handlers.layouts.registry import LAYOUTS

HOMES: Final = {
    **{name: each.recordings for name, each in AGENTS.items()},
    "cline": "cline-cli/{}/.cline/data/sessions",
}
RECORDINGS: Final = [
    (agent, situation)
    for agent in HOMES
    for situation in ("ok", "tool", "err400", "int_tool")
    if (agent, situation) != ("cline", "int_tool")  # there is none
]
COMPLETED: Final = "run.completed.ok"


def reason_of(agent: str, situation: str) -> str | None:
    """How the recorded turn ended; None if that is not in its files."""
    return AGENTS[agent].interrupted if situation == "int_tool" else RECORDED[situation][0]


def calls_of(situation: str) -> int:
    """How many calls the agent made in the recorded turn."""
    return RECORDED[situation][1]


class Recording(NamedTuple):
    """A copy of a recorded session: its agent, its layout, and its place."""

    agent: str
    layout: LogLayout | DirectoryLayout
    path: Path

    @property
    def log(self) -> Path:
        """The log, for all agents but Cline."""
        return self.path / self.layout.logs[0] if isinstance(self.layout, DirectoryLayout) else self.path

    @property
    def documents(self) -> tuple[Path, Path]:
        """Cline's: how the session stands, and its messages."""
        about, messages = named(cline.DOCUMENTS[:2], self.path.name)
        return self.path / about, self.path / messages

    def writes(self) -> Iterator[tuple[Path, bytes]]:
        """The files as they were written one after the other, each time with all that is in them."""
        if self.agent != "cline":
            whole = b""
            for line in self.log.read_bytes().splitlines(keepends=True):
                whole += line
                yield self.log, whole
            return
        about, messages = self.documents
        recorded = {each: each.read_bytes() for each in (about, messages)}
        ended, said = map(json.loads, recorded.values())
        running = {key: value for key, value in ended.items() if key not in ("ended_at", "exit_code")}
        yield about, json.dumps({**running, "status": "running"}).encode()
        for count in range(len(said["messages"]) + 1):
            yield messages, json.dumps({**said, "messages": said["messages"][:count]}).encode()
        for again in (about, messages, about):  # Cline writes them once more
            yield again, recorded[again]


def copied(material: Path, to: Path, agent: str, situation: str) -> Recording:
    """A copy of a recording, in the root `to`."""
    shutil.copytree(material / "samples" / HOMES[agent].format(situation), to)
    (session,) = sessions_under(str(to), LAYOUTS)
    assert isinstance(session, Place)
    assert isinstance(session.layout, LogLayout | DirectoryLayout)
    assert session.layout.name == agent
    return Recording(agent, session.layout, Path(session.path))
