"""Actions that people take in the exchange: what they give, sent through the inbox one after another, each waiting for its result."""

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from functools import wraps
from typing import Final, NamedTuple

import click

from runward.config.document import read_json
from runward.config.intent import NotAnIntent, read_intent
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import GOOD, NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.asking import PATIENCE_S, ask_daemon, new_request, wait_for
from runward.daemon.cli.shell.context import is_daemon_up, settings_in_force, store_to_read
from runward.daemon.cli.terminal import options
from runward.daemon.cli.terminal.options import json_option
from runward.daemon.cli.terminal.output import complain, fail, note, print_json, print_text, safe
from runward.daemon.store.tables.actions import action, held_job
from runward.daemon.store.tables.principals import agent_of
from runward.daemon.views.exchange import result_of
from runward.handlers.exchange.intent import Refused, result_to_json
from runward.handlers.model.exchange import ActionRequested

_SESSION = "RUNWARD_SESSION_ID"


TOO_LONG: Final = "the action is too long: an intent has at most 1 MiB"


def action_request(principal: str, intent: JsonValue) -> ActionRequested:
    """The request to carry out an action."""
    return new_request(ActionRequested, principal, json.dumps(intent, ensure_ascii=False))


class Acting:
    """Sends actions to the daemon of these settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, principal: str) -> None:
        """Exits 1 if the command runs inside a run whose agent is another."""
        session = os.environ.get(_SESSION)
        if session is None:
            return
        with store_to_read(self._settings) as connection:
            agent = agent_of(connection, session)
        if agent != principal:
            known = "has no agent" if agent is None else f"acts as {agent}"
            fail(f"this run {known}, so it can't act as {principal}", NOT_SO)

    def refuse_without_daemon(self) -> None:
        """Exits 75 if nobody would answer; nothing was sent then."""
        if not is_daemon_up(self._settings):
            fail("no daemon is running, so nothing was sent: start it, or add --no-wait", TRY_AGAIN)

    def send(self, principal: str, intent: JsonValue) -> str:
        """Leave the action in the inbox; returns its key."""
        self.check(principal)
        event = action_request(principal, intent)
        return ask_daemon(self._settings, event, before_any_daemon=True, too_long=TOO_LONG)

    def result(self, key: str) -> dict[str, JsonValue]:
        """The ActionResult; `internal_error` if its job is held."""
        return wait_for(
            self._settings,
            PATIENCE_S,
            lambda connection: result_so_far(connection, key),
            lambda: f"there is no result yet: runward exchange log shows it, as action {key}",
        )


def result_so_far(connection: sqlite3.Connection, key: str) -> dict[str, JsonValue] | None:
    """The ActionResult, None if there is none yet. An action whose job is held counts as `internal_error` meanwhile."""
    row = action(connection, key)
    if row is not None:
        return None if row.hash is None else result_of(row)
    job = held_job(connection, key)
    if job is None:
        return None
    why = (
        f"Runward failed at this action, so job {job} is held: `runward queue` says why, and `runward queue"
        f" retry {job}` carries it out"
    )
    return result_to_json(Refused("internal_error", why).result())


AS: Final = click.option(
    "--as",
    "principal",
    required=True,
    metavar="P",
    shell_complete=completing.principals,
    help="The principal who acts.",
)


class Act(NamedTuple):
    """Has an action carried out as its command's options say."""

    context: click.Context
    principal: str
    reason: str
    wait: bool
    as_json: bool

    def __call__(self, intent: dict[str, JsonValue], if_not_found: str | None = None) -> None:
        """Have the action carried out and print its result. Exits 1 if it failed, 2 if it is not an action.

        `if_not_found` is a note for people whose action failed with `not_found`.
        """
        try:
            read_intent(intent)
        except NotAnIntent as error:
            fail(str(error), WRONG_USAGE)
        acting = Acting(settings_in_force(self.context))
        # Before it is sent: an action that is kept would be carried out later, when its sender no longer expects it.
        if self.wait:
            acting.refuse_without_daemon()
        key = acting.send(self.principal, intent)
        if not self.wait:
            return
        result = acting.result(key)
        if self.as_json:
            print_json(result)
        else:
            _tell(result)
            if if_not_found is not None and result.get("error_code") == "not_found":
                note(if_not_found)
        sys.exit(GOOD if result["success"] else NOT_SO)


def acts(command: Callable[..., None]) -> Callable[..., None]:
    """`--reason`, `--no-wait` and `--json` of a command that takes an action `AS` a principal: it is given an `Act`."""

    @click.option("--reason", default="", metavar="TEXT", help="The reason, for the log.")
    @click.option("--no-wait", is_flag=True, help="Don't wait for the result, and print nothing.")
    @json_option("Print the ActionResult as JSON.")
    @wraps(command)
    def with_act(principal: str, reason: str, no_wait: bool, as_json: bool, **given: object) -> None:
        context = click.get_current_context()
        command(Act(context, principal, reason, not no_wait, as_json), **given)

    return with_act


def _tell(result: dict[str, JsonValue]) -> None:
    """The result of an action, for people: what it returns, or why it failed."""
    if not result["success"]:
        click.echo(f"{safe(str(result['error_code']))}: {safe(str(result['message']))}", err=True)
        return
    data = result["data"]
    shown: JsonValue = None
    if isinstance(data, dict):
        artifact = data.get("artifact")
        shown = artifact.get("content") if isinstance(artifact, dict) else data.get("result")
    if isinstance(shown, str):
        click.echo(safe_text(shown))
    elif shown is not None:
        print_json(shown)
    else:
        print_text(safe(str(result["message"])))


def safe_text(text: str) -> str:
    """Text of several lines, safe for a terminal."""
    return "\n".join(safe(line) for line in text.split("\n"))


MOST_TEXT: Final = 1 << 20
"""Bytes of a file with content or code."""

_AS_JSON: Final = ":="


def text_of(path: str) -> str:
    """The text of a file, or of stdin for `-`. Exits 2 or 3 if there is none."""
    return options.text_of(path, MOST_TEXT)


def json_of(text: str, named: str) -> JsonValue:
    """The value of a JSON text. Exits 2 if it is invalid."""
    parsed = read_json(text, named)
    if parsed.value is None:
        complain(parsed.problems)
        sys.exit(WRONG_USAGE)
    return parsed.value.root


def argument_of(text: str) -> JsonValue:
    """An ARG: text, or JSON after `:=`."""
    return json_of(text.removeprefix(_AS_JSON), text) if text.startswith(_AS_JSON) else text
