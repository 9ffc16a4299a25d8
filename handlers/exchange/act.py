"""An intent is carried out: it becomes an action, with exactly one result.

If code must run, the same action is worked out in parallel with the worker, over the exchange as it was. It counts
only if what it read has not changed; otherwise it is worked out again. So code may run more than once, but its effects
happen once.
"""

from collections.abc import Callable
from typing import Final

from runward.config.intent import Intent, NotAnIntent
from runward.config.json_value import JsonValue
from runward.handlers.exchange import artifacts, genesis, invoke
from runward.handlers.exchange.accounts import (
    Accounts,
    NeedsCode,
    accounts_of,
    memory_artifact,
    principal_artifact,
    taken,
)
from runward.handlers.exchange.intent import ActionResult, Refused, parse_intent, result_to_json, shown
from runward.handlers.exchange.reading import (
    Acted,
    ActedWithCode,
    CodeOf,
    CodeRan,
    Decided,
    ReadTooMuch,
    Running,
    Unable,
)
from runward.handlers.model.asking import Asking, Given, NotYet, ask
from runward.handlers.model.effects import Deciding, Emit, Explain
from runward.handlers.model.exchange import (
    ActionRequested,
    ActionTaken,
    CountIntent,
    CpuUsedBy,
    IntentMade,
    MintRequested,
    Principal,
    PrincipalCreateRequested,
    RecordAction,
    UseCpu,
)
from runward.handlers.subjects import of_principal
from runward.handlers.times import iso_time

_SHOWN_TEXT: Final = 100
"""Characters of a line that is not an intent, as shown in its result."""

SOON: Final = 0.01
"""Seconds until the first check for the result of code. Later checks wait a quarter of the time that it has run."""

LATEST: Final = 0.5

MOST_ATTEMPTS: Final = 3
"""How often an action is worked out. If others change each time what it reads, it fails: nobody waits for its code."""


def carry_out(event: IntentMade | ActionRequested, given: Given) -> Deciding:
    """What carrying an intent out does. Raises `NotYet` while code runs."""
    accounts = accounts_of(event.key, given)
    try:
        # The action is first worked out here, where no code runs. Refusals, and everything that needs no code, cost no
        # thread and no process.
        decided = yield from worked_out(accounts, event)
    except NeedsCode:
        ran = yield from _with_code(event, given)
        if isinstance(ran, Unable):
            return (yield from _without_code(event, given, ran.why))
        acted, holds = ran
        worked, cpu_s = acted.worked, acted.cpu_s
        decided, sandbox = worked.decided, worked.sandbox
        # It counts only if what it read still holds. Otherwise others overtook it each time, and it fails.
        effects = worked.effects if holds else accounts.effects
        accounts = accounts_of(event.key, given)
        accounts.payer = event.principal
        accounts.adopt(effects)
        if not holds:
            # It fails, but what was delivered to its code is paid for.
            yield from accounts.settle(worked.paid)
            decided = decided._replace(result=_failed(accounts, _conflict(acted.number)))
    else:
        # Code may have started for it before another action made it unnecessary. Its CPU time and its purchases are
        # charged all the same.
        in_vain, sandbox = (yield from _ran_in_vain(event, given)), None
        cpu_s = in_vain.cpu_s
        if in_vain.paid:
            accounts.payer = event.principal
            yield from accounts.settle(in_vain.paid)
            decided = decided._replace(result=_costing(accounts, decided.result))
    if event.principal is not None and (sandbox is not None or cpu_s > 0.0):
        decided = _charged(decided, event.principal, cpu_s, sandbox)
    if event.principal is not None and cpu_s > 0.0:
        # CPU time is charged whatever the result is.
        rules = yield from accounts.rules()
        accounts.effects.append(UseCpu(event.principal, given.at, cpu_s, given.at - rules.cpu_window))
    return (yield from _recorded(accounts, event, given, decided))


