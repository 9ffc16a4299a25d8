"""Plays a history through a whole daemon over a real store, and holds it against the plain rules after each round.

Time is virtual, and so is code: a stand-in says what becomes of it. All else is what a daemon does.
"""

import json
import os
from collections import Counter
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from tests.code_in_process import AtOnce
from tests.daemon.exchange.histories import FROM_THE_BEGINNING, IN_RUNS, Act, Mint, Round
from tests.daemon.exchange.plain_rules import CPU, DEPTH, QUOTA, WINDOW, Due, Ran, Rules
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.without_threads import without_threads

from runward.config.exchange import ExchangeRules, Executor
from runward.config.intent import CODES
from runward.daemon.host.acting_with_code import acting_with_code
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.sandbox.execution import CpuTime, Execution
from runward.daemon.sandbox.workers import Job
from runward.daemon.store.tables.prunings import PROGRESS
from runward.daemon.store.transaction import as_float, as_int
from runward.handlers.exchange.reading import ActedWithCode, Worked
from runward.handlers.model.exchange import ActionRequested, MintRequested, PrincipalCreateRequested

IN_MEMORY: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
PATIENCE: Final = 200
RULES: Final = ExchangeRules(
    dependency_depth=DEPTH, disk_quota=QUOTA, cpu_seconds=CPU, cpu_window=WINDOW, waiting_intents=4
)


COPYING: Final = 1.0
"""After rounds of so many seconds, the directory of a run is copied."""


