"""What may happen to a run of a real agent: each scenario makes it happen, and returns what was seen from outside.

The signals come at a point that is known by a fact: the tool runs and its call is recorded, or the model has the
request and the prompt is recorded. They go to the agent's process alone.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tests.agents.agents import Agent, Wish
from tests.agents.homes import HELD, Home, Run
from tests.agents.installed import program
from tests.agents.replies import Calls, JsonObject, Refuses, Says, Stalls
from tests.agents.scripted_model import Model, Scripts, prompt
from tests.daemon.cli.calling import Place
from tests.waiting import PATIENCE_S, wait_for

WORKER_IS_OVER: Final = (
    "for i in $(seq 2400); do if [ -e worked ]; then [ -d ~/.codex ] || break; "
    r"""grep -qF '"type":"task_complete"' /dev/null $(grep -rlF "\"$PWD\"" ~/.codex/sessions) && break; """
    "fi; sleep 0.05; done"
)
"""A shell command that lasts until the sub-agent's turn has ended, two minutes at most.

Codex's sub-agents work beside the session that asked for them, each with a log of its own, and are aborted with it.
The command's own record has its quotes escaped, so it doesn't find itself. Claude Code 2.0 rewrites a command with a pipe, and
spoils it.
"""

SCRIPTS: Final[Scripts] = {
    "answer": [Says("It is done.")],
    "tool": [Calls("shell", "echo made > out.txt"), Says("It is made.")],
    "held": [Calls("shell", HELD), Says("The tool is through.")],
    "slowly_made": [Calls("shell", HELD), Calls("shell", "echo made > out.txt"), Says("It is made.")],
    "slowly_refused": [Calls("shell", HELD), Refuses(400)],
    "in_background": [Calls("shell", HELD, in_background=True), Says("It is under way.")],
    "delegated_in_background": [
        Calls("subagent", prompt("held"), in_background=True),
        Says("They are at it."),
    ],
    "stalled": [Stalls()],
    "refused": [Refuses(400)],
    "endless": [Calls("shell", "true")],
    "delegated": [
        Calls("subagent", prompt("worker")),
        Calls("shell", WORKER_IS_OVER),
        Says("They say it is done."),
    ],
    "worker": [Calls("shell", "touch worked"), Says("It is done.")],
}


class Transcript(NamedTuple):
    """A log as it was at one moment."""

    path: Path
    content: bytes


class Glimpse(NamedTuple):
    """What there was to see at one moment: whether an agent lived, all logs, the names of the files that say which
    process has a session, and what `runward inspect` printed of the sessions.
    """

    alive: bool
    logs: tuple[Transcript, ...]
    holders: frozenset[str]
    inspected: tuple[JsonObject, ...]


class Seen(NamedTuple):
    """What was seen of one scenario.

    `codes` are the exit codes of the runs in their order, below 0 for a signal; `sessions` the ids that the programs
    printed, each once; `left` those sessions' logs at the end, `others` the paths of all other logs. `midway` is what
    somebody saw who looked in between.
    """

    codes: tuple[int, ...]
    sessions: tuple[str, ...]
    left: tuple[Transcript, ...]
    others: tuple[Path, ...]
    midway: Glimpse | None
    end: Glimpse


@dataclass(slots=True)
class Stage:
    """An agent, in a home of its own, before its model."""

    agent: Agent
    home: Home
    model: Model

    def start(self, wish: Wish) -> Run:
        return self.home.start(*program(self.agent.pinned), *self.agent.arguments(wish))

    def run(self, wish: Wish) -> str:
        """Run it to its end; the id of its session."""
        run = self.start(wish)
        run.end()
        return self.agent.session_of(run.said())

    def logs(self) -> tuple[Transcript, ...]:
        """All logs as they are now."""
        return tuple(Transcript(path, path.read_bytes()) for path in self.agent.logs(self.home))

    def inspect(self) -> tuple[JsonObject, ...]:
        """What `runward inspect` prints now; nothing as long as there is nothing that it knows."""
        sessions = str(self.home.home / self.agent.sessions)
        printed = Place(self.home.home).call("inspect", sessions, "--json")
        assert printed.code in (0, 1), printed.err
        return tuple(printed.objects())

    def look(self) -> Glimpse:
        """All that there is to see now."""
        return Glimpse(
            any(run.is_alive() for run in self.home.runs),
            self.logs(),
            self.agent.holders(self.home),
            self.inspect(),
        )

    def wait_for_line(self, text: bytes) -> None:
        """Wait until a whole line with this text is in a log."""

        def is_there() -> bool:
            return any(text in log.content[: log.content.rfind(b"\n") + 1] for log in self.logs())

        wait_for(is_there, f"{text!r} in a log")

    def seen(self, midway: Glimpse | None = None) -> Seen:
        """What was seen when all is over."""
        codes = tuple(run.end() for run in self.home.runs)
        sessions = tuple(dict.fromkeys(self.agent.session_of(run.said()) for run in self.home.runs))
        paths = tuple(self.agent.transcript(self.home, session) for session in sessions)
        end = wait_for(self._look_at_rest, "no session that runs, as no agent does")
        logs = {log.path: log for log in end.logs}
        left = tuple(logs.pop(path) for path in paths)
        return Seen(codes, sessions, left, tuple(logs), midway, end)

    def _look_at_rest(self) -> Glimpse | None:
        """A killed Codex's lock lives a moment longer where it was just starting a child, which inherits it."""
        seen = self.look()
        return None if any(session["state"] == "running" for session in seen.inspected) else seen


