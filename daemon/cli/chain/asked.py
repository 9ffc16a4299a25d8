"""Chain runs that a person asked for and that no daemon has recorded yet: their requests are still in the inbox."""

from pathlib import Path
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.cli.terminal.output import safe
from runward.daemon.views.units import iso, local

_BEGINNING: Final = "cr_"


class AskedRun(NamedTuple):
    """A chain run that is to be fired. `at` is when it was asked for (Unix seconds), `fields` are those of `trigger`."""

    id: str
    chain: str
    at: float
    said_by: str
    fields: dict[str, JsonValue]


def asked_runs(state: Path) -> list[AskedRun]:
    """Those whose requests wait in the inbox, oldest first."""
    from runward.daemon.inbox.spool import list_inbox

    files = list_inbox(state)
    if not files:
        return []
    from runward.daemon.inbox.requests import load_request
    from runward.handlers.chains.advancing import run_id
    from runward.handlers.chains.events import ChainFireRequested

    orders = [event for file in files if isinstance(event := load_request(file), ChainFireRequested)]
    return [
        AskedRun(run_id(f"{each.chain}@{each.request}"), each.chain, each.at, each.said_by, each.fields)
        for each in orders
    ]


def asked_run(state: Path, text: str) -> AskedRun | None:
    """The one whose id is `text`, or begins with it; None if there is none, or several."""
    if not text.startswith(_BEGINNING):
        return None
    found = [each for each in asked_runs(state) if each.id.startswith(text)]
    return found[0] if len(found) == 1 else None


def newest_asked_run(state: Path) -> AskedRun | None:
    """The one that was asked for last. No chain run that a daemon recorded is newer."""
    return max(asked_runs(state), key=lambda each: each.at, default=None)


def asked_as_json(run: AskedRun) -> dict[str, JsonValue]:
    """As `chain run show` prints a chain run: nothing of it has begun."""
    return {
        "chain_run_id": run.id,
        "chain": run.chain,
        "status": "asked",
        "reason": None,
        "current_step": 0,
        "created_at": iso(run.at),
        "updated_at": iso(run.at),
        "trigger_event": run.fields,
        "fired_by": "manual.fired",
        "invocation_id": None,
        "depth": None,
        "deadline": None,
        "step_outcomes": [],
        "steps": [],
    }


def asked_lines(run: AskedRun, *, is_up: bool) -> list[str]:
    """The same for people."""
    why = "the daemon has not processed it yet" if is_up else "no daemon is running: start `runward daemon`"
    return [
        f"chain run {safe(run.id)} of {safe(run.chain)}: asked",
        f"{safe(run.said_by)} asked for it at {local(run.at)}; {why}",
    ]
