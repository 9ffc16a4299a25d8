"""The tools of the server: what ran and why, what the server's own run must deliver, and the actions of the exchange."""

import json
import os
import re
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import anyio

from runward.config.contract import contract_to_json
from runward.config.intent import ACTION_FIELDS, NEEDED_FIELDS, Intent, NotAnIntent
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exchange.acting import TOO_LONG, action_request, result_so_far
from runward.daemon.cli.mcp.serving import Answer, Refused, Tool, count_of, flag, flag_of, text, text_of
from runward.daemon.cli.session.finding import find_session
from runward.daemon.cli.shell.asking import PATIENCE_S
from runward.daemon.cli.shell.context import is_daemon_up, store_to_read
from runward.daemon.cli.terminal.options import MomentError, parse_moment
from runward.daemon.cli.terminal.output import note
from runward.daemon.cli.why import why_json
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.inbox.spool import RequestTooLong, leave_request
from runward.daemon.rundir.acting_inside import ResultsOfRun, append_intent
from runward.daemon.rundir.artifacts import contract_facts
from runward.daemon.rundir.opening import NotRegular
from runward.daemon.rundir.outcomes import write_outcome
from runward.daemon.store.tables.principals import principals
from runward.daemon.store.tables.session_lists import Wanted
from runward.daemon.store.tables.shared_artifacts import shared_artifacts
from runward.daemon.views.exchange import listed_artifact, shown_principal
from runward.daemon.views.native_run import row_of
from runward.daemon.views.sessions import newest_sessions, session_as_json, sessions_as_json
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.contracts.verify import boundary, rules_as_json, verification_as_json, verify
from runward.handlers.exchange.intent import ActionResult, as_intent, parse_intent, result_to_json
from runward.handlers.model.files import Unreadable
from runward.handlers.model.outcomes import OutcomeFile
from runward.handlers.model.reasons import FAILURES
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
        statuses=FAILURES if flag_of(arguments, "failed") else (),
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
    why = why_json(settings, _named(arguments, run))
    return Answer(without_secrets_in(why, settings.bundle.rules.redact))


def _contract(run: str) -> Answer:
    row = row_of("", run)
    if row is None:
        raise Refused(f"{run}/run.json does not describe a run")
    held = None if row.artifact_contract_json is None else stored_contract(row.artifact_contract_json)
    answer: dict[str, JsonValue] = {
        "contract": None if held is None else contract_to_json(held),
        "contract_problem": row.contract_problem,
        "artifacts_path": row.artifacts_path,
    }
    if held is None:
        return Answer(answer | {"verification": None, "rules": []})
    facts = contract_facts(held, row.artifacts_path, boundary(row.artifacts_path, run), run, row.started_at)
    if isinstance(facts, Unreadable):
        raise Refused(f"{row.artifacts_path} can't be read: {facts.why}; try again")
    verification = verify(held, facts, time.time())
    return Answer(
        answer | {"verification": verification_as_json(verification), "rules": rules_as_json(verification)}
    )


