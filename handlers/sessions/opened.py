"""An attempt started: the first one opens the session and fixes its contract for good.

The contract in force is the launcher's snapshot if there is one. Else it is what is declared at the
daemon's first look, or when the session's hook spoke before that (ADR-0029, section 5): by the playbook and the agent
that the session names or, if another tool's session names no playbook, by the rules of the settings. A playbook that
is missing or wrong is the operator's mistake: no contract, and the problem shown.
"""

import posixpath
import re
from typing import Final

from msgspec.structs import replace

from runward.config.contract import Contract
from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.handlers import shows
from runward.handlers.contracts.fold import Folded, Unfoldable, fold_legs, why_too_late
from runward.handlers.contracts.snapshots import (
    NO_CONTRACT,
    DeclaredNow,
    Snapshot,
    declared_now,
    snapshot_from_run,
    snapshot_of,
    stored_contract,
)
from runward.handlers.contracts.verify import boundary
from runward.handlers.invocations import of_play
from runward.handlers.journal import lines
from runward.handlers.journal.place import journal_directory
from runward.handlers.layouts import show
from runward.handlers.layouts.foreign_values import UUID
from runward.handlers.layouts.native import LAYOUT
from runward.handlers.model.asking import Asking, Given, TryLater, ask
from runward.handlers.model.chains import chain_run_of
from runward.handlers.model.contracts import Declarations, DeclaredContract, LegsBefore
from runward.handlers.model.effects import Deciding, Effect, Effects, Explain
from runward.handlers.model.files import Unreadable
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.invocations import InvocationOf
from runward.handlers.model.journal import AppendLines
from runward.handlers.model.processes import RecordedProcess, Whereabouts
from runward.handlers.model.sessions import (
    AttemptEnded,
    AttemptStarted,
    ContractBasis,
    DeclaredToHook,
    FoldContract,
    HoldToLaunch,
    HookDeclaration,
    HookSpoke,
    Launch,
    LaunchOf,
    NoteHook,
    OpenAttempt,
    OpenSession,
    RefuseFold,
    RootOf,
    Session,
    SessionDeclaration,
    SessionOf,
    why_started,
)

_UUID: Final = re.compile(UUID, re.ASCII)
_LAUNCHED_ANEW: Final = "it was launched again under another contract, which applies from that attempt on"


def open_attempt(event: AttemptStarted, given: Given) -> Deciding:
    """An attempt started: the first one opens the session and fixes its contract for good."""
    session = yield from ask(SessionOf(event.session_key))
    if session is None:
        return (yield from _open(event, given.event_hash))
    resumed = _resume(event, given.event_hash, session)
    if session.layout != LAYOUT:
        return resumed
    launch = yield from ask(LaunchOf(event.session_key))
    # A run that was launched again in the same directory may have another contract.
    if launch is None or is_as_launched(session, launch):
        return resumed
    return (*held_to_launch(event, given.event_hash, session, launch, _LAUNCHED_ANEW), *resumed)


def _open(event: AttemptStarted, event_hash: str) -> Deciding:
    declaration = event.declaration
    if declaration is None:
        summary = f"attempt {event.attempt} was reported of a session that never started"
        return (Explain(event.session_key, "refused", summary),)
    # The show orders the play: nothing in the files decides which invocation it is.
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
    declared, basis = yield from _in_force(event, declaration)
    if declared.playbook != declaration.playbook:
        declaration = replace(declaration, playbook=declared.playbook)
    if declared.snapshot.contract is None:
        basis = None
    return _opening(event, event_hash, declaration, declared, basis)


def _in_force(
    event: AttemptStarted, declaration: SessionDeclaration
) -> Asking[tuple[DeclaredNow, ContractBasis | None]]:
    """What is declared for the session, and what that rests on."""
    nothing = DeclaredNow(NO_CONTRACT, declaration.playbook, None)
    # If the session was over when it was first seen, what is declared now may be younger than its work.
    by_look: ContractBasis = "late" if event.seen_over else "first_look"
    # What ended before the root was first seen gets no contract. Nor does an agent inside a launched run: the run's
    # contract covers what both leave.
    if event.origin == "history" or declaration.launcher is not None:
        return nothing, None
    # The launcher's record comes before the run's own files, which the run can replace.
    launch = (yield from ask(LaunchOf(event.session_key))) if declaration.layout == LAYOUT else None
    if launch is not None:
        text = launch.contract_json
        kept = NO_CONTRACT if text is None else Snapshot(stored_contract(text), text, None)
        return nothing._replace(snapshot=kept), "launcher"
    if declaration.has_snapshot:  # somebody wrote run.json by hand
        return nothing._replace(snapshot=snapshot_from_run(declaration.contract)), by_look
    told = None if declaration.layout == LAYOUT else (yield from _told_to_hook(event))
    if told is not None:
        return told, "hook"
    return (yield from declared_now(declaration)), by_look


