"""A daemon follows real agents that the SDKs drive: Claude Code from Python, Codex from TypeScript."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import pytest
from tests.agents.agents import CLAUDE_2_1_332, CODEX_NOW
from tests.agents.checks import cost
from tests.agents.following import GONE, OK, RESUMED, STARTED, FollowedStage, homes
from tests.agents.installed import NotToBeHadError, program
from tests.agents.libraries import npm_library, python_library
from tests.agents.scripted_model import prompt
from tests.waiting import wait_for

pytestmark = [pytest.mark.sweep, pytest.mark.timeout(600)]

CLAUDE_SDK: Final = "claude-agent-sdk==0.2.189"
CODEX_SDK: Final = "@openai/codex-sdk@0.163.0"
ACTIVITY: Final = "select activity from cursors"

CLAUDE_HOST: Final = """
import asyncio, sys
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

async def main():
    options = ClaudeAgentOptions(cli_path=sys.argv[1], allowed_tools=["Bash"])
    async with ClaudeSDKClient(options) as client:
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            if line == "interrupt":
                await client.interrupt()
            elif line == "receive":
                async for _ in client.receive_response():
                    pass
                print("over", flush=True)
            else:
                await client.query(line)

asyncio.run(main())
"""
"""Does what stdin says: gives a prompt, interrupts, or waits for the end of the turn and says so."""

CODEX_HOST: Final = """
import { Codex } from "@openai/codex-sdk";
import { existsSync } from "fs";
const [program, ...prompts] = process.argv.slice(2);
const thread = new Codex({ codexPathOverride: program }).startThread({ skipGitRepoCheck: true });
const last = prompts.pop();
for (const prompt of prompts) await thread.run(prompt);
const abort = new AbortController();
const turn = thread.run(last, { signal: abort.signal }).catch((error) => console.log(error.name));
while (!existsSync("held.pid")) await new Promise((done) => setTimeout(done, 50));
process.stdin.once("data", () => abort.abort());
await turn;
process.exit(0);
"""
"""Gives its prompts one after another, and aborts the last one, once its tool runs, when somebody writes to stdin."""


class Host:
    """A program that drives an agent by an SDK."""

    def __init__(self, process: "subprocess.Popen[bytes]", given: IO[bytes], said: IO[bytes]) -> None:
        self.process = process
        self._given, self._said = given, said

    def tell(self, *lines: str) -> None:
        for line in lines:
            self._given.write(line.encode() + b"\n")
        self._given.flush()

    def turn(self, script: str) -> None:
        """Give a prompt, and wait for the end of its turn."""
        self.tell(prompt(script))
        self.wait_over()

    def wait_over(self) -> None:
        self.tell("receive")
        assert self._said.readline() == b"over\n"


@contextmanager
def hosted(stage: FollowedStage, *command: str, **variables: str) -> Iterator[Host]:
    with subprocess.Popen(
        command,
        cwd=stage.home.work,
        env=stage.home.environment() | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Host(process, process.stdin, process.stdout)
        finally:
            process.kill()


def to_be_had(library: Callable[[str], Path], named: str) -> Path:
    """Where it is installed. Skips the test where it can't be."""
    try:
        return library(named)
    except NotToBeHadError as error:
        pytest.skip(str(error))


def waits(stage: FollowedStage) -> bool:
    return stage.watched.place.rows(ACTIVITY) == [("idle",)]


@pytest.mark.parametrize("killed", ["between its turns", "in a tool"])
def test_claude_code_is_judged_when_its_host_is_gone_and_it_has_ended(killed: str, tmp_path: Path) -> None:
    """Several prompts and an interruption are one attempt. Without its host, Claude Code still ends its turn."""
    library = to_be_had(python_library, CLAUDE_SDK)
    with homes(CLAUDE_2_1_332, tmp_path) as watched:
        (stage,) = watched.stages(["hosted"], []).values()
        home = stage.home
        command = (sys.executable, "-c", CLAUDE_HOST, program(CLAUDE_2_1_332.pinned)[-1])
        with watched.place.serving(), hosted(stage, *command, PYTHONPATH=str(library)) as host:
            for script in ("answer", "tool", "refused"):
                host.turn(script)
                wait_for(lambda: waits(stage), f"an idle session after {script}")
            host.tell(prompt("held"))
            wait_for(home.is_tool_held, "the tool")
            if killed == "in a tool":
                host.process.kill()
                host.process.wait()
                (session,) = stage.sessions()
                assert session.history == (STARTED,)
                home.release()
            else:
                host.tell("interrupt")
                host.wait_over()
                wait_for(lambda: waits(stage), "an idle session after an interruption")
                host.turn("answer")
                wait_for(lambda: waits(stage), "an idle session after all")
                host.process.kill()
            (session,) = stage.wait_judged(1)
        assert (session.history, session.attempts) == ((STARTED, OK), ("declared",))
        (log,) = stage.logs()
        told = CLAUDE_2_1_332.reading.hear(log.path.name, log.content).told
        assert told.headless is True
        assert (told.counts.tool_calls, told.usage) == (2, cost(5))


def test_each_turn_of_codex_s_sdk_is_an_attempt_and_an_abort_is_a_process_that_is_gone(
    tmp_path: Path,
) -> None:
    """It starts `codex exec` for each turn, and ends it by SIGTERM."""
    library = to_be_had(npm_library, CODEX_SDK)
    with homes(CODEX_NOW, tmp_path) as watched:
        (stage,) = watched.stages(["hosted"], []).values()
        host = tmp_path / "host.mjs"
        host.write_text(CODEX_HOST)
        (tmp_path / "node_modules").symlink_to(library / "node_modules")
        prompts = [prompt(script) for script in ("answer", "tool", "held")]
        command = ("node", str(host), program(CODEX_NOW.pinned)[-1], *prompts)
        with watched.place.serving(), hosted(stage, *command) as running:
            wait_for(stage.home.is_tool_held, "the tool")
            stage.wait_for_line(b'"name":"exec_command"')
            wait_for(lambda: len(stage.sessions()[0].attempts) == 3, "the third attempt")
            running.tell("abort")
            (session,) = stage.wait_judged(1)
        assert session.history == (STARTED, OK, RESUMED, OK, RESUMED, GONE)
        assert session.attempts == ("declared", "declared", "process_gone")
        (log,) = stage.logs()
        told = CODEX_NOW.reading.hear(log.path.name, log.content).told
        assert (told.headless, told.counts.tool_calls, told.usage) == (True, 2, cost(4))
