"""Which hook events a real Claude Code takes: what it meets and doesn't know costs the person all their settings."""

import os
import shlex
from pathlib import Path

import pytest
from tests.agents.installed import CLAUDE_CODE, CLAUDE_CODE_2_0, NotToBeHadError, Pinned, program

from runward.daemon.hooks.accepting import accepts
from runward.daemon.hooks.claude_code_settings import CLAUDE_CODE as FORM
from runward.daemon.hooks.programs import installed

pytestmark = [pytest.mark.agents, pytest.mark.timeout(200)]


@pytest.mark.parametrize("pinned", [CLAUDE_CODE_2_0, CLAUDE_CODE], ids=lambda pinned: pinned.version)
def test_the_events_that_a_version_knows_are_accepted_and_one_more_is_not(
    pinned: Pinned, tmp_path: Path
) -> None:
    try:
        start = program(pinned)
    except NotToBeHadError as error:
        pytest.skip(str(error))
    called = tmp_path / "claude"
    called.write_text(f'#!/bin/sh\nexec {shlex.join(start)} "$@"\n')
    called.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = installed(FORM.agent, environment)
    assert found is not None
    assert found.version == tuple(map(int, pinned.version.split(".")))
    events = FORM.known(found)
    assert ("StopFailure" in events) == (pinned is CLAUDE_CODE)
    assert accepts(found, events, environment) is True
    further = [*FORM.since, "NoSuchEvent"] if pinned is CLAUDE_CODE else [*FORM.since]
    assert accepts(found, further, environment) is (pinned is CLAUDE_CODE)
