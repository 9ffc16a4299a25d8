"""A request in the inbox, as the worker sees it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InboxFile:
    """One request in the inbox: its name without the ending, who owns the file, and its bytes.

    `is_ours`: it belongs to the daemon's own user or to root; others may ask for nothing.
    """

    name: str
    owner: str
    content: bytes
    is_ours: bool = True
