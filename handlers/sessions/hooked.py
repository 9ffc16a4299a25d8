"""An agent's hook reported something: note the session and, at the first prompt, what is declared for it.

So its contract is fixed before the agent works. The session begins when its files say so; anything else a hook says,
the files say as well.
"""

import posixpath

from msgspec.structs import replace

from runward.config.counting import counted
from runward.handlers.contracts.declared import DeclaredNow, declared_now
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.processes import RecordedProcess, Whereabouts
from runward.handlers.model.sessions import (
    HookDeclaration,
    HookSpoke,
    NoteHook,
    RootOf,
    SessionDeclaration,
    SessionOf,
)


def decide(event: HookSpoke, given: Given) -> Deciding:
    """An agent's hook reported something: note the session and, at the first prompt, what is declared for it.

    Note what was said. At a prompt before the session is known, also note what is declared for it now.
    """
    session = yield from ask(SessionOf(event.session_key))
    at = min(event.at, given.at)
    ancestors = tuple(RecordedProcess(pid, ticks, event.boot_id) for pid, ticks in event.ancestors)
    whereabouts = Whereabouts(event.machine, event.boot_id, event.namespace)
    note = NoteHook(event.session_key, at, event.kind, ancestors, event.launcher_session, whereabouts)
    if event.kind != "prompted" or session is not None:
        return (note,)
    why = yield from _not_followed(event)
    if why is not None:
        return note, Explain(event.session_key, "refused", f"nothing is fixed by its hook: {why}")
    declared = yield from declared_now(_declaration(event))
    return replace(note, declared=_noted(declared, at)), Explain(
        event.session_key, "decided", _said(declared)
    )


def _not_followed(event: HookSpoke) -> Asking[str | None]:
    """Why no session that could be held to anything will follow, if so."""
    path = event.transcript_path
    if path is None or event.cwd is None:
        return "it names no transcript or no working directory"
    if posixpath.basename(path) != f"{event.session_id}.jsonl":
        return f"it names another session's transcript: {path}"
    root = yield from ask(RootOf(event.layout, path))
    return f"no root watches {path}; add one to runward.toml" if root is None else None


def _declaration(event: HookSpoke) -> SessionDeclaration:
    path, cwd = event.transcript_path or "", event.cwd or ""
    return SessionDeclaration(
        event.session_id, event.layout, "", path, "agent", cwd, cwd=cwd, prompt=event.prompt
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
