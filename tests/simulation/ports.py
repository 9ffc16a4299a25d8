"""What the daemon reaches in the simulated world: clock, files, processes, randomness, notifications."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
from tests.daemon.exchange.plain_rules import CPU, DEPTH, QUOTA, WINDOW
from tests.simulation.kernel import Kernel, Node
from tests.simulation.virtual_time import Process, Timeline

from runward.config.contract import ExpectedArtifact
from runward.config.exchange import ExchangeRules
from runward.config.playbook import Playbook
from runward.daemon.disk.receipt_keys import OwnKey
from runward.daemon.inbox import spool
from runward.daemon.rundir.bundle_parts import KeptAside
from runward.daemon.rundir.journals import Appended, JournalLine, NotAppended, NotFirst
from runward.daemon.rundir.opening import Gone
from runward.daemon.watch.hints import Target
from runward.daemon.watch.notifications import CannotWatch, Translator, Watching
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.files import Files
from runward.handlers.bundle.signatures import SecretKey
from runward.handlers.model.contracts import Declarations
from runward.handlers.model.files import Unreadable
from runward.handlers.model.invocations import Play
from runward.handlers.model.processes import ProcessState, RecordedProcess

STATE: Final = Path("/state")
INBOX: Final = "/state/inbox"
HOST: Final = "here"

OWN_KEY: Final = OwnKey(SecretKey("ed25519", bytes(range(32))), f"{STATE}/keys/receipt-ed25519")
"""What signs receipts: always the same key, which nobody makes or loses."""


def journal_path(directory: str, name: str = "") -> str:
    """Where a journal lies: a relative directory is among Runward's own state."""
    return str(STATE / directory / name)


_EPOCH: Final = 1_700_000_000.0


class SimulatedClock:
    """Wall time that can be stepped, and the timeline's own time."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.offset = _EPOCH
        self.offsets = [_EPOCH]
        """What it ever was ahead of the timeline."""
        self._steps = 0

    @property
    def stepped(self) -> bool:
        """Whether anybody ever set it."""
        return self._steps > 0

    def step(self, seconds: float) -> None:
        self.offset += seconds
        self.offsets.append(self.offset)
        self._steps += 1

    def now(self) -> float:
        return self._timeline.time + self.offset

    def monotonic(self) -> float:
        return self._timeline.time


class SimulatedRandomness:
    """Tokens from the seed."""

    def __init__(self, seed: str) -> None:
        self._dice = random.Random(seed)

    def token(self) -> str:
        return f"{self._dice.getrandbits(64):016x}"


class ProcessTable:
    """The machine's processes, by pid; a reboot ends them all. `told` counts who was told to end, and how often."""

    def __init__(self) -> None:
        self.boot = 1
        self.booted_at = -3600.0
        """On the timeline; the machine's clock may say otherwise later."""
        self.told: Counter[RecordedProcess] = Counter()
        self._alive: dict[int, RecordedProcess] = {}
        self._hears: dict[RecordedProcess, Callable[[], None]] = {}
        self._next = 100

    def start(self, hears: Callable[[], None]) -> RecordedProcess:
        """A new process; `hears` is what it does when it is told to end."""
        self._next += 1
        process = RecordedProcess(self._next, self._next * 7, f"b007-{self.boot}")
        self._alive[process.pid] = process
        self._hears[process] = hears
        return process

    def tell(self, process: RecordedProcess) -> bool:
        """Tell a process to end. False where it is gone."""
        if self.state(process) == "gone":
            return False
        self.told[process] += 1
        self._hears[process._replace(ticket="")]()
        return True

    def hand_over(self, process: RecordedProcess, hears: Callable[[], None]) -> None:
        """A process does something else now."""
        self._hears[process] = hears

    def end(self, process: RecordedProcess) -> None:
        self._alive.pop(process.pid, None)

    def reboot(self, at: float) -> None:
        self.boot += 1
        self.booted_at = at
        self._alive.clear()

    def host(self) -> str:
        return HOST

    def boot_id(self) -> str:
        return f"b007-{self.boot}"

    def state(self, process: RecordedProcess) -> ProcessState:
        return "alive" if self._alive.get(process.pid) == process._replace(ticket="") else "gone"


@dataclass(slots=True)
class Written:
    """An answer to an append, as it was given: the file that it was about, and by whom."""

    node: Node | None
    line: JournalLine
    answer: Appended | NotAppended | NotFirst
    process: str