class Player:
    """One history as it is played."""

    def __init__(self, base: Path, running: Daemon, ran: dict[str, Ran]) -> None:
        self._base = base
        self._running = running
        self._ran = ran
        self.rules = Rules()
        self._asked: dict[str, Act] = {}
        """The acts that were asked for, by their keys."""
        self._lines: Counter[str] = Counter()
        self._done: list[str] = []
        """The keys of the actions that were compared."""
        self._requests = 0
        self._copies = 0
        self.codes: Counter[str | None] = Counter()

    async def begin(self) -> None:
        """The first principals, and the runs."""
        for name in FROM_THE_BEGINNING:
            self._put(PrincipalCreateRequested(self._name(), 1.0, name, scrip=10))
            self.rules.create(name, scrip=10, by_person=True)
        for name in IN_RUNS:
            directory = self._base / "runs" / name
            directory.mkdir()
            run = {
                "schema": "runward-run-v1",
                "session_id": name,
                "started_at": "2026-02-03T04:05:06Z",
                "agent": name,
            }
            (directory / "run.json").write_text(json.dumps(run))
        await self._settle()

    async def play(self, one: Round) -> None:
        """Play a round and hold it against the rules."""
        mints, acts, seconds = one
        for mint in mints:
            await self._mint(mint)
        for act in acts:
            self._ask(act)
        for _ in range(PATIENCE):
            await self._settle()
            if await self._compare_actions() == len(self._asked):
                break
            self._wait(0.25)
        left = await self._running.rows("select lane, state, error from jobs where state <> 'done'")
        assert len(self._done) == len(self._asked), f"each intent has exactly one result: {left}"
        await self._compare_exchange()
        self._compare_results()
        if seconds == COPYING:
            await self._copy()
        self._wait(seconds)

    async def _copy(self) -> None:
        """Copy a run's directory with all that it asked for: nothing is carried out again."""
        self._copies += 1
        name = IN_RUNS[self._copies % len(IN_RUNS)]
        copytree(self._base / "runs" / name, self._base / "runs" / f"copy-{self._copies}")
        for _ in range(2):
            await self._settle()
        assert await self._running.rows("select count(*) from actions") == [(len(self._done),)], (
            "a copy acted"
        )
        undone = f"select session_key from {PROGRESS} where done <> line"
        assert await self._running.rows(undone) == [], (
            "each line of a copy has its result, where it was carried out"
        )
        await self._compare_exchange()

    def _wait(self, seconds: float) -> None:
        self._running.clock.move(seconds)
        self._running.supervisor.assembly.queue.may_be_due = True  # as when a wait for it ends

    async def _mint(self, mint: Mint) -> None:
        self._put(MintRequested(self._name(), 1.0, mint.who, mint.amount))
        await self._settle()
        self.rules.mint(mint.who, mint.amount)

    def _ask(self, act: Act) -> None:
        if act.in_run:
            self._lines[act.who] += 1
            key = f"native:runs/{act.who}#intent/{self._lines[act.who]}"
            with (self._base / "runs" / act.who / "intents.jsonl").open("a") as file:
                file.write(act.text + "\n")
        else:
            name = self._name()
            request = ActionRequested(name, 1.0, act.who, act.text)
            key = request.key
            self._put(request)
        self._asked[key] = act

    def _name(self) -> str:
        self._requests += 1
        return f"r{self._requests:04}"

    def _put(self, request: PrincipalCreateRequested | MintRequested | ActionRequested) -> None:
        put(self._running.state, request.request, dump_request(request))
        self._running.supervisor.assembly.worker.inbox_waits = True

    async def _settle(self) -> None:
        while True:
            await self._running.settle()
            if not await self._running.supervisor.assembly.intents.drain():
                break
        await self._running.supervisor.assembly.outbox.sweep()

    async def _compare_actions(self) -> int:
        """Hold what was done since against the rules, in the order in which it was done."""
        rows = await self._running.rows(
            "select key, at, principal, result, is_success, error_code, scrip_after from actions"
            f" order by rowid limit -1 offset {len(self._done)}"
        )
        for key, at, principal, result, is_success, error_code, scrip_after in rows:
            act = self._asked[str(key)]
            due = self.rules.act(act.who, act.in_run, act.intent, as_float(at), self._ran.get(str(key)))
            told = json.loads(str(result))
            said = f"{act}\nbecame {told}\nthe rules say {due}"
            assert principal == act.who, said
            assert (told["success"], told.get("error_code")) == (bool(is_success), error_code), said
            check(due, told, said)
            has = self.rules.scrip[act.who] if act.who in self.rules.allocations else None
            assert scrip_after == has, said
            self._done.append(str(key))
            self.codes[None if error_code is None else str(error_code)] += 1
        return len(self._done)

    async def _compare_exchange(self) -> None:
        """The store holds what the rules say, and its sums are right."""
        rules, rows = self.rules, self._running.rows
        held = await rows("select account, amount from balances")
        balances = {str(name): as_int(amount) for name, amount in held}
        assert balances.pop("mint") == -rules.minted, "scrip changes only by minting"
        assert balances == {name: amount for name, amount in rules.scrip.items() if name in balances}
        assert sum(rules.scrip.values()) == rules.minted
        assert all(amount >= 0 for amount in balances.values())
        moved: Counter[str] = Counter()
        for giver, taker, amount in await rows("select giver, taker, amount from ledger_entries"):
            moved[str(giver)] -= as_int(amount)
            moved[str(taker)] += as_int(amount)
        assert {name: amount for name, amount in moved.items() if name != "mint"} == balances
        found = await rows(
            "select a.id, owner_id, deleted_at is not null, version, c.content, k.content from shared_artifacts a"
            " join contents c on c.hash = a.content join contents k on k.hash = a.code order by a.id"
        )
        assert found == [
            (name, each.owner, each.deleted, each.version, each.content, each.code)
            for name, each in sorted(rules.things.items())
        ]
        used = await rows("select id, disk_used from principals order by id")
        assert used == [(name, rules.disk(name)) for name in sorted(rules.allocations)]
        assert all(rules.disk(name) <= rules.quotas[name] for name in rules.allocations)
        assert len({name.lower() for name in rules.things}) == len(rules.things), "a name is taken once"
        (given,) = await rows("select sum(disk_quota), sum(cpu_seconds) from principals")
        assert given == (3 * QUOTA, 3 * CPU), "quotas come only from people and from what a launcher starts"
        now = self._running.clock.now()
        for name in rules.allocations:
            assert rules.cpu_used(name, now) <= CPU, "nobody uses more than its allocation in a window"
        assert await rows("select id, state, error from jobs where state <> 'done'") == []

    def _compare_results(self) -> None:
        """Each line of each run has its one result, in order, and it is the one that was recorded."""
        for name in IN_RUNS:
            path = self._base / "runs" / name / "results.jsonl"
            results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
            assert [each["line"] for each in results] == list(range(1, self._lines[name] + 1))
            done = [key for key in self._done if key.startswith(f"native:runs/{name}#")]
            assert done == [f"native:runs/{name}#intent/{each['line']}" for each in results]


