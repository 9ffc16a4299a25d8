"""Launchers that daemons start: they take the real steps of a launcher over the simulated machine, and outlive their daemon.

A launcher is a process of its own: it acts when the world does, may be killed or hang at each of its steps, and loses
its locks with its life. What it does to the ticket and the run directory is the daemon's own code.
"""

import random
from collections import Counter
from collections.abc import Collection, Generator, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import anyio
from tests.simulation.broken import Broken
from tests.simulation.places import CANCELLED, Begun, Named, Over, Place, Places, contract_of
from tests.simulation.ports import HOST, STATE, ProcessTable
from tests.simulation.virtual_time import Killed, Process

from runward.config.json_value import JsonValue
from runward.daemon.disk.durable import write_whole
from runward.daemon.inbox.launches import load_launch
from runward.daemon.launch import channel, ticket
from runward.daemon.launch.channel import ACKNOWLEDGED_WITHIN, Message
from runward.daemon.launch.record import (
    EXIT,
    PROCESS,
    RUN,
    START,
    Announcement,
    BegunAlready,
    NameTaken,
    RunDirectory,
)
from runward.daemon.launch.ticket import EpochOver, TicketHeld
from runward.daemon.processes.ending_runs import EndNotOrdered, EndOrdered
from runward.daemon.processes.proc import ProcessIdentity
from runward.daemon.processes.stand_ins import json_text
from runward.daemon.world.processes import Announced, NotBegun, NotRemoved
from runward.daemon.world.processes import Begun as HasBegun
from runward.daemon.world.starting import PATIENCE, understood
from runward.handlers.model.chains import chain_run_of
from runward.handlers.model.invocations import StartRun
from runward.handlers.model.processes import (
    FIRST_NAMESPACE,
    ProcessState,
    RecordedProcess,
    RunPlace,
    Whereabouts,
)
from runward.handlers.model.sessions import RunLaunched, RunProcesses
from runward.handlers.sessions.over import WriterOf

if TYPE_CHECKING:
    from tests.simulation.universe import Universe

_ENDS: Final[tuple[tuple[dict[str, JsonValue], str, str], ...]] = (
    ({"exit_code": 0, "cause": "exited"}, "completed", "run.completed.ok"),
    ({"exit_code": 3, "cause": "exited"}, "failed", "run.failed.exit_nonzero"),
    ({"exit_code": None, "cause": "timed_out", "signal": 15}, "timed_out", "run.timed_out.deadline"),
)
_NOT_STARTED: Final[tuple[dict[str, JsonValue], str, str]] = (
    {"exit_code": 126, "cause": "not_started", "error": "no room"},
    "failed",
    "run.failed.not_started",
)
_BY_ORDER: Final[tuple[dict[str, JsonValue], str, str]] = (
    {"exit_code": None, "cause": "cancelled", "signal": None, "error": "cancelled by somebody"},
    *CANCELLED,
)


_RUNS: Final = "after its command was let go"
_WAITS: Final = "while it waited for its launch to be recorded"
_ENDED: Final = "before its end was told"
_TOLD: Final = "before its end was synced"
_ACKNOWLEDGED: Final = "between a launch's acknowledgement and its sync"
NOTICE: Final = 20.0
"""Seconds within which a daemon that runs has noticed that a process is gone."""


