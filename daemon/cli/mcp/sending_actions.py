"""The two paths of an action to the daemon: the file of the run that the server is in, or the inbox."""

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import anyio

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exchange.acting import TooLong, leave, result_so_far
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.shell.request_waiting import PATIENCE_S
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.rundir.acting_inside import ResultsOfRun, append_intent
from runward.daemon.rundir.tailing import NotRegular
from runward.daemon.store.ownership import holder
from runward.handlers.exchange.intent import Intent, as_intent

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
