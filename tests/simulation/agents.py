"""Agents of other tools at work, and a plain model of what their sessions should have come to.

The model shares nothing with the daemon: who writes a line registers what it says of the turn, and the end is read off
the files that lie there, and off the machine's processes. Where it depends on what the daemon could see, all fair
outcomes are allowed.
"""

import posixpath
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import zstandard
from tests.simulation.kernel import Kernel
from tests.simulation.places import CANCELLED, GONE, RESUMED, RUNNING, VANISHED, Verdict
from tests.simulation.ports import ProcessTable
from tests.simulation.tally import Tally
from tests.simulation.transcripts import ClaudeCode, End, Line, Meaning, Tool

from runward.config.root import Root
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.sessions.over import Writer

if TYPE_CHECKING:
    from tests.simulation.places import Place

AGENT_ROOTS: Final = (
    Root("claude", "/srv/claude", "claude-code", history="live"),
    Root("claude-old", "/srv/claude-old", "auto", history="record"),
    Root("codex", "/srv/codex", "codex", history="record"),
)
_RUNS: Final = frozenset({RUNNING, RESUMED})
_PACKED: Final = ".zst"


@dataclass(slots=True)
class Machine:
    """What agents of other tools leave on a machine beside their files: the traces of their processes.

    `traces` has, by session, the process that a pid file or a lock tells of, until the tool tidies that away.
    """

    kernel: Kernel
    table: ProcessTable
    dice: random.Random
    tally: Tally
    say: Callable[[str], None]
    later: Callable[[Callable[[], None]], None]
    """Has something happen before anybody believes that a process which was just missed is gone."""
    traces: dict[tuple[str, str], RecordedProcess] = field(default_factory=dict)
    meanings: dict[bytes, Meaning] = field(default_factory=dict)

    def writer(self, layout: str, session: str) -> Writer:
        """Who writes a session, as its tool's traces tell. A lock that nobody holds doesn't say who held it."""
        process = self.traces.get((layout, session))
        if process is None:
            return Writer("unknown")
        state = self.table.state(process)
        return Writer(state, None, None if layout == "codex" and state == "gone" else process)


class Fair(NamedTuple):
    """What is fair to find of one session: how it stands, whether it must be there, how many attempts it had."""

    verdicts: frozenset[Verdict]
    is_there: bool
    least: int
    most: int


