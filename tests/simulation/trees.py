"""Call trees and contracts in the histories that have an exchange: what is said, and what must have come of it.

Every other history is of this kind. Code runs in a thread of virtual time, so other principals act meanwhile, and the daemon
may die.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from tests import code_in_process
from tests.handlers.exchange.plain_trees import DEPTH, QUOTA, SCRIP, Contract, Rules, Step, text_of
from tests.handlers.exchange.test_model import Act, due, intended
from tests.simulation.broken import Broken

from runward.config.exchange import ExchangeRules

if TYPE_CHECKING:
    import sqlite3

    from tests.simulation.universe import Universe

RULES: Final = ExchangeRules(
    use_contracts=True,
    invoke_depth=DEPTH,
    disk_quota=QUOTA,
    cpu_seconds=1e6,
    cpu_window=1e9,
    waiting_intents=4,
)
IDS: Final = ("p", "q", "r", "x")
CONTRACT: Final = "k"
_USES: Final = (("read", "write", "invoke", "delete", "transfer"), ("read", "invoke"), ("invoke",))


def offers(traders: tuple[str, ...], dice: random.Random) -> Iterator[tuple[str, Act]]:
    """What everybody writes first, so that there is something to use."""
    names = ("p", "q", "r")
    for who, name in zip(traders, names, strict=True):
        yield who, Act(who, "write", name, _code(dice, traders))
    yield traders[-1], Act(traders[-1], "write", CONTRACT, {"code": _contract(dice), "price": 0})
    yield traders[0], Act(traders[0], "write", "x", {"content": "c", "policy": _policy(dice, traders)})


def some_act(traders: tuple[str, ...], dice: random.Random) -> Act:
    """What somebody wants done. Who it is, is known when it is done."""
    name = dice.choice(IDS)
    kind = dice.choice(
        ("invoke",) * 7 + ("code",) * 2 + ("text", "contract", "read", "read", "transfer", "delete")
    )
    match kind:
        case "invoke":
            budget = dice.choice((None, None, None, 0, 5, 30))
            return Act("", kind, name, {"delegates": dice.random() < 0.5, "budget": budget})
        case "code":
            return Act("", "write", name, _code(dice, traders))
        case "contract":
            return Act("", "write", CONTRACT, {"code": _contract(dice), "price": 0})
        case "text":
            content = dice.choice(("c", "c" * 1500))
            return Act("", "write", name, {"content": content, "policy": _policy(dice, traders)})
        case "transfer":
            return Act("", kind, name, {"to": dice.choice((*traders, "nobody"))})
        case _:
            return Act("", kind, dice.choice((name, "x")), {})


def _code(dice: random.Random, traders: tuple[str, ...]) -> dict[str, Any]:
    to = (*traders, *IDS, "nobody")

    def step() -> Step:
        match dice.choice(
            ("invoke",) * 5 + ("pay", "ledger", "take", "move", "write", "read", "balance", "fail")
        ):
            case "pay" | "ledger" | "take" as kind:
                return kind, dice.choice(to), dice.randint(1, 9)
            case "move":
                return "move", dice.choice(to), dice.choice((100, 2000))
            case "write":
                return "write", dice.choice(IDS), dice.choice(("new", "n" * 400))
            case "invoke" | "read" as kind:
                return kind, dice.choice(IDS)
            case kind:
                return (kind,)

    said: dict[str, Any] = {
        "code": tuple(step() for _ in range(dice.randint(1, 3))),
        "price": dice.randint(0, 4),
    }
    if dice.random() < 0.5:
        said["policy"] = _policy(dice, traders)
    if dice.random() < 0.3:
        said["contract"] = dice.choice((CONTRACT, CONTRACT, "genesis_contract_private"))
    return said


def _contract(dice: random.Random) -> Contract:
    return Contract(dice.choice(_USES), dice.choice((0, 15)), dice.randint(0, 3), dice.random() < 0.8)


def _policy(dice: random.Random, traders: tuple[str, ...]) -> dict[str, Any]:
    allowed: tuple[Any, ...] = (["*"], ["*"], [traders[1]], [], f"@{CONTRACT}", "@genesis_contract_public")
    policy = {
        "read_price": dice.randint(0, 4),
        "allow_read": dice.choice(allowed),
        "allow_write": dice.choice(([], list(traders), f"@{CONTRACT}")),
        "allow_invoke": dice.choice(allowed),
    }
    return {key: value for key, value in policy.items() if dice.random() < 0.5}


def said_by(act: Act) -> str:
    """The line of an intent."""
    return json.dumps(intended(act))


def standing_in(universe: "Universe") -> Mapping[str, object]:
    """What runs code, instead of threads and a sandbox."""
    dice = random.Random(f"{universe.seed}/code")

    class Later:
        """A thread in virtual time."""

        def __init__(self, target: Callable[..., None], args: tuple[Any, ...], daemon: bool) -> None:
            self._target, self._args = target, args

        def start(self) -> None:
            """Begin: the code runs at once, or in a while."""
            _, action = self._args
            if action.number > 1:
                universe.tally.reached["code that ran again"] += 1
            delay = dice.choice((0.0, 0.02, 0.5, 2.0))
            universe.timeline.after(delay, lambda: self._target(*self._args))

    @contextmanager
    def snapshot(state: Path) -> "Iterator[sqlite3.Connection]":
        with closing(universe.disk.open()) as connection:
            connection.execute("begin")
            yield connection

    return {
        "runward.daemon.host.acting_with_code._ready_workers": lambda died: SimpleNamespace(take=None),
        "runward.daemon.host.acting_with_code.snapshot": snapshot,
        "runward.daemon.sandbox.workers.execute": code_in_process.execute,
        "runward.daemon.parts.actions_with_code.threading": SimpleNamespace(Thread=Later),
        "runward.daemon.parts.actions_with_code.time": SimpleNamespace(monotonic=universe.clock.monotonic),
    }


def check_trees(universe: "Universe") -> None:
    """The same ledger, artifacts and results as of an exchange that nothing befell. Raises `Broken`."""
    rules = Rules()
    for (name,) in universe.peek("select taker from ledger_entries where giver = 'mint' order by seq"):
        rules.create(name, is_default=True)
    rows = universe.peek(
        "select a.key, a.principal, a.error_code, a.scrip_after, a.result, a.sandbox, e.payload ->> 'text'"
        " from actions a join events e on e.key = a.key where not coalesce(e.payload ->> 'nameless', 0) order by a.rowid"
    )
    charged = 0.0
    for key, who, code, scrip, result, sandbox, text in rows:
        told = json.loads(result)
        charged += (told.get("resources_consumed") or {}).get("cpu_seconds", 0.0)
        act = universe.acts.get(text)
        if act is None:
            expected: tuple[str | None, Any] = ("invalid_argument", None)
            if text not in universe.intents and _is_json(text):
                return  # a power cut took the middle of a line, and what is left is another intent
        elif code != "conflict":
            expected = due(rules, act._replace(who=who))
        if (
            code == "conflict"
        ):  # nobody else's doing is known here, so what was delivered is taken from the ledger
            expected = (code, None)
        if code == "conflict" or (
            sandbox is None and "cpu_seconds" in (told.get("resources_consumed") or {})
        ):  # what was delivered to code that ran in vain is paid, too
            _pay_as_recorded(universe, rules, key)
        said = f"{key} ({who}: {text}) became {told}; the rules say {expected}"
        if code != expected[0] or scrip != rules.scrip[who]:
            raise Broken(f"{said}, and {rules.scrip[who]} left, not {scrip}")
        universe.tally.reached[f"an action that became {code}"] += 1
        if act is not None and act.kind == "invoke":
            if code is None and told["data"]["result"] != expected[1]:
                raise Broken(said)
            universe.tally.reached[f"a call tree that became {code}"] += 1
    _compare(universe, rules, charged)


def _pay_as_recorded(universe: "Universe", rules: Rules, key: str) -> None:
    question = "select giver, taker, amount, reason from ledger_entries where action = ? order by seq"
    for giver, taker, amount, reason in universe.peek(question, (key,)):
        if not str(reason).startswith(("read ", "invoke ")):
            raise Broken(f"{key} ran in vain, and {giver} paid {amount} to {taker}: {reason}")
        rules.scrip[giver] -= amount
        rules.scrip[taker] += amount


def _compare(universe: "Universe", rules: Rules, charged: float) -> None:
    held = dict(
        universe.peek("select account, amount from balances where account <> 'mint' and resource = 'scrip'")
    )
    due_to = {name: amount for name, amount in rules.scrip.items() if amount}
    if {name: amount for name, amount in held.items() if amount} != due_to:
        raise Broken(f"the balances are {held}; the rules say {due_to}")
    found = universe.peek(
        "select a.id, owner_id, c.content, k.content, deleted_at is not null from shared_artifacts a"
        " join contents c on c.hash = a.content join contents k on k.hash = a.code order by a.id"
    )
    things = [
        (name, each.owner, each.content, "" if each.code is None else text_of(each.code), each.deleted)
        for name, each in sorted(rules.things.items())
    ]
    if found != things:
        raise Broken(f"the artifacts are {found}; the rules say {things}")
    disks = dict(universe.peek("select id, disk_quota - disk_used from principals"))
    left = {name: quota - rules.used(name) for name, quota in rules.quota.items()}
    if disks != left:
        raise Broken(f"of the disk quotas {disks} are left; the rules say {left}")
    ((used,),) = universe.peek("select coalesce(sum(seconds), 0) from cpu_use")
    if used != charged:
        raise Broken(f"{used} s of CPU time were charged, and the results tell of {charged}")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


__all__ = ("RULES", "SCRIP", "check_trees", "offers", "said_by", "some_act", "standing_in")
