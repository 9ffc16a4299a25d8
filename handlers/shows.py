"""A play begins as an invocation of `show`, which keeps the plan. Its data is kept then, when it changes, and with its
verdict."""

from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.invocations import of_play
from runward.handlers.layouts.foreign_values import document_object
from runward.handlers.layouts.show import read_meta
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.effects import Deciding, Effect, Effects, Explain
from runward.handlers.model.files import Unreadable
from runward.handlers.model.invocations import OpenInvocation
from runward.handlers.model.sessions import Complaint, Document, SessionOf
from runward.handlers.model.shows import Meta, PlayChanged, PlayFiles, PlayFilesIn, RecordPlay
from runward.handlers.secrets import text_without_secrets

SKILL: Final = "show"
LONGEST_PLAN: Final = 64 << 10
"""Characters of a plan that are kept."""


class _Place(NamedTuple):
    show: str
    topic: str
    name: str


def begun(session_key: str, path: str, at: float) -> Asking[Effects]:
    """The play in the directory `path` begins."""
    files = yield from ask(PlayFilesIn(path))
    place = _place(path)
    plan = None if isinstance(files, Unreadable) else files.plan
    metadata: dict[str, JsonValue] = {"topic": place.topic, "play": place.name, "plan": _plan(plan)}
    if plan is not None and plan.problem is not None:
        metadata["plan_problem"] = f"{plan.name} {plan.problem}"
    invocation = OpenInvocation(of_play(session_key), SKILL, at, session_key, metadata=metadata)
    return invocation, _recorded_or_not(session_key, path, files, at)


def changed(session_key: str, path: str, at: float) -> Asking[Effects]:
    """The play's data changed."""
    files = yield from ask(PlayFilesIn(path))
    # A torn file changes nothing until it is whole, and the verdict reads the data a last time in any case.
    if (
        isinstance(files, Unreadable)
        or files.meta is None
        or isinstance(document_object(files.meta), Complaint)
    ):
        return ()
    return (_recorded(session_key, path, files.meta, at),)


def ended(session_key: str, path: str, at: float) -> Asking[Effects]:
    """The play is over: its data is read a last time."""
    files = yield from ask(PlayFilesIn(path))
    return (_recorded_or_not(session_key, path, files, at),)


def _recorded_or_not(session_key: str, path: str, files: PlayFiles | Unreadable, at: float) -> Effect:
    if isinstance(files, Unreadable):
        why = f"the play's data and its show's plan can't be read: {files.why}"
        return Explain(session_key, "decided", why)
    return _recorded(session_key, path, files.meta, at)


def _recorded(session_key: str, path: str, meta: Document | None, at: float) -> RecordPlay:
    content: dict[str, JsonValue] | Complaint = {} if meta is None else document_object(meta)
    # A fault in the file is a problem of the session, about which its scanner complains.
    fields = Meta() if isinstance(content, Complaint) else read_meta(content)
    return RecordPlay(session_key, at, *_place(path), fields)


def _plan(plan: Document | None) -> str | None:
    if plan is None or plan.problem is not None:
        return None
    text = plan.content[: 2 * LONGEST_PLAN].decode(errors="replace")
    return text_without_secrets(text)[:LONGEST_PLAN]


def _place(path: str) -> _Place:
    show, _, name = path.rpartition("/")
    return _Place(show, show.rpartition("/")[2], name)


def play_changed(event: PlayChanged, given: Given) -> Deciding:
    """The data of a running play changed: its columns follow, until its verdict reads them a last time."""
    session = yield from ask(SessionOf(event.session_key))
    if session is None or session.status != "running" or session.attempt != event.attempt:
        return ()
    return (yield from changed(session.key, session.path, given.at))
