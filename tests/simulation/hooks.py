"""The hooks of other tools' agents: what they put into the inbox, and which agents were started in a launched run.

The real script reads the machine's own processes and environment; what it writes is written here, to the letter.
"""

import json
import random
from base64 import b64encode
from typing import TYPE_CHECKING, Final

from tests.simulation.broken import Broken
from tests.simulation.ports import INBOX

from runward.daemon.disk.durable import write_durably

if TYPE_CHECKING:
    from tests.simulation.agents import Agent
    from tests.simulation.places import Place
    from tests.simulation.universe import Universe

_CLAUDE_CODE: Final = {
    "started": "SessionStart",
    "prompted": "UserPromptSubmit",
    "closed": "Stop",
    "ended": "SessionEnd",
}
CAUSED: Final = (
    "select e.key from events e join events h on h.key = e.cause and h.type = 'HookSpoke'"
    " where e.type in ('AttemptStarted', 'AttemptEnded')"
)
LINKS: Final = "select linked, launcher from links"
CONTRACTS: Final = (
    "select s.key, s.artifact_contract_json from sessions s join events e on e.key = s.key || '#1/started'"
    " where s.artifact_contract_json is not null and json_extract(e.payload, '$.declaration.launcher') is not null"
)

WITHOUT: Final = (
    "select s.key from sessions s join events e on e.key = s.key || '#1/started'"
    " where s.layout != 'native' and s.origin = 'live' and s.artifact_contract_json is null"
    " and json_extract(e.payload, '$.declaration.launcher') is null"
)


class Hooks:
    """Whose agents have hooks, by dice of their own: every other one; and half of these work in a launched run."""

    def __init__(self, universe: "Universe") -> None:
        self._universe = universe
        self._dice = random.Random(f"{universe.seed}/hooks")
        self._notes = 0

    def outfit(self, agent: "Agent") -> None:
        """Decide whether its tool calls hooks. It is asked where it works when it begins."""
        agent.is_hooked = self._dice.random() < 0.5
        agent.is_launched = agent.is_hooked and self._dice.random() < 0.5
        agent.hook = lambda what: self._call(agent, what)

    def _call(self, agent: "Agent", what: str) -> None:
        if what == "started" and agent.is_launched and agent.inside is None:
            agent.inside = self._some_run()
        if not agent.is_hooked or (agent.tool.layout == "codex" and what != "closed"):
            return
        if self._dice.random() < 0.25:
            self._universe.tally.reached["a hook's note that was lost"] += 1
            return
        content, name = self._note(agent, what), self._name()
        delay = self._dice.choice((0.0, 0.0, 0.3, 4.0))
        self._universe.timeline.after(delay, lambda: self._put(name, content))

    def _put(self, name: str, content: bytes) -> None:
        try:
            write_durably(INBOX, name, content)
        except OSError as error:
            self._universe.say(f"a hook's note is lost: {error}")

    def _some_run(self) -> "Place | None":
        """A run whose command may start an agent: it has begun, and isn't over."""
        kernel = self._universe.kernel
        places = self._universe.launchers.places.by_key.values()
        open_ones = [
            place
            for place in places
            if kernel.exists(f"{place.path}/run.json") and not kernel.exists(f"{place.path}/exit.json")
        ]
        return self._dice.choice(open_ones) if open_ones else None

    def _name(self) -> str:
        self._notes += 1
        return f"10000000-0000-4000-a000-{self._notes:012d}.json"

    def _note(self, agent: "Agent", what: str) -> bytes:
        process = agent.process
        assert process is not None
        shell = [process.pid + 1_000_000, process.start_ticks]
        own = [process.pid, process.start_ticks]
        payload: dict[str, object] = {"cwd": "/home/dev/app"}
        if agent.tool.layout == "codex":
            payload |= {"type": "agent-turn-complete", "thread-id": agent.tool.session}
        else:
            payload |= {
                "hook_event_name": _CLAUDE_CODE[what],
                "session_id": agent.tool.session,
                "transcript_path": agent.path,
                "prompt": "make a file",
                "source": "startup",
            }
        value = {
            "hook": agent.tool.layout,
            "version": 1,
            "at": round(self._universe.clock.now(), 6),
            "boot_id": process.boot_id,
            "ancestors": [own] if agent.tool.layout == "codex" else [shell, own],
            "launcher_session": agent.inside.name if agent.inside is not None else None,
            "payload": b64encode(json.dumps(payload).encode()).decode(),
        }
        return json.dumps(value).encode() + b"\n"


def check_hooks(universe: "Universe") -> None:
    """A hook begins and ends nothing; who is linked was started in that very run, and has no contract of its own.

    Its root is looked for among those that the daemon watches and may read when the agent's session is first read, and
    the first one stands in for what isn't found: where the run's own was away, locked or out of the settings, or its
    directory was, only the name is right.
    """
    caused = universe.peek(CAUSED)
    if caused:
        raise Broken(f"a hook began or ended something: {caused}")
    for linked, launcher in universe.peek(LINKS):
        inside = universe.foreign_agents.by_key[linked].inside
        if inside is None:
            raise Broken(f"{linked} is linked to {launcher}, and was started in no run")
        lost = inside.shaken or inside.hidden or inside.locked or inside.root in universe.left_out
        lost = lost or not universe.chaos.unread.isdisjoint((inside.path, inside.root))
        if launcher != inside.key and (launcher.rpartition("/")[2] != inside.name or not lost):
            raise Broken(f"{linked} was started in {inside.key}, and is linked to {launcher}")
    without = universe.peek(WITHOUT)
    if without:
        raise Broken(f"every session of its own has the contract of its rule, but: {without}")
    contracts = universe.peek(CONTRACTS)
    if contracts:
        raise Broken(f"only the launcher's session has the contract, but: {contracts}")


def count_hooks(universe: "Universe") -> None:
    """Note which rare paths hooks took."""
    reached = universe.tally.reached
    reached["an agent started in a launched run"] += len(universe.peek(LINKS))
    reached["a contract fixed by a hook"] += universe.peek(
        "select count(*) from sessions where contract_basis = 'hook'"
    )[0][0]