class Launchers:
    """Every launcher of a history. `released` says how often the command of a start was let go, `recorded` how often
    its `run.json` was written, by the start's key.
    """

    def __init__(self, universe: "Universe") -> None:
        self.universe = universe
        self.places: Places
        self.dice = random.Random(f"{universe.seed}/launchers")
        self.released: Counter[str] = Counter()
        self.recorded: Counter[str] = Counter()
        self._all: list[Launcher] = []
        self._free: list[tuple[Process, RecordedProcess]] = []
        """Launchers whose runs are over, and the daemons that may give them another order."""

    def spawn(self, order: StartRun, epoch: int) -> "Launcher":
        """A launcher gets this order, begins soon, and speaks with the daemon that runs now."""
        daemon = self.universe.timeline.running
        spoken_to = SimulatedChannel(self.universe, daemon)
        free = next((each for each in self._free if each[0] is daemon), None)
        if free is not None:
            self._free.remove(free)
            self.universe.tally.reached["a launcher that was used again"] += 1
        launcher = Launcher(
            self, order, epoch, len(self._all) + 1, spoken_to, None if free is None else free[1]
        )
        self._all.append(launcher)
        return launcher

    def keep(self, daemon: Process, process: RecordedProcess) -> None:
        """A launcher waits for another order, but not for ever, and not longer than the daemon lives."""
        waiting = daemon, process
        self._free.append(waiting)
        self.universe.timeline.after(self.dice.choice((0.5, 20.0, 60.0)), lambda: self._end_waiting(waiting))

    def _end_waiting(self, waiting: tuple[Process, RecordedProcess]) -> None:
        if waiting in self._free:
            self._free.remove(waiting)
            self.universe.table.end(waiting[1])

    def power_cut(self) -> None:
        """None of them is left."""
        for launcher in self._all:
            if not launcher.over:
                self.universe.tally.reached[f"a power cut {launcher.moment}"] += 1
                launcher.die()
        self._free.clear()

    def busy(self) -> bool:
        """Whether any of them still has something to do."""
        now = self.universe.timeline.time
        return any(not launcher.over or launcher.noticed_by > now for launcher in self._all)

    def check(self, started: dict[str, str]) -> None:
        """Each start that is said to have begun was recorded, and none was let go that isn't; once, all of them.

        A record that a root took with it, when it went, began nothing if its command wasn't let go. What began before a
        restore may be forgotten, or given up because nobody could tell whether it had begun.
        """
        for key, state in started.items():
            is_gone = not self.released[key] and any(each.is_shaken for each in self._all if each.starts(key))
            is_wrong = (state == "begun") != (self.recorded[key] > 0) and (state == "begun" or not is_gone)
            if is_wrong and state != "given up":
                raise Broken(f"the start {key} is {state}, and was recorded {self.recorded[key]} times")
        strange = (self.released | self.recorded).keys() - started.keys() - self.universe.lives.starts
        if strange:
            raise Broken(f"runs were started that nobody ordered: {sorted(strange)}")

    def runs(self, name: str) -> bool:
        """Whether the command of the run of this name runs, in a directory that nobody took away."""
        return any(each.runs(name) for each in self._all)

    def note_release(self, key: str) -> None:
        """The command of a start is let go."""
        self.released[key] += 1
        if self.released[key] > 1:
            raise Broken(f"the command of the start {key} was let go {self.released[key]} times")


class SimulatedChannel:
    """What connects a daemon and a launcher: it ends with either."""

    def __init__(self, universe: "Universe", daemon: Process) -> None:
        self.is_acknowledged = False
        self.announced: RunLaunched
        self._universe = universe
        self.daemon = daemon
        self._is_closed = False
        self._is_over = anyio.Event()

    # The daemon's end.

    def acknowledge(self) -> None:
        """What it acknowledges must be durable, for the command is let go now."""
        if self._universe.peek("select 1 from daemon"):  # else somebody has the store locked
            launch = self._universe.peek("select 1 from launches where id = ?", (self.announced.launch,))
            owed = self._universe.peek(
                "select 1 from starts where session_key = ? and state = 'owed'", (self.announced.session_key,)
            )
            if owed or not launch:
                raise Broken(f"the launch of {self.announced.session_key} is acknowledged, and not recorded")
        self.is_acknowledged = True

    async def ended(self) -> None:
        await self._is_over.wait()

    async def freed(self) -> None:
        """Its launcher is among the free ones then."""

    def close(self) -> None:
        self._is_closed = True

    # The launcher's end.

    @property
    def is_open(self) -> bool:
        """Whether anybody could still say something."""
        return not self._is_closed and self.has_daemon

    @property
    def has_daemon(self) -> bool:
        """Whether the daemon lives that could give its launcher another order."""
        return not (self.daemon.over or self.daemon.killed)

    def end(self) -> None:
        """The launcher said that its run is over, or closed its end."""
        self.daemon.call(self._is_over.set)


