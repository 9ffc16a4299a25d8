"""Agents and people of an exchange, in histories that have one, and what must hold of it once all is quiet.

Runs append intents, whole lines and halves of lines, and people submit actions. Whatever befell the daemon, what came of
it is what the plain rules make of the same actions in the order in which they were carried out.
"""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.daemon.exchange.plain_rules import Rules
from tests.simulation import trees
from tests.simulation.broken import Broken
from tests.simulation.people import People
from tests.simulation.places import Place, Places
from tests.simulation.ports import TRADERS
from tests.simulation.runs import Run, Scene
from tests.simulation.universe import ROOTS, Universe

from runward.handlers.model.exchange import ActionRequested, PrincipalCreateRequested

SCRIP: Final = 10
"""What each principal begins with; nobody mints more."""

RUNS: Final = 8
SUBMITTED: Final = 12
"""How often people submit, several actions at once."""

NO_INTENTS: Final = (
    "nonsense",
    "[]",
    '{"action_type": "fly"}',
    "",
    '{"action_type": "noop", "id": "\\ud800"}',
)
SERIAL: Final = 1_000_000
"""Where the numbers of these agents' documents begin."""

Intent = Mapping[str, Any] | None


class Economy:
    """The deeds of those who trade, by dice of their own."""

    def __init__(
        self, universe: Universe, places: Places, people: People, do: Callable[[Callable[[], None]], None]
    ) -> None:
        self._universe = universe
        self._people = people
        self._do = do
        self._dice = random.Random(f"{universe.seed}/economy")
        self._scene = Scene(universe, places, self._dice, SERIAL)
        self._has_trees = universe.has_trees = int(universe.seed) % 2 == 1
        if self._has_trees:
            universe.exchange = trees.RULES
        self._travel = random.Random(f"{universe.seed}/travel")
        """The dice of who copies and moves the directories of runs."""
        self._identity = random.Random(f"{universe.seed}/identity")
        """The dice of which runs say who they are, and which change it."""
        self._renamed: dict[str, int] = {}
        """How many whole lines runs had written when they changed who they are, by the run's path."""
        self._halves: dict[str, str] = {}
        """What is left to append of lines, by the run's path."""

    def plan(self) -> None:
        """Order the deeds: principals first, then runs and people."""
        for name in TRADERS:
            self._after(self._dice.uniform(0.1, 3.0), lambda name=name: self._create(name))  # type: ignore[misc] # a default binds it
        if self._has_trees:
            self._after(12.0, self._offer)
        for number in range(RUNS):
            self._plan_run(Run(self._scene, ROOTS[0], f"trade-{number}"))
        for _ in range(SUBMITTED):
            self._after(self._dice.uniform(15.0, 150.0), self._submit)

    def _plan_run(self, run: Run) -> None:
        run.playbook, run.snapshot, run.launched, run.host = None, False, False, None
        run.agent, run.says_when = self._dice.choice(TRADERS), True
        at = self._dice.uniform(10.0, 80.0)
        self._after(at, run.make)
        self._after(at + 0.1, run.begin)
        began = at + 0.1
        for _ in range(self._dice.randint(3, 8)):
            at += self._dice.choice((0.2, 1.0, 5.0, 20.0))
            self._after(at, lambda: self._append(run))
        over = at + self._dice.choice((0.0, 0.01, 3.0))
        self._after(over, run.end)
        self._plan_journey(run, over)
        self._plan_identity(run, began, over)

    def _plan_identity(self, run: Run, began: float, over: float) -> None:
        """The run says who it is at once, later or never, or it changes that while it works."""
        says = self._identity.choice(("at once", "at once", "at once", "later", "never", "changes"))
        if says in ("later", "never"):
            run.says_when = False
            places = (run.place.key, f"{run.place.key}-copy", f"{run.place.key}-moved")
            self._universe.unnamed |= dict.fromkeys(places, says)
        for _ in range({"later": 1, "changes": 2}.get(says, 0)):
            self._after(self._identity.uniform(began, over), lambda: self._rename(run))

    def _rename(self, run: Run) -> None:
        """Another `run.json`, in which the run has another name."""
        kernel = self._universe.kernel
        if kernel.exists(f"{run.path}/run.json") and not kernel.exists(f"{run.path}/exit.json"):
            self._universe.tally.reached["a run of a trader that says anew who it is"] += 1
            run.says_when, run.says_id = True, f"{run.says_id}-again"
            run.begin()
            intents = f"{run.path}/intents.jsonl"
            self._renamed[run.path] = kernel.content(intents).count(b"\n") if kernel.exists(intents) else 0

    def _is_known(self, run: Run) -> bool:
        """Whether lines of it were read since it changed what it is called. Before that, a copy is another run.

        A file that was cut off is not read any further, so what its run is called from then on stays unknown.
        """
        at = self._renamed.get(run.path)
        if at is None:
            return True
        read = "select 1 from intent_files where session_key = ? and line > ? and problem is null"
        is_known = bool(self._universe.peek(read, (run.place.key, at)))
        self._universe.tally.reached["a run of a trader that was copied or moved under its later name"] += (
            is_known
        )
        return is_known

    def _plan_journey(self, run: Run, over: float) -> None:
        """Somebody copies the run's directory, while it works or afterwards, or moves it: that repeats nothing."""
        dice = self._travel
        at = over + dice.choice((-8.0, -1.0, 0.005, 0.5, 5.0, 30.0))
        match dice.choice(("nothing", "nothing", "copy", "copy and go on", "move", "copy and move")):
            case "copy":
                self._after(at, lambda: self._copy(run))
            case "copy and go on":
                self._after(at, lambda: self._copy(run, goes_on=True))
            case "move":
                self._after(max(at, over + 0.005), lambda: self._move(run))
            case "copy and move":
                self._after(at, lambda: self._copy(run))
                self._after(max(at, over) + 2.0, lambda: self._move(run))
            case _:
                pass

    def _copy(self, run: Run, *, goes_on: bool = False) -> None:
        if not self._universe.kernel.exists(f"{run.path}/run.json") or not self._is_known(run):
            return
        self._universe.tally.reached["a run of a trader that was copied"] += 1
        copy = run.copy(f"{run.place.name}-copy")
        self._halves[copy.path] = self._halves.get(run.path, "")
        if goes_on:
            self._after(self._travel.choice((0.2, 3.0)), lambda: self._append(copy))

    def _move(self, run: Run) -> None:
        if self._universe.kernel.exists(f"{run.path}/run.json") and self._is_known(run):
            self._universe.tally.reached["a run of a trader that was moved"] += 1
            run.move()

    def _after(self, seconds: float, deed: Callable[[], None]) -> None:
        self._universe.timeline.after(seconds, lambda: self._do(deed))

    def _create(self, name: str) -> None:
        now, scrip = self._universe.clock.now(), trees.SCRIP if self._has_trees else SCRIP
        self._people.request(PrincipalCreateRequested(self._people.uuid(), now, name, scrip=scrip))

    @property
    def _is_ready(self) -> bool:
        """Whether all principals are there: nobody acts before."""
        rows = self._universe.peek("select count(*) from ledger_entries where giver = 'mint'")
        return rows == [(len(TRADERS),)]

    def _append(self, run: Run) -> None:
        if not self._is_ready or not self._universe.kernel.exists(f"{run.path}/run.json"):
            return
        text = self._halves.pop(run.path, "")
        text += "".join(f"{self._text()}\n" for _ in range(self._dice.randint(1, 6)))
        if len(text) > 1 and self._dice.random() < 0.3:
            cut = self._dice.randrange(1, len(text))
            text, self._halves[run.path] = text[:cut], text[cut:]
        path = f"{run.path}/intents.jsonl"
        self._universe.kernel.append(path, text.encode())
        if run.good:  # it syncs what it writes, so that no power cut takes it
            node = self._universe.kernel.node(path)
            node.synced = len(node.data)

    def _submit(self) -> None:
        now, ready = self._universe.clock.now(), self._is_ready
        for who in self._dice.choices(TRADERS, k=4) if ready else ():
            self._people.request(ActionRequested(self._people.uuid(), now, who, self._text()))

    def _offer(self) -> None:
        if not self._is_ready:
            self._after(3.0, self._offer)
            return
        now = self._universe.clock.now()
        for who, act in trees.offers(TRADERS, self._dice):
            text = trees.said_by(act)
            self._universe.acts[text] = act
            self._people.request(ActionRequested(self._people.uuid(), now, who, text))

    def _text(self) -> str:
        if self._has_trees and self._dice.random() < 0.9:
            act = trees.some_act(TRADERS, self._dice)
            text = trees.said_by(act)
            self._universe.acts[text] = act
            return text
        if self._has_trees:
            text = self._dice.choice(NO_INTENTS)
            self._universe.intents[text] = None
            return text
        intent = self._intent()
        text = self._dice.choice(NO_INTENTS) if intent is None else json.dumps(intent)
        self._universe.intents[text] = intent
        return text

    def _intent(self) -> Intent:
        dice = self._dice
        name = dice.choice(("x", "x", "y", "y", "z", "genesis_store"))
        one, other = dice.choice(TRADERS), dice.choice((*TRADERS, "nobody", "mint"))
        calls = {"action_type": "invoke_artifact", "artifact_id": "genesis_ledger"}
        policy = {"read_price": dice.randint(0, 4), "allow_write": dice.choice(([], list(TRADERS)))}
        write = {"action_type": "write_artifact", "artifact_id": name, "content": "c" * dice.randint(0, 25)}
        return dice.choice(
            (
                None,
                {"action_type": "noop", "principal_id": one},
                write,
                {**write, "policy": policy},
                {**write, "policy": policy},
                {**write, "depends_on": [dice.choice(("x", "y", "z"))]},
                *[{"action_type": "read_artifact", "artifact_id": name}] * 4,
                {"action_type": "delete_artifact", "artifact_id": dice.choice((name, "z"))},
                {"action_type": "transfer_artifact", "artifact_id": name, "to": other},
                *[{**calls, "method": "transfer", "args": [one, other, dice.randint(0, 7)]}] * 3,
                {**calls, "method": "balance", "args": [other]},
                {**calls, "method": "all_balances"},
            )
        )