def _outcome(run: str, arguments: dict[str, JsonValue]) -> Answer:
    given = arguments["outcome"]
    if not isinstance(given, dict):
        raise Refused("outcome must be an object")
    name = text_of(arguments, "name") or str(given.get("name") or given.get("outcome_kind"))
    if _NAME.fullmatch(name) is None:
        raise Refused(f"{name[:100]!r} can't be a file's name: use letters, digits, ., _ and -")
    content = json.dumps(given, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
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


_PERIOD_S: Final = 0.05
"""Seconds between two looks for a result."""


class NoResult(Exception):
    """There is no result: nothing was sent, or the result is not known yet. The message says which."""


class Sender(Protocol):
    """How an action reaches the daemon, and its result comes back."""

    async def act(self, intent: Intent) -> dict[str, JsonValue]:
        """Have an intent carried out; returns the ActionResult. Raises `NoResult`."""
        ...


class ByInbox:
    """Acts as `principal` through the inbox, as `runward exchange` does."""

    def __init__(self, settings: Settings, principal: str, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._settings = settings
        self._state = Path(settings.state_dir)
        self._principal = principal

    async def act(self, intent: Intent) -> dict[str, JsonValue]:
        key = await in_thread(self._send, as_intent(intent))
        where = f"`runward exchange log` shows it, as action {key}"
        return await _awaited(lambda: self._result(key), where, self._patience_s)

    def _send(self, intent: JsonValue) -> str:
        if not is_daemon_up(self._settings):
            raise NoResult("no daemon is running, so nothing was sent: start it and try again")
        event = action_request(self._principal, intent)
        try:
            return leave_request(self._state, event, before_any_daemon=True)
        except RequestTooLong:
            raise NoResult(f"{TOO_LONG}, and nothing was sent") from None

    def _result(self, key: str) -> dict[str, JsonValue] | None:
        with store_to_read(self._settings) as connection:
            return result_so_far(connection, key)


class ByRun:
    """Acts as the agent of a run, by the files in its directory. `claimed` is whom the caller takes it for."""

    def __init__(self, directory: str, claimed: str | None = None) -> None:
        self._directory = directory
        self._claimed = claimed
        self._results = ResultsOfRun(directory)

    async def act(self, intent: Intent) -> dict[str, JsonValue]:
        identifier = f"mcp-{uuid.uuid4()}"
        line = as_intent(intent) | {"id": identifier}
        if self._claimed is not None:
            line["principal_id"] = self._claimed  # the daemon refuses it if it is another
        # Before the intent is written: its result may be there before the next line runs.
        self._results.expect(identifier)
        try:
            await in_thread(self._append, json.dumps(line, ensure_ascii=False).encode())
            return await _awaited(
                lambda: self._result(identifier),
                f"the intent stays in intents.jsonl; its result comes to results.jsonl, with the id {identifier}",
            )
        finally:
            self._results.forget(identifier)

    def _append(self, line: bytes) -> None:
        try:
            append_intent(self._directory, line)
        except (OSError, NotRegular) as error:
            raise NoResult(f"intents.jsonl can't be written: {_why_not(error)}") from None

    def _result(self, identifier: str) -> dict[str, JsonValue] | None:
        try:
            return self._results.result(identifier)
        except (OSError, NotRegular) as error:
            raise NoResult(f"results.jsonl can't be read: {_why_not(error)}") from None


def _why_not(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


async def _awaited(
    look: Callable[[], dict[str, JsonValue] | None], where: str, patience_s: float = PATIENCE_S
) -> dict[str, JsonValue]:
    until = time.monotonic() + patience_s
    while True:
        result = await in_thread(look)
        if result is not None:
            return result
        if time.monotonic() >= until:
            raise NoResult(f"there is no result after {patience_s:g} s, and it is not sent again: {where}")
        await anyio.sleep(_PERIOD_S)


_REASONING: Final = "reasoning"
_ABOUT: Final = {
    "read_artifact": "Read an artifact of the exchange: its content, code and description. It may cost scrip "
    "(policy.read_price), which goes to its owner.",
    "write_artifact": "Create an artifact that others can read or invoke after this session, or write a new version of one.",
    "invoke_artifact": "Call a method of an executable artifact. Its code runs in a sandbox. You pay its price if it "
    "succeeds, and the CPU time in any case. genesis_ledger (balance, transfer) and genesis_store (list, search) are free.",
    "delete_artifact": "Delete an artifact that you own. A tombstone stays, and what depends on it breaks.",
    "transfer_artifact": "Give an artifact that you own to another principal.",
}
_ARTIFACTS_LISTED: Final = 50
_MOST_ARTIFACTS_LISTED: Final = 1000


def action_tools(sender: Sender) -> list[Tool]:
    """The actions of a principal, all but noop."""
    return [
        Tool(
            name,
            about,
            {**ACTION_FIELDS[name], _REASONING: text("The reason, for the log.")},
            (*NEEDED_FIELDS[name], _REASONING),
            partial(_act, sender, name),
        )
        for name, about in _ABOUT.items()
    ]


async def _act(sender: Sender, action_type: str, arguments: dict[str, JsonValue]) -> Answer:
    if not isinstance(arguments[_REASONING], str):
        raise Refused(f"{_REASONING} must be a text")
    line = json.dumps({**arguments, "action_type": action_type}, ensure_ascii=False)
    try:
        # A lone surrogate is left as it is; the text is then not valid UTF-8.
        intent = parse_intent(line.encode("utf-8", "surrogatepass"))
    except NotAnIntent as error:
        return Answer(
            result_to_json(ActionResult(False, str(error), error_code="invalid_argument")), is_error=True
        )
    try:
        result = await sender.act(intent)
    except NoResult as error:
        raise Refused(str(error)) from None
    return Answer(result, is_error=result.get("success") is not True)


def reading_tools(settings: Settings, who_acts: Callable[[], str | None] | None) -> list[Tool]:
    """What is shared, and who takes part. `who_acts` gives the principal of the server, if there is one."""
    return [
        Tool(
            "list_artifacts",
            "List the artifacts of the exchange, without their content.",
            {
                "owner": text("Show only those of this principal."),
                "type": text("Show only those of this type."),
                "deleted": flag("Also show deleted ones."),
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": _MOST_ARTIFACTS_LISTED,
                    "default": _ARTIFACTS_LISTED,
                },
            },
            (),
            lambda arguments: in_thread(_artifacts, settings, arguments),
            is_reading=True,
        ),
        Tool(
            "show_principal",
            "Show a principal of the exchange: its scrip, resources, quotas and artifacts.",
            {"principal": text("Its name." if who_acts is None else "Its name. Default: who you act as.")},
            () if who_acts is not None else ("principal",),
            lambda arguments: in_thread(_principal, settings, arguments, who_acts),
            is_reading=True,
        ),
    ]


def _artifacts(settings: Settings, arguments: dict[str, JsonValue]) -> Answer:
    limit = count_of(arguments, "limit", _ARTIFACTS_LISTED, _MOST_ARTIFACTS_LISTED)
    with store_to_read(settings) as connection:
        rows = shared_artifacts(
            connection,
            text_of(arguments, "owner"),
            text_of(arguments, "type"),
            with_deleted=flag_of(arguments, "deleted"),
        )
        listed: list[JsonValue] = [listed_artifact(connection, each) for each in rows[:limit]]
    return Answer({"artifacts": listed, "left_out": max(0, len(rows) - limit)})


def _principal(
    settings: Settings, arguments: dict[str, JsonValue], who_acts: Callable[[], str | None] | None
) -> Answer:
    name = text_of(arguments, "principal") or (None if who_acts is None else who_acts())
    if name is None:
        raise Refused("this run has no agent, so it can't act as a principal")
    with store_to_read(settings) as connection:
        rows = principals(connection, name)
        if not rows:
            raise Refused(f"there is no principal {name!r}")
        return Answer(shown_principal(connection, rows[0], settings))