def _scrip_after(accounts: Accounts, who: str | None) -> Asking[int | None]:
    """What the principal of an action has after it. None if there is no principal."""
    if who is None or (yield from accounts.principal(who)) is None:
        return None
    return (yield from accounts.balance(who))


def _conflict(attempts: int) -> Refused:
    """Why an action fails that others overtook again and again: nobody waits for its code."""
    return Refused(
        "conflict", f"others changed what the code had read, {attempts} times while it ran", attempts=attempts
    )


def _failed(accounts: Accounts, refused: Refused) -> ActionResult:
    """The result of an action that fails, with the price of what was delivered before."""
    return _costing(accounts, refused.result())


def _costing(accounts: Accounts, result: ActionResult) -> ActionResult:
    if accounts.spent == 0:
        return result
    consumed = {**(result.resources_consumed or {}), "scrip": accounts.spent}
    return result._replace(resources_consumed=consumed, charged_to=result.charged_to or accounts.payer)


def _ran_in_vain(event: IntentMade | ActionRequested, given: Given) -> Asking[CodeRan]:
    """The code that started for this action before other actions made it unnecessary."""
    ran = yield from ask(CodeOf(event.key))
    if isinstance(ran, Running):
        raise NotYet(given.at + min(LATEST, max(SOON, ran.seconds / 4)))
    return ran


def _without_code(event: IntentMade | ActionRequested, given: Given, why: str) -> Deciding:
    """Carry out an action for which code should run, but can't."""
    accounts = accounts_of(event.key, given)
    accounts.why_no_code = why
    decided = yield from worked_out(accounts, event)
    return (yield from _recorded(accounts, event, given, decided))


def _with_code(event: IntentMade | ActionRequested, given: Given) -> Asking[tuple[Acted, bool] | Unable]:
    """The result of the action, and whether what it read still holds. It is worked out only so many times."""
    used = () if event.principal is None else (yield from ask(CpuUsedBy(event.principal)))
    acted = yield from ask(ActedWithCode(event, given, used=used))
    while isinstance(acted, Acted):
        if (yield from acted.worked.reading.holds()):
            return acted, True
        # Nobody waits for the code of others. So it can't be given a turn of its own, and fails instead.
        if acted.number >= MOST_ATTEMPTS:
            return acted, False
        used_now = (*used, (given.at, acted.cpu_s))
        acted = yield from ask(ActedWithCode(event, given, acted.number, used_now))
    if isinstance(acted, Unable):
        return acted
    raise NotYet(given.at + min(LATEST, max(SOON, acted.seconds / 4)))


def _charged(decided: Decided, who: str, cpu_s: float, sandbox: str | None) -> Decided:
    """Charge the CPU time, whatever the result of the action."""
    result = decided.result
    consumed = {**(result.resources_consumed or {}), "cpu_seconds": cpu_s}
    charged_to = result.charged_to or who
    return decided._replace(
        result=result._replace(resources_consumed=consumed, charged_to=charged_to, sandbox=sandbox)
    )


def worked_out(accounts: Accounts, event: IntentMade | ActionRequested) -> Asking[Decided]:
    """The result of an action, with its effects in `accounts`. Raises `NeedsCode`."""
    intent = None
    try:
        intent = _parsed(event.text, event.complaint if isinstance(event, IntentMade) else None)
        if isinstance(event, IntentMade):
            acts = yield from _agent(accounts, event, intent)
        else:
            acts = yield from _named(accounts, event.principal)
        result = yield from _acted(accounts, acts, intent)
    # A refusal is a result like any other: each intent has exactly one.
    except Refused as refused:
        result = _failed(accounts, refused)
    return Decided(intent, result)


def _parsed(text: str, complaint: str | None) -> Intent:
    if complaint is not None:
        raise Refused("invalid_argument", complaint)
    try:
        return parse_intent(text.encode())
    except NotAnIntent as error:
        raise Refused("invalid_argument", str(error)) from None


def _named(accounts: Accounts, who: str) -> Asking[str]:
    principal = yield from accounts.principal(who)
    if principal is None:
        raise Refused("not_found", f"there is no principal {who}")
    _check_standing(principal)
    return who


