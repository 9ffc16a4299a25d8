"""An attempt started: the first one opens the session and fixes its contract for good.

The contract in force is the launcher's snapshot if there is one. Else it is what is declared at the
daemon's first look, or when the session's hook spoke before that (ADR-0029, section 5): by the playbook and the agent
that the session names or, if another tool's session names no playbook, by the rules of the settings. A playbook that
is missing or wrong is the operator's mistake: no contract, and the problem shown.
"""

from typing import Final

from msgspec.structs import replace

from runward.config.contract import Contract
from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.handlers.contracts.declared import DeclaredNow, declared_now
from runward.handlers.contracts.snapshots import NO_CONTRACT, Snapshot, snapshot_from_run, stored_contract
from runward.handlers.invocations.ids import of_play
from runward.handlers.journal import lines
from runward.handlers.journal.place import journal_directory
from runward.handlers.layouts import show
from runward.handlers.layouts.native import LAYOUT
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.chains import chain_run_of
from runward.handlers.model.effects import Deciding, Effect, Effects, Explain
from runward.handlers.model.invocations import InvocationOf
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.sessions import (
    AttemptStarted,
    ContractBasis,
    DeclaredToHook,
    LaunchOf,
    OpenAttempt,
    OpenSession,
    Session,
    SessionDeclaration,
    SessionOf,
    why_started,
)
from runward.handlers.sessions.launched import held_to_launch, is_as_launched
from runward.handlers.shows import recording as shows

_LAUNCHED_ANEW: Final = "it was launched again under another contract, which applies from that attempt on"


def decide(event: AttemptStarted, given: Given) -> Deciding:
    """An attempt started: the first one opens the session and fixes its contract for good.

    Open the session, or its next attempt.
    """
    session = yield from ask(SessionOf(event.session_key))
    if session is None:
        return (yield from _open(event, given.event_hash))
    resumed = _resume(event, given.event_hash, session)
    if session.layout != LAYOUT:
        return resumed
    launch = yield from ask(LaunchOf(event.session_key))
    if launch is None or is_as_launched(session, launch):
        return resumed
    return (*held_to_launch(event, given.event_hash, session, launch, _LAUNCHED_ANEW), *resumed)


def _open(event: AttemptStarted, event_hash: str) -> Deciding:
    declaration = event.declaration
    if declaration is None:
        summary = f"attempt {event.attempt} was reported of a session that never started"
        return (Explain(event.session_key, "refused", summary),)
    if declaration.layout == show.LAYOUT and event.origin == "live":
        declaration = replace(declaration, invocation_id=of_play(event.session_key))
        play = yield from shows.begun(event.session_key, declaration.path, event.at)
        return (*(yield from _declared(event, event_hash, declaration)), *play)
    if declaration.invocation_id is not None or chain_run_of(event.session_key) is not None:
        # A run's files may name any invocation, or none: whatever ordered the session says which one it belongs to.
        ordered = yield from ask(InvocationOf(event.session_key))
        declaration = replace(declaration, invocation_id=None if ordered is None else ordered.id)
    return (yield from _declared(event, event_hash, declaration))


def _declared(event: AttemptStarted, event_hash: str, declaration: SessionDeclaration) -> Deciding:
    """Open the session under the contract in force for it."""
    if event.origin == "history":  # what ended before the root was first seen gets no contract
        return _opening(event, event_hash, declaration, NO_CONTRACT, None)
    if declaration.launcher is not None:
        return _opening(event, event_hash, declaration, NO_CONTRACT, None)
    basis: ContractBasis
    launch = (yield from ask(LaunchOf(event.session_key))) if declaration.layout == LAYOUT else None
    if launch is not None:
        text = launch.contract_json
        kept = NO_CONTRACT if text is None else Snapshot(stored_contract(text), text, None)
        return _opening(event, event_hash, declaration, kept, None if text is None else "launcher")
    if declaration.has_snapshot:  # somebody wrote run.json by hand
        snapshot = snapshot_from_run(declaration.contract)
        basis = "late" if event.seen_over else "first_look"
        return _opening(event, event_hash, declaration, snapshot, basis if snapshot.contract else None)
    declared = None if declaration.layout == LAYOUT else (yield from _told_to_hook(event))
    if declared is not None:
        basis = "hook"
    else:
        declared = yield from declared_now(declaration)
        basis = "late" if event.seen_over else "first_look"
    if declared.playbook != declaration.playbook:
        declaration = replace(declaration, playbook=declared.playbook)
    known_basis = basis if declared.snapshot.contract is not None else None
    return _opening(event, event_hash, declaration, declared.snapshot, known_basis, declared.rule)


