"""What can be ordered for starts: runs, and what becomes of those that can't begin or are over."""

from typing import Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue


class StartRun(NamedTuple):
    """Have a launcher run a command as a native run, after the commit and exactly once for its `key`.

    The run becomes the directory `name` in `root` (the path of a root) and, once its `run.json` exists, the session
    `session` of this `kind`. `command` has the words after all templates, `environment` what they get in addition to
    the daemon's own variables. `contract` is the snapshot as JSON, `timeout` and `grace` are seconds. `metadata` and
    `invocation_id` go into `run.json`.
    """

    key: str
    session: str
    root: str
    name: str
    command: tuple[str, ...]
    cwd: str
    environment: tuple[tuple[str, str], ...] = ()
    playbook: str | None = None
    agent: str | None = None
    contract: JsonValue = None
    timeout: float | None = None
    grace: float | None = None
    metadata: tuple[tuple[str, JsonValue], ...] = ()
    stale_after: float | None = None
    """The seconds of silence that end it."""
    worktree: tuple[str, str] | None = None
    """A git repository (its path) and the revision to check out. The command starts there, and not in `cwd`."""
    kind: Literal["agent", "step"] = "agent"
    invocation_id: str | None = None


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


StartEffect: TypeAlias = StartRun | GiveUpStart | WithdrawStart | RemoveWorktree