def _check_standing(principal: Principal) -> None:
    if not principal.has_standing:
        raise Refused(
            "not_authorized",
            f"{principal.id} has no standing, so it can't act: its owner may give it standing",
        )


def _agent(accounts: Accounts, event: IntentMade, intent: Intent) -> Asking[str]:
    """The principal that a run acts as. It becomes one with its first intent. Raises `Refused`."""
    who = event.principal
    if who is None:
        raise Refused(
            "not_authorized", "this run has no agent, so it can't act as a principal: start it with --agent"
        )
    if event.nameless:
        raise Refused(
            "not_authorized",
            "this run does not say who it is, so a copy of its directory could not be known from it:"
            " write session_id and started_at into run.json before its intents",
        )
    if intent.principal_id is not None and intent.principal_id != who:
        raise Refused("not_authorized", f"this run acts as {who}, and not as {intent.principal_id}")
    principal = yield from accounts.principal(who)
    # The run's directory belongs to the user who wrote its intents. Only users that a principal names may act as it.
    if event.owner is not None and (principal is None or event.owner not in principal.users):
        raise Refused(
            "not_authorized", f"the user {event.owner}, who owns the run directory, may not act as {who}"
        )
    if principal is None:
        principal = Principal(
            id=who,
            created_at=accounts.at,
            users=(),
            disk_quota=0,
            disk_used=0,
            cpu_seconds=0.0,
            disk_default=None,
        )
        own = principal_artifact(who, who, accounts.at)
        yield from accounts.attempt(accounts.create_principal(principal, own))
    _check_standing(principal)
    if event.launched and principal.disk_default is None:
        yield from accounts.give_defaults(principal)
    return who


