"""A person's seat before a real agent: they ask and leave, and a daemon says what it makes of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.agents.agents import Agent
from tests.agents.following import FollowedStage, Session, homes
from tests.agents.homes import NOWHERE, Home
from tests.agents.installed import program
from tests.agents.scripted_model import prompt
from tests.agents.terminal import Terminal, terminal
from tests.waiting import wait_for

from runward.handlers.sessions.over import GRACE, SETTLE


class InTerminal(NamedTuple):
    """An agent with a person before it: what it is started with, and what its log says when a turn is over.

    `welcome` writes down in a home that everything was asked that is asked at a first start.
    """

    agent: Agent
    options: tuple[str, ...]
    turn_end: bytes
    welcome: Callable[[Home], None]


class Seat:
    """A person's seat, and what the daemon says of the one session there."""

    def __init__(self, stage: FollowedStage, screen: Terminal, turn_end: bytes) -> None:
        self.stage = stage
        self.screen = screen
        self._turn_end = turn_end

    def asks(self, script: str) -> None:
        """Give a prompt, and see it taken up or queued."""
        asked = prompt(script)
        self.screen.type(asked, lambda: self.count(asked.encode()), f"the prompt {script}")

    def waits_for(self, count: int) -> None:
        """Until so many turns are over, by what the agent says of itself."""
        wait_for(lambda: self.count(self._turn_end) >= count, f"the end of {count} turns")

    def turn_ends_in(self, content: bytes) -> int:
        """How many turns are over in a log, by what the agent says of itself."""
        return content.count(self._turn_end)

    def stays(self) -> None:
        """Nothing happens, for longer than anything is waited for."""
        since = time.monotonic()
        wait_for(lambda: time.monotonic() - since > GRACE + SETTLE + 1, "some rest")

    def session(self) -> Session:
        (only,) = wait_for(self.stage.sessions, "the session")
        return only

    def activity(self) -> object:
        ((activity,),) = self.stage.watched.place.rows(
            "select activity from cursors where session_key = ?", self.session().key
        )
        return activity

    def count(self, text: bytes) -> int:
        """How often this is in the whole lines of the logs."""
        return sum(log.content[: log.content.rfind(b"\n") + 1].count(text) for log in self.stage.logs())


@contextmanager
def seated(kind: InTerminal, directory: Path) -> Iterator[Seat]:
    """Skips the test where the agent's program can't be had."""
    with homes(kind.agent, directory) as watched:
        (stage,) = watched.stages(["seated"], []).values()
        home = stage.home
        kind.welcome(home)
        variables = {"HOME": str(home.home), "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE}
        variables |= {"NO_PROXY": "127.0.0.1", **home.variables}
        command = (*program(kind.agent.pinned), *kind.options)
        with watched.place.serving(), terminal(command, home.work, variables) as screen:
            wait_for(lambda: screen.shows("shortcuts"), "the prompt")
            yield Seat(stage, screen, kind.turn_end)
