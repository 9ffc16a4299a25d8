"""Which hook events a real Claude Code takes: what it meets and doesn't know costs the person all their settings.

And which hooks a real Codex runs: only those that its person has trusted.
"""

import json
import os
import shlex
from base64 import b64decode
from collections import Counter
from pathlib import Path

import pytest
from tests.agents.agents import CODEX_NOW, CODEX_OLD, Wish
from tests.agents.checks import StageFor
from tests.agents.homes import NOWHERE
from tests.agents.installed import CLAUDE_CODE, CLAUDE_CODE_2_0, NotToBeHadError, Pinned, program
from tests.agents.scenarios import Stage
from tests.agents.scripted_model import prompt
from tests.agents.terminal import ENTER, terminal
from tests.agents.test_live_codex_terminal import IN_TERMINAL, welcome
from tests.daemon.cli.calling import Place
from tests.waiting import wait_for

from runward.daemon.hooks.accepting import accepts
from runward.daemon.hooks.claude_code_settings import CLAUDE_CODE as FORM
from runward.daemon.hooks.events import known_to
from runward.daemon.hooks.programs import installed

pytestmark = [pytest.mark.agents, pytest.mark.timeout(200)]


def called(directory: Path, name: str, start: tuple[str, ...]) -> str:
    """The PATH on which a program is found by this name."""
    (directory / name).write_text(f'#!/bin/sh\nexec {shlex.join(start)} "$@"\n')
    (directory / name).chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


@pytest.mark.parametrize("pinned", [CLAUDE_CODE_2_0, CLAUDE_CODE], ids=lambda pinned: pinned.version)
def test_the_events_that_a_version_knows_are_accepted_and_one_more_is_not(
    pinned: Pinned, tmp_path: Path
) -> None:
    try:
        start = program(pinned)
    except NotToBeHadError as error:
        pytest.skip(str(error))
    environment = {"PATH": called(tmp_path, "claude", start)}
    found = installed(FORM.agent, environment)
    assert found is not None
    assert found.version == tuple(map(int, pinned.version.split(".")))
    events = known_to(FORM.agent, found)
    assert ("StopFailure" in events) == (pinned is CLAUDE_CODE)
    assert accepts(found, events, environment) is True
    further = [*FORM.events, "NoSuchEvent"] if pinned is CLAUDE_CODE else [*FORM.events]
    assert accepts(found, further, environment) is (pinned is CLAUDE_CODE)


class WithHooks:
    """A Codex whose hooks are installed, and what they put into the daemon's inbox."""

    def __init__(self, stage: Stage, directory: Path) -> None:
        self.stage = stage
        self.place = Place(stage.home.home)
        self.place.state.mkdir()
        self.variables = {"PATH": called(directory, "codex", program(stage.agent.pinned))}
        self.variables |= {"RUNWARD_STATE_DIR": str(self.place.state)}
        done = self.place.call("hook", "install", "codex", **self.variables)
        assert done.code == 0, done.err
        self.installed = done.out

    def state(self) -> object:
        """What `hook status` says."""
        (codex,) = self.place.call("hook", "status", "codex", "--json", **self.variables).objects()
        return codex["state"], codex["events"], codex["missing"]

    def calls(self, script: str) -> Counter[str]:
        """What a run with this script told."""
        self.stage.run(Wish(prompt(script)))
        told: Counter[str] = Counter()
        for path in (self.place.state / "inbox").glob("*.json"):
            payload = json.loads(b64decode(json.loads(path.read_text())["payload"]))
            told[payload.get("hook_event_name") or payload["type"]] += 1
            path.unlink()
        return told

    def trust(self) -> None:
        """As a person does who starts it and is asked."""
        home = self.stage.home
        welcome(home)
        variables = {"HOME": str(home.home), "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE}
        command = (*program(self.stage.agent.pinned), *IN_TERMINAL.options)
        config = home.home / ".codex/config.toml"
        with terminal(command, home.work, variables | {"NO_PROXY": "127.0.0.1"}) as screen:
            wait_for(lambda: screen.shows("3 hooks are new") and screen.shows("trusting"), "the question")
            screen.press(b"2", lambda: screen.shows("\u203a 2"), "the choice")
            screen.press(ENTER, lambda: "trusted_hash" in config.read_text(), "the trust")


def test_codex_runs_its_hooks_once_a_person_trusts_them(stage_for: StageFor, tmp_path: Path) -> None:
    hooks = WithHooks(stage_for(CODEX_NOW), tmp_path)
    events = ["notify", "SessionStart", "UserPromptSubmit", "SessionEnd"]
    assert "skips hooks in" in hooks.installed
    assert hooks.state() == ("untrusted", events, [])
    assert hooks.calls("answer") == {"agent-turn-complete": 1}
    hooks.trust()
    assert hooks.state() == ("installed", events, [])
    assert hooks.calls("answer") == dict.fromkeys(("agent-turn-complete", *events[1:]), 1)
    assert hooks.calls("refused") == dict.fromkeys(events[1:], 1)


def test_an_old_codex_gets_no_hooks_that_it_does_not_know(stage_for: StageFor, tmp_path: Path) -> None:
    hooks = WithHooks(stage_for(CODEX_OLD), tmp_path)
    assert "trust" not in hooks.installed
    assert hooks.state() == ("installed", ["notify"], [])