def _told_to_hook(event: AttemptStarted) -> Asking[DeclaredNow | None]:
    """What was declared when the session's hook reported its first prompt. None if it didn't, or nothing was."""
    answer = yield from ask(DeclaredToHook(event.session_key))
    if answer is None:
        return None
    if answer.contract_json is None and answer.problem is None:
        return None  # the files may name an agent that a rule asks for
    contract = None if answer.contract_json is None else stored_contract(answer.contract_json)
    return DeclaredNow(Snapshot(contract, answer.contract_json, answer.problem), answer.playbook, answer.rule)


def _opening(
    event: AttemptStarted,
    event_hash: str,
    declaration: SessionDeclaration,
    snapshot: Snapshot,
    basis: ContractBasis | None,
    rule: str | None = None,
) -> Effects:
    contract, contract_json, problem = snapshot
    known: dict[str, JsonValue] = {"contract_basis": basis, "contract_problem": problem}
    if rule is not None:
        known |= {"contract_rule": rule, "playbook": declaration.playbook}
    effects: list[Effect] = [
        OpenSession(
            event.session_key,
            event.at,
            declaration,
            event.origin,
            why_started(event.key, is_first=True),
            "daemon",
            contract_json,
            basis,
            problem,
        ),
        Explain(
            event.session_key,
            "refused" if problem else "decided",
            _explanation(contract, basis, problem, rule, declaration.launcher),
            known,
        ),
    ]
    if event.origin == "live":
        written = lines.session_started(event, event_hash, declaration, problem)
        if contract is not None:
            written += lines.contract_snapshotted(event, event_hash, contract, basis)
        journal = journal_directory(declaration.layout, event.session_key, declaration.path)
        effects.append(AppendLines(event.session_key, journal, lines.EVENTS, written, live=True))
    return tuple(effects)


def _explanation(
    contract: Contract | None,
    basis: ContractBasis | None,
    problem: str | None,
    rule: str | None,
    launcher: str | None,
) -> str:
    if launcher is not None:
        return f"it was started in {launcher}, which has the contract of both, if there is one"
    if problem is not None:
        return f"no contract: {problem}"
    by = f" by the rule at {rule}" if rule is not None else ""
    if contract is None:
        return f"no contract was declared{by}: nothing will be verified"
    return f"contract of {counted(len(contract.expected), 'artifact', 'artifacts')} fixed{by} ({basis})"


def _resume(event: AttemptStarted, event_hash: str, session: Session) -> Effects:
    if session.status == "running" or event.attempt != session.attempt + 1:
        return (
            Explain(
                event.session_key,
                "refused",
                f"attempt {event.attempt} doesn't follow attempt {session.attempt} ({session.status})",
            ),
        )
    journal = journal_directory(session.layout, event.session_key, session.path)
    opened: Effects = (
        OpenAttempt(
            event.session_key,
            event.attempt,
            event.at,
            session.status,
            why_started(event.key, is_first=False),
            "daemon",
        ),
        Explain(event.session_key, "decided", f"attempt {event.attempt} opened, under the same contract"),
    )
    if event.origin == "history":
        return opened
    return (
        *opened,
        AppendLines(
            event.session_key, journal, lines.EVENTS, lines.session_resumed(event, event_hash), live=True
        ),
    )