def check_exchange(universe: Universe, places: Places) -> None:
    """What must hold of the exchange once all is quiet. Raises `Broken`. Counts what was reached."""
    _check_ledger(universe)
    if not universe.has_trees:
        _check_single_payments(universe)
    _check_lines(universe, places)
    _check_names(universe)
    if (
        not universe.lives.over
    ):  # a store that was restored may lack what was minted, and people don't mint again
        (trees.check_trees if universe.has_trees else _check_rules)(universe)


_MINTED_BY_NOBODY: Final = (
    "select l.action, l.giver, l.taker, l.amount from ledger_entries l left join events e on e.key = l.action"
    " and e.type = 'PrincipalCreateRequested' and e.payload ->> 'scrip' = l.amount"
    " where (l.giver = 'mint' or l.taker = 'mint') and e.key is null"
)
_SUMS: Final = (
    "select account, amount, (select coalesce(sum(amount), 0) from ledger_entries where taker = account)"
    " - (select coalesce(sum(amount), 0) from ledger_entries where giver = account) as due from balances"
    " where amount <> due or (amount < 0 and account <> 'mint')"
)
_TWICE: Final = "select action, count(*) from ledger_entries group by action having count(*) > 1"
_NO_RESULT: Final = (
    "select e.key from events e join jobs j on j.event = e.seq and j.state <> 'discarded'"
    " where e.type in ('IntentMade', 'ActionRequested') and e.key not in (select key from actions)"
)
_SAME_NAMES: Final = (
    "select a.id, b.id from shared_artifacts a join shared_artifacts b on a.id < b.id and a.id = b.id collate nocase"
    " union all select id, null from principals where id not in (select id from shared_artifacts)"
)
_MADE_QUOTAS: Final = (
    "select total(disk_quota - disk_default) as disk, total(cpu_seconds - cpu_default) as cpu from principals"
    " having abs(disk) > 0 or abs(cpu) > 1e-6"
)
"""Everybody begins with the defaults here, so what some have in addition to them, others must lack."""
_WRONG_DISK: Final = (
    "select p.id, p.disk_used, (select coalesce(sum(length(cast(x.content as blob)) + length(cast(c.content as blob))), 0)"
    " from shared_artifacts a join contents x on x.hash = a.content join contents c on c.hash = a.code"
    " where coalesce(a.disk_of, a.owner_id) = p.id) as due from principals p where disk_used <> due"
)
_FOR_NOBODY: Final = (
    "select a.key, a.error_code from actions a join events e on e.key = a.key where e.payload ->> 'nameless'"
    " and (a.is_success or a.error_code not in ('not_authorized', 'invalid_argument'))"
)
_LAWS: Final = {
    "a name is taken once, and each principal is an artifact": _SAME_NAMES,
    "quotas move, and come only from people and launched runs": _MADE_QUOTAS,
    "what somebody has used of the disk is what it wrote, took and gave away": _WRONG_DISK,
    "scrip comes only from minting": _MINTED_BY_NOBODY,
    "each balance is the sum of its entries, and not below zero": _SUMS,
    "each intent has its result": _NO_RESULT,
    "nothing is carried out for a run that has not said who it is": _FOR_NOBODY,
}


