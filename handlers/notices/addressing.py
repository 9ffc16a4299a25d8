"""The notices about something that happened: one for each recipient that wants it."""

import hashlib

from runward.handlers.model.asking import Asking, ask
from runward.handlers.model.notices import RecipientsOf, SendNotice

_LONGEST = 2000


def notices(kind: str, subject: str, title: str, text: str, at: float) -> Asking[tuple[SendNotice, ...]]:
    """The notices that `kind` causes for `subject`."""
    recipients = yield from ask(RecipientsOf(kind))
    return tuple(
        SendNotice(notice_id(kind, subject, each), at, kind, subject, each, title[:_LONGEST], text[:_LONGEST])
        for each in recipients
    )


def notice_id(kind: str, subject: str, recipient: str) -> str:
    """The id of a recipient's notice, the same for each try."""
    told = f"{kind}\n{subject}\n{recipient}"
    return f"nt_{hashlib.sha256(told.encode(errors='replace')).hexdigest()[:12]}"
