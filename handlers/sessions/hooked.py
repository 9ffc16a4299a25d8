"""An agent's hook spoke: who speaks is noted, and at the first prompt what is declared for the session.

So its contract is fixed before the agent works. The session begins when its files say so; whatever else a hook says,
they say as well.
"""

import posixpath

from runward.config.counting import counted
from runward.handlers.contracts.declared import DeclaredNow, declared_now
from runward.handlers.effects import Effects, Explain, NoteHook
from runward.handlers.events import HookSpoke, SessionDeclaration
from runward.handlers.facts import (
    CoveringRoot,
    Facts,
    HookDeclaration,
    Need,
    RootOf,
    SessionOf,
    UnexpectedAnswer,
)
from runward.handlers.layouts.scanner import RecordedProcess


def decide(event: HookSpoke, event_hash: str, facts: Facts, now: float) -> Effects | Need:
    """Note what was said, and at a prompt before the session is known, what is declared for it now."""
    known = SessionOf(event.session_key)
    if known not in facts:
        return Need((known,))
    at = min(event.at, now)
    ancestors = tuple(RecordedProcess(pid, ticks, event.boot_id) for pid, ticks in event.ancestors)
    note = NoteHook(event.session_key, at, event.kind, ancestors, event.launcher_session)
    if event.kind != "prompted" or facts[known] is not None:
        return (note,)
    why = _not_followed(event, facts)
    if isinstance(why, Need):
        return why
    if why is not None:
        return note, Explain(event.session_key, "refused", f"nothing is fixed by its hook: {why}")
    declared = declared_now(_declaration(event), facts)
    if isinstance(declared, Need):
        return declared
    return note._replace(declared=_noted(declared, at)), Explain(
        event.session_key, "decided", _said(declared)
    )


def _not_followed(event: HookSpoke, facts: Facts) -> str | Need | None:
    """Why no session will follow that could be held to anything, if so."""
    path = event.transcript_path
    if path is None or event.cwd is None:
        return "it names no transcript or no working directory"
    if posixpath.basename(path) != f"{event.session_id}.jsonl":
        return f"it names another session's transcript: {path}"
    asked = RootOf(event.layout, path)
    if asked not in facts:
        return Need((asked,))
    root = facts[asked]
    if root is not None and not isinstance(root, CoveringRoot):
        raise UnexpectedAnswer(f"{asked} was answered with {root!r}")
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
        return f"its hook told of its first prompt: no contract: {problem}"
    if contract is None:
        return "its hook told of its first prompt: nothing is declared for it"
    return f"its hook told of its first prompt: a contract of {counted(len(contract.expected), 'artifact', 'artifacts')} is fixed"
