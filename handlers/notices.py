"""Notices: messages to people, one for each recipient that wants it, each kept until it is delivered."""

import hashlib
from collections.abc import Sequence
from typing import Final

from runward.config.problem import one_line, shortened
from runward.handlers.model.asking import Asking, Given, ask
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.notices import (
    NoticeRetryRequested,
    NoticeStateOf,
    RecipientsOf,
    ResendNotice,
    SendNotice,
)
from runward.handlers.subjects import of_notice

_LONGEST: Final = 2000
LONGEST_LINE: Final = 1900
"""Characters of a line that leave room for another one."""


def notices(
    kind: str, subject: str, title: str, lines: Sequence[str], at: float
) -> Asking[tuple[SendNotice, ...]]:
    """The notices that `kind` causes for `subject`. Agents' words may be in each line, so it stays one."""
    recipients = yield from ask(RecipientsOf(kind))
    return tuple(
        SendNotice(
            id=notice_id(kind, subject, each),
            at=at,
            kind=kind,
            subject=subject,
            recipient=each,
            title=shortened(one_line(title), _LONGEST),
            text=shortened("\n".join(map(one_line, lines)), _LONGEST),
        )
        for each in recipients
    )


def notice_id(kind: str, subject: str, recipient: str) -> str:
    """The id of a recipient's notice."""
    # The id is the same for each try, so a notice is stored once however often its cause is decided.
    named = f"{kind}\n{subject}\n{recipient}"
    return f"nt_{hashlib.sha256(named.encode(errors='replace')).hexdigest()[:12]}"


def retry_notice(event: NoticeRetryRequested, given: Given) -> Deciding:
    """A person has a notice tried again."""
    state = yield from ask(NoticeStateOf(event.notice))
    subject = of_notice(event.notice)
    if state == "dead":
        return ResendNotice(event.notice, given.at), Explain(
            subject, "decided", f"tried again: {event.said_by} asked"
        )
    why = "there is no such notice" if state is None else f"it is {state}"
    return (Explain(subject, "refused", f"not tried again: {why}"),)