def check(due: Due, told: dict[str, Any], said: str) -> None:
    """Whether a result is what the rules say."""
    assert told["success"] == (not due.codes), said
    if due.codes:
        assert told["error_code"] in due.codes, said
        kind = CODES[told["error_code"]]
        assert (told["error_category"], told["retriable"], told["data"]) == (*kind, None), said
        if due.reason is not None:
            assert told["error_details"]["reason"] == due.reason, said
    else:
        assert "error_code" not in told, said
        assert simplified(told["data"], due.data) == due.data, said
    if due.cpu is not None:
        assert told["resources_consumed"]["cpu_seconds"] == due.cpu, said


def simplified(data: Any, due: Any) -> Any:
    """What the rules speak of, of what a result says."""
    if not isinstance(data, dict) or due is None:
        return due if due is None else data
    if "artifact" in data:
        artifact = data["artifact"]
        keys = {"owner": "owner_id", **{name: name for name in ("content", "version", "deleted")}}
        return {
            "price": data["read_price_paid"],
            **{each: artifact[keys[each]] for each in due if each != "price"},
        }
    if "price_paid" in data:
        return {"price": data["price_paid"], "result": _only(data["result"], due["result"])}
    return data


def _only(value: Any, due: Any) -> Any:
    """The keys of objects that the rules name."""
    if isinstance(value, list) and isinstance(due, list) and len(value) == len(due):
        return [_only(each, other) for each, other in zip(value, due, strict=True)]
    if isinstance(value, dict) and isinstance(due, dict):
        return {key: each for key, each in value.items() if key in due or not due}
    return value


class StandIn:
    """Works actions out as the daemon does, but that code comes to what its text says, in virtual time."""

    def __init__(self, state: Path) -> None:
        self._work = acting_with_code(lambda: RULES, Executor, state)
        self._action = ""
        self.ran: dict[str, Ran] = {}
        """What became of the code of each action the last time that it ran, with its CPU time of all times."""

    def act(self, asked: ActedWithCode) -> Worked:
        """Work an action out."""
        self._action = asked.event.key
        with patch("runward.daemon.sandbox.workers.execute", self._execute):
            worked = self._work(asked)
        before = self.ran.get(self._action)
        if worked.sandbox is None and before is not None:  # nothing was left for another time
            self.ran[self._action] = before._replace(code=worked.decided.result.error_code)
        return worked

    def _execute(
        self, job: Job, executor: Executor, cpu: CpuTime, deadline: float, take: object
    ) -> Execution:
        if job.defines is not None:
            return Execution(None, sandbox="a stand-in")
        what, seconds = job.code.split()
        assert cpu.most is not None
        used = min(float(seconds), cpu.most)
        cpu.ended += used
        code = "rate_limited" if used < float(seconds) else {"fail": "runtime_error"}.get(what)
        before = self.ran.get(self._action, Ran(None, 0.0))
        self.ran[self._action] = Ran(code, before.cpu + used)
        result = "done" if code is None else None
        return Execution(code, result, code, began=True, cpu_s=used, sandbox="a stand-in")


async def play(rounds: list[Round]) -> Counter[str | None]:
    """Play a history against the rules; what became of its actions: error codes, and None for success."""
    with (
        TemporaryDirectory(dir=IN_MEMORY) as directory,
        without_threads(),
        patch("runward.daemon.parts.actions_with_code.threading", SimpleNamespace(Thread=AtOnce)),
    ):
        base = Path(directory)
        code = StandIn(base / "state")
        async with daemon(
            base, StillClock(), ToldProcesses(), exchange=RULES, act_with_code=code.act
        ) as running:
            player = Player(base, running, code.ran)
            await player.begin()
            for one in rounds:
                await player.play(one)
            return player.codes