class Launcher:
    """One launcher. `answer` is what it told the daemon that ordered the run, `over` that its process has ended,
    `noticed_by` when the end of a command that it left behind will have been noticed.
    """

    def __init__(
        self,
        launchers: Launchers,
        order: StartRun,
        epoch: int,
        number: int,
        spoken_to: SimulatedChannel,
        process: RecordedProcess | None,
    ) -> None:
        self.name = f"launcher {number}"
        self.answer: Message | Announced | None = None
        self._channel = spoken_to
        self._announcement: Announcement | None = None
        self.over = False
        self.noticed_by = 0.0
        self._launchers = launchers
        self._universe = launchers.universe
        self._order = order
        self._epoch = epoch
        self._place: Place | None = None
        self._step = "before its ticket"
        table = self._universe.table
        if process is None:
            process = table.start(self._note_order)
        else:
            table.hand_over(process, self._note_order)
        self._me = process._replace(ticket=ticket.name_of(order.key))
        self._is_free = False
        self._owes_sync = False
        """Whether its command may run, and a power cut could take the ticket's mark and `process.json`."""
        self._command: RecordedProcess | None = None
        self._is_ordered_to_end = False
        self._life = self._steps()
        self._universe.timeline.after(self._pause(), self._go_on)

    def let_go_of_daemon(self) -> None:
        """The daemon closes its end."""
        self._channel.close()

    def starts(self, key: str) -> bool:
        return self._order.key == key

    def runs(self, name: str) -> bool:
        """Whether its command runs, and is of the run of this name, whose directory nobody took away."""
        if self._order.name != name or self._step != _RUNS or self._command is None or self.is_shaken:
            return False
        return self._universe.table.state(self._command) == "alive"

    @property
    def moment(self) -> str:
        """Where it is, in words that stand behind what befalls it there."""
        return _ACKNOWLEDGED if self._owes_sync else self._step

    @property
    def is_shaken(self) -> bool:
        """Whether its run directory may have been away."""
        return self._place is not None and self._place.shaken

    def _pause(self) -> float:
        """How long a step takes; sometimes longer than anybody waits, or than the daemon lives that ordered it."""
        dice, chaos = self._launchers.dice, self._universe.chaos
        if not chaos.calm and dice.random() < chaos.climate.launcher_hangs:
            if dice.random() < 0.5:
                self._universe.timeline.after(dice.uniform(0.0, 1.0), self._universe.kill_current)
            return dice.uniform(1.0, 2.0 * PATIENCE)
        return dice.choice((0.0, 0.001, 0.01, 0.05))

    def _go_on(self) -> None:
        if self.over:
            return
        chaos = self._universe.chaos
        rolls = self._step != _WAITS or self._launchers.dice.random() < 0.02
        if rolls and not chaos.calm and self._launchers.dice.random() < chaos.climate.launcher_kills:
            # What isn't synced is there for moments only, which the story's own power cuts hardly ever meet.
            if self.moment in (_ACKNOWLEDGED, _TOLD) and self._launchers.dice.random() < 0.5:
                self._universe.power_cut()
                return
            self._universe.tally.reached[f"a launcher killed {self._step}"] += 1
            self.die()
            return
        with self._universe.acting_as(self.name):
            pause = next(self._life, None)
        if pause is None:
            self._end(stays=self._is_free and self._channel.has_daemon)
        else:
            self._universe.timeline.after(pause, self._go_on)

    def _note_order(self) -> None:
        """A person wants the run ended; it is done when the launcher comes to it."""
        self._is_ordered_to_end = True

    def die(self) -> None:
        """Killed. At the gate nobody is left to let its command go; later that goes on without it for a while."""
        self._universe.say(f"{self.name} dies {self._step}")
        if self._place is not None:
            self._place.reopened += 1
            self._place.died = True
        if self._step == _RUNS:
            life = self._launchers.dice.choice((1.0, 60.0, 60.0))
            self._universe.timeline.after(life, self._end_command)
            self.noticed_by = self._universe.timeline.time + life + NOTICE
            self._end_launcher()
        else:
            self._end()

    def _end(self, *, stays: bool = False) -> None:
        self._end_launcher(stays=stays)
        self._end_command()

    def _end_launcher(self, *, stays: bool = False) -> None:
        self.over = True
        self._channel.end()
        # It lets the ticket go with all that it holds.
        self._universe.kernel.end(self.name)
        if stays:
            self._launchers.keep(self._channel.daemon, self._me._replace(ticket=""))
        else:
            self._universe.table.end(self._me)

    def _end_command(self) -> None:
        if self._command is not None:
            self._universe.table.end(self._command)

    def _steps(self) -> Iterator[float]:
        """What a launcher does, step by step; between two steps anything may happen."""
        order = self._order
        try:
            self._room()
            claim = ticket.claim_start(STATE, order.key, self._epoch, order.root, order.name)
        except (BegunAlready, TicketHeld, EpochOver, NameTaken, OSError) as refused:
            self.answer = self._refusal(refused)
            return
        self._step = "before its run.json"
        yield self._pause()
        try:
            self._room()
            self._write_run(claim.directory)
        except OSError as error:
            self._discard(claim.directory)
            self.answer = Message(channel.FAILED, str(error))
            return
        self._step = "before its command was let go"
        yield self._pause()
        try:
            self._write_process(claim.directory)
            yield self._pause()
            self._room()
            if order.worktree is not None:
                has_run = self._launchers.released[order.key] > 0
                self._universe.worktrees.make(order.name, has_run=has_run)
                yield self._pause()
            is_recorded = yield from self._announce(claim.directory)
            claim.ticket.mark(is_recorded=is_recorded)
        except OSError:
            yield from self._write_exit(claim.directory, _NOT_STARTED, is_recorded=False)
            self.answer = Message(channel.BEGUN)
            return
        if not is_recorded:
            self.answer = Message(channel.BEGUN)
        yield self._pause()
        self._launchers.note_release(order.key)
        self._step = _RUNS
        yield self._launchers.dice.choice((0.0, 0.01, 1.0, 6.0))
        try:
            self._work()
        except OSError as error:
            self._universe.say(f"the command of {self.name} can't: {error}")
        yield self._launchers.dice.choice((0.0, 0.5, 10.0, 40.0))
        self._settle(claim.directory)
        if self._is_ordered_to_end:
            self._universe.tally.reached["a started run that was cancelled"] += 1
        ends = _ENDS if chain_run_of(self._order.session) is None else (*_ENDS[:1] * 5, *_ENDS[1:])
        end = _BY_ORDER if self._is_ordered_to_end else self._launchers.dice.choice(ends)
        yield from self._write_exit(claim.directory, end, is_recorded)
        self._is_free = is_recorded

    def _announce(self, directory: RunDirectory) -> Generator[float, None, bool]:
        """Announce the launch; returns whether the daemon recorded it, and not the inbox. Raises OSError."""
        order, reached = self._order, self._universe.tally.reached
        assert self._command is not None
        self._announcement = Announcement(
            state=str(STATE),
            session_key=order.session,
            at=round(self._universe.clock.now(), 3),
            launcher=ProcessIdentity(*self._me[:3]),
            process=ProcessIdentity(*self._command[:3]),
            contract=order.contract,
            timeout=None,
            grace=5.0,
            cgroup=None,
            ticket=self._me.ticket,
        )
        launch = load_launch(self._announcement.content)
        assert isinstance(launch, RunLaunched)
        self._channel.announced = launch
        self.answer = Announced(launch, self._universe.clock.now(), self._channel)
        self._step = _WAITS
        give_up = self._universe.timeline.time + ACKNOWLEDGED_WITHIN
        while (
            self._channel.is_open
            and not self._channel.is_acknowledged
            and self._universe.timeline.time < give_up
        ):
            yield 0.01
        self._step = "before its command was let go"
        if self._channel.is_acknowledged:
            reached["a launch that was recorded over its channel"] += 1
            self._owes_sync = True
            return True
        reached["a launch that nobody acknowledged"] += 1
        self._channel.end()
        self._room()
        directory.make_durable()
        self._announcement.put()
        return False

    def _refusal(self, refused: Exception) -> Message:
        reached = self._universe.tally.reached
        match refused:
            case BegunAlready():
                reached["a start that had begun already"] += 1
                return Message(channel.BEGUN)
            case TicketHeld():
                reached["a start that another launcher is about"] += 1
                return Message(channel.HELD)
            case EpochOver():
                reached["a launcher of an old epoch"] += 1
                return Message(channel.SUPERSEDED)
            case NameTaken():
                return Message(channel.TAKEN, str(refused))
            case _:
                return Message(channel.FAILED, str(refused))

    def _room(self) -> None:
        """Raise where the disk is full."""
        if self._universe.chaos.full and not self._universe.chaos.calm:
            raise OSError(28, "No space left on device")

    def _write_run(self, directory: RunDirectory) -> None:
        order, launchers = self._order, self._launchers
        self._universe.kernel.mkdir(f"{directory.path}/artifacts")
        value: dict[str, JsonValue] = {
            "schema": "runward-run-v1",
            "session_id": order.name,
            "playbook": order.playbook,
            "contract": order.contract,
            "host": HOST,
            "launcher": _recorded(self._me),
            "kind": order.kind,
            "invocation_id": order.invocation_id,
            "metadata": {**dict(order.metadata), START: order.key},
        }
        directory.write_json(RUN, value)
        launchers.recorded[order.key] += 1
        begun = Begun(contract_of(order.playbook), self._me, HOST)
        self._place = launchers.places.place(order.root, order.name)
        self._place.begun.append(begun)
        self._mean(directory, RUN, begun)
        if launchers.recorded[order.key] > 1:
            self._place.reopened += 1

    def _write_process(self, directory: RunDirectory) -> None:
        self._command = self._universe.table.start(self._command_told)
        directory.write_json(PROCESS, _recorded(self._command), is_synced=False)
        self._mean(directory, PROCESS, Named(self._command))

    def _command_told(self) -> None:
        """Its launcher is gone: the signal ends it in silence."""
        self._universe.timeline.after(self._launchers.dice.choice((0.0, 0.5)), self._end_command)

    def _write_exit(
        self, directory: RunDirectory, end: tuple[dict[str, JsonValue], str, str], is_recorded: bool
    ) -> Iterator[float]:
        """Write how it ended, say so to a daemon that listens, and only then make it durable."""
        value, status, reason = end
        now = round(self._universe.clock.now(), 3)
        at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        ending: dict[str, JsonValue] = {**value, "finished_at": at, "start": self._order.key}
        try:
            if self._announcement is not None:
                ending["secret"] = self._announcement.secret
                if not is_recorded:
                    self._announcement.put()
            content = json_text(ending).encode()
            write_whole(directory.descriptor, EXIT, content, is_synced=not is_recorded)
        except OSError as error:
            self._universe.say(f"{self.name} can't say its end: {error}")
            self.die()
            return
        assert self._place is not None
        over = Over(status, reason, now)
        self._place.exits.append(over)
        self._place.cancelled = end is _BY_ORDER
        self._mean(directory, EXIT, over)
        if is_recorded:
            self._step = _ENDED
            yield self._pause()
            self._channel.end()
            self._step = _TOLD
            yield self._pause()
            self._sync_exit(directory)

    def _settle(self, directory: RunDirectory) -> None:
        """Make the run's files durable, which are no more than known to the store until then."""
        self._owes_sync = False
        try:
            directory.make_durable()
        except OSError as error:
            self._universe.say(f"{self.name} can't sync its files: {error}")

    def _sync_exit(self, directory: RunDirectory) -> None:
        kernel = self._universe.kernel
        try:
            descriptor = kernel.open(EXIT, kernel.O_RDONLY, dir_fd=directory.descriptor)
        except OSError:
            return  # somebody took it away
        try:
            kernel.fsync(descriptor)
        except OSError as error:
            self._universe.say(f"{self.name} can't sync its end: {error}")
        finally:
            kernel.close(descriptor)

    def _mean(self, directory: RunDirectory, name: str, meaning: Begun | Named | Over) -> None:
        """Register what was written; where its root was swapped meanwhile, nobody may ever see it."""
        assert self._place is not None
        descriptor = self._universe.kernel.open(
            name, self._universe.kernel.O_RDONLY, dir_fd=directory.descriptor
        )
        content = self._universe.kernel.pread(descriptor, 1 << 20, 0)
        self._universe.kernel.close(descriptor)
        self._launchers.places.meanings[content] = meaning
        path = f"{self._place.path}/{name}"
        kernel = self._universe.kernel
        if not kernel.exists(path) or kernel.content(path) != content:
            self._place.shaken = True
            self._place.reopened += 2

    def _work(self) -> None:
        """The command: it delivers or not, and some clean up after themselves only too well."""
        dice, kernel = self._launchers.dice, self._universe.kernel
        assert self._place is not None
        path = self._place.path
        if not kernel.exists(f"{path}/artifacts"):
            return
        if dice.random() < 0.15 and not self._universe.chaos.calm:
            self._universe.tally.reached["a started run that removed itself"] += 1
            self._place.shaken = True
            self._place.reopened += 1
            kernel.remove_tree(path)
            return
        outcome = self._universe.chains.outcome(self._order.session)
        if outcome is not None:
            kernel.put(f"{path}/artifacts/outcome.json", outcome)
        for each, _ in contract_of(self._order.playbook) or ():
            if "/" in each and not kernel.exists(f"{path}/artifacts/deep"):
                kernel.mkdir(f"{path}/artifacts/deep")
            if dice.random() < 0.7:
                kernel.put(f"{path}/artifacts/{each}", b"delivered")

    def _discard(self, directory: RunDirectory) -> None:
        try:
            directory.discard()
        except OSError as error:
            self._universe.say(f"{self.name} leaves its directory: {error}")


