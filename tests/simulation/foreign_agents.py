"""What agents of other tools do in a history, and what befalls their files: by dice of their own."""

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.agents import AGENT_ROOTS, Agent, Machine
from tests.simulation.transcripts import ClaudeCode, Codex, End, Tool

from runward.config.root import Root

if TYPE_CHECKING:
    from tests.simulation.universe import Universe

ERRANDS: Final = 9
"""Foreign sessions in a history."""

LENGTH: Final = 150.0

_CLAUDE, _OLD, _CODEX = AGENT_ROOTS

_KINDS: Final = (
    *("plain",) * 4,
    *("killed", "resumed", "resumed after death", "endless", "endless", "torn", "torn and killed"),
    *(
        "moved",
        "moved",
        "moved at work",
        "copied",
        "packed",
        "packed and resumed",
        "deleted",
        "deleted at work",
    ),
    *("only begun", "long", "late", "late"),
)

Deed = Callable[[], None]


class ForeignAgents:
    """The agents of a history, and their deeds."""

    def __init__(self, universe: "Universe") -> None:
        self._universe = universe
        self.dice = random.Random(f"{universe.seed}/agents")
        self.machine = Machine(
            universe.kernel, universe.table, self.dice, universe.tally, universe.say, self._soon
        )
        self.by_key: dict[str, Agent] = {}
        self.roots = AGENT_ROOTS if self.dice.random() < 0.5 else ()
        """None where there are no other tools: every other history."""
        self.last = 0.0

    def plan(self) -> None:
        """Order every deed. What was there before the daemon ever started is done at once."""
        if not self.roots:
            return
        for root in (_OLD, _CODEX):
            agent = self._agent(root, headless=True)
            for deed in (
                agent.start,
                agent.prompt,
                agent.work,
                partial(agent.close, self._end()),
                agent.exit,
                agent.sync,
            ):
                self._do(agent, deed)
            agent.stayed_at = self._universe.clock.now()
        for _ in range(ERRANDS):
            agent = self._agent(self.dice.choice(AGENT_ROOTS), headless=self.dice.random() < 0.6)
            at = self.dice.uniform(-20.0, LENGTH)
            for deed in self._errand(agent):
                at += self._pause()
                self._order(at, agent, deed)
        for _ in range(self.dice.randrange(3)):
            self._order(self.dice.uniform(5.0, LENGTH), None, self.dice.choice((self._hide, self._empty)))
        if self._universe.recipients.are_told:
            self._plan_questions()

    def _plan_questions(self) -> None:
        """Some agents ask a person, who answers after a while, or never."""
        for is_answered in (True, False):
            agent = self._agent(_CLAUDE, headless=False)
            deeds = [agent.start, agent.prompt, agent.ask]
            if is_answered:
                deeds += [agent.answer, agent.work, agent.ask, agent.answer, agent.close, agent.exit]
            at = self.dice.uniform(0.0, LENGTH / 2)
            for deed in deeds:
                at += self.dice.uniform(15.0, 50.0) if deed == agent.answer else self._pause()
                self._order(at, agent, deed)

    def rebooted(self) -> None:
        for agent in self.by_key.values():
            agent.rebooted()

    def _agent(self, root: Root, headless: bool) -> Agent:
        number = len(self.by_key) + 1
        tool: Tool = (Codex if root is _CODEX else ClaudeCode)(number, headless, self._universe.clock.now)
        agent = Agent(self.machine, root, tool, headless, is_traced=self.dice.random() < 0.75)
        self._universe.hooks.outfit(agent)
        self.by_key[agent.key] = agent
        return agent

    def _end(self) -> End:
        return self.dice.choice(("well", "well", "refused", "interrupted"))

    def _errand(self, agent: Agent) -> list[Deed]:
        end = partial(agent.close, self._end())
        turn: list[Deed] = [agent.prompt, *[agent.work] * self.dice.randrange(3), end]
        once: list[Deed] = [agent.start, *turn]
        other = _OLD if agent.root is _CLAUDE else _CLAUDE
        away = (
            agent.move if agent.root is _CODEX or self.dice.random() < 0.5 else partial(agent.move_to, other)
        )
        copy = agent.work if agent.root is _CODEX else partial(agent.copy_to, other)
        orders: dict[str, list[Deed]] = {
            "plain": [*once, agent.exit],
            "killed": [*once[:-1], agent.kill],
            "resumed": [*once, agent.exit, agent.start, *turn, agent.exit],
            "resumed after death": [*once[:-1], agent.kill, agent.start, *turn, agent.exit],
            "endless": once[: self.dice.randrange(2, len(once) + 1)],
            "torn": [*once[:-1], agent.tear, end, agent.exit],
            "torn and killed": [*once[:-1], agent.tear, agent.kill],
            "moved": [*once, agent.exit, away],
            "moved at work": [*once[:-1], away, agent.work, end, agent.exit],
            "copied": [*once[:-1], copy, agent.work, end, agent.exit],
            "packed": [*once, agent.exit, agent.pack],
            "packed and resumed": [*once, agent.exit, agent.pack, agent.start, *turn, agent.exit],
            "deleted": [*once, agent.exit, agent.delete],
            "deleted at work": [*once[:-1], agent.delete, agent.kill],
            "only begun": [agent.start],
            "late": [*once[:-1], partial(agent.close_late, self._end())],
            "long": [agent.start, *turn, *turn, *turn, agent.kill],
        }
        return orders[self.dice.choice(_KINDS)]

    def _pause(self) -> float:
        return self.dice.choice((0.0, 0.003, 0.5, 2.0, 2.0, 8.0, 15.0)) * self.dice.uniform(0.5, 1.5)

    def _order(self, at: float, agent: Agent | None, deed: Deed) -> None:
        self.last = max(self.last, at)
        if at <= 0.0:
            self._do(agent, deed)
        else:
            self._universe.timeline.after(at, lambda: self._do(agent, deed))

    def _do(self, agent: Agent | None, deed: Deed) -> None:
        method = deed.func if isinstance(deed, partial) else deed
        what = getattr(method, "__qualname__", repr(method)) + (f" in {agent.key}" if agent else "")
        try:
            with self._universe.acting_as("agent"):
                deed()
        except OSError as error:
            self._universe.say(f"{what} can't: {error}")
        else:
            self._universe.say(what)

    def _soon(self, deed: Deed) -> None:
        self._universe.timeline.after(self.dice.uniform(0.1, 3.0), lambda: self._do(None, deed))

    def _hide(self) -> None:
        """A root is away for a while."""
        self._away(keep=False)

    def _empty(self) -> None:
        """A mount is gone for a while and leaves an empty directory."""
        self._away(keep=True)

    def _away(self, keep: bool) -> None:
        root, kernel = self.dice.choice(AGENT_ROOTS).path, self._universe.kernel
        if kernel.exists(root + ".away"):
            return  # one thing at a time
        kernel.rename(root, root + ".away")
        if keep:
            kernel.mkdir(root)
        self._shake(root)

        def back() -> None:
            self._shake(root)
            if keep:
                kernel.remove_tree(root)
            kernel.rename(root + ".away", root)

        self._universe.timeline.after(self.dice.uniform(0.01, 20.0), back)

    def _shake(self, root: str) -> None:
        for agent in self.by_key.values():
            if agent.root.path == root:
                agent.shake()
