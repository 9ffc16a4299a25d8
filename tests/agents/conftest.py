"""Stages for the real agents: each test has a home and a model of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.agents.agents import Agent
from tests.agents.homes import make_home
from tests.agents.installed import NotToBeHadError, program
from tests.agents.scenarios import SCRIPTS, Stage
from tests.agents.scripted_model import Model


@pytest.fixture
def stage_for(tmp_path: Path) -> Iterator[Callable[[Agent], Stage]]:
    """Make a stage for an agent; skips the test where its program can't be had."""
    with ExitStack() as ending:

        def make(agent: Agent) -> Stage:
            try:
                program(agent.pinned)
            except NotToBeHadError as error:
                pytest.skip(str(error))
            model = ending.enter_context(Model(SCRIPTS))
            home = make_home(tmp_path / "stage")
            ending.callback(home.close)
            agent.settle(home, model.url)
            return Stage(agent, home, model)

        yield make