class SimulatedProcesses:
    """The processes as one daemon knows them."""

    def __init__(self, table: ProcessTable, launchers: Launchers) -> None:
        self._table = table
        self._launchers = launchers

    def host(self) -> str:
        return self._table.host()

    def boot_id(self) -> str:
        return self._table.boot_id()

    def whereabouts(self) -> Whereabouts:
        return Whereabouts("simulated", self.boot_id(), FIRST_NAMESPACE)

    def booted_at(self) -> float | None:
        universe = self._launchers.universe
        return self._table.booted_at + universe.clock.offset

    def descriptor(self, process: RecordedProcess) -> int | None:
        return None

    def writers(self) -> WriterOf:
        machine = self._launchers.universe.foreign_agents.machine
        return lambda layout, path, session_id: machine.writer(layout, session_id)

    def launcher_of(self, process: RecordedProcess, layout: str, path: str) -> str | None:
        return None

    def state(self, process: RecordedProcess) -> ProcessState:
        """As the real one: where no ticket can be asked, what the process itself shows counts."""
        state = self._table.state(process)
        if state == "alive" and process.ticket:
            with suppress(OSError):
                if ticket.ticket_state(STATE, process.ticket) is ticket.TicketState.FREE:
                    return "gone"
        return state

    def is_nowhere(self, process: RecordedProcess) -> bool:
        return self.state(process) == "gone"

    def tell_to_end(self, processes: RunProcesses, place: RunPlace) -> EndOrdered | EndNotOrdered:
        """As the real one: the launcher, or where it is gone the command."""
        for each in (processes.launcher, processes.process):
            is_of_run = each is not None and (not each.ticket or _is_held(each.ticket))
            if each is not None and is_of_run and self._table.tell(each):
                return EndOrdered(f"process {each.pid} was told")
        return EndNotOrdered("all are gone", too_late=True)

    def end_tree(self, processes: RunProcesses, directory: str) -> EndOrdered | EndNotOrdered:
        raise AssertionError("no run of a history has a timeout")

    def age(self, process: RecordedProcess) -> float | None:
        raise AssertionError("no run of a history has a timeout")

    def start(self, order: StartRun, epoch: int) -> HasBegun | Announced | NotBegun:
        """As the real one: a launcher of its own is asked, and waited for while the world goes on."""
        universe = self._launchers.universe
        launcher = self._launchers.spawn(order, epoch)
        give_up = universe.timeline.time + PATIENCE
        while launcher.answer is None and not launcher.over and universe.timeline.time < give_up:
            universe.timeline.elapse(0.01)
            if universe.timeline.running.killed:
                raise Killed
        answer = launcher.answer
        if isinstance(answer, Announced):
            return answer
        launcher.let_go_of_daemon()
        if answer is not None:
            return understood(answer)
        return NotBegun("ended before it began" if launcher.over else f"has not begun after {PATIENCE} s")

    def remove_worktree(self, name: str, repo: str) -> NotRemoved | None:
        return self._launchers.universe.worktrees.remove(name)

    def expect_start(self, epoch: int) -> None:
        pass

    def forget_starts(self, owed: Collection[str]) -> None:
        ticket.throw_away(STATE, owed)


def _recorded(process: RecordedProcess) -> dict[str, JsonValue]:
    named: dict[str, JsonValue] = {
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "boot_id": process.boot_id,
    }
    return {**named, "ticket": process.ticket} if process.ticket else named


def _is_held(name: str) -> bool:
    return ticket.ticket_state(STATE, name) is ticket.TicketState.HELD
