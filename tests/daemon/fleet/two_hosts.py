"""A history of a fleet of two hosts, under a seed: whole daemons that decide, their programs, a double of the database, and faults.

Each host has a store, an inbox and a clock of its own, and orders steps of the other one, or of any. Daemons are killed between any
two commits, programs at any of their points. The database fails before or after it did what it was asked. What a program said is
lost, or comes late. In a third of the histories the database is restored, in another the store of a host, and in all of them
orders may be given up. At the end nothing fails any more, and the laws are held against what became of it all.
"""

import asyncio
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Final, Literal, TypeAlias, get_args
from unittest import mock

import psycopg
from tests.daemon.fleet.double import FENCED, Content, Database, DoubleConnection, Row
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.config.chain import Chain, read_chain
from runward.config.playbook import Playbook
from runward.config.settings import Accept, FleetSettings
from runward.config.step import Callables
from runward.daemon import faults
from runward.daemon.backup import back_up, examine_for, plan_restore, restore
from runward.daemon.fleet import orders, telling_orders
from runward.daemon.fleet.orders import Orders
from runward.daemon.fleet.record import Record
from runward.daemon.fleet.telling_orders import OrdersTold
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.parts.answering import NoChains
from runward.daemon.store.reading import STORE
from runward.daemon.store.tables import fleet_outbox
from runward.handlers.chains.continuing import WAITED
from runward.handlers.model.chains import ChainRunCancelRequested, EventOccurred
from runward.handlers.model.fleet import run_of_order, try_of
from runward.handlers.model.invocations import Play

HOSTS: Final = {"north": {"any", "cold"}, "south": {"any"}}
_OTHER: Final = {"north": "south", "south": "north"}
_WHERE: Final = ("OTHER", "{label: any}", "{label: cold}", "nobody")
_TEXT: Final = """\
name: NAME
trigger: {event: NAME}
steps:
  - {id: there, skill: SKILL, host: HOSTWITHIN}
  - {id: here, skill: work, condition: "{{ steps.there.status == 'completed' }}"}
"""
_PULSE: Final = "select words, changes, is_older from runward.pulse(%s, 0, '{}')"
WITHIN: Final = ", start_within: 20s"
ACTIONS: Final = 60
MOST_ROUNDS: Final = 24
UNTIL_PEOPLE_SEE_TO_IT: Final = 12
"""Rounds after the last fault in which everything must be over."""


class Broken(AssertionError):
    """A law does not hold."""


class Killed(BaseException):
    """Stands for `kill -9` of a program."""


class _Chains(NoChains):
    """The chains of a host, by the event that fires each."""

    def __init__(self) -> None:
        self.known: dict[str, Chain] = {}

    def add(self, name: str, host: str, skill: str, within: str) -> None:
        text = _TEXT.replace("NAME", name).replace("HOST", host).replace("SKILL", skill)
        text = text.replace("WITHIN", within)
        chain = read_chain(text, f"{name}.yaml", Callables(("work",))).value
        assert chain is not None, text
        self.known[name] = chain

    def listening(self, event: str) -> tuple[Chain, ...]:
        return (self.known[event],) if event in self.known else ()

    def chain(self, name: str) -> Chain | str:
        return self.known.get(name, f"there is no chain {name!r}")

    def steps_at_once(self) -> int:
        return 50


class Program:
    """A program of a host, over a connection. It may be an earlier one that is not dead yet."""

    def __init__(self, host: "Host", fault: Callable[[str], None]) -> None:
        self._host = host
        self._connection = DoubleConnection(host.history.database, host.name, fault)
        try:
            ((number,),) = self._connection.execute("select runward.greet(%s, %s)", (1, "1.0")).fetchall()
        except psycopg.Error:
            self._connection.close()
            raise
        self._number = int(number)
        self._told = OrdersTold(host.base / "state", host.settings, int(number))
        self._orders = Orders(host.base / "state", host.settings, int(number))
        self._record = Record(host.base / "state", host.settings, int(number))
        self._changes: int | None = None

    def serve(self) -> None:
        """Compare, say and look once, as the program does. Raises `psycopg.Error` and `Killed`."""
        connection: psycopg.Connection[tuple[object, ...]] = self._connection  # type: ignore[assignment] # as far as it is used
        record = self._record
        if record.since is not None or self._changes is None:
            record.look(connection)
        if record.since is not None:
            self._host.owe_again = record.since
        else:
            for versions in self._told.say(connection):
                self._host.said += versions
        ((words, changes, is_older),) = self._connection.execute(_PULSE, (self._number,)).fetchall()
        is_asked = record.since is None
        if is_older or changes != self._changes:
            record.look(connection)
        self._changes = changes
        if is_asked and record.since is not None:
            self._host.history.seen["noticed"] += 1
        while (
            record.since is None
            and self._orders.looks_for in words
            and self._orders.look(connection, is_calm=True)
        ):
            pass

    def close(self) -> None:
        self._connection.close()