def _acted(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    """The result of an intent. Nothing is changed if it raises `Refused`."""
    accounts.payer = who
    try:
        return (yield from accounts.attempt(_ACTIONS[intent.action_type](accounts, who, intent)))
    except ReadTooMuch as error:
        raise Refused("runtime_error", str(error)) from None


def _noop(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    yield from ()
    return ActionResult(True, "nothing was done")


def _read(accounts: Accounts, who: str, intent: Intent) -> Asking[ActionResult]:
    own = genesis.genesis_artifact(intent.artifact_id)
    if own is None:
        return (yield from artifacts.read(accounts, who, intent))
    methods: list[JsonValue] = [*sorted(genesis.METHODS.get(own.id, {}))]
    metadata: JsonValue = {
        **artifacts.artifact_to_json(own),
        "genesis_methods": methods,
        "broken_dependencies": [],
    }
    return ActionResult(True, f"read {own.id}", {"artifact": metadata, "read_price_paid": 0})


_ACTIONS: Final[dict[str, Callable[[Accounts, str, Intent], Asking[ActionResult]]]] = {
    "noop": _noop,
    "read_artifact": _read,
    "write_artifact": artifacts.write,
    "invoke_artifact": invoke.invoke,
    "delete_artifact": artifacts.delete,
    "transfer_artifact": artifacts.transfer_artifact,
}


def _recorded(
    accounts: Accounts, event: IntentMade | ActionRequested, given: Given, decided: Decided
) -> Deciding:
    """Everything that the action changes, and its result."""
    intent, result = decided
    scrip = yield from _scrip_after(accounts, event.principal)
    line = event if isinstance(event, IntentMade) else None
    written: JsonValue = shown(intent) if intent is not None else event.text[:_SHOWN_TEXT]
    outcome_json = result_to_json(result)
    kind, artifact = (None, None) if intent is None else (intent.action_type, intent.artifact_id or None)
    asked = None if intent is None else intent.id
    taken = ActionTaken(
        subject=event.key if line is None else f"{line.session_key}#{line.attempt}/action/{line.line}",
        action=event.key,
        at=given.at,
        principal=event.principal,
        action_type=kind,
        artifact_id=artifact,
        is_success=result.success,
        error_code=result.error_code,
        told={
            "ts": iso_time(given.at),
            "line": None if line is None else line.line,
            "id": asked,
            "intent": written,
            "result": outcome_json,
            "scrip_after": scrip,
            "sandbox": result.sandbox,
        },
        session_key=None if line is None else line.session_key,
    )
    record = RecordAction(
        key=event.key,
        at=given.at,
        principal=event.principal,
        session_key=None if line is None else line.session_key,
        line=None if line is None else line.line,
        action_type=kind,
        artifact_id=artifact,
        intent=written,
        result=outcome_json,
        is_success=result.success,
        error_code=result.error_code,
        scrip_after=scrip,
        told_in=taken.key,
        sandbox=result.sandbox,
    )
    # The bundle of a run waits until all its intents are counted.
    counted = () if line is None else (CountIntent(line.session_key),)
    return (*accounts.all_effects, record, *counted, Emit(taken))


MEMORY: Final = "_memory"
"""The suffix of the id of a principal's memory."""


def create_as_asked(event: PrincipalCreateRequested, given: Given) -> Deciding:
    """What creating a principal does, or why it is refused."""
    accounts = accounts_of(event.key, given)
    try:
        yield from _create(accounts, event)
    except Refused as refused:
        return (Explain(of_principal(event.principal), "refused", refused.message),)
    summary = f"created by {event.said_by}, with {event.scrip} scrip"
    return *accounts.all_effects, Explain(of_principal(event.principal), "decided", summary)


def _create(accounts: Accounts, event: PrincipalCreateRequested) -> Asking[None]:
    name = event.principal
    if (yield from accounts.principal(name)) is not None:
        raise Refused("invalid_argument", f"the principal {name} already exists")
    owner = event.owner or name
    if owner != name and (yield from accounts.principal(owner)) is None:
        raise Refused("not_found", f"its owner {owner} is not a principal")
    rules = yield from accounts.rules()
    cpu = rules.cpu_seconds if event.cpu_seconds is None else event.cpu_seconds
    quota = rules.disk_quota if event.disk_quota is None else event.disk_quota
    memory = f"{name}{MEMORY}" if event.has_memory else None
    is_default_cpu = event.cpu_seconds is None and not event.is_cpu_unlimited
    principal = Principal(
        id=name,
        created_at=accounts.at,
        users=event.users,
        disk_quota=quota,
        disk_used=0,
        cpu_seconds=None if event.is_cpu_unlimited else cpu,
        disk_default=rules.disk_quota if event.disk_quota is None else 0,
        cpu_default=rules.cpu_seconds if is_default_cpu else 0.0,
    )
    artifact = principal_artifact(
        name=name, owner=owner, at=accounts.at, is_agent=event.is_agent, config=event.config, memory=memory
    )
    yield from accounts.create_principal(principal, artifact)
    if memory is not None:
        yield from accounts.check_name(memory)
        kept = yield from accounts.artifact(memory)
        if kept is not None and kept.owner_id != name:
            raise taken(memory, f"an artifact of {kept.owner_id} has it")
        if kept is None:
            yield from accounts.keep(memory_artifact(memory, name, accounts.at))
    yield from accounts.mint(name, event.scrip, f"created by {event.said_by}")


def mint_units(event: MintRequested, given: Given) -> Deciding:
    """What minting does, or why it is refused."""
    accounts = accounts_of(event.key, given)
    reason = event.reason or f"minted by {event.said_by}"
    subject = of_principal(event.principal)
    try:
        if (yield from accounts.principal(event.principal)) is None:
            raise Refused("not_found", f"there is no principal {event.principal}")
        yield from accounts.mint(event.principal, event.amount, reason, event.resource)
    except Refused as refused:
        return (Explain(subject, "refused", refused.message),)
    what = f"{event.amount} {event.resource}"
    return *accounts.all_effects, Explain(subject, "decided", f"{what} minted by {event.said_by}: {reason}")
