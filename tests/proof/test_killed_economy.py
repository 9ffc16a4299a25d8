"""`kill -9` of the daemon at every point of a small economy: the ledger and all results are those of an undisturbed one."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.proof.account import Account, account, difference
from tests.proof.place import Place
from tests.proof.processes import Forks

pytestmark = pytest.mark.prove

KILLED: Final = -9
EVERY: Final = 10
"""In one sweep every so many points of a chapter are taken, and one of every name, each time other ones."""

RUNS: Final = {"writes": "writer", "reads": "reader", "steals": "thief", "buys": "buyer"}
SETTINGS: Final = "batch = 3\n[exchange]\nuse_contracts = true\ncpu_seconds = 1000.0"
CODE: Final = {
    "gate": "def check_permission(caller, action, target, context, ledger):\n"
    " return {'allowed': ledger.get_scrip(caller) >= 3, 'cost': 1}",
    "toll": "def run(): return get_balance()",
    "broken": "def run():\n invoke('toll')\n return 1 / 0",
    "counter": "def run(text): return [len(text), invoke('toll')['success'], invoke('broken')['success'],"
    " kernel_actions.transfer_scrip(caller_id, 'thief', 1)]",
}
"""A contract, what one pays for, what fails after it paid, and what calls both and takes what it wasn't lent."""

TIMES: Final = ("created_at", "updated_at", "deleted_at", "ts", "hash")


def begin(place: Place) -> None:
    """Four principals are created, and each has a run. The writer writes, and appends a line that is not an intent."""
    place.set_up(further=SETTINGS)
    for name, scrip in (("writer", 5), ("reader", 10), ("thief", 0), ("buyer", 12)):
        ask(place, "PrincipalCreateRequested", name, scrip=scrip)
    for run, agent in RUNS.items():
        place.start_run(run, agent=agent)
    say(
        place,
        "writes",
        write("paper", content="worth reading", policy={"read_price": 3}),
        "nonsense",
        write("note", content="n", depends_on=["paper"]),
        {"action_type": "read_artifact", "artifact_id": "paper"},
        *(
            write(
                name,
                code=code,
                executable=True,
                price={"gate": 0, "counter": 2}.get(name, 1),
                access_contract_id="gate" if name == "counter" else None,
            )
            for name, code in CODE.items()
        ),
    )
    say(place, "steals", {"action_type": "noop"}, write("thief", content="mine"))


def trade(place: Place) -> None:
    """The reader pays until it can't, the thief is refused, and a person mints for the writer."""
    read = {"action_type": "read_artifact", "artifact_id": "paper"}
    say(place, "reads", read, pay("reader", "thief", 1), *[read] * 3)
    say(place, "steals", write("paper", content="stolen"), pay("reader", "thief", 5), "")
    ask(place, "MintRequested", "writer", amount=7)


def call(place: Place) -> None:
    """The buyer invokes code, which invokes other code, until a contract denies it for want of scrip."""
    invoke = {"action_type": "invoke_artifact", "method": "run"}
    counter = {**invoke, "artifact_id": "counter", "args": ["three short words"]}
    say(place, "buys", counter, {**invoke, "artifact_id": "broken"}, *[counter] * 3)


def end(place: Place) -> None:
    """The writer deletes, gives away and pays; the others do nothing else; a person acts as the thief."""
    say(
        place,
        "writes",
        {"action_type": "delete_artifact", "artifact_id": "paper"},
        {"action_type": "transfer_artifact", "artifact_id": "note", "to": "reader"},
        {"action_type": "delete_artifact", "artifact_id": "note"},
    )
    ask(place, "ActionRequested", "thief", text=json.dumps(pay("thief", "system", 1)))
    for run in RUNS:
        place.finish_run(place.runs / run)


CHAPTERS: Final[tuple[Callable[[Place], None], ...]] = (begin, trade, call, end)


def write(name: str, **further: Any) -> dict[str, Any]:
    return {"action_type": "write_artifact", "artifact_id": name, **further}


def pay(giver: str, taker: str, amount: int) -> dict[str, Any]:
    said = {"action_type": "invoke_artifact", "artifact_id": "genesis_ledger", "method": "transfer"}
    return {**said, "args": [giver, taker, amount]}


def say(place: Place, run: str, *intents: dict[str, Any] | str) -> None:
    """A run appends intents."""
    with (place.runs / run / "intents.jsonl").open("a") as file:
        file.writelines(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in intents)


def ask(place: Place, kind: str, principal: str, **further: Any) -> None:
    """A person asks for something."""
    said = {"request": f"{kind}-{principal}", "at": 1.0, "principal": principal, **further}
    place.put_request({"type": kind, "version": 1, "payload": said})