class Host:
    """A host with its daemon, or none, its programs, and the runs that its launchers began."""

    def __init__(self, history: "History", name: str) -> None:
        self.history, self.name = history, name
        self.base = history.base / name
        self.base.mkdir()
        accept = () if history.dice.random() < 0.1 else (Accept(("*",), ("work", "absent")),)
        self.settings = FleetSettings(name, "postgresql://x@y/z", "/none", accept=accept)
        self.clock = StillClock()
        self.clock.wall += history.clocks.get(name, 0.0)
        self.owe_again: str | None = None
        """Since when all is owed again, as a program said, and the daemon has not noted."""
        self.was_restored = False
        """Its store is an older one."""
        self.chains = _Chains()
        self.processes = ToldProcesses()
        self.daemon: Daemon | None = None
        self._stack = AsyncExitStack()
        self.programs: list[Program] = []
        self.said: list[int] = []
        """What a program delivered and the daemon has not marked."""
        self.began: Counter[str] = Counter()
        """How often a command of this run was begun."""
        self.codes: dict[str, int] = {}
        """How runs ended."""

    async def start(self) -> None:
        if self.daemon is None:
            opened = daemon(
                self.base,
                self.clock,
                self.processes,
                playable=self._playable,
                chains=self.chains,
                fleet=self.settings,
            )
            self.daemon = await self._stack.enter_async_context(opened)
            await self._note(await fleet_outbox.noted_since(self.daemon.store))

    async def _note(self, since: str | None) -> None:
        """As the daemon does: what it owes, and since when all of it again."""
        assert self.daemon is not None
        await fleet_outbox.switch_on(self.daemon.store, json.dumps(["here", "", False, "", since]))
        # Without this, the next daemon would owe everything again, and hide what was lost.
        while await fleet_outbox.walk(self.daemon.store, 256):
            pass

    async def kill(self) -> None:
        """Between two commits. What it had in memory is lost, and its program goes with it."""
        await self._stack.aclose()
        self._stack, self.daemon = AsyncExitStack(), None
        self.said.clear()
        self.owe_again = None
        self.end_programs()

    def end_programs(self) -> None:
        for each in self.programs:
            each.close()
        self.programs.clear()

    def _playable(self, name: str) -> Play:
        if name != "work":
            return Play(None, problem=f"there is no playbook {name!r}")
        return Play(Playbook(name, ("work",)), root_name="runs", root_path=str(self.base / "runs"))

    def ask(self, name: str, request: EventOccurred | ChainRunCancelRequested) -> None:
        put(self.base / "state", name, dump_request(request))

    async def do_something(self) -> None:
        """A part of a daemon's work: each ends with a commit."""
        if self.daemon is None:
            return
        assembly = self.daemon.supervisor.assembly
        assembly.worker.inbox_waits = True
        match self.history.dice.randrange(4):
            case 0:
                await assembly.worker.turn()
            case 1:
                await assembly.starts.carry_out()
            case 2:
                await self.mark_delivered()
            case _:
                await self.daemon.settle()

    async def mark_delivered(self) -> None:
        if self.daemon is not None and self.owe_again is not None:
            since, self.owe_again = self.owe_again, None
            await self._note(since)
        if self.daemon is not None and self.said:
            said, self.said = self.said, []
            await fleet_outbox.delivered(self.daemon.store, said)

    def _backup(self) -> Path:
        return self.base / "backup.db"

    def back_up(self) -> None:
        back_up(self.base / "state" / STORE, self._backup(), replace=True)

    async def restore(self) -> bool:
        """Put the backup in the store's place, as `runward restore` does; returns whether there was one."""
        if not self._backup().exists():
            return False
        await self.kill()
        state, now = self.base / "state", self.clock.now()
        restore(state, plan_restore(state, self._backup(), examine_for(state, self._backup()), now), now)
        self.was_restored = True
        return True

    def remembers(self, content: Content) -> bool:
        """Whether this host has seen all changes of orders that the database counts."""
        path = self.base / "state/fleet/seen.json"
        seen = json.loads(path.read_bytes())["changes"] if path.exists() else {}
        return all(seen.get(host, 0) >= each.changes for host, each in content.kept.items())

    def launch(self) -> None:
        """Launchers begin what daemons ordered. An order that came twice finds its run directory."""
        for order in self.processes.started:
            directory = self.base / "runs" / order.name
            if not directory.exists():
                directory.mkdir(parents=True)
                (directory / "run.json").write_text(
                    json.dumps({"schema": "runward-run-v1", "invocation_id": order.invocation_id})
                )
                self.began[order.name] += 1

    def end_runs(self, share: float) -> None:
        """Some of the runs end."""
        for name in self.began:
            if name not in self.codes and self.history.dice.random() < share:
                self.codes[name] = self.history.dice.choice((0, 0, 3))
                written = self.base / "runs" / name / ".exit.tmp"
                written.write_text(json.dumps({"exit_code": self.codes[name]}))
                written.rename(written.with_name("exit.json"))

    def serve(self, is_faulty: bool) -> None:
        """A program connects, or one goes on, and serves until something fails."""
        if self.daemon is None:
            return
        dice = self.history.dice
        left = dice.randrange(12) if is_faulty and dice.random() < 0.6 else -1
        steps = dice.randrange(12) if is_faulty and dice.random() < 0.4 else -1

        def connection_fails(moment: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise psycopg.OperationalError(f"the connection failed: {moment}")

        def kill(name: str) -> None:
            nonlocal steps
            if name.startswith("fleet."):
                steps -= 1
                if steps == -1:
                    raise Killed

        faults.install(kill)
        program = None
        try:
            if not self.programs or not is_faulty or dice.random() < 0.4:
                self.programs.append(Program(self, connection_fails))
            program = dice.choice(self.programs) if is_faulty else self.programs[-1]
            clock = SimpleNamespace(time=self.clock.now)
            with mock.patch.object(orders, "time", clock), mock.patch.object(telling_orders, "time", clock):
                program.serve()
        except psycopg.Error as error:
            self.history.seen["fenced" if FENCED in str(error) else "failed"] += 1
            if not is_faulty:
                raise
        except Killed:
            self.history.seen["killed"] += 1
            if program is not None:
                self.programs.remove(program)
                program.close()
        finally:
            faults.install(faults._nothing)

    async def is_done(self) -> bool:
        assert self.daemon is not None
        rows = await self.daemon.rows(
            "select 1 from chain_runs where status = 'running' union all"
            " select 1 from invocations where status = 'running' union all"
            " select 1 from fleet_outbox where kind in ('order', 'taken')"
        )
        return not rows and self.began.keys() == self.codes.keys()


Restored: TypeAlias = Literal["nothing", "the database", "a store"]
"""What is restored in a history. Not both: what neither knows any more is known to nobody."""


class History:
    """What happens to the fleet under this seed. `seen` counts what did. `clocks` says by how much those of hosts are wrong."""

    def __init__(self, base: Path, seed: int, clocks: Mapping[str, float]) -> None:
        self.base = base
        self.clocks = clocks
        self.dice = random.Random(seed)
        self.other_dice = random.Random(f"{seed}/restores")
        self.restored: Restored = get_args(Restored)[seed % 3]
        self.clock = StillClock()
        self.database = Database(HOSTS, self.clock.now)
        self.copy: Content | None = None
        self.hosts = {name: Host(self, name) for name in HOSTS}
        self.fired = 0
        self.unwanted: set[str] = set()
        """The chain runs that somebody wanted to end."""
        self.limited: set[str] = set()
        """The chains whose step must begin in time."""
        self.seen: Counter[str] = Counter()
        self.came_to: list[tuple[object, ...]] = []
        """What became of each order, and of each step, at the end."""

    async def play(self) -> None:
        """Raises `Broken`."""
        try:
            for host in self.hosts.values():
                await host.start()
            for _ in range(ACTIONS):
                await self._act()
                await self._restore_something()
            await self._heal()
            await self._hold_laws()
            self.came_to = await self._came_to()
        finally:
            for host in self.hosts.values():
                await host.kill()

    def _move(self, seconds: float) -> None:
        for clock in (self.clock, *(host.clock for host in self.hosts.values())):
            clock.move(seconds)

    async def _restore_something(self) -> None:
        dice = self.other_dice
        if dice.random() < 0.02:
            self._give_up(dice.choice([*self.database.rows.values()] or [None]))
        if self.restored == "nothing" or dice.random() > 0.3:
            return
        host = self.hosts[dice.choice([*HOSTS])]
        if self.restored == "a store":
            if dice.random() < 0.6:
                host.back_up()
            elif await host.restore():
                self.seen["store restored"] += 1
        elif self.copy is None or dice.random() < 0.3:
            self.copy = self.database.copy()
        elif self._has_forgotten(self.copy) or dice.random() < 0.2:
            self._restore_database(self.copy)

    def _has_forgotten(self, copied: Content) -> bool:
        """Whether somebody has taken an order since that the copy has as open."""
        now = self.database.rows
        return any(
            row.state == "open" and now[key].takes > row.takes
            for key, row in copied.rows.items()
            if key in now
        )

    def _restore_database(self, copied: Content) -> None:
        """As a dump is, in another database; or in its place, once all have seen what is newer: else nobody can notice."""
        as_another = not all(host.remembers(self.database.content) for host in self.hosts.values())
        self.database.restore(copied, as_another=as_another)
        self.seen["database restored" if as_another else "database replaced"] += 1
        for each in self.hosts.values():
            each.end_programs()

    def _give_up(self, row: Row | None) -> None:
        if row is not None and row.state == "taken":
            self.database.give_up_order("admin", row.origin, row.id, "lost")
            self.seen["given up"] += 1

    async def _act(self) -> None:
        host = self.hosts[self.dice.choice([*HOSTS])]
        self._move(self.dice.choice((0.0, 0.0, 0.5, 5.0)))
        match self.dice.randrange(12):
            case 0 if self.fired < 6:
                self._fire(host)
            case 1 if self.dice.random() < 0.5:
                await host.kill()
                self.seen["daemon killed"] += 1
            case 2:
                await self._cancel(host)
            case 3:
                host.launch()
                host.end_runs(0.5)
            case 4 | 5 | 6:
                host.serve(is_faulty=True)
            case 7:
                host.launch()
            case 8:
                host.said.clear()  # a program dies before its daemon reads it
            case _:
                await host.start()
                await host.do_something()

    def _fire(self, host: Host) -> None:
        self.fired += 1
        name = f"c{self.fired}"
        where = self.dice.choice(_WHERE[: 4 if self.dice.random() < 0.3 else 3]).replace(
            "OTHER", _OTHER[host.name]
        )
        within = WITHIN if self.dice.random() < 0.2 else ""
        host.chains.add(name, where, self.dice.choice(("work", "work", "work", "absent", "refused")), within)
        if within:
            self.limited.add(name)
        host.ask(name, EventOccurred(name, host.clock.now(), name, name, {}))

    async def _cancel(self, host: Host) -> None:
        if host.daemon is None or self.dice.random() < 0.5:
            return
        rows = await host.daemon.rows("select id from chain_runs where status = 'running' order by id")
        if rows:
            run = str(self.dice.choice(rows)[0])
            self._end(host, run)
            self.seen["cancelled"] += 1

    def _end(self, host: Host, run: str) -> None:
        self.unwanted.add(run)
        host.ask(f"end-{run}", ChainRunCancelRequested(f"end-{run}", host.clock.now(), run))

    async def _heal(self) -> None:
        """Nothing fails any more. What nobody may take is cancelled by a person."""
        for turn in range(MOST_ROUNDS):
            self._move(1.0)
            for host in self.hosts.values():
                await host.start()
                assert host.daemon is not None
                host.daemon.supervisor.assembly.worker.inbox_waits = True
                await host.daemon.settle()
                host.launch()
                host.end_runs(1.0)
                await host.daemon.settle()
                host.end_programs()
                host.serve(is_faulty=False)
                await host.mark_delivered()
            if turn == UNTIL_PEOPLE_SEE_TO_IT:
                self._give_up_what_is_lost()
                await self._cancel_what_waits()
            is_settled = all(
                row.settled for row in self.database.rows.values() if not self.hosts[row.origin].was_restored
            )
            # What a restored store still had to begin, and may have begun, waits for a person.
            sound = [host for host in self.hosts.values() if not host.was_restored]
            if is_settled and all([await host.is_done() for host in sound]):
                return
        raise Broken(f"not over: {[row for row in self.database.rows.values() if not row.settled]}")

    def _give_up_what_is_lost(self) -> None:
        """What a host took before its store was restored: it may know nothing of it, and nobody else gets it."""
        for row in self.database.rows.values():
            if row.taken_by is not None and self.hosts[row.taken_by].was_restored:
                self._give_up(row)

    async def _cancel_what_waits(self) -> None:
        for host in self.hosts.values():
            assert host.daemon is not None
            if host.was_restored:
                continue
            waiting = await host.daemon.rows(
                "select run, status, reason_code from chain_steps where status in ('waiting', 'running')"
            )
            for run, status, reason in waiting:
                nobody = [
                    row
                    for row in self.database.rows.values()
                    if row.id.startswith(str(run)) and row.state == "open"
                ]
                if not nobody:
                    raise Broken(
                        f"{run!s} is {status!s} ({reason!s}) at {host.name}, and nobody is to begin it"
                    )
                self._end(host, str(run))

    async def _hold_laws(self) -> None:
        for host in self.hosts.values():
            twice = [name for name, count in host.began.items() if count > 1]
            if twice:
                raise Broken(f"{host.name} began {twice} more than once")
        began = Counter(
            name.rpartition("-")[0]
            for host in self.hosts.values()
            for name in host.began
            if name.startswith("fl_")
        )
        if any(count > 1 for count in began.values()):
            raise Broken(f"orders were begun by several takes: {began}")
        for origin, name in self.database.rows:
            await self._hold_law_of(origin, name)
        self.seen["ended"] += sum(row.state == "ended" for row in self.database.rows.values())
        self.seen["declined"] += sum(row.state == "declined" for row in self.database.rows.values())
        self.seen["withdrawn"] += sum(row.state == "withdrawn" for row in self.database.rows.values())

    async def _hold_law_of(self, origin: str, name: str) -> None:
        """The step at the origin ended as the run of its taker did, unless somebody wanted it to end before."""
        row, host = self.database.rows[origin, name], self.hosts[origin]
        assert host.daemon is not None
        run = name.rpartition("-")[0].rpartition("-")[0]
        steps = await host.daemon.rows(
            "select s.status, s.reason_code, r.chain, s.reason_summary, s.result ->> '$.began_there', s.result ->> '$.is_in_doubt'"
            f" from chain_steps s join chain_runs r on r.id = s.run where s.run = '{run}' and s.step = 0"
        )
        if host.was_restored:
            return  # it may have forgotten all of this
        ((status, reason, chain, summary, began, in_doubt),) = steps
        prefix = run_of_order(origin, name, 1).rpartition("-")[0]
        codes = [
            each.codes[begun]
            for each in self.hosts.values()
            for begun in each.began
            if begun.startswith(prefix)
        ]
        self._hold_what_is_said(
            row, str(began), str(summary), has_begun=bool(codes), is_in_doubt=bool(in_doubt)
        )
        if (status, reason) == ("timed_out", WAITED):
            await self._hold_start_within(host, row)
        if status == "completed" and codes != [0]:
            raise Broken(f"{name} is said to be completed, and its runs ended with {codes}")
        if reason == "step.failed.declined" and codes:
            raise Broken(f"nobody begins {name}, and its runs ended with {codes}")
        if row.given_up is not None:
            is_lost = (status, reason) == ("failed", "step.failed.host_lost")
            if not is_lost and run not in self.unwanted and str(chain) not in self.limited:
                raise Broken(f"{name} was given up, and its step is {status!s}, {reason!s}")
            return
        if row.state == "ended":
            code = self.hosts[row.taken_by or ""].codes.get(run_of_order(origin, name, row.takes))
            # Without a code it never began, so somebody had cancelled it.
            possible = {None: ("cancelled",), 0: ("completed", "cancelled"), 3: ("failed", "cancelled")}[code]
            if row.result["status"] not in possible[: 2 if row.cancelled else 1]:
                raise Broken(f"{name} ended with {code}, and the result says {row.result}")
        if run in self.unwanted or (reason == "step.timed_out.start_within" and str(chain) in self.limited):
            return
        if row.cancelled and row.settled and self.restored == "the database":
            return  # its origin knew how it ended, and the database has forgotten that
        expected = row.result["status"] if row.state == "ended" else "failed"
        if status != expected or row.state == "withdrawn":
            raise Broken(f"{name} is {row.state} ({row.declined}), and its step {status!s}, {reason!s}")

    def _hold_what_is_said(
        self, row: Row, began: str, summary: str, *, has_begun: bool, is_in_doubt: bool
    ) -> None:
        """What the step says of whether it began is so, and nothing is left to be said."""
        if is_in_doubt or {"yes": True, "no": False}.get(began, has_begun) is not has_begun:
            raise Broken(f"of {row} it is said that it began: {began} ({summary}), and it did: {has_begun}")
        if ("it never began" in summary) > (began == "no"):
            raise Broken(f"{row} is {began}, and it is said: {summary}")
        self.seen[f"began: {began}"] += 1

    async def _hold_start_within(self, host: Host, row: Row) -> None:
        """It ended nothing of which its origin knew that it had begun."""
        assert host.daemon is not None
        self.seen["timed out"] += 1
        of = try_of(row.id)
        assert of is not None
        events = await host.daemon.rows(
            f"select type from events where type = 'RemoteStepBegun' and payload ->> 'id' = '{row.id}' or type = 'TimerRang'"
            f" and payload ->> 'subject' = '{of.run}' and payload ->> 'what' glob 'host *' order by seq"
        )
        kinds = [str(kind) for (kind,) in events]
        if "RemoteStepBegun" in kinds and "TimerRang" in kinds[kinds.index("RemoteStepBegun") :]:
            raise Broken(f"{row} had begun, as its origin knew, and start_within ended it: {kinds}")

    async def _came_to(self) -> list[tuple[object, ...]]:
        """What became of each order, and of each step."""
        orders = [
            (
                *key,
                row.state,
                row.takes,
                row.taken_by,
                sorted(row.declined),
                row.result and row.result["status"],
            )
            for key, row in self.database.rows.items()
        ]
        steps = [
            (name, *row)
            for name, host in self.hosts.items()
            if host.daemon is not None
            for row in await host.daemon.rows(
                "select run, step, status, reason_code from chain_steps order by 1, 2"
            )
        ]
        return [*orders, *steps]


def play(
    base: Path,
    seeds: "range | list[int]",
    clocks: Mapping[str, float] = MappingProxyType({}),
    came_to: "list[list[tuple[object, ...]]] | None" = None,
) -> Mapping[str, int]:
    """Play the histories of these seeds; returns what happened in them. Raises `Broken`, which names the seed.

    What became of all is added to `came_to`.
    """
    seen: Counter[str] = Counter()
    for seed in seeds:
        directory = base / str(seed)
        directory.mkdir()
        history = History(directory, seed, clocks)
        try:
            asyncio.run(history.play())
        except Exception as error:
            error.add_note(f"in the history of seed {seed}")
            raise
        seen += history.seen
        if came_to is not None:
            came_to.append(history.came_to)
        shutil.rmtree(directory)
    return seen
