"""An agent's hook spoke: who speaks is noted, and a prompt opens the session before its files are there.

So the contract is fixed at the first prompt, before the agent works. Whatever else a hook says, the files say as well.
"""

import posixpath

from runward.handlers.effects import Effect, Effects, Emit, Explain, NoteHook
from runward.handlers.events import AttemptStarted, HookSpoke, SessionDeclaration
from runward.handlers.facts import CoveringRoot, Facts, Need, RootOf, SessionOf, UnexpectedAnswer
from runward.handlers.layouts.scanner import RecordedProcess
from runward.handlers.sessions.linked import launcher_key


def decide(event: HookSpoke, event_hash: str, facts: Facts, now: float) -> Effects | Need:
    """Note what was said; at the first prompt of a session that a root watches, begin its first attempt."""
    known = SessionOf(event.session_key)
    if known not in facts:
        return Need((known,))
    at = min(event.at, now)
    ancestors = tuple(RecordedProcess(pid, ticks, event.boot_id) for pid, ticks in event.ancestors)
    note = NoteHook(event.session_key, at, event.kind, ancestors, event.launcher_session)
    if event.kind != "prompted" or facts[known] is not None:
        return (note,)
    begun = _begun(event, at, facts)
    return begun if isinstance(begun, Need) else (note, *begun)


def _begun(event: HookSpoke, at: float, facts: Facts) -> tuple[Effect, ...] | Need:
    """The first attempt, or why the hook's word isn't enough for it."""
    path, cwd = event.transcript_path, event.cwd
    if path is None or cwd is None:
        return (_refused(event, "its hook names no transcript or no working directory"),)
    if posixpath.basename(path) != f"{event.session_id}.jsonl":
        return (_refused(event, f"its hook names another session's transcript: {path}"),)
    asked = RootOf(event.layout, path)
    if asked not in facts:
        return Need((asked,))
    root = facts[asked]
    if root is None:
        return (_refused(event, f"no root watches {path}; add one to runward.toml"),)
    if not isinstance(root, CoveringRoot):
        raise UnexpectedAnswer(f"{asked} was answered with {root!r}")
    said = SessionDeclaration(
        event.session_id,
        event.layout,
        root.name,
        path,
        "agent",
        cwd,
        cwd=cwd,
        prompt=event.prompt,
        launcher=launcher_key(event.launcher_session, root.launch_root),
    )
    return (
        Emit(AttemptStarted(event.session_key, 1, at, said, declared_by="hook")),
        Explain(event.session_key, "decided", "its hook tells of its first prompt: it is opened"),
    )


def _refused(event: HookSpoke, why: str) -> Explain:
    return Explain(event.session_key, "refused", f"not opened by its hook: {why}")
