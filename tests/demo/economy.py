"""A small economy for the demo: three agents that share code, pay for it and are refused, each by writing lines to a file.

The writer sells a program that depends on another one, and keeps an artifact behind a contract. The reader buys. The
stranger may not. Then the writer deletes what the program depends on, and the reader invokes one that never ends.
Without a sandbox, no code runs: the demo says so and shows the rest.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple, Protocol

SETTINGS: Final = """
[exchange]
use_contracts = true
executor = {timeout = "1m"}  # what cuts the loop off is its owner's budget, also on a busy machine
"""

AGENT: Final = """\
import json, os, sys, time

run = os.environ["RUNWARD_RUN_DIR"]
intents = open(sys.argv[1]).read()
with open(f"{run}/intents.jsonl", "a") as file:
    file.write(intents)
results = []
while len(results) < len(intents.splitlines()):
    time.sleep(0.05)
    if os.path.exists(f"{run}/results.jsonl"):
        results = open(f"{run}/results.jsonl").read().splitlines()
for line in map(json.loads, results):
    result, intent = line["result"], line["intent"]
    data = result["data"] or {}
    said = data.get("result", "done") if result["success"] else result["error_code"]
    print(f'{intent["action_type"]} {intent.get("artifact_id", "")}: {said}, and {line["scrip_after"]} scrip are left')
"""

WORDS: Final = "def run(text):\n    return text.split()\n"
COUNTER: Final = """\
def run(text):
    words = context.dependencies["words"].invoke(text)
    return f"{len(words['result'])} words for {words['price_paid']} scrip"
"""
OPENING: Final = """\
def check_permission(caller, action, target, context):
    if context["now"] >= 4_000_000_000:
        return {"allowed": True, "reason": "it is open"}
    return {"allowed": False, "reason": "it opens in 2096"}
"""
LOOP: Final = "def run():\n    while True:\n        pass\n"


class Turn(NamedTuple):
    """What an agent wants, and what becomes of each intent: `done`, a result, or the code of an error."""

    agent: str
    intents: tuple[dict[str, object], ...]
    expected: tuple[str, ...]


def _sold(name: str, code: str, **further: object) -> dict[str, object]:
    return {
        "action_type": "write_artifact",
        "artifact_id": name,
        "executable": True,
        "code": code,
        "price": 2,
        **further,
    }


def _bought(name: str, *args: object) -> dict[str, object]:
    return {"action_type": "invoke_artifact", "artifact_id": name, "method": "run", "args": [*args]}


TURNS: Final = (
    Turn(
        "writer",
        (
            _sold("words", WORDS, price=1),
            _sold("counter", COUNTER, depends_on=["words"], policy={"allow_invoke": ["reader"]}),
            _sold("opening", OPENING, price=0),
            _sold("loop", LOOP, price=1),
            {"action_type": "write_artifact", "artifact_id": "letter", "content": "hello", "access_contract_id": "opening"},
        ),
        ("done",) * 5,
    ),
    Turn(
        "reader",
        (_bought("counter", "three short words"), {"action_type": "read_artifact", "artifact_id": "letter"}),
        ("3 words for 1 scrip", "not_authorized"),
    ),
    Turn("stranger", (_bought("counter", "x"),), ("not_authorized",)),
    Turn("writer", ({"action_type": "delete_artifact", "artifact_id": "words"},), ("done",)),
    Turn("reader", (_bought("counter", "again"), _bought("loop")), ("not_found", "rate_limited")),
)  # fmt: skip
PRINCIPALS: Final = {"writer": ("0", "5"), "reader": ("10", "0.5"), "stranger": ("10", "5")}
"""Scrip, and seconds of CPU time in each minute."""


class Demonstration(Protocol):
    """What the demo lends to its parts."""

    place: Path

    def runward(self, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]: ...


def prepare(demo: Demonstration) -> None:
    """The agents' program."""
    (demo.place / "trader.py").write_text(AGENT)
    (demo.place / "one.py").write_text("def run():\n    return 1\n")


def show(demo: Demonstration) -> list[str]:
    """Have the agents trade; returns what did not come out as it should."""
    print("\nAn economy of three agents, each a run that writes intents and reads results:", flush=True)
    tried = json.loads(demo.runward("exchange", "execute", "one.py", "--json", quiet=True).stdout)
    has_sandbox = tried.get("error_code") != "not_configured"
    if not has_sandbox:
        print(f"  {tried['error']}: {tried['fix']}. No code runs below.", flush=True)
    for name, (scrip, cpu) in PRINCIPALS.items():
        demo.runward("exchange", "principal", "create", name, "--scrip", scrip, "--cpu", cpu)
    wrong = [
        difference
        for number, turn in enumerate(TURNS)
        for difference in _played(demo, number, turn, has_sandbox)
    ]
    for words in (
        ("exchange", "log"),
        ("exchange", "ledger"),
        ("exchange", "ledger", "--check"),
        ("why", "artifact:counter"),
    ):
        print(f"\n$ runward {' '.join(words)}", flush=True)
        if demo.runward(*words).returncode != 0:
            wrong.append(f"runward {' '.join(words)} failed")
    if has_sandbox:
        shown = demo.runward("exchange", "principal", "show", "reader", "--json", quiet=True)
        used = json.loads(shown.stdout)["cpu"]["used_s"]
        print(
            f"\nThe loop was cut off, and the reader was charged: {used} of 0.5 s of CPU time are used.",
            flush=True,
        )
        if used < 0.4:
            wrong.append(f"the loop used {used} s of CPU time, of 0.5")
    return wrong


def _played(demo: Demonstration, number: int, turn: Turn, has_sandbox: bool) -> list[str]:
    intents = demo.place / f"{turn.agent}-{number}.jsonl"
    intents.write_text("".join(f"{json.dumps({**each, 'reasoning': 'to trade'})}\n" for each in turn.intents))
    run = f"trade-{number}"
    command = ("run", "--name", run, "--agent", turn.agent, "--", sys.executable, "trader.py", intents.name)
    print(f"\n$ runward {' '.join(command[:5])} -- python trader.py {intents.name}", flush=True)
    demo.runward(*command)
    results = [
        json.loads(line) for line in (demo.place / f"runs/{run}/results.jsonl").read_text().splitlines()
    ]
    found = [_said(each["result"]) for each in results]
    expected = [each if has_sandbox or each == "done" else found[at] for at, each in enumerate(turn.expected)]
    return [] if found == expected else [f"the results of {intents.name} are {found}, not {expected}"]


def _said(result: dict[str, object]) -> str:
    data = result["data"]
    if not result["success"]:
        return str(result["error_code"])
    return str(data.get("result", "done")) if isinstance(data, dict) else "done"