def _told_to_hook(event: AttemptStarted) -> Asking[DeclaredNow | None]:
    """What was declared when the session's hook reported its first prompt. None if it didn't, or nothing was."""
    answer = yield from ask(DeclaredToHook(event.session_key))
    if answer is None:
        return None
    # Nothing was declared at the prompt, but there may be something now: the files may name an agent that a rule asks
    # for.
    if answer.contract_json is None and answer.problem is None:
        return None
    contract = None if answer.contract_json is None else stored_contract(answer.contract_json)
    return DeclaredNow(Snapshot(contract, answer.contract_json, answer.problem), answer.playbook, answer.rule)


def _opening(
    event: AttemptStarted,
    event_hash: str,
    declaration: SessionDeclaration,
    declared: DeclaredNow,
    basis: ContractBasis | None,
) -> Effects:
    (contract, contract_json, problem), rule = declared.snapshot, declared.rule
    known: dict[str, JsonValue] = {"contract_basis": basis, "contract_problem": problem}
    if rule is not None:
        known |= {"contract_rule": rule, "playbook": declaration.playbook}
    effects: list[Effect] = [
        OpenSession(
            key=event.session_key,
            at=event.at,
            declaration=declaration,
            origin=event.origin,
            reason=why_started(event.key, is_first=True),
            source="daemon",
            contract_json=contract_json,
            contract_basis=basis,
            contract_problem=problem,
        ),
        Explain(
            event.session_key,
            "refused" if problem else "decided",
            _explanation(contract, basis, problem, rule, declaration.launcher),
            known,
        ),
    ]
    # Runward adds no line to the journal of what ended before it knew the root.
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
            key=event.session_key,
            attempt=event.attempt,
            at=event.at,
            replaces=session.status,
            reason=why_started(event.key, is_first=False),
            source="daemon",
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


def note_hook(event: HookSpoke, given: Given) -> Deciding:
    """An agent's hook reported something: note the session and, at the first prompt, what is declared for it.

    The session begins when its files say so; anything else a hook says, the files say as well.
    """
    session = yield from ask(SessionOf(event.session_key))
    at = min(event.at, given.at)
    ancestors = tuple(RecordedProcess(pid, ticks, event.boot_id) for pid, ticks in event.ancestors)
    whereabouts = Whereabouts(event.machine, event.boot_id, event.namespace)
    note = NoteHook(
        key=event.session_key,
        at=at,
        kind=event.kind,
        ancestors=ancestors,
        launcher_session=event.launcher_session,
        whereabouts=whereabouts,
    )
    # A contract is fixed before the agent works. Once its files show that it does, this is too late.
    if event.kind != "prompted" or session is not None:
        return (note,)
    why = yield from _not_followed(event)
    if why is not None:
        return note, Explain(event.session_key, "refused", f"nothing is fixed by its hook: {why}")
    declared = yield from declared_now(_declaration(event))
    return replace(note, declared=_noted(declared, at)), Explain(
        event.session_key, "decided", _said(declared)
    )


def _is_named_after(name: str, session_id: str) -> bool:
    """Whether a log has the session's id for a name, or a whole UUID at its end, as Codex's and Pi's have."""
    is_whole = _UUID.fullmatch(session_id) is not None
    return name == f"{session_id}.jsonl" or (
        is_whole and name.endswith((f"-{session_id}.jsonl", f"_{session_id}.jsonl"))
    )


def _not_followed(event: HookSpoke) -> Asking[str | None]:
    """Why no session that could be held to anything will follow, if so."""
    path = event.transcript_path
    if path is None or event.cwd is None:
        return "it names no transcript or no working directory"
    # Any program may call a hook. It must not fix the contract of a session that is another one's.
    if not _is_named_after(posixpath.basename(path), event.session_id):
        return f"it names another session's transcript: {path}"
    root = yield from ask(RootOf(event.layout, path))
    return f"no root watches {path}; add one to runward.toml" if root is None else None


def _declaration(event: HookSpoke) -> SessionDeclaration:
    path, cwd = event.transcript_path or "", event.cwd or ""
    return SessionDeclaration(
        session_id=event.session_id,
        layout=event.layout,
        root="",
        path=path,
        kind="agent",
        artifacts_path=cwd,
        cwd=cwd,
        prompt=event.prompt,
    )


def _noted(declared: DeclaredNow, at: float) -> HookDeclaration:
    snapshot = declared.snapshot
    return HookDeclaration(at, declared.playbook, snapshot.text, snapshot.problem, declared.rule)


def _said(declared: DeclaredNow) -> str:
    contract, _, problem = declared.snapshot
    if problem is not None:
        return f"its hook reported its first prompt: no contract: {problem}"
    if contract is None:
        return "its hook reported its first prompt: nothing is declared for it"
    return f"its hook reported its first prompt: a contract of {counted(len(contract.expected), 'artifact', 'artifacts')} is fixed"


