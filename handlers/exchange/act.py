"""An intent is carried out: it becomes an action, with exactly one result."""

from collections.abc import Callable
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.asking import Asking, Given
from runward.handlers.effects import Deciding, Effects, Emit
from runward.handlers.exchange import artifacts, genesis, invoke
from runward.handlers.exchange.accounts import Accounts, accounts_of, why_no_principal
from runward.handlers.exchange.action_result import ActionResult, Refused, result_to_json
from runward.handlers.exchange.effects import RecordAction
from runward.handlers.exchange.events import ActionRequested, ActionTaken, IntentMade
from runward.handlers.exchange.intent import Intent, NotAnIntent, parse_intent, shown
from runward.handlers.journal.lines import iso_time

_SHOWN_TEXT: Final = 100
"""Characters of a line that is not an intent, in its result."""


def act_in_run(event: IntentMade, given: Given) -> Deciding:
    """Carry out what a run's agent wants done."""
    return (
        yield from _act(event, given, lambda accounts, intent: _agent(accounts, event, intent), line=event)
    )


def act_for_person(event: ActionRequested, given: Given) -> Deciding:
    """Carry out what a person wants done as a principal."""
    return (yield from _act(event, given, lambda accounts, intent: _named(accounts, event.principal)))


def _act(
    event: IntentMade | ActionRequested,
    given: Given,
    who_acts: Callable[[Accounts, Intent], Asking[str]],
    line: IntentMade | None = None,
) -> Asking[Effects]:
    accounts = accounts_of(event.key, given)
    intent = None
    try:
        intent = _parsed(event.text, None if line is None else line.complaint)
        who = yield from who_acts(accounts, intent)
        result = yield from acted(accounts, who, intent)
    except Refused as refused:
        result = refused.result(event.principal)
    return (yield from _recorded(accounts, event.principal, intent, event.text, result, given, line))


def _parsed(text: str, complaint: str | None) -> Intent:
    if complaint is not None:
        raise Refused("invalid_argument", complaint)
    try:
        return parse_intent(text.encode())
    except NotAnIntent as error:
        raise Refused("invalid_argument", str(error)) from None


def _named(accounts: Accounts, who: str) -> Asking[str]:
    if (yield from accounts.principal(who)) is None:
        raise Refused("not_found", f"there is no principal {who}")
    return who


def _agent(accounts: Accounts, event: IntentMade, intent: Intent) -> Asking[str]:
    """The principal that a run acts as, who becomes one with the first intent. Raises `Refused`."""
    who = event.principal
    if who is None:
        raise Refused(
            "not_authorized", "this run has no agent, so it acts as no principal: start it with --agent"
        )
    why = why_no_principal(who)
    if why is not None:
        raise Refused(
            "invalid_argument", f"the run's agent {who[:80]!r} can't be a principal: its name {why}"
        )
    if intent.principal_id is not None and intent.principal_id != who:
        raise Refused("not_authorized", f"this run acts as {who}, and not as {intent.principal_id}")
    principal = yield from accounts.principal(who)
    if event.owner is not None and (principal is None or event.owner not in principal.users):
        raise Refused(
            "not_authorized", f"the user {event.owner}, who owns the run directory, may not act as {who}"
        )
    if principal is None:
        yield from accounts.create_default(who, who)
        accounts.settle()
    return who


def acted(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    """What becomes of an intent. Nothing is changed where it raises `Refused`."""
    try:
        return (yield from _ACTIONS[intent.action_type](accounts, who, intent))
    except Refused:
        accounts.roll_back()
        raise


def _noop(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    yield from ()
    return ActionResult(True, "nothing was done")


def _read(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    own = genesis.genesis_artifact(intent.artifact_id)
    if own is None:
        return (yield from artifacts.read(accounts, who, intent))
    methods: list[JsonValue] = [*sorted(genesis.METHODS.get(own.id, {}))]
    told: JsonValue = {
        **artifacts.artifact_to_json(own),
        "genesis_methods": methods,
        "broken_dependencies": [],
    }
    return ActionResult(True, f"read {own.id}", {"artifact": told, "read_price_paid": 0})


_ACTIONS: Final[dict[str, Callable[[Accounts, str, Intent], Asking[ActionResult]]]] = {
    "noop": _noop,
    "read_artifact": _read,
    "write_artifact": artifacts.write,
    "invoke_artifact": invoke.invoke,
    "delete_artifact": artifacts.delete,
    "transfer_artifact": artifacts.transfer_artifact,
}


def _recorded(
    accounts: Accounts,
    who: str | None,
    intent: Intent | None,
    text: str,
    result: ActionResult,
    given: Given,
    line: IntentMade | None,
) -> Asking[Effects]:
    said: JsonValue = shown(intent) if intent is not None else text[:_SHOWN_TEXT]
    told = result_to_json(result)
    is_principal = who is not None and (yield from accounts.principal(who)) is not None
    scrip = (yield from accounts.balance(who)) if who is not None and is_principal else None
    kind, artifact = (None, None) if intent is None else (intent.action_type, intent.artifact_id or None)
    asked = None if intent is None else intent.id
    outcome = (kind, artifact, result.success, result.error_code)
    record = RecordAction(
        accounts.action,
        given.at,
        who,
        None if line is None else line.session_key,
        None if line is None else line.line,
        kind,
        artifact,
        said,
        told,
        result.success,
        result.error_code,
        scrip,
        result.sandbox,
    )
    taken = ActionTaken(
        accounts.action if line is None else f"{line.session_key}#{line.attempt}/action/{line.line}",
        accounts.action,
        given.at,
        who,
        *outcome,
        {
            "ts": iso_time(given.at),
            "line": None if line is None else line.line,
            "id": asked,
            "intent": said,
            "result": told,
            "scrip_after": scrip,
            "sandbox": result.sandbox,
        },
        None if line is None else line.session_key,
    )
    return (*accounts.effects, record, Emit(taken))
