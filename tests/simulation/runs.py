"""Agents at work: what a run may do in its directory, and what it means to the plain model."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from tests.simulation.kernel import Node
from tests.simulation.places import CANCELLED, Begun, Named, Over, Pairs, Places, Plan, contract_of
from tests.simulation.ports import AGENTS, HOST, PLAYBOOKS
from tests.simulation.universe import Universe

from runward.handlers.model.processes import RecordedProcess

_EXITS: Final[tuple[tuple[dict[str, object], str, str], ...]] = (
    ({"exit_code": 0, "cause": "exited"}, "completed", "run.completed.ok"),
    ({"exit_code": 0}, "completed", "run.completed.ok"),
    ({"exit_code": 3, "cause": "exited"}, "failed", "run.failed.exit_nonzero"),
    ({"exit_code": None, "signal": 9}, "failed", "run.failed.signal"),
    ({"exit_code": 1, "cause": "exited", "error": "it broke"}, "failed", "run.failed.exception"),
    ({"exit_code": None, "cause": "timed_out", "signal": 15}, "timed_out", "run.timed_out.deadline"),
    ({"exit_code": None, "cause": "cancelled", "signal": 2}, "aborted", "run.aborted.user"),
    ({"exit_code": None, "cause": "cancelled", "signal": 15}, "cancelled", "run.cancelled.sigterm"),
    ({"cause": "cancelled", "error": "shutdown"}, "cancelled", "run.cancelled.system"),
    ({"cause": "cancelled"}, "cancelled", "run.cancelled.user"),
    ({"cause": "not_started", "error": "no such file"}, "failed", "run.failed.not_started"),
)


@dataclass(slots=True)
class Scene:
    """Where everything happens. `serial` makes every document another one."""

    universe: Universe
    places: Places
    dice: random.Random
    serial: int = 0


class Run:
    """One agent at work in one directory. Every method is a deed that the story may order."""

    def __init__(self, scene: Scene, root: str, name: str) -> None:
        self.scene = scene
        self.universe = scene.universe
        self.dice = scene.dice
        self.place = scene.places.place(root, name)
        self.playbook = self.dice.choice((None, "report", "report", "two", "nothing", "no such playbook"))
        self.snapshot = self.dice.random() < 0.3
        self.launched = self.dice.random() < 0.4
        self.host = self.dice.choice((None, HOST, HOST, "elsewhere"))
        self.good = self.dice.random() < 0.7
        self.kind = "agent"
        self.agent: str | None = None
        self.says_when = False
        """Whether it writes into its `run.json` when it began."""
        self.says_id = name
        """The session's id that it writes there."""
        self.process: RecordedProcess | None = None
        self.launcher: RecordedProcess | None = None
        self.is_cancelled = False
        """Nothing of it is left to do anything, because somebody wanted it ended."""

    @property
    def path(self) -> str:
        return self.place.path

    def make(self) -> None:
        self.universe.kernel.mkdir(self.path)

    def _document(self, name: str, value: object, by_hand: bool = False) -> bytes:
        self.scene.serial += 1
        content = json.dumps(
            {**value, "serial": self.scene.serial} if isinstance(value, dict) else value
        ).encode()
        kernel = self.universe.kernel
        if by_hand:
            kernel.overwrite(f"{self.path}/{name}", content)
        else:
            temporary = f"{self.path}/.{name}.tmp"
            kernel.put(temporary, content)
            kernel.rename(temporary, f"{self.path}/{name}")
        return content

    def _means(self, content: bytes, meaning: Begun | Over | Named) -> None:
        self.scene.places.meanings[content] = meaning
        self.scene.places.note(self.place)

    def expected(self) -> tuple[tuple[str, bool], ...] | None:
        """What its contract asks for."""
        return contract_of(self.playbook)

    def begin(self, by_hand: bool = False) -> None:
        """Write run.json."""
        value: dict[str, object] = {
            "schema": "runward-run-v1",
            "session_id": self.says_id,
            "kind": self.kind,
        }
        if self.playbook is not None:
            value["playbook"] = self.playbook
        if self.agent is not None:
            value["agent"] = self.agent
        if self.says_when:
            value["started_at"] = _iso(self.universe.clock.now())
        if self.snapshot:
            expected = self.expected()
            value["contract"] = None
            if expected is not None and self.playbook is not None:
                value["contract"] = {
                    "expected": [
                        {"id": each.id, "path": each.path, "required": each.required}
                        for each in PLAYBOOKS[self.playbook]
                    ]
                }
        if self.host is not None:
            value["host"] = self.host
        if self.launched:
            self.launcher = self.launcher or self.universe.table.start(self._launcher_told)
            value["launcher"] = _recorded(self.launcher)
        content = self._document("run.json", value, by_hand)
        is_unusable = self.playbook == "no such playbook" and not self.snapshot
        self._means(content, Begun(self.expected(), self.launcher, self.host, is_unusable))

    def begin_badly(self) -> None:
        """Write half a run.json in place."""
        self.universe.kernel.overwrite(f"{self.path}/run.json", b'{"schema": "runward-run-v1", "sess')

    def plan(self, legs: Mapping[str, str]) -> None:
        """Write flow.json: legs by their directories, each with its agent."""
        named = [{"id": path.replace("/", "-"), "agent": agent, "path": path} for path, agent in legs.items()]
        self._document("flow.json", {"legs": named})
        stamp = self.universe.kernel.node(f"{self.path}/flow.json").changed_ns
        work = [node.changed_ns for path in legs for node in self._work_of(path)]
        is_open = isinstance(self.scene.places.stands(self.place, "run.json"), Begun)
        is_open = is_open and not self.universe.kernel.exists(f"{self.path}/exit.json")
        known = all(agent in AGENTS for agent in legs.values())
        worked = any(leg in self.place.worked for leg in legs)
        timely = known and is_open and not worked and not self.place.died and not self.place.reopened
        early = any(each < stamp for each in work)
        added = expected_of(legs) if known else None
        declares = any(AGENTS.get(agent) is not None for agent in legs.values())
        self.place.plans.append(Plan(added, declares, early, timely, stamp))

    def _work_of(self, leg: str) -> list[Node]:
        """The files in a leg's directory."""
        within = f"{self.path}/artifacts/{leg}/"
        return [node for path, node in self.universe.kernel.files() if path.startswith(within)]

    def work_leg(self, leg: str, path: str) -> None:
        """A leg writes what it owes, or what should be that."""
        self.place.worked.add(leg)
        self.deliver(f"{leg}/{path}")
        stamps = [node.changed_ns for node in self._work_of(leg)]
        if any(stamp < plan.stamp for plan in self.place.plans for stamp in stamps):
            self.place.backwards = True
        self._forget_early_work()

    def cover(self, leg: str) -> None:
        """Nothing is left of a leg's work."""
        self.place.covered = self.place.covered or bool(self.place.plans)
        self.place.withdrawn = self.place.withdrawn or bool(self.place.exits)
        self.universe.kernel.remove_tree(f"{self.path}/artifacts/{leg}")
        self._forget_early_work()

    def _forget_early_work(self) -> None:
        """Where all early work is gone or written anew, no matter who looks only now can't know that a plan came after it."""
        left = [node.changed_ns for each in self.place.worked for node in self._work_of(each)]
        self.place.plans = [
            replace(plan, early=plan.early and any(each < plan.stamp for each in left))
            for plan in self.place.plans
        ]

    def name_process(self) -> None:
        """Write process.json."""
        process = self.universe.table.start(self._command_told)
        content = self._document("process.json", _recorded(process))
        self.process = process
        self.place.odd = self.place.odd or self.place.died
        self._means(content, Named(process))

    def end(self) -> None:
        """Write exit.json."""
        value, status, reason = self.dice.choice(_EXITS[:2] if self.dice.random() < 0.6 else _EXITS)
        now = round(self.universe.clock.now(), 3)
        content = self._document("exit.json", {**value, "finished_at": _iso(now)})
        self._means(content, Over(status, reason, now))

    def end_badly(self) -> None:
        """Write an exit.json that says nothing."""
        self._document("exit.json", {"exit_code": "zero"})

    def die(self) -> None:
        """The processes are gone."""
        for each in (self.process, self.launcher):
            if each is not None:
                self.universe.table.end(each)
        if self.process or self.launcher:
            self.place.reopened += 1
            self.place.died = True

    def _launcher_told(self) -> None:
        self.universe.timeline.after(self.dice.choice((0.01, 0.5, 6.0)), self._cancelled_by_launcher)

    def _command_told(self) -> None:
        self.universe.timeline.after(self.dice.choice((0.01, 0.5, 6.0)), self._cancelled_in_silence)

    def _cancelled_by_launcher(self) -> None:
        """Its launcher ends it and says so; where it is over, nothing more happens to it."""
        lives = self.launcher is not None and self.universe.table.state(self.launcher) == "alive"
        if (
            self.is_cancelled
            or not lives
            or isinstance(self.scene.places.stands(self.place, "exit.json"), Over)
        ):
            return
        now = round(self.universe.clock.now(), 3)
        said: dict[str, object] = {"exit_code": None, "signal": None, "cause": "cancelled", "error": "by me"}
        try:
            content = self._document("exit.json", {**said, "finished_at": _iso(now)})
        except OSError as error:
            self.universe.say(f"the launcher in {self.place.key} can't say its end: {error}")
        else:
            self._means(content, Over(*CANCELLED, now))
            self.place.cancelled = True
            self.universe.tally.reached["a run that its launcher cancelled"] += 1
        self.die()
        self.is_cancelled = True

    def _cancelled_in_silence(self) -> None:
        """The command goes by the signal, and nobody is left who could say so."""
        if self.is_cancelled or self.process is None or self.universe.table.state(self.process) == "gone":
            return
        self.universe.tally.reached["a command that was cancelled without a launcher"] += 1
        self.die()
        self.is_cancelled = True

    def deliver(self, path: str) -> None:
        """Write an artifact, or what should be one."""
        base = f"{self.path}/artifacts"
        kernel = self.universe.kernel
        if kernel.exists(f"{self.path}/exit.json"):
            self.place.late = True
            self.place.arrived_late += self._may_correct(path)
        way = base
        for part in ["", *path.split("/")[:-1]]:
            way = f"{way}/{part}" if part else way
            if not kernel.exists(way):
                kernel.mkdir(way)
        self._write(path, b"delivered" if self.good or self.dice.random() < 0.5 else b"", in_place=False)

    def _may_correct(self, path: str) -> bool:
        """Whether a verdict may have failed because this file was absent: only then does it begin a further attempt."""
        over = self.scene.places.stands(self.place, "exit.json")
        is_required = bool(self.place.plans) or any(
            (path, True) in (begun.expected or ()) for begun in self.place.begun
        )
        was_there = self.universe.kernel.exists(f"{self.path}/artifacts/{path}")
        return is_required and not was_there and isinstance(over, Over) and over.status == "completed"

    def rework(self, path: str) -> None:
        """Write something else into an artifact, perhaps after the verdict on it, perhaps while it is hashed."""
        kernel = self.universe.kernel
        kernel.node(f"{self.path}/artifacts/{path}")
        self.place.late = self.place.late or kernel.exists(f"{self.path}/exit.json")
        self.scene.serial += 1
        self._write(path, b"delivered again" + b"." * self.scene.serial, in_place=self.dice.random() < 0.5)

    def _write(self, path: str, content: bytes, in_place: bool) -> None:
        kernel = self.universe.kernel
        (kernel.overwrite if in_place else kernel.put)(f"{self.path}/artifacts/{path}", content)
        self.scene.places.delivered.add(content)

    def withdraw(self, path: str) -> None:
        """Take an artifact away, perhaps after the verdict on it."""
        self.universe.kernel.unlink(f"{self.path}/artifacts/{path}")
        self.place.withdrawn = True

    def note_work(self) -> None:
        """Append a line of its own to a journal, or half of one."""
        line = b'{"ts":"2026-01-01T00:00:00Z","role":"agent","event":"worked","path":"","n":%d}\n'
        content = line % self.dice.randrange(10**6)
        if self.dice.random() < 0.25:
            content = content[: self.dice.randrange(1, len(content))]
        self.universe.kernel.append(f"{self.path}/events.jsonl", content)
        self._call()

    def talk(self) -> None:
        self.universe.kernel.append(f"{self.path}/stdout.log", b"working\n")
        self._call()

    def _call(self) -> None:
        """Call a tool, and write into the trace that it came back."""
        self.scene.serial += 1
        kernel, call = self.universe.kernel, f"c{self.scene.serial}"
        said = {"t": _iso(round(self.universe.clock.now(), 3)), "id": call}
        lines: tuple[dict[str, object], ...] = (
            {"event": "ToolCall", "tool": "Read", "params": {"path": "x"}, **said},
            {"event": "ToolResult", "output": {"content": "y"}, **said},
        )
        is_over = kernel.exists(f"{self.path}/exit.json")
        for line in lines:
            kernel.append(f"{self.path}/trace.jsonl", json.dumps(line).encode() + b"\n")
        if not is_over:
            self.place.called.add(call)

    def spoil_journal(self) -> None:
        """A link stands where the journal should."""
        path = f"{self.path}/events.jsonl"
        if not self.universe.kernel.exists(path):
            self.universe.kernel.symlink("/srv/elsewhere", path)

    def remove(self) -> None:
        self._shake()
        self.place.odd = (
            self.place.odd or self.process is not None
        )  # made again at once, it may count as the same
        self.universe.kernel.remove_tree(self.path)

    def move(self) -> None:
        """The directory gets another name, where it is another session."""
        other = self.scene.places.place(self.place.root, self.place.name + "-moved")
        self.universe.kernel.rename(self.path, other.path)
        self._shake()
        other.shaken = True
        other.reopened += 1
        self.scene.places.note(other)

    def copy(self, name: str) -> "Run":
        """A person copies the directory as it is now, file by file, the end last. A process that continues in it is another run."""
        copy = Run(self.scene, self.place.root, name)
        kernel, names = self.universe.kernel, ("run.json", "intents.jsonl", "results.jsonl", "exit.json")
        copy.good, copy.agent = self.good, self.agent
        copy.make()
        for each in names:
            if kernel.exists(f"{self.path}/{each}"):
                content = kernel.content(f"{self.path}/{each}")
                kernel.put(f"{copy.path}/{each}", content)
                kernel.node(f"{copy.path}/{each}").pieces.append(("agent", len(content)))
                self.universe.harmed.add(f"{copy.path}/{each}")  # not all of it was written there
                self.scene.places.note(copy.place)
        return copy

    def come_back(self) -> None:
        """The directory is there again under its old name."""
        self.universe.kernel.rename(self.path + "-moved", self.path)
        self.place.reopened += 1
        self.scene.places.place(self.place.root, self.place.name + "-moved").shaken = True
        self.scene.places.note(self.place)

    def resume(self) -> None:
        """A new start in the same directory."""
        kernel = self.universe.kernel
        if kernel.exists(f"{self.path}/exit.json"):
            kernel.unlink(f"{self.path}/exit.json")
        self.launcher = None
        self.place.reopened += 1
        self.place.odd = True
        self.begin()

    def _shake(self) -> None:
        self.place.shaken = True
        self.place.reopened += 1


def expected_of(legs: Mapping[str, str]) -> Pairs:
    """What legs with known agents are to leave, by their directories."""
    return tuple(
        (f"{leg}/{artifact.path}", artifact.required)
        for leg, agent in legs.items()
        for artifact in AGENTS[agent] or ()
    )


def _recorded(process: RecordedProcess) -> dict[str, object]:
    return {"pid": process.pid, "start_ticks": process.start_ticks, "boot_id": process.boot_id}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