class SimulatedFiles(Files):
    """The real files over the simulated kernel. What it answers about lines is kept for the laws."""

    def __init__(
        self, kernel: Kernel, written: list[Written], look: Callable[[str, str], None] = lambda *path: None
    ) -> None:
        super().__init__(STATE)
        self._kernel = kernel
        self._written = written
        self._look = look
        """Somebody reads this file of this directory, after lines were written there or not."""

    def is_local(self, path: str) -> bool:
        return True

    def append(self, lines: Sequence[JournalLine], epoch: int) -> list[Appended | NotAppended | NotFirst]:
        answers = super().append(lines, epoch)
        path = journal_path(lines[0].directory, lines[0].name)
        node = self._kernel.node(path) if self._kernel.exists(path) else None
        for line, answer in zip(lines, answers, strict=False):
            self._written.append(Written(node, line, answer, self._kernel.me()))
        return answers

    def write_lines(
        self, directory: str, name: str, at: int, lines: bytes
    ) -> KeptAside | Unreadable | Gone | None:
        try:
            return super().write_lines(directory, name, at, lines)
        finally:
            self._look(directory, name)

    def clear(self, name: str, rejected: bool) -> None:
        path = f"{INBOX}/{name}{spool.SUFFIX}"
        if rejected:
            self._kernel.rename(path, f"{STATE}/{spool.REJECTED}/{name}{spool.SUFFIX}")
        elif self._kernel.exists(path):
            self._kernel.unlink(path)

    def _sync_file_system(self, descriptor: int) -> None:
        self._kernel.syncfs()


@dataclass(slots=True, eq=False)
class Watch:
    """A watch that stands: the roots as they were when it was set up, and whom it tells."""

    process: Process
    roots: dict[str, Node]
    flat: frozenset[str]
    translate: Translator
    hint: Callable[[list[Target]], None]
    inbox: Callable[[], None]
    soon: list[str] = field(default_factory=list)

    def sees(self, path: str, node_at: Callable[[str], Node | None]) -> bool:
        """Whether a change at `path` is one that this watch is told of."""
        if path.startswith(INBOX + "/"):
            return True
        for root, node in self.roots.items():
            if path.startswith(root + "/"):
                deep = "/" in path[len(root) + 1 :]
                return node_at(root) is node and not (deep and root in self.flat)
        return False

    def tell(self, paths: Sequence[str]) -> None:
        """Translate as the real watcher does, and pass on."""
        targets, in_inbox = self.translate(paths)
        if targets:
            self.hint(targets)
        if in_inbox:
            self.inbox()


class SimulatedNotifications:
    """Watches that the universe knows of and tells, when it likes, what changed."""

    def __init__(
        self,
        process: Process,
        watches: list[Watch],
        kernel: Kernel,
        flat: frozenset[str],
        refused: Callable[[], bool],
    ) -> None:
        self._process = process
        self._refused = refused
        self._watches = watches
        self._kernel = kernel
        self._flat = flat

    async def watch(
        self,
        roots: Sequence[WatchedRoot],
        standing: Callable[[Watching], None],
        hint: Callable[[list[Target]], None],
        inbox: Callable[[], None],
    ) -> None:
        await anyio.sleep(0.003)
        if self._refused():
            raise CannotWatch("too many open files")
        stand = {root.path: self._kernel.node(root.path) for root in roots if self._kernel.exists(root.path)}
        flat = tuple(root.name for root in roots if root.path in self._flat)
        watch = Watch(self._process, stand, self._flat, Translator(INBOX, roots), hint, inbox)
        self._watches.append(watch)
        standing(Watching(len(stand) + 1, flat))
        try:
            await anyio.sleep_forever()
        finally:
            if watch in self._watches:
                self._watches.remove(watch)


PLAYBOOKS: Final = {
    "report": (
        ExpectedArtifact("report", "report.md"),
        ExpectedArtifact("notes", "notes.md", required=False),
    ),
    "two": (ExpectedArtifact("a", "a.txt"), ExpectedArtifact("b", "deep/b.txt")),
    "nothing": (),
}


def playable(name: str) -> Play:
    """What can be started of them: a command that takes one value, in the first root."""
    if name not in PLAYBOOKS:
        return Play(None, problem=f"there is no playbook {name!r}")
    playbook = Playbook(name, ("agent", "{{ with.n }}"), artifacts=PLAYBOOKS[name])
    return Play(playbook, None, None, "runs", "/srv/runs")


AGENTS: Final = {
    "reviewer": (ExpectedArtifact("review", "review.md"),),
    "critic": (
        ExpectedArtifact("notes", "deep/notes.md", required=False),
        ExpectedArtifact("proof", "proof.txt"),
    ),
    "silent": None,
    "ann": None,
    "bob": None,
    "cy": None,
}
TRADERS: Final = ("ann", "bob", "cy")
"""Those of them who are principals of the exchange, in histories that have one."""

EXCHANGE: Final = ExchangeRules(
    dependency_depth=DEPTH, disk_quota=QUOTA, cpu_seconds=CPU, cpu_window=WINDOW, waiting_intents=4
)


def declared(playbook: str | None, agent: str | None) -> Declarations:
    """What the operator's playbooks and agent profiles say; all other names are missing."""
    if agent is not None and agent not in AGENTS:
        return Declarations(None, None, f"there is no agent {agent!r}")
    if agent is not None:
        return Declarations(None, AGENTS[agent])
    if playbook is None:
        return Declarations(None, None)
    if playbook in PLAYBOOKS:
        return Declarations(PLAYBOOKS[playbook], None)
    return Declarations(None, None, f"there is no playbook {playbook!r}")