def _check_ledger(universe: Universe) -> None:
    for law, question in _LAWS.items():
        found = universe.peek(question)
        if found:
            raise Broken(f"{law}, but: {found[:5]}")


def _check_single_payments(universe: Universe) -> None:
    found = universe.peek(_TWICE)
    if found:
        raise Broken(f"nothing is paid twice, but: {found[:5]}")


def _check_lines(universe: Universe, places: Places) -> None:
    """Each line that a run wrote has one action, in order, wherever its directory was copied or moved, and one result."""
    actions: dict[str, list[int]] = {}
    for key, line in universe.peek(
        "select key, line from actions where session_key is not null order by rowid"
    ):
        actions.setdefault(key.rpartition("#intent/")[0], []).append(line)
    files = universe.peek("select session_key, problem, line, told, run from intent_files")
    of_runs: dict[str, list[tuple[int, int]]] = {}
    taken_for: dict[str, set[str]] = {}
    for key, _, read, told, run in files:
        of_runs.setdefault(run or key, []).append((read, told))
        if read and key not in universe.unnamed:
            original = key.removesuffix("-copy").removesuffix("-moved")
            taken_for.setdefault(original, set()).add(run or key)
    for key, runs in taken_for.items():
        if len(runs) > 1:
            raise Broken(f"the directories of {key} are taken for different runs: {sorted(runs)}")
    for key, counts in of_runs.items():
        done, read, told = (
            actions.get(key, []),
            max(read for read, _ in counts),
            sum(told for _, told in counts),
        )
        if done != list(range(1, read + 1)) or told != read:
            raise Broken(f"of {key} {read} lines were read, {told} are told, and these have results: {done}")
        universe.tally.reached["a run whose copies were read, too"] += len(counts) > 1
    for key, problem, read, _, run in files:
        place, is_alone = places.by_key[key], len(of_runs[run or key]) == 1
        if problem is None and not place.shaken and is_alone:
            _check_file(universe, place, key)
        _check_results(universe, place, read, is_alone=is_alone)


