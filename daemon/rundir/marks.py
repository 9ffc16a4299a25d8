"""The mark of a directory: its signature in one number, and whether it may be trusted."""

from runward.handlers.model.sessions import Signature

UNTRUSTED = 0


RACY = 0.1
"""Seconds: a directory that changed less than this before a look may change again unnoticed."""


def mark(signature: Signature) -> int:
    """A directory's signature in one number, because there are many of them; never `UNTRUSTED`."""
    return hash(signature) or 1


def trusted_mark(signature: Signature, now: float) -> int:
    """A directory's mark, unless it changed so recently that it may change again unnoticed."""
    return mark(signature) if now - signature[2] / 1e9 > RACY else UNTRUSTED
