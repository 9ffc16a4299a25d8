"""What happens in a history: two hundred deeds of agents, people and the machine, from the seed alone."""

import json
import random
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from tests.simulation.places import Begun, Named, Over, Places, contract_of
from tests.simulation.ports import HOST, INBOX, PLAYBOOKS
from tests.simulation.universe import ROOTS, Universe

from runward.daemon.inbox.requests import dump_request
from runward.daemon.rundir.durable import write_durably
from runward.daemon.store.chain import GENESIS, event_hash
from runward.daemon.store.rows import JOBS_AN_EVENT
from runward.handlers.events import JobDiscardRequested, JobRetryRequested, ScanRequested
from runward.handlers.layouts.scanner import RecordedProcess

DEEDS: Final = 200
LENGTH: Final = 150.0
"""Seconds over which the runs of a history start."""

FUTURE: Final = "future:"
"""How the lanes of events begin that only a newer version knows: their jobs stay held."""

Deed = Callable[[], None]

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


class Run:
    """One agent at work in one directory. Every method is a deed that the story may order."""

    def __init__(self, story: "Story", root: str, name: str) -> None:
        self.story = story
        self.universe = story.universe
        self.dice = story.dice
        self.place = story.places.place(root, name)
        self.playbook = self.dice.choice((None, "report", "report", "two", "nothing", "no such playbook"))
        self.snapshot = self.dice.random() < 0.3
        self.launched = self.dice.random() < 0.4
        self.host = self.dice.choice((None, HOST, HOST, "elsewhere"))
        self.good = self.dice.random() < 0.7
        self.process: RecordedProcess | None = None
        self.launcher: RecordedProcess | None = None

    @property
    def path(self) -> str:
        return self.place.path

    def make(self) -> None:
        self.universe.kernel.mkdir(self.path)

    def _document(self, name: str, value: object, by_hand: bool = False) -> bytes:
        self.story.serial += 1
        content = json.dumps(
            {**value, "serial": self.story.serial} if isinstance(value, dict) else value
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
        self.story.places.meanings[content] = meaning
        self.story.places.note(self.place)

    def _expected(self) -> tuple[tuple[str, bool], ...] | None:
        return contract_of(self.playbook)

    def begin(self, by_hand: bool = False) -> None:
        """Write run.json."""
        value: dict[str, object] = {"schema": "runward-run-v1", "session_id": self.place.name}
        if self.playbook is not None:
            value["playbook"] = self.playbook
        if self.snapshot:
            expected = self._expected()
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
            self.launcher = self.launcher or self.universe.table.start()
            value["launcher"] = _recorded(self.launcher)
        content = self._document("run.json", value, by_hand)
        self._means(content, Begun(self._expected(), self.launcher, self.host))

    def begin_badly(self) -> None:
        """Write half a run.json in place."""
        self.universe.kernel.overwrite(f"{self.path}/run.json", b'{"schema": "runward-run-v1", "sess')

    def name_process(self) -> None:
        """Write process.json."""
        self.process = self.universe.table.start()
        self.place.odd = self.place.odd or self.place.died
        self._means(self._document("process.json", _recorded(self.process)), Named(self.process))

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

    def deliver(self, path: str) -> None:
        """Write an artifact, or what should be one."""
        base = f"{self.path}/artifacts"
        self.place.late = self.place.late or self.universe.kernel.exists(f"{self.path}/exit.json")
        kernel = self.universe.kernel
        way = base
        for part in ["", *path.split("/")[:-1]]:
            way = f"{way}/{part}" if part else way
            if not kernel.exists(way):
                kernel.mkdir(way)
        kernel.put(f"{base}/{path}", b"delivered" if self.good or self.dice.random() < 0.5 else b"")

    def note_work(self) -> None:
        """Append a line of its own to a journal, or half of one."""
        line = b'{"ts":"2026-01-01T00:00:00Z","role":"agent","event":"worked","path":"","n":%d}\n'
        content = line % self.dice.randrange(10**6)
        if self.dice.random() < 0.25:
            content = content[: self.dice.randrange(1, len(content))]
        self.universe.kernel.append(f"{self.path}/events.jsonl", content)

    def talk(self) -> None:
        self.universe.kernel.append(f"{self.path}/stdout.log", b"working\n")

    def spoil_journal(self) -> None:
        """A link stands where the journal should."""
        path = f"{self.path}/events.jsonl"
        if not self.universe.kernel.exists(path):
            self.universe.kernel.symlink("/srv/elsewhere", path)

    def remove(self) -> None:
        self._shake()
        self.universe.kernel.remove_tree(self.path)

    def move(self) -> None:
        """The directory gets another name, where it is another session."""
        other = self.story.places.place(self.place.root, self.place.name + "-moved")
        self.universe.kernel.rename(self.path, other.path)
        self._shake()
        other.shaken = True
        other.reopened += 1
        self.story.places.note(other)

    def come_back(self) -> None:
        """The directory is there again under its old name."""
        self.universe.kernel.rename(self.path + "-moved", self.path)
        self.place.reopened += 1
        self.story.places.place(self.place.root, self.place.name + "-moved").shaken = True
        self.story.places.note(self.place)

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


class Story:
    """The deeds of a history, and what a plain model expects of them."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.dice = random.Random(f"{universe.seed}/story")
        self.first_seen: float | None = None
        self.places = Places(universe.kernel, universe.table, self._first_seen)
        self.serial = 0
        self.left = DEEDS
        self.last = 0.0
        universe.rebooted = self._rebooted
        self._runs = 0
        self._requests = 0

    def _first_seen(self, root: str) -> float:
        """When the root that only records history was first seen; the other one has no history."""
        return self.first_seen or 0.0 if root == ROOTS[1] else 0.0

    def _rebooted(self) -> None:
        for place in self.places.by_key.values():
            place.reopened += 1
            place.died = True

    def plan(self) -> None:
        """Order every deed. What was there before the daemon ever started is done at once."""
        for _ in range(3):
            run = self._new_run(ROOTS[1])
            run.place.before = True
            for deed in (run.make, run.begin, run.end):
                deed()
        while self.left > 0:
            start = self.dice.uniform(0.0, LENGTH)
            if self.dice.random() < 0.5:
                self._order(start, self._happening())
            else:
                for delay, deed in self._plot():
                    start += delay
                    self._order(start, deed)

    def _order(self, at: float, deed: Deed) -> None:
        if self.left <= 0:
            return
        self.left -= 1
        self.last = max(self.last, at)
        self.universe.timeline.after(at, lambda: self._do(deed))

    def _do(self, deed: Deed) -> None:
        name = getattr(deed, "__qualname__", repr(deed))
        owner = getattr(deed, "__self__", None)
        where = f" in {owner.place.key}" if isinstance(owner, Run) else ""
        try:
            deed()
        except OSError as error:
            self.universe.say(f"{name}{where} can't: {error}")
        else:
            self.universe.say(f"{name}{where}")

    def _new_run(self, root: str | None = None) -> Run:
        self._runs += 1
        return Run(self, root or self.dice.choice(ROOTS), f"run-{self._runs:03d}")

    # How runs go.

    def _plot(self) -> list[tuple[float, Deed]]:
        run, dice = self._new_run(), self.dice
        deeds: list[Deed] = [run.make]
        kind = dice.choice(
            ("plain",) * 8
            + (
                "killed",
                "killed",
                "late",
                "endless",
                "removed",
                "moved",
                "back",
                "resumed",
                "resumed",
                "badly",
                "by hand",
                "touched",
                "twice",
                "spoilt",
            )
        )
        deeds += self._middle(run, kind)
        ending: dict[str, list[Deed]] = {
            "plain": [run.end, run.die],
            "killed": [run.die],
            "late": [run.die, run.end],
            "endless": [],
            "removed": [run.remove],
            "moved": [run.move, run.end],
            "back": [run.move, run.come_back, run.end],
            "resumed": [run.end, run.die, run.resume, run.note_work, run.end],
            "badly": [run.end_badly, run.end],
            "by hand": [run.end],
            "touched": [run.begin, run.end, run.begin],
            "twice": [run.end, run.end],
            "spoilt": [run.end],
        }
        deeds += ending[kind]
        if dice.random() < 0.1:
            middle = deeds[1:]
            dice.shuffle(middle)
            deeds[1:] = middle
        quick = dice.random() < 0.3
        return [(0.0 if quick else self._pause(), deed) for deed in deeds]

    def _pause(self) -> float:
        return self.dice.choice((0.0, 0.003, 0.1, 0.5, 2.0, 2.0, 8.0, 20.0)) * self.dice.uniform(0.5, 1.5)

    def _middle(self, run: Run, kind: str) -> list[Deed]:
        dice = self.dice
        begin: list[Deed] = [run.begin]
        if kind == "badly":
            begin = [run.begin_badly, run.begin]
        elif kind == "by hand":
            begin = [lambda: run.begin(by_hand=True)]
        elif kind == "spoilt":
            begin = [run.spoil_journal, run.begin]
        work: list[Deed] = [run.note_work] * dice.randrange(3) + [run.talk] * dice.randrange(2)
        for path, _ in run._expected() or ():
            if run.good or dice.random() < 0.5:
                work.append(lambda path=path: run.deliver(path))  # type: ignore[misc] # a default binds it
        dice.shuffle(work)
        if dice.random() < 0.6:
            work.insert(0, run.name_process)
        return begin + work

    # What befalls the machine.

    def _happening(self) -> Deed:
        return self.dice.choice(
            (
                self.step_clock,
                self.fill_disk,
                self.hide_root,
                self.empty_root,
                self.lock_root,
                self.kill_daemon,
                self.kill_daemon,
                self.stop_daemon,
                self.freeze_daemon,
                self.reboot,
                self.break_handler,
                self.break_handler,
                self.poison_handler,
                self.mend_handlers,
                self.retry_held,
                self.retry_held,
                self.discard_held,
                self.ask_for_scan,
                self.ask_twice,
                self.ask_nonsense,
                self.reload,
                self.run_newer_version,
            )
        )

    def step_clock(self) -> None:
        step = self.dice.choice((-86400.0, -3600.0, -5.0, -0.5, 0.5, 5.0, 3600.0, 86400.0))
        self.universe.clock.offset += step

    def fill_disk(self) -> None:
        self._full(True)
        self.universe.timeline.after(self.dice.uniform(0.5, 15.0), lambda: self._full(False))

    def _full(self, full: bool) -> None:
        self.universe.chaos.full = self.universe.disk.full = full

    def hide_root(self) -> None:
        """The file system of a root is away for a while."""
        root = self.dice.choice(ROOTS)
        if self.universe.kernel.exists(root + ".away"):
            return  # one thing at a time
        self.universe.kernel.rename(root, root + ".away")
        for place in self.places.by_key.values():
            place.hidden = place.hidden or place.root == root

        def back() -> None:
            self.universe.kernel.rename(root + ".away", root)
            self.universe.tally.reached["a root that went away and came back"] += 1

        self._later(back)

    def empty_root(self) -> None:
        """A mount is gone and leaves an empty directory; all runs in it seem to have vanished."""
        root, kernel = self.dice.choice(ROOTS), self.universe.kernel
        if kernel.exists(root + ".away"):
            return  # one thing at a time
        kernel.rename(root, root + ".away")
        kernel.mkdir(root)
        for place in self.places.by_key.values():
            if place.root == root:
                place.shaken = True
                place.reopened += 1

        def back() -> None:
            # What was made meanwhile lies under the mount, where nobody sees it.
            kernel.remove_tree(root)
            kernel.rename(root + ".away", root)
            for place in self.places.by_key.values():
                if place.root == root:
                    place.reopened += 1

        self._later(back)

    def lock_root(self) -> None:
        """A root can't be read for a while."""
        node = self.universe.kernel.node(self.dice.choice(ROOTS))
        node.locked = True

        def unlock() -> None:
            node.locked = False

        self._later(unlock)

    def _later(self, deed: Deed) -> None:
        self.universe.timeline.after(self.dice.uniform(0.01, 20.0), lambda: self._do(deed))

    def kill_daemon(self) -> None:
        if self.universe.current is not None:
            self.universe.current.process.kill()

    def stop_daemon(self) -> None:
        """Stopped in order, and started again a while later."""
        daemon = self.universe.current
        if daemon is not None and daemon.ready and daemon.process.frozen_until is None:
            daemon.stop()
            self.universe.timeline.after(self.dice.uniform(0.5, 20.0), self.universe.start_if_none)

    def freeze_daemon(self) -> None:
        """SIGSTOP where it waits."""
        daemon = self.universe.current
        if daemon is not None and daemon.ready:
            seconds = self.dice.uniform(1.0, 20.0)
            daemon.process.call(lambda: daemon.process.freeze(self.universe.timeline.time + seconds))

    def reboot(self) -> None:
        if self.dice.random() < 0.3:
            self.universe.power_cut()

    def break_handler(self) -> None:
        """A bug shows in the handlers of one session."""
        self.universe.bugs[self._some_key()] = "raises"

    def poison_handler(self) -> None:
        """A bug makes the handlers of one session order what the store must refuse."""
        self.universe.bugs[self._some_key()] = "poisons"

    def _some_key(self) -> str:
        keys = [key for key, place in sorted(self.places.by_key.items()) if not place.exits]
        return self.dice.choice(keys) if keys else ""

    def mend_handlers(self) -> None:
        self.universe.bugs.clear()

    def held(self) -> list[tuple[int, str]]:
        """The jobs that are held now, with their lanes."""
        rows = self.universe.peek("select id, lane from jobs where state = 'held' order by id")
        return [(int(row[0]), str(row[1])) for row in rows if not str(row[1]).startswith(FUTURE)]

    def run_newer_version(self) -> None:
        """A newer Runward ran in between and left an event that this one can't know."""
        self.kill_daemon()
        world = self.universe.disk.world
        try:
            world.execute("begin immediate")
        except sqlite3.OperationalError:
            return  # somebody frozen has the store locked
        seq, head = world.execute("select seq, hash from events order by seq desc limit 1").fetchone() or (
            0,
            GENESIS,
        )
        lane, at = f"{FUTURE}{seq}", self.universe.clock.now()
        digest = event_hash(head, lane, "FutureThing", 1, at, None, 0, "{}")
        world.execute(
            "insert into events (seq, key, type, version, lane, at, recorded_at, cause, depth, payload, hash)"
            " values (?, ?, 'FutureThing', 1, ?, ?, ?, null, 0, '{}', ?)",
            (seq + 1, lane, lane, at, at, digest),
        )
        world.execute(
            "insert into jobs (id, event, handler, lane, state, epoch, updated_at) values (?, ?, 'future', ?, 'waiting', 0, ?)",
            (JOBS_AN_EVENT * (seq + 1), seq + 1, lane, at),
        )
        world.commit()

    def retry_held(self) -> None:
        for number, _ in self.held():
            self.request(JobRetryRequested(self._uuid(), self.universe.clock.now(), number))

    def discard_held(self) -> None:
        held = self.held()
        if held:
            number, lane = self.dice.choice(held)
            if lane in self.places.by_key:
                self.places.by_key[lane].free = True
            request = JobDiscardRequested(self._uuid(), self.universe.clock.now(), number, "no use")
            self.request(request)

    def ask_for_scan(self) -> None:
        self.request(ScanRequested(self._uuid(), self.universe.clock.now()))

    def ask_twice(self) -> None:
        """The same request comes again under its name, perhaps after it was done."""
        self.universe.tally.reached["a duplicate request"] += 1
        request = ScanRequested(self._uuid(), self.universe.clock.now())
        self.request(request)
        self._later(lambda: self.request(request))

    def ask_nonsense(self) -> None:
        write_durably(INBOX, f"{self._uuid()}.json", b'{"type":"Nonsense"}')

    def request(self, request: JobRetryRequested | JobDiscardRequested | ScanRequested) -> None:
        write_durably(INBOX, f"{request.request}.json", dump_request(request))

    def _uuid(self) -> str:
        self._requests += 1
        return f"00000000-0000-4000-8000-{self._requests:012d}"

    def reload(self) -> None:
        """SIGHUP, with another batch, and perhaps without one of the roots for a while."""
        universe, all_roots = self.universe, self.universe.all_roots
        roots = all_roots if self.dice.random() < 0.6 else self.dice.choice((all_roots[:1], all_roots[1:]))
        universe.settings = universe.settings._replace(batch=self.dice.choice((1, 5, 256)), roots=roots)
        universe.reload()
        if roots != all_roots:
            universe.tally.reached["a root taken out of the settings"] += 1
            self._later(self.take_all_roots)

    def take_all_roots(self) -> None:
        """SIGHUP, with every root."""
        self.universe.settings = self.universe.settings._replace(roots=self.universe.all_roots)
        self.universe.reload()


def _recorded(process: RecordedProcess) -> dict[str, object]:
    return {"pid": process.pid, "start_ticks": process.start_ticks, "boot_id": process.boot_id}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