class Agent:
    """One foreign session, and who writes it. Every method is a deed that the story may order.

    `reopened` counts what may have begun a further attempt. `died`: a process of its own ended. `shaken`: its files may
    have been away when somebody looked. `cut`: the machine lost its power while it was there. `stayed_at`: nothing was
    done to it since then (Unix seconds), before the daemon ever started. `free`: a person gave one of its jobs up.
    `is_hooked`: its tool calls hooks (`hook`); `is_launched`: a launched run starts it, which is `inside`.
    """

    def __init__(self, machine: Machine, root: Root, tool: Tool, headless: bool, is_traced: bool) -> None:
        self._machine = machine
        self._kernel = machine.kernel
        self.tool = tool
        self.root = root
        self.headless = headless
        self.is_traced = is_traced
        self.place = tool.place()
        self.process: RecordedProcess | None = None
        self.processes: set[RecordedProcess] = set()
        self.reopened = 0
        self.asked = 0
        self.died = self.shaken = self.cut = self.free = self.deleted = self.tidied = False
        self.is_copied = self.is_hooked = self.is_launched = False
        self.stayed_at: float | None = None
        self.inside: Place | None = None
        self.hook: Callable[[str], None] = lambda what: None
        self.ends_before_cut: set[Verdict] = set()
        self._rest = b""
        self._last: Meaning = None

    @property
    def key(self) -> str:
        return f"{self.tool.layout}:{self.tool.session}"

    @property
    def path(self) -> str:
        return f"{self.root.path}/{self.place}"

    @property
    def lives(self) -> bool:
        return self.process is not None and self._machine.table.state(self.process) == "alive"

    # What it does.

    def start(self) -> None:
        """Its program begins, or goes on with the session."""
        if self.lives or self.deleted:
            return
        if self.processes and not (self.headless and self._last != "opens"):
            self.reopened += 1
        if self._kernel.exists(self.path + _PACKED):
            self._unpack()
        self.process = self._machine.table.start(self._told)
        self.processes.add(self.process)
        if self.is_traced:
            self._machine.traces[self.tool.layout, self.tool.session] = self.process
        self._rest = b""
        if not self._kernel.exists(self.path):
            self._make(posixpath.dirname(self.path))
            self._write(self.tool.begin())
        elif not self._kernel.content(self.path).endswith(b"\n"):
            self._append(b"\n")
        self.hook("started")

    def prompt(self) -> None:
        if self.lives:
            self.hook("prompted")
            self._write(self.tool.prompt())

    def work(self) -> None:
        if self.lives:
            self._write(self.tool.work())

    def ask(self) -> None:
        """It asks a person, and waits."""
        if self.lives and isinstance(self.tool, ClaudeCode):
            self._write(self.tool.ask())
            self.asked += 1

    def answer(self) -> None:
        """The person answers."""
        if self.lives and isinstance(self.tool, ClaudeCode) and self.asked:
            self._write(self.tool.answer())

    def close(self, end: End = "well") -> None:
        """The turn is over."""
        if self.lives:
            self._write(self.tool.close(end))
            if end == "well":
                self.hook("closed")

    def tear(self) -> None:
        """Half of a line is written, the rest of it with the next ones."""
        if not self.lives:
            return
        lines = self.tool.work()
        self._mean(lines)
        whole = b"".join(content for content, _ in lines)
        half = self._machine.dice.randrange(1, len(whole))
        self._append(whole[:half])
        self._rest = whole[half:]
        self._machine.tally.reached["another tool's line in two parts"] += 1

    def exit(self) -> None:
        """Its program ends in order; it tidies its traces away, mostly."""
        if not self.lives:
            return
        if self._rest:
            self._append(b"")
        if self._machine.dice.random() < 0.6:
            self._machine.traces.pop((self.tool.layout, self.tool.session), None)
            self.tidied = True
        self.hook("ended")
        self._end()

    def close_late(self, end: End) -> None:
        """Its program is gone, and a moment later what it said last is on the disk."""
        if self.lives:
            self._end()
            self._machine.later(lambda: self._write(self.tool.close(end)))
            self._machine.tally.reached["last lines after the end of their process"] += 1

    def kill(self) -> None:
        """Its program is gone, without a word."""
        if self.lives:
            self._end()

    def move(self) -> None:
        """Its log goes elsewhere, in the same root."""
        self._rename(self.root, self.tool.elsewhere())

    def move_to(self, root: Root) -> None:
        """Its log goes to another root."""
        self._rename(root, self.place)

    def copy_to(self, root: Root) -> None:
        """There is a copy of its log in another root."""
        path = f"{root.path}/{self.place}"
        content = self._kernel.content(self.path)
        self._make(posixpath.dirname(path))
        self._kernel.put(path, content)
        self.is_copied = True
        self._machine.tally.reached["a copy of another tool's log"] += 1

    def pack(self) -> None:
        """Its log is packed, as tools do with old ones."""
        if self.lives or not self.tool.packs:
            return
        content = self._kernel.content(self.path)
        self._kernel.put(self.path + _PACKED, zstandard.ZstdCompressor().compress(content))
        self._kernel.unlink(self.path)
        self._machine.tally.reached["a packed log of another tool"] += 1

    def delete(self) -> None:
        """Its log is gone for good."""
        path = self.path + _PACKED if self._kernel.exists(self.path + _PACKED) else self.path
        self._kernel.unlink(path)
        self.shaken = self.deleted = True

    def rebooted(self) -> None:
        """The machine lost its power."""
        if self.process is not None:
            self.died = self.died or not self.tidied
            self.cut = True
            self.reopened += 2
            if isinstance(self._last, tuple):
                self.ends_before_cut.add(self._last)

    def shake(self) -> None:
        """Its root was away."""
        self.shaken = True
        self.reopened += 2

    def sync(self) -> None:
        """What it wrote is on the disk."""
        node = self._kernel.node(self.path)
        node.synced = len(node.data)

    def _told(self) -> None:
        """Somebody wants it ended, and it goes without a word."""
        self._end()

    def _end(self) -> None:
        assert self.process is not None
        self.died = True
        self._machine.table.end(self.process)

    def _rename(self, root: Root, place: str) -> None:
        path = f"{root.path}/{place}"
        packed = _PACKED if self._kernel.exists(self.path + _PACKED) else ""
        self._make(posixpath.dirname(path))
        self._kernel.rename(self.path + packed, path + packed)
        self.root, self.place = root, place
        self.reopened += 1
        self.shaken = True
        self._machine.tally.reached["a log of another tool that was moved"] += 1

    def _make(self, directory: str) -> None:
        if not self._kernel.exists(directory):
            if posixpath.dirname(directory) == "/srv":
                raise FileNotFoundError(f"{directory} is away")
            self._make(posixpath.dirname(directory))
            self._kernel.mkdir(directory)

    def _unpack(self) -> None:
        packed = self._kernel.content(self.path + _PACKED)
        self._kernel.put(self.path, zstandard.ZstdDecompressor().decompressobj().decompress(packed))
        self._kernel.unlink(self.path + _PACKED)

    def _write(self, lines: list[Line]) -> None:
        self._mean(lines)
        for content, meaning in lines:
            self._append(content)
            self._last = meaning or self._last

    def _mean(self, lines: list[Line]) -> None:
        self._machine.meanings.update(lines)

    def _append(self, content: bytes) -> None:
        """Write; an agent that can't gives up."""
        try:
            self._kernel.append(self.path, self._rest + content)
            if self._machine.dice.random() < 0.7:
                self.sync()
        except OSError as error:
            self._machine.say(f"{self.key} can't write: {error}")
            self._end()
        self._rest = b""

    # What should have come of it.

    def fair(self, stepped: bool, grew_elsewhere: bool) -> Fair:
        """What is fair to find when all is quiet. `stepped`: the clock was.

        `grew_elsewhere`: the daemon took something in its root for growth without a process on this machine.
        """
        verdicts: set[Verdict] = set()
        drawn, begun, most = [], [], 1
        for content in self._contents():
            turn, turns = self._turn(content)
            # Without its head a log may not say that nobody sits before it: then its turns are one attempt.
            attempts = turns if self.headless and not self.shaken else min(turns, 1)
            most = max(most, turns if self.headless or not self.is_traced else 1)
            begun.append(turn is not None)
            drawn.append(attempts)
            if turn is not None:
                verdicts |= self._standing(turn, stepped)
        if self.shaken or not begun:
            verdicts |= {VANISHED, GONE}
        if self.shaken and self.died:
            # Its log was away and came back after the end of its process. That is growth, which takes a death back, and
            # nobody knows the process of the next attempt. If it is growth without a process here, no missing process in
            # this home proves a death from then on.
            verdicts |= _RUNS if grew_elsewhere else {RESUMED}
        if not any(begun):
            verdicts |= self.ever | {VANISHED, GONE}
        # What the power cut took from the log may have been read before: an attempt ends once.
        verdicts |= self.ends_before_cut
        if self.is_copied:
            # An older copy stood in for it, and went on in nobody's hands: also where the first reading of the copy
            # failed, or its root was away. That is a known weakness and not a law.
            verdicts |= _RUNS
            most += 1
        if self.cut and stepped:
            # What the power cut took back may look like another attempt, whose process nobody knows; and whether the
            # machine started since its files changed can't be told. Replies older than their prompt end nothing.
            verdicts |= _RUNS | {GONE}
        if stepped and (self.headless or not self.is_traced):
            most *= 2  # an end may be believed too early, and is corrected by what comes
        if self.processes & self._machine.table.told.keys():
            verdicts |= {CANCELLED} if {GONE} & verdicts else set()
        is_there = bool(begun) and all(begun)
        return Fair(frozenset(verdicts), is_there, min(drawn, default=0), most + self.reopened)

    @property
    def ever(self) -> set[Verdict]:
        """Everything that it may have stood at before its log was deleted."""
        ends = {meaning for meaning in self._machine.meanings.values() if isinstance(meaning, tuple)}
        return ends | _RUNS

    def _contents(self) -> set[bytes]:
        """What its logs hold, wherever they lie."""
        found: dict[str, bytes] = {}
        for path, node in self._kernel.files():
            if self.tool.session in path and path.startswith(tuple(root.path + "/" for root in AGENT_ROOTS)):
                found[path] = bytes(node.data)
        return {
            zstandard.ZstdDecompressor().decompressobj().decompress(content)
            if path.endswith(_PACKED)
            else content
            for path, content in found.items()
            if path.removesuffix(_PACKED) == path or path.removesuffix(_PACKED) not in found
        }

    def called(self) -> set[str]:
        """The ids of the calls in its logs, as far as they are whole lines."""
        found: set[str] = set()
        for content in self._contents():
            for line in content[: content.rfind(b"\n") + 1].splitlines():
                found |= self.tool.calls(line)
        return found

    def _turn(self, content: bytes) -> tuple[Meaning, int]:
        """How the last turn stands in a log, and how many began in it: each of a headless agent is an attempt.

        A person's is one where nobody knows whether the program went on after it had ended badly.
        """
        last: Meaning = None
        turns = 0
        for line in content.splitlines(keepends=True):
            meaning = self._machine.meanings.get(line)
            if meaning == "opens" and last != "opens":
                turns += 1
            last = meaning or last
        return last, max(turns, int(last is not None))

    def _standing(self, turn: Meaning, stepped: bool) -> set[Verdict]:
        found: set[Verdict] = set()
        for liveness in self._liveness(stepped):
            if turn == "opens":
                found |= {GONE} if liveness == "gone" else _RUNS
            else:
                assert isinstance(turn, tuple)
                unjudged = liveness == "unknown" and turn[0] == "completed"
                goes_on = not self.headless and (liveness == "alive" or unjudged)
                found |= _RUNS if goes_on else {turn}
        return found

    def _liveness(self, stepped: bool) -> set[str]:
        """What may be known of its process: who tidied his traces away was seen before, or not.

        A hook that came through names the process of one that leaves no traces.
        """
        if self.lives:
            named = {"alive"} if self.is_hooked else set[str]()
            return {"alive"} if self.is_traced else {"unknown"} | named | ({"gone"} if stepped else set())
        if not self.is_traced:
            return {"unknown", "gone"} if stepped or self.cut or self.is_hooked else {"unknown"}
        if (self.tool.layout, self.tool.session) in self._machine.traces:
            return {"gone"}
        return {"gone", "unknown"}
