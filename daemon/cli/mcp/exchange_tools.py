"""The tools of the exchange: the actions, with the fields of their intents and their two paths to the daemon, and what is shared."""

import json
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import anyio

from runward.config.exchange_schema import ACTION_FIELDS, NEEDED_FIELDS
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exchange.acting import TooLong, leave, result_so_far
from runward.daemon.cli.mcp.serving import Answer, Refused, Tool, count_of, flag, flag_of, text, text_of
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.shell.request_waiting import PATIENCE_S
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.rundir.acting_inside import ResultsOfRun, append_intent
from runward.daemon.rundir.opening import NotRegular
from runward.daemon.store.ownership import holder
from runward.daemon.store.reading_exchange import principals, shared_artifacts
from runward.daemon.views.exchange import listed_artifact, shown_principal
from runward.handlers.exchange.intent import (
    ActionResult,
    Intent,
    NotAnIntent,
    as_intent,
    parse_intent,
    result_to_json,
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
        if holder(self._state) is None:
            raise NoResult("no daemon is running, so nothing was sent: start it and try again")
        try:
            return leave(self._state, self._principal, intent)
        except TooLong as error:
            raise NoResult(f"{error}, and nothing was sent") from None

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
        said = as_intent(intent) | {"id": identifier}
        if self._claimed is not None:
            said["principal_id"] = self._claimed  # the daemon refuses it if it is another
        self._results.expect(identifier)
        try:
            await in_thread(self._append, json.dumps(said, ensure_ascii=False).encode())
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
            raise NoResult(f"intents.jsonl can't be written: {_why(error)}") from None

    def _result(self, identifier: str) -> dict[str, JsonValue] | None:
        try:
            return self._results.result(identifier)
        except (OSError, NotRegular) as error:
            raise NoResult(f"results.jsonl can't be read: {_why(error)}") from None


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


async def _awaited(
    look: Callable[[], dict[str, JsonValue] | None], where: str, patience_s: float = PATIENCE_S
) -> dict[str, JsonValue]:
    until = time.monotonic() + patience_s
    while True:
        found = await in_thread(look)
        if found is not None:
            return found
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
_LISTED: Final = 50
_MOST_LISTED: Final = 1000


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
    said = json.dumps({**arguments, "action_type": action_type}, ensure_ascii=False)
    try:
        # A lone surrogate is left as it is; the text is then not valid UTF-8.
        intent = parse_intent(said.encode("utf-8", "surrogatepass"))
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
                "limit": {"type": "integer", "minimum": 1, "maximum": _MOST_LISTED, "default": _LISTED},
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
    limit = count_of(arguments, "limit", _LISTED, _MOST_LISTED)
    with store_to_read(settings) as connection:
        found = shared_artifacts(
            connection,
            text_of(arguments, "owner"),
            text_of(arguments, "type"),
            with_deleted=flag_of(arguments, "deleted"),
        )
        listed: list[JsonValue] = [listed_artifact(connection, each) for each in found[:limit]]
    return Answer({"artifacts": listed, "left_out": max(0, len(found) - limit)})


def _principal(
    settings: Settings, arguments: dict[str, JsonValue], who_acts: Callable[[], str | None] | None
) -> Answer:
    name = text_of(arguments, "principal") or (None if who_acts is None else who_acts())
    if name is None:
        raise Refused("this run has no agent, so it can't act as a principal")
    with store_to_read(settings) as connection:
        found = principals(connection, name)
        if not found:
            raise Refused(f"there is no principal {name!r}")
        return Answer(shown_principal(connection, found[0], settings))
