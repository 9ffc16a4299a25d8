"""A real daemon runs code that does its worst, and answers honest code after each piece of it."""

import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.sandbox.attempts import ANSWERS, ANY, FLOODS, OUTLIVING, Attempt
from tests.waiting import wait_for

from runward.config.exchange import Executor
from runward.daemon.sandbox.workers import Job, execute

LANES: Final = 4
"""Principals who try at the same time, with half as many workers."""

WORKERS: Final = 2
PROCESSES: Final = WORKERS + 1
"""With the one that ends what is left of bubblewrap if the daemon is killed."""
OF_THE_STORE: Final = 3 + WORKERS
"""Descriptors of the store: its writer's, its checkpoints', that of the look at what needs a person, and one for each action at a
time. When a connection ends, SQLite
keeps its descriptor, because closing it would drop the locks of the others, and gives it to the next connection."""
SETTINGS: Final = f'\n[exchange]\nexecutor = {{workers = {WORKERS}, timeout = "3s"}}\n'
MOST_GROWTH: Final = 32 << 20
WORST: Final = (*FLOODS, *ANSWERS, *OUTLIVING)
HONEST: Final = {"artifact_id": "honest", "executable": True, "price": 0, "code": "def run(a): return a + 1"}

pytestmark = [pytest.mark.prove, pytest.mark.timeout(400)]


def test_a_daemon_answers_after_each_attempt_and_keeps_nothing_of_it(place: Place) -> None:
    tried = execute(Job("def run(): return 1", ()), Executor())
    if tried.code == "not_configured":
        pytest.skip(f"this machine has no sandbox: {tried.error}")
    settings = place.directory / "runward.toml"
    settings.write_text(settings.read_text() + SETTINGS)
    with place.daemon_process() as daemon:
        for lane in range(LANES):
            name = f"lane-{lane}"
            assert place.call("exchange", "principal", "create", name, "--cpu", "none").code == 0
        write = {"action_type": "write_artifact", **HONEST}
        honest = json.loads(_submit(place, "lane-0", [write, _invoke("honest", 1)])[1])
        assert honest["data"]["result"] == 2, honest
        wait_for(lambda: _is_ready(daemon.pid), "the workers that wait for the next code")
        descriptors = _descriptors(daemon.pid)
        memory = _resident(daemon.pid)
        with ThreadPoolExecutor(LANES) as pool:
            found = list(pool.map(lambda lane: _try(place, lane), range(LANES)))
        assert [each for surprises, _ in found for each in surprises] == []
        wait_for(lambda: _is_ready(daemon.pid), "no processes but new workers that wait")
        wait_for(lambda: _descriptors(daemon.pid) <= descriptors, "no more descriptors than before")
        assert _held(daemon.pid).count("runward.db") <= OF_THE_STORE
        assert _resident(daemon.pid) - memory < MOST_GROWTH
        killed = sum(codes["killed"] for _, codes in found)
        assert killed > 0
        wait_for(lambda: _workers_killed(place) >= killed, "`status` reports them")
        assert "killed or crashed since it started, the last " in place.call("status").out
        assert place.call("exchange", "ledger", "--check").code == 0


def _workers_killed(place: Place) -> int:
    told = place.call("status", "--json").object()["exchange"]
    assert isinstance(told, dict)
    killed = told.pop("workers_killed")
    assert told == {"sandbox": "bubblewrap", "sandbox_problem": None, "actions_waiting": 0}
    return int(str(killed["count"])) if isinstance(killed, dict) else 0


def _try(place: Place, lane: int) -> tuple[list[str], Counter[str | None]]:
    """Every fourth of the worst, each followed by honest code; what did not come to what it must, and all error codes."""
    attempts = WORST[lane::LANES]
    intents: list[dict[str, object]] = []
    for number, attempt in enumerate(attempts):
        name = f"attempt-{lane}-{number}"
        written = {"artifact_id": name, "executable": True, "price": 0, "code": attempt.source}
        intents += [
            {"action_type": "write_artifact", **written},
            _invoke(name, {}),
            _invoke("honest", number),
        ]
    told = [json.loads(line) for line in _submit(place, f"lane-{lane}", intents)]
    assert len(told) == len(intents), told
    surprises = [
        f"{attempt.name}: {tried}, then {honest}"
        for number, (attempt, tried, honest) in enumerate(zip(attempts, told[1::3], told[2::3], strict=True))
        if not _is_contained(attempt, tried) or (honest["data"] or {}).get("result") != number + 1
    ]
    return surprises, Counter(each.get("error_code") for each in told)


def _is_contained(attempt: Attempt, tried: dict[str, object]) -> bool:
    """Whether it came to what it must; on a slow machine, its time may be over before."""
    data = tried["data"]
    got = (tried.get("error_code"), data.get("result") if isinstance(data, dict) else None)
    return attempt.code == ANY or got in ((attempt.code, attempt.result), ("timeout", None))


def _invoke(name: str, argument: object) -> dict[str, object]:
    return {"action_type": "invoke_artifact", "artifact_id": name, "method": "run", "args": [argument]}


def _submit(place: Place, principal: str, intents: list[dict[str, object]]) -> list[str]:
    file = place.directory / f"{principal}.jsonl"
    file.write_text("".join(f"{json.dumps({**each, 'reasoning': 'to see'})}\n" for each in intents))
    process = place.start("exchange", "submit", str(file), "--as", principal)
    said, errors = process.communicate()
    assert process.returncode in (0, 1), errors
    return said.splitlines()


def _is_ready(pid: int) -> bool:
    """Whether the next workers wait: the daemon opens the `/tmp` of each last."""
    return _children(pid) == PROCESSES and _held(pid).count("tmp") == WORKERS


def _children(pid: int) -> int:
    """How many processes the daemon has started that are there."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            found += len((task / "children").read_text().split())
    return found


def _held(pid: int) -> list[str]:
    """The names of what the daemon's descriptors lead to."""
    names = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            names.append(Path(os.readlink(each)).name)
    return names


def _descriptors(pid: int) -> int:
    """How many it has, apart from those of the store's files."""
    return sum(not name.startswith("runward.db") for name in _held(pid))


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