def fold_plan(event: FlowPlanned, given: Given) -> Deciding:
    """A flow was planned: what its legs must leave behind is folded into the session's contract, once, before a leg
    works.

    ADR-0029 (DAG-flow extension) allows this one further write of a contract. A plan that is too late, comes again or
    can't be folded is refused: the contract stays as it is, and the session keeps the reason.
    """
    session = yield from ask(SessionOf(event.session_key))
    if session is None:
        return (Explain(event.session_key, "refused", "a flow was planned for a session that never started"),)
    why = _why_never(event, session)
    if why is not None:
        return _refused(event, given.event_hash, session, why)
    # A run that failed could afterwards plan exactly what it happens to have left. So the plan must be older than what
    # its legs left.
    early = yield from ask(
        LegsBefore(
            session.artifacts_path,
            boundary(session.artifacts_path, session.path),
            tuple(leg.path for leg in event.legs),
            event.modified_ns,
            event.changed_ns,
        )
    )
    if isinstance(early, Unreadable):
        raise TryLater(f"the legs of {event.session_key} can't be looked at: {early.why}")
    why = why_too_late(event.legs, early, event.filled)
    if why is not None:
        return _refused(event, given.event_hash, session, why)
    contract = stored_contract(session.contract_json) if session.contract_json is not None else None
    # Agents are read when the plan is seen, as a first look reads a playbook.
    declared: dict[str, Declarations] = {}
    for agent in dict.fromkeys(leg.agent for leg in event.legs):
        declared[agent] = yield from ask(DeclaredContract(None, agent))
    folded = fold_legs(contract, event.legs, declared)
    if isinstance(folded, Unfoldable):
        return _refused(event, given.event_hash, session, folded.why)
    return _folded(event, given.event_hash, session, folded)


def _why_never(event: FlowPlanned, session: Session) -> str | None:
    """Why a session accepts no plan, whatever is in it."""
    if session.origin == "history":
        return "what ended before its root was first seen has no contract"
    if session.folded:
        return "it is not the plan whose legs are in the contract, and only one plan counts"
    if event.attempt > 1 or session.attempt > 1:
        return "an earlier attempt was held to the contract already"
    if session.status != "running":
        return f"it came after the session was over ({session.status})"
    if session.contract_problem is not None and session.contract_json is None:
        return f"there is no contract that it could be folded into: {session.contract_problem}"
    return None


def _refused(event: FlowPlanned, event_hash: str, session: Session, why: str) -> Effects:
    problem = f"flow.json: {why}"
    refused: Effects = (
        RefuseFold(event.session_key, problem),
        Explain(
            event.session_key,
            "refused",
            f"the plan's legs are not folded into the contract: {why}",
            {"legs": [leg.id for leg in event.legs]},
        ),
    )
    if session.origin == "history" or session.contract_problem is not None:
        return refused  # only the first problem is kept
    content = lines.contract_not_folded(event, event_hash, problem)
    live = session.status == "running"
    return (*refused, AppendLines(event.session_key, session.path, lines.EVENTS, content, live))


def _folded(event: FlowPlanned, event_hash: str, session: Session, folded: Folded) -> Effects:
    basis: ContractBasis = "late" if event.seen_over else "first_look"
    content = lines.contract_folded(event, event_hash, folded.added, basis, folded.contract)
    return (
        FoldContract(
            event.session_key,
            snapshot_of(folded.contract).text,
            basis if folded.contract is not None else None,
        ),
        Explain(
            event.session_key,
            "decided",
            f"{counted(len(folded.added), 'artifact', 'artifacts')} of {counted(len(event.legs), 'leg', 'legs')} folded into the contract ({basis})",
            {"legs": [leg.id for leg in event.legs], "folded": [entry.id for entry in folded.added]},
        ),
        AppendLines(event.session_key, session.path, lines.EVENTS, content, live=True),
    )


def is_as_launched(session: Session, launch: Launch) -> bool:
    """Whether the session is held to what its launcher recorded. The legs of a flow may have been added to it."""
    if session.contract_json == launch.contract_json:
        return True
    if not session.folded or session.contract_json is None:
        return False
    own = stored_contract(launch.contract_json).expected if launch.contract_json is not None else ()
    return stored_contract(session.contract_json).expected[: len(own)] == own


def held_to_launch(
    event: AttemptStarted | AttemptEnded, event_hash: str, session: Session, launch: Launch, problem: str
) -> Effects:
    """Replace the session's contract by what the launcher recorded, and note that in the journal."""
    contract = None if launch.contract_json is None else stored_contract(launch.contract_json)
    line = lines.contract_held(event, event_hash, contract, problem)
    return (
        HoldToLaunch(session.key, launch.contract_json, problem),
        AppendLines(session.key, session.path, lines.EVENTS, line, live=session.status == "running"),
    )