def _check_names(universe: Universe) -> None:
    """Only the intents of runs that don't say who they are, and never did, are refused for that, and all of them."""
    nameless = (
        "select payload ->> 'session_key', count(*) from events where payload ->> 'nameless' group by 1"
    )
    for key, count in universe.peek(nameless):
        if key not in universe.unnamed:
            raise Broken(f"{count} intents of {key} are refused, though its run.json always said who it is")
        universe.tally.reached["an intent of a run that does not say who it is"] += 1
    carried_out = "select distinct session_key from actions where session_key is not null and is_success"
    for (key,) in universe.peek(carried_out):
        if universe.unnamed.get(key) == "never":
            raise Broken(f"intents of {key} were carried out, which never said who it is")


def _check_file(universe: Universe, place: Place, key: str) -> None:
    """What was read is what the run wrote."""
    path = f"{place.path}/intents.jsonl"
    if not universe.kernel.exists(path) or universe.kernel.node(path).torn:
        return
    discarded = "select 1 from jobs where lane = ? and handler = 'sessions/opened' and state = 'discarded'"
    if not universe.peek("select 1 from sessions where key = ?", (key,)) and universe.peek(discarded, (key,)):
        return  # a person decided that there is no such session
    *whole, rest = universe.kernel.content(path).decode().split("\n")
    is_over = universe.peek("select 1 from sessions where key = ? and status <> 'running'", (key,))
    wrote = [*whole, rest] if is_over and rest else whole
    read = "select payload ->> 'text' from events where type = 'IntentMade' and payload ->> 'session_key' = ?"
    texts = [text for (text,) in universe.peek(f"{read} order by payload ->> 'line'", (key,))]
    if texts != wrote:
        raise Broken(f"{key} wrote {wrote}, and this was read: {texts}")
    universe.tally.reached["a run whose intents were all carried out"] += 1