Scenario: TypeAlias = Callable[[Stage], Seen]


def answered(stage: Stage) -> Seen:
    """The model answers and the run is over."""
    stage.run(Wish(prompt("answer")))
    return stage.seen()


def used_a_tool(stage: Stage) -> Seen:
    """The model calls the shell once, then answers."""
    stage.run(Wish(prompt("tool")))
    return stage.seen()


def refused(stage: Stage) -> Seen:
    """The model's API answers with an error 400."""
    stage.run(Wish(prompt("refused")))
    return stage.seen()


def ran_out_of_turns(stage: Stage) -> Seen:
    """The model calls tools for ever; the agent stops it after three turns."""
    stage.run(Wish(prompt("endless"), most_turns=3))
    return stage.seen()


def resumed(stage: Stage) -> Seen:
    """An answered session is given a second prompt by another run."""
    first = stage.run(Wish(prompt("answer")))
    midway = stage.look()
    stage.run(Wish(prompt("tool"), resumed=first))
    return stage.seen(midway)


def forked(stage: Stage) -> Seen:
    """An answered session is forked, and the fork is given a prompt."""
    first = stage.run(Wish(prompt("answer")))
    midway = stage.look()
    stage.run(Wish(prompt("tool"), forked=first))
    return stage.seen(midway)


def delegated(stage: Stage) -> Seen:
    """The model lets a sub-agent use a tool, and waits until it has."""
    stage.run(Wish(prompt("delegated")))
    return stage.seen()


def two_at_once(stage: Stage) -> Seen:
    """Two runs in one directory: one is held in a tool until the other one is over."""
    stage.start(Wish(prompt("held")))
    wait_for(stage.home.is_tool_held, "the tool of the first run")
    stage.run(Wish(prompt("answer")))
    stage.wait_for_line(stage.agent.call)
    midway = stage.look()
    stage.home.release()
    return stage.seen(midway)


def tool_terminated(stage: Stage) -> Seen:
    """SIGTERM, to the tool alone."""
    return _hit_in_tool(stage, lambda _run: stage.home.terminate_tool())


def in_tool(number: signal.Signals) -> Scenario:
    """A signal to the agent while it waits for a tool."""

    def scenario(stage: Stage) -> Seen:
        return _hit_in_tool(stage, lambda run: run.send(number))

    return scenario


def in_request(number: signal.Signals) -> Scenario:
    """A signal to the agent while it waits for the model."""

    def scenario(stage: Stage) -> Seen:
        run = stage.start(Wish(prompt("stalled")))
        assert stage.model.wait_until_stalled(PATIENCE_S), f"no request came; it said:\n{run.said()[-2000:]}"
        stage.wait_for_line(prompt("stalled").encode())
        return _hit(stage, run, lambda run: run.send(number))

    return scenario


def _hit_in_tool(stage: Stage, hit: Callable[[Run], None]) -> Seen:
    run = stage.start(Wish(prompt("held")))
    wait_for(stage.home.is_tool_held, "the tool")
    stage.wait_for_line(stage.agent.call)
    return _hit(stage, run, hit)


def _hit(stage: Stage, run: Run, hit: Callable[[Run], None]) -> Seen:
    midway = stage.look()
    hit(run)
    run.end()
    return stage.seen(midway)
