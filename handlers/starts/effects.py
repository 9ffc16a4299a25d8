"""What can be ordered for starts. `StartRun` stands among the common effects: several capabilities start runs."""

from typing import NamedTuple, TypeAlias


class WithdrawStart(NamedTuple):
    """Keep that a run that was ordered is not wanted any more. One that may have begun meanwhile stays as it is."""

    session_key: str
    at: float
    why: str


class GiveUpStart(NamedTuple):
    """Keep that a run that was ordered never begins, and why. A start that is over stays as it is."""

    key: str
    at: float
    why: str


class RemoveWorktree(NamedTuple):
    """Have the worktree of a run that is over removed, if it has one."""

    session_key: str


StartEffect: TypeAlias = GiveUpStart | WithdrawStart | RemoveWorktree
