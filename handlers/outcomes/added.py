"""Somebody adds an artifact to a session with a command: it is stored, or refused with the reason."""

from typing import Final

from runward.config.json_value import JsonValue
from runward.config.path_rule import PathRuleError, relative_parts
from runward.handlers.model.asking import Given, TryLater, ask
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.outcomes import ArtifactAddRequested, RecordArtifact
from runward.handlers.model.sessions import SessionOf
from runward.handlers.outcomes.added_event import told
from runward.handlers.outcomes.files import named

PATIENCE: Final = 8
"""How often the session may still be unknown."""


def decide(event: ArtifactAddRequested, given: Given) -> Deciding:
    """Somebody adds an artifact to a session with a command: it is stored, or refused with the reason.

    Store it as the session's.
    """
    session = yield from ask(SessionOf(event.session_key))
    if session is None and given.tries < PATIENCE:
        raise TryLater(f"the session {event.session_key} is not known yet")
    made = record(event, given.at) if session is not None else "there is no such session"
    what = f"{event.kind} {event.name}"
    if isinstance(made, str):
        why = f"{what} is not added, as {event.said_by} asked: {made}"
        return (Explain(event.session_key, "refused", why),)
    assert session is not None, "it was asked for"
    heard = yield from told(session, (made,), given.at)
    said = Explain(event.session_key, "decided", f"{what} is added, as {event.said_by} asked")
    return made, said, *heard, *named((made,), given.at, event.key)


def record(event: ArtifactAddRequested, at: float) -> RecordArtifact | str:
    """What to keep, or what is wrong with it."""
    from runward.config.outcome import CheckedOutcome, check_outcome, kinds

    if not event.kind or not event.name:
        return "an artifact has a kind and a name"
    if event.content is None and event.file_path is None:
        return "an artifact has a content, or a file"
    if event.file_path is not None:
        try:
            relative_parts(event.file_path)
        except PathRuleError as error:
            return f"the file's path {error}"
    content, summary, passed, file_path = event.content, "", None, event.file_path
    is_known = event.kind in kinds()
    if is_known:
        checked = check_outcome(event.content, event.kind)
        if not isinstance(checked, CheckedOutcome):
            return "; ".join(
                f"{each.field}: {each.message}" if each.field else each.message for each in checked
            )
        content, summary, passed = checked.value, checked.summary, checked.passed
        file_path = file_path or checked.file_path
    elif isinstance(content, dict):
        summary, passed = _text(content.get("summary")), _truth(content.get("passed"))
    return RecordArtifact(
        *(
            event.session_key,
            at,
            event.kind,
            event.name,
            content,
            summary,
            passed,
            file_path,
            is_known,
            0,
        ),
        names_file=file_path is not None,
    )


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _truth(value: JsonValue) -> bool | None:
    return value if isinstance(value, bool) else None
