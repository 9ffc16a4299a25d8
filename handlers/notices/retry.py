"""A person has a notice tried again."""

from runward.handlers.model.asking import Given, ask
from runward.handlers.model.effects import Deciding, Explain
from runward.handlers.model.notices import NoticeRetryRequested, NoticeStateOf, ResendNotice


def decide(event: NoticeRetryRequested, given: Given) -> Deciding:
    """A person has a notice tried again.

    Try it again if it was given up.
    """
    state = yield from ask(NoticeStateOf(event.notice))
    subject = f"notice {event.notice}"
    if state == "dead":
        return ResendNotice(event.notice, given.at), Explain(
            subject, "decided", f"tried again: {event.said_by} asked"
        )
    why = "there is no such notice" if state is None else f"it is {state}"
    return (Explain(subject, "refused", f"not tried again: {why}"),)