def economy(place: Place) -> Account:
    """What there is in the exchange and what every run was told, but for times. Asserts what must hold by itself."""
    account(place)
    assert place.rows("select sum(amount) from balances") == [(0,)]
    tables = {
        "actions": "select key, principal, line, is_success, error_code, scrip_after, result from actions order by key",
        "ledger": "select action, giver, taker, amount, reason from ledger_entries order by action",
        "balances": "select account, resource, amount from balances order by 1, 2",
        "artifacts": "select id, owner_id, version, deleted_by, content, code, policy from shared_artifacts order by id",
        "versions": "select id, version, owner_id, content from artifact_versions order by 1, 2",
        "cpu_use": "select principal, seconds from cpu_use order by rowid",
        "principals": "select id, disk_used, version from principals order by id",
        "intent_files": 'select session_key, "offset", line, told, state, problem from intent_files order by 1',
        "jobs": "select lane, state, error from jobs where state <> 'done'",
    }
    found = {
        name: [" | ".join(_timeless(cell) for cell in row) for row in place.rows(sql)]
        for name, sql in tables.items()
    }
    hashes = {digest for (digest,) in place.rows("select hash from events where type = 'ActionTaken'")}
    for run in RUNS:
        lines = [json.loads(line) for line in (place.runs / run / "results.jsonl").read_text().splitlines()]
        assert [line["line"] for line in lines] == list(range(1, len(lines) + 1)), run
        assert {line["hash"] for line in lines} <= hashes
        found[run] = [json.dumps(_without_times(line)) for line in lines]
        found[f"events of {run}"] = place.journal(run)
    return found


def _timeless(cell: object) -> str:
    text = str(cell)
    return json.dumps(_without_times(json.loads(text))) if text.startswith("{") else text


def _without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_times(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key not in TIMES}
    return value


@pytest.fixture(scope="module")
def undisturbed(in_memory: Path, forks: Forks) -> tuple[Account, list[list[str]]]:
    """The economy that nobody disturbed, and the names of its points by chapter."""
    place = Place(in_memory / "economy", forks, code_in_process=True)
    points = []
    for chapter in CHAPTERS:
        chapter(place)
        assert place.once("list") == 0
        said = place.started[-1].said()
        points.append([line.split()[1] for line in said.splitlines() if line.startswith("point ")])
    return economy(place), points


def test_the_economy_comes_to_what_its_rules_say(undisturbed: tuple[Account, list[list[str]]]) -> None:
    told, points = undisturbed
    assert told["balances"] == [
        "buyer | scrip | 1",
        "mint | scrip | -34",
        "reader | scrip | 0",
        "thief | scrip | 1",
        "writer | scrip | 32",
    ]
    codes = [line.split(" | ")[4] for line in told["actions"]]
    assert len(codes) == 27
    assert {"insufficient_funds", "not_authorized", "not_found", "invalid_argument", "runtime_error"} < set(
        codes
    )
    assert [len(told[run]) for run in RUNS] == [11, 5, 5, 5]
    bought = [json.loads(line)["result"] for line in told["buys"]]
    assert [each.get("error_code") for each in bought] == [
        *(None, "runtime_error", None, "not_authorized", "not_authorized")
    ]
    assert bought[0]["data"]["result"] == [17, True, False, False]
    assert [each["resources_consumed"]["cpu_seconds"] for each in bought] == [
        *(0.625, 0.25, 0.625, 0.125, 0.125)
    ]
    assert [each["resources_consumed"].get("scrip") for each in bought] == [5, 1, 5, None, None]
    assert {"commit.turn.before", "commit.finish.after", "journal.append.after"} <= set(points[1])


def kill_and_compare(place: Place, chapter: int, points: list[str], expected: Account) -> bool:
    """Play the economy, killing a daemon of `chapter` at each of the points in turn; whether the last was killed."""
    code = 0
    for current, prepare in enumerate(CHAPTERS):
        prepare(place)
        for point in points if current == chapter else ():
            code = place.once(f"kill@{point}")
            assert code in (KILLED, 0), place.started[-1].said()
        assert place.once() == 0, place.started[-1].said()
    parted = difference(expected, economy(place))
    place.close()
    assert not parted, f"killed at {points} of chapter {chapter}:\n{parted}"
    return code == KILLED


@pytest.mark.parametrize("chapter", range(len(CHAPTERS)))
def test_a_daemon_killed_at_some_points_leaves_the_same_ledger_and_results(
    undisturbed: tuple[Account, list[list[str]]], in_memory: Path, forks: Forks, chapter: int
) -> None:
    expected, points = undisturbed
    for number in range(2 + chapter, len(points[chapter]), len(points[chapter]) // 2):
        place = Place(in_memory / f"some-{chapter}-{number}", forks, code_in_process=True)
        assert kill_and_compare(place, chapter, [str(number)], expected)


@pytest.mark.sweep
@pytest.mark.longest
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("chapter", range(len(CHAPTERS)))
def test_a_daemon_killed_at_any_point_leaves_the_same_ledger_and_results(
    undisturbed: tuple[Account, list[list[str]]], in_memory: Path, forks: Forks, chapter: int
) -> None:
    expected, points = undisturbed
    numbered = list(enumerate(points[chapter], 1))
    random.shuffle(numbered)
    of_every_name = {name: number for number, name in numbered}
    for number in sorted({*of_every_name.values(), *(number for number, _ in numbered[::EVERY])}):
        place = Place(in_memory / f"any-{chapter}-{number}", forks, code_in_process=True)
        kill_and_compare(place, chapter, [str(number)], expected)


def test_a_daemon_killed_again_and_again_leaves_the_same_ledger_and_results(
    undisturbed: tuple[Account, list[list[str]]], in_memory: Path, forks: Forks
) -> None:
    expected, _ = undisturbed
    place = Place(in_memory / "again", forks, code_in_process=True)
    points = ["commit.turn.after", "commit.finish.before", "commit.finish.after", "journal.append.after"]
    assert kill_and_compare(place, 1, points, expected)
