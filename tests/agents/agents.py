"""The two agents: how each is told where its model is, what it is started with, and where it leaves its traces."""

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tests.agents.homes import Home
from tests.agents.installed import (
    CLAUDE_CODE,
    CLAUDE_CODE_2_0,
    CLAUDE_CODE_2_1_332,
    CODEX,
    CODEX_0_98,
    CODEX_0_104,
    Pinned,
)
from tests.agents.told import (
    Reading,
    Record,
    Word,
    followed_by,
    heard_by,
    word_of_claude_code,
    word_of_codex,
    word_of_codex_without_errors,
    word_of_old_codex,
)

from runward.handlers.layouts import claude_code, codex

KEY: Final = "sk-ant-dummy"


class Wish(NamedTuple):
    """What an agent is started for: a prompt, in a new session or in one that is `resumed` or `forked`."""

    prompt: str
    resumed: str | None = None
    forked: str | None = None
    most_turns: int | None = None


class Agent(Protocol):
    """An agent of one version."""

    pinned: Pinned
    reading: Reading
    call: bytes
    """What its transcript has as soon as a call of a tool is recorded."""
    sessions: str
    """Where it keeps its sessions, below its home."""

    def settle(self, home: Home, model: str) -> None:
        """Write the settings that send it to the model at this address."""
        ...

    def arguments(self, wish: Wish) -> tuple[str, ...]:
        """What comes after the program's name. It has no person before it and prints JSON."""
        ...

    def session_of(self, said: str) -> str:
        """The id of the session as the program prints it."""
        ...

    def logs(self, home: Home) -> list[Path]:
        """Every log below the home, those of sub-agents too."""
        ...

    def transcript(self, home: Home, session: str) -> Path:
        """The session's own log."""
        ...

    def holders(self, home: Home) -> frozenset[str]:
        """The names of the files that say which process has a session, as far as they are there."""
        ...


class ClaudeCode:
    """`claude -p`."""

    call = b'"type":"tool_use"'
    sessions = ".claude/projects"

    def __init__(self, pinned: Pinned) -> None:
        self.pinned = pinned
        self.reading = Reading(
            partial(heard_by, claude_code.SCANNER),
            partial(followed_by, claude_code.SCANNER),
            claude_code.recognises_log,
            word_of_claude_code,
        )

    def settle(self, home: Home, model: str) -> None:
        home.variables.update(
            ANTHROPIC_API_KEY=KEY,
            ANTHROPIC_BASE_URL=model,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            DISABLE_ERROR_REPORTING="1",
            DISABLE_TELEMETRY="1",
        )

    def arguments(self, wish: Wish) -> tuple[str, ...]:
        options = ["--allowedTools", "Bash", "--output-format", "stream-json", "--verbose"]
        if continued := wish.resumed or wish.forked:
            options += ["--resume", continued]
        if wish.forked:
            options += ["--fork-session"]
        if wish.most_turns is not None:
            options += ["--max-turns", str(wish.most_turns)]
        return "-p", wish.prompt, *options

    def session_of(self, said: str) -> str:
        return _first(r'"session_id":"([^"]+)"', said)

    def logs(self, home: Home) -> list[Path]:
        return _logs_below(home.home / self.sessions)

    def transcript(self, home: Home, session: str) -> Path:
        (found,) = (home.home / self.sessions).glob(f"*/{session}.jsonl")
        return found

    def holders(self, home: Home) -> frozenset[str]:
        return frozenset(path.name for path in home.home.glob(".claude/sessions/*.json"))


class Codex:
    """`codex exec`."""

    call = b'"type":"function_call"'
    sessions = ".codex/sessions"

    def __init__(self, pinned: Pinned, word: Callable[[Record], Word | None]) -> None:
        self.pinned = pinned
        self.reading = Reading(
            partial(heard_by, codex.SCANNER),
            partial(followed_by, codex.SCANNER),
            codex.recognises_log,
            word,
        )

    def settle(self, home: Home, model: str) -> None:
        directory = home.home / ".codex"
        directory.mkdir()
        (directory / "config.toml").write_text(
            f"""\
model = "gpt-5-codex"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{model}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
        )

    def arguments(self, wish: Wish) -> tuple[str, ...]:
        options = ("exec", "--json", "--skip-git-repo-check")
        if wish.resumed:
            return *options, "resume", wish.resumed, wish.prompt
        if wish.forked:
            return *options, "fork", wish.forked, wish.prompt
        return *options, wish.prompt

    def session_of(self, said: str) -> str:
        return _first(r'"thread_id":"([^"]+)"', said)

    def logs(self, home: Home) -> list[Path]:
        return _logs_below(home.home / self.sessions)

    def transcript(self, home: Home, session: str) -> Path:
        (found,) = (home.home / self.sessions).glob(f"**/rollout-*-{session}.jsonl")
        return found

    def holders(self, home: Home) -> frozenset[str]:
        return frozenset(
            path.name
            for path in home.home.glob(".codex/thread-writer-locks/*.lock")
            if not path.name.startswith(".")
        )


def _logs_below(directory: Path) -> list[Path]:
    """All logs, while the agent may make directories and take them away again, which `glob` doesn't bear."""
    return sorted(
        Path(parent, name)
        for parent, _, names in os.walk(directory)
        for name in names
        if name.endswith(".jsonl")
    )


def _first(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    assert found, f"it named no session:\n{said[-2000:]}"
    return found[1]


CLAUDE: Final = ClaudeCode(CLAUDE_CODE)
CLAUDE_2_0: Final = ClaudeCode(CLAUDE_CODE_2_0)
CLAUDE_2_1_332: Final = ClaudeCode(CLAUDE_CODE_2_1_332)
CODEX_NOW: Final = Codex(CODEX, word_of_codex)
CODEX_BEFORE: Final = Codex(CODEX_0_104, word_of_codex_without_errors)
CODEX_OLD: Final = Codex(CODEX_0_98, word_of_old_codex)
