"""The tools about sessions: what ran, why it ended that way, and what the server's own run must deliver."""

import json
import os
import re
import time
from typing import Final

from runward.config.contract import contract_to_json
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.mcp.serving import Answer, Refused, Tool, count_of, flag, flag_of, text, text_of
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.shell.finding import find_session
from runward.daemon.cli.terminal.options import MomentError, parse_moment
from runward.daemon.cli.terminal.output import note
from runward.daemon.cli.why import story_of
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.rundir.artifacts import contract_facts
from runward.daemon.rundir.outcomes import write_outcome
from runward.daemon.store.reading_sessions import Wanted
from runward.daemon.views.native_run import row_of
from runward.daemon.views.sessions import FAILED, newest_sessions, session_as_json, sessions_as_json
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.contracts.verify import boundary, rules_as_json, verification_as_json, verify
from runward.handlers.model.files import Unreadable
from runward.handlers.model.outcomes import OutcomeFile
from runward.handlers.outcomes.reading import LARGEST, InvalidOutcome, read_outcome
from runward.handlers.secrets import without_secrets_in

_LISTED: Final = 20
_MOST_LISTED: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_ID: Final = "A session's id, a unique prefix of it, or @last for the newest."


def tools_about_sessions(settings: Settings, run: str | None) -> list[Tool]:
    """Sessions as the store has them. `run` is the directory of the run that the server is in."""
    named = "" if run is None else " Default: this run."
    needed = ("id",) if run is None else ()
    return [
        Tool(
            "list_sessions",
            "List sessions (agent runs) with what became of them, the newest first.",
            {
                "failed": flag("Show only those that failed, timed out or were aborted."),
                "playbook": text("Show only those with this playbook."),
                "agent": text("Show only those of this agent."),
                "since": text("Show only those that started since then: 2h, today, a date."),
                "search": text(
                    "Show only those with this text in their id, playbook, agent, path or reason."
                ),
                "limit": {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED, "default": _LISTED},
            },
            (),
            lambda arguments: in_thread(_list, settings, arguments),
            is_reading=True,
        ),
        Tool(
            "show_session",
            "Show one session: status and reason, contract and verification, outcomes, files and timeline.",
            {"id": text(_ID + named)},
            needed,
            lambda arguments: in_thread(_show, settings, arguments, run),
            is_reading=True,
        ),
        Tool(
            "why",
            "Explain the state of something: every event and decision in order, the first cause first.",
            {
                "id": text(
                    f"{_ID} Also job:NUMBER, a chain run, 'chain NAME', artifact:ID, principal:ID.{named}"
                )
            },
            needed,
            lambda arguments: in_thread(_why, settings, arguments, run),
            is_reading=True,
        ),
    ]


def tools_of_run(run: str) -> list[Tool]:
    """What only a run has: its contract, and its outcomes."""
    return [
        Tool(
            "show_contract",
            "Show what this run must deliver, and what of it is present now.",
            {},
            (),
            lambda _: in_thread(_contract, run),
            is_reading=True,
        ),
        Tool(
            "submit_outcome",
            "Check an outcome (the typed result of this run) and write it. One of the same name is replaced.",
            {
                "outcome": {
                    "type": "object",
                    "description": "outcome_kind (such as review_verdict, gate_verdict, ci_result, test_result), "
                    "summary, and the fields of its kind.",
                },
                "name": text("Its name: letters, digits, ., _ and -. Default: its kind."),
            },
            ("outcome",),
            lambda arguments: in_thread(_outcome, run, arguments),
        ),
    ]


def agent_of_run(run: str) -> str | None:
    """The agent that a run names, None if it has none."""
    row = row_of("", run)
    return None if row is None else row.agent


def _list(settings: Settings, arguments: dict[str, JsonValue]) -> Answer:
    since = text_of(arguments, "since")
    try:
        at = None if since is None else parse_moment(since, time.time())
    except MomentError as error:
        raise Refused(f"since: {error}") from None
    playbook, agent = text_of(arguments, "playbook"), text_of(arguments, "agent")
    wanted = Wanted(
        statuses=FAILED if flag_of(arguments, "failed") else (),
        playbooks=() if playbook is None else (playbook,),
        agents=() if agent is None else (agent,),
        since=at,
        text=text_of(arguments, "search"),
    )
    limit = count_of(arguments, "limit", _LISTED, _MOST_LISTED)
    with store_to_read(settings) as connection:
        rows, is_cut = newest_sessions(connection, settings, wanted, limit)
        return Answer({"sessions": sessions_as_json(connection, settings, rows), "more": is_cut})


def _named(arguments: dict[str, JsonValue], run: str | None) -> str:
    named = text_of(arguments, "id")
    if named is None and run is not None:
        return os.path.basename(run)
    if not named:
        raise Refused("id must be a text")
    return named


def _show(settings: Settings, arguments: dict[str, JsonValue], run: str | None) -> Answer:
    with store_to_read(settings) as connection:
        row = find_session(connection, settings, _named(arguments, run))
        return Answer(session_as_json(connection, settings, row, note))


def _why(settings: Settings, arguments: dict[str, JsonValue], run: str | None) -> Answer:
    told = story_of(settings, _named(arguments, run)).as_json()
    assert isinstance(told, dict)
    return Answer(without_secrets_in(told, settings.bundle.rules.redact))


def _contract(run: str) -> Answer:
    row = row_of("", run)
    if row is None:
        raise Refused(f"{run}/run.json does not describe a run")
    held = None if row.artifact_contract_json is None else stored_contract(row.artifact_contract_json)
    told: dict[str, JsonValue] = {
        "contract": None if held is None else contract_to_json(held),
        "contract_problem": row.contract_problem,
        "artifacts_path": row.artifacts_path,
    }
    if held is None:
        return Answer(told | {"verification": None, "rules": []})
    facts = contract_facts(held, row.artifacts_path, boundary(row.artifacts_path, run), run, row.started_at)
    if isinstance(facts, Unreadable):
        raise Refused(f"{row.artifacts_path} can't be read: {facts.why}; try again")
    found = verify(held, facts, time.time())
    return Answer(told | {"verification": verification_as_json(found), "rules": rules_as_json(found)})


def _outcome(run: str, arguments: dict[str, JsonValue]) -> Answer:
    said = arguments["outcome"]
    if not isinstance(said, dict):
        raise Refused("outcome must be an object")
    name = text_of(arguments, "name") or str(said.get("name") or said.get("outcome_kind"))
    if _NAME.fullmatch(name) is None:
        raise Refused(f"{name[:100]!r} can't be a file's name: use letters, digits, ., _ and -")
    content = json.dumps(said, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
    path = f"outcomes/{name}.json"
    checked = read_outcome(OutcomeFile(path, content if len(content) <= LARGEST else None))
    if isinstance(checked, InvalidOutcome):
        problems: list[JsonValue] = [
            {"field": each.field, "message": each.message} for each in checked.problems
        ]
        return Answer({"valid": False, "problems": problems}, is_error=True)
    try:
        write_outcome(run, f"{name}.json", content)
    except OSError as error:
        raise Refused(f"{path} can't be written: {error.strerror}") from None
    outcome = checked.outcome
    return Answer(
        {"valid": True, "outcome_kind": outcome.kind, "is_known": outcome.is_known, "path": f"{run}/{path}"}
    )
