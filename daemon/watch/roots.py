"""Roots as the running daemon sees them: their health, and what was seen in them."""

import fnmatch
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from runward.config.problem import printable
from runward.config.root import AUTO, NATIVE, Root
from runward.daemon.rundir.run_directories import Standing
from runward.daemon.store.ownership import UNREAD
from runward.handlers.layouts.places import DatabaseShape, Shape
from runward.handlers.model.processes import RecordedProcess

Health: TypeAlias = Literal["unknown", "ok", "missing", "unreadable", "replaced"]
"""The state of a root at its last scan; unknown before the first one."""


@dataclass(slots=True)
class WatchedRoot:
    """A root and what its `settings` say. `stands` is the directory at its path at the last check, `identity` says which
    directory the root is.

    A native root has its runs in the directories inside it; `shape` says where the foreign sessions are. For each such
    place that was looked at, `seen` has the mark of its own signature: while that is unchanged a scan need not look
    again. The mark is `UNTRUSTED` if the place may change again unnoticed.
    """

    settings: Root
    shape: Shape | None = None
    first_seen_at: float = 0.0
    grew_elsewhere: bool = False
    """Whether a session in it ever grew without a process on this machine."""
    listed_at: float = 0.0
    """When the last scan that could list it began (Unix seconds)."""
    health: Health = "unknown"
    problem: str | None = None
    stands: Standing | None = None
    identity: str | None = None
    seen: dict[str, int] = field(default_factory=dict)
    open: dict[str, tuple[RecordedProcess, ...]] = field(default_factory=dict)
    """The places with an open attempt, and the processes that they name."""
    documents: dict[str, int] = field(default_factory=dict)
    """The state of the documents of native runs with an open attempt: another look at the same would find nothing."""
    doubted: set[str] = field(default_factory=set)
    """Those among them whose processes were found gone and whose grace period has not passed."""
    alive_at: dict[str, float] = field(default_factory=dict)
    """When (Unix seconds) a process of an open run was last seen alive. Only in memory: it is not worth a transaction."""
    due: dict[str, float] = field(default_factory=dict)
    """When (monotonic time) to look at a place again although nothing changes: an end in a growing file has to settle."""
    unread: dict[str, str] = field(default_factory=dict)
    """Places that can't be read, and why: they are not judged."""
    unsettled: set[str] = field(default_factory=set)
    """Run directories without an end that changed right before they were looked at: the watch may not be set up there
    yet."""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def path(self) -> str:
        return self.settings.path

    @property
    def layout(self) -> str:
        return self.settings.layout

    @property
    def is_shallow(self) -> bool:
        """Whether only the files directly in it count."""
        return isinstance(self.shape, DatabaseShape)

    @property
    def records_history(self) -> bool:
        """Whether what ended before it was first seen is only recorded."""
        return self.settings.history == "record"

    @property
    def trouble(self) -> str | None:
        """What is wrong with it or with what is in it."""
        if self.problem is not None or not self.unread:
            return self.problem
        place, why = min(self.unread.items())
        more = f" and {len(self.unread) - 1} more" if len(self.unread) > 1 else ""
        return printable(f"{UNREAD}: {place}{more} ({why})")

    @property
    def is_replaced(self) -> bool:
        """Whether another directory is at its path: that one says nothing about what is in this root."""
        return self.stands is not None and self.stands.identity != self.identity

    def may_hold(self, layout: str) -> bool:
        """Whether sessions of this layout may be here: sessions of its own layout, or of any other tool's."""
        return layout == self.layout or (self.layout == AUTO and layout != NATIVE)

    def ignores(self, place: str) -> bool:
        """Whether the settings exclude this place: each name in a path counts."""
        patterns = self.settings.ignore
        return any(fnmatch.fnmatchcase(part, pattern) for pattern in patterns for part in place.split("/"))