def _check_results(universe: Universe, place: Place, count: int, *, is_alone: bool) -> None:
    """`results.jsonl` has one line for each intent, in order, where nobody took anything from it.

    If a run is in several places, not `is_alone`, the result of a line is where the line was read first.
    """
    path = f"{place.path}/results.jsonl"
    if place.shaken or place.hidden or place.free or path in universe.harmed or universe.lives.over:
        return
    if not universe.kernel.exists(path):
        return
    lines = [number for line in universe.kernel.content(path).splitlines() if (number := _line_of(line))]
    universe.tally.reached["a run whose results stand in order"] += 1
    if lines != (list(range(1, count + 1)) if is_alone else sorted(set(lines))):
        raise Broken(f"{path} tells of the lines {lines}, and {count} have a result")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _line_of(line: bytes) -> int | None:
    """Which line a result is for; None for what a power cut left of one."""
    try:
        return int(json.loads(line)["line"])
    except ValueError:
        return None


def _check_rules(universe: Universe) -> None:
    """The same ledger, artifacts and results as of an exchange that nothing befell."""
    rules = Rules()
    for (name,) in universe.peek("select taker from ledger_entries where giver = 'mint' order by seq"):
        rules.create(name, scrip=SCRIP, by_person=True)
    rows = universe.peek(
        "select a.key, a.principal, a.session_key, a.at, a.is_success, a.error_code, a.scrip_after,"
        " e.payload ->> 'text' from actions a join events e on e.key = a.key"
        " where not coalesce(e.payload ->> 'nameless', 0) order by a.rowid"
    )
    for key, who, session, at, is_success, code, scrip, text in rows:
        if text not in universe.intents and _is_json(text):
            return  # a power cut took the middle of a line, and what is left is another intent
        due = rules.act(who, session is not None, universe.intents.get(text), at, None)
        if bool(is_success) == bool(due.codes) or (due.codes and code not in due.codes):
            raise Broken(f"{key} ({who}: {text}) became {code}; the rules say {due}")
        if scrip != rules.scrip[who]:
            raise Broken(f"{who} has {scrip} after {key}; the rules say {rules.scrip[who]}")
        universe.tally.reached[f"an action that became {code}"] += 1
    balances = dict(universe.peek("select account, amount from balances where account <> 'mint'"))
    if balances != {name: rules.scrip[name] for name in balances}:
        raise Broken(f"the balances are {balances}; the rules say {rules.scrip}")
    found = universe.peek(
        "select id, owner_id, version, deleted_at is not null from shared_artifacts order by id"
    )
    things = [(name, each.owner, each.version, each.deleted) for name, each in sorted(rules.things.items())]
    if found != things:
        raise Broken(f"the artifacts are {found}; the rules say {things}")
