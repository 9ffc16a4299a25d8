"""Runs of the benchmark that act in the exchange: they begin, append lines, and what became of those is counted."""

import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.bench.product import DaemonFailed
from tests.bench.scratch import Scratch

from runward.config.json_value import JsonValue
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.store import reading
from runward.handlers.model.exchange import PrincipalCreateRequested

STALLED_S: Final = 60.0


def until(holds: Callable[[], bool], what: str, most_s: float = STALLED_S) -> None:
    """Wait until it holds. Raises `DaemonFailed`."""
    deadline = time.monotonic() + most_s
    while not holds():
        if time.monotonic() > deadline:
            raise DaemonFailed(f"waited {most_s:.0f} s for {what}")
        time.sleep(0.002)


def begin(place: Scratch, name: str, agent: str) -> Path:
    """Begin a run of this agent that lasts as long as this process; returns its directory.

    A person has made the agent a principal: no launcher started the run, so it brings no quotas.
    """
    request = PrincipalCreateRequested(f"create-{agent}", time.time(), agent)
    put(place.directory / "state", request.request, dump_request(request))
    until(
        lambda: counted(place, f"select count(*) from principals where id = '{agent}'") == 1, "the principal"
    )
    directory = place.runs / name
    directory.mkdir()
    document = {
        "schema": "runward-run-v1",
        "session_id": name,
        "started_at": "2026-01-01T00:00:00Z",
        "agent": agent,
        "pid": os.getpid(),
    }
    (directory / "run.json").write_text(json.dumps(document))
    return directory


def say(run: Path, *intents: dict[str, JsonValue]) -> None:
    """Append these intents, each as a line."""
    with (run / "intents.jsonl").open("a") as file:
        file.writelines(json.dumps({"reasoning": "to measure", **each}) + "\n" for each in intents)


def offered(name: str, code: str) -> dict[str, JsonValue]:
    """An intent that offers code to others, for nothing."""
    return {
        "action_type": "write_artifact",
        "artifact_id": name,
        "executable": True,
        "price": 0,
        "code": code,
    }


def invoked(name: str, *args: JsonValue) -> dict[str, JsonValue]:
    """An intent that calls this code."""
    return {"action_type": "invoke_artifact", "artifact_id": name, "method": "run", "args": list(args)}


def counted(place: Scratch, sql: str) -> int:
    """The number that this query finds in the store."""
    with closing(reading.open_to_read(str(place.directory / "state" / reading.STORE))) as connection:
        ((found,),) = connection.execute(sql).fetchall()
    return int(found)
