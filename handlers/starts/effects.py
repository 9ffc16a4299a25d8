"""What can be ordered for starts. `StartRun` is among the common effects: several capabilities start runs."""

from typing import NamedTuple, TypeAlias


class WithdrawStart(NamedTuple):
    """Record that a requested run is no longer wanted. One that may have begun meanwhile stays as it is."""

    session_key: str
    at: float
    why: str


class GiveUpStart(NamedTuple):
    """Record that a requested run never begins, and why. A start that is over stays as it is."""

    key: str
    at: float
    why: str


class RemoveWorktree(NamedTuple):
    """Have the worktree of a run that is over removed, if it has one."""

    session_key: str


StartEffect: TypeAlias = GiveUpStart | WithdrawStart | RemoveWorktree
