"""Invocations and the starts of runs as data: events, effects, questions and their answers."""

from typing import Literal, NamedTuple, TypeAlias

from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, OfSession

EndStatus: TypeAlias = Literal["completed", "failed", "timed_out", "aborted", "cancelled"]


class OpenInvocation(Effect, frozen=True):
    """Insert an invocation. It is a chain run's root, the `attempt` of a `step` of one, or the run of a playbook.

    `session_key` is the session that was ordered for it. `metadata` is what it was ordered with.
    """

    id: str
    skill: str
    at: float
    session_key: str | None = None
    chain_run: str | None = None
    step: int | None = None
    attempt: int | None = None
    metadata: JsonValue = None


class EndInvocation(Effect, frozen=True):
    """End an invocation. One that is over stays as it is."""

    id: str
    at: float
    status: EndStatus
    reason_code: str


class LinkSession(Effect, frozen=True):
    """Record that a session, which was opened before that was known, was started for an invocation."""

    key: str
    invocation: str


class Invocation(NamedTuple):
    """An invocation: its skill, the chain of its chain run, and the chain run that it came from, if there is one."""

    id: str
    skill: str
    chain: str | None = None
    by_run: str | None = None


class InvocationOf(Question["Invocation | None"], frozen=True):
    """Question: for which invocation a session was started. Answer: `Invocation`, or None if nobody requested it."""

    session_key: str


class StartFailed(OfSession, Event, frozen=True):
    """A requested run can never begin. `start` is the key of its order, `session_key` the session it would have been."""

    start: str
    session_key: str
    at: float
    why: str

    @property
    def key(self) -> str:
        return f"{self.start}/failed"


class StartedEarlier(OfSession, Event, frozen=True):
    """A requested run began before the request was recorded: a store that was restored from a backup had lost the request.

    `start` is the key of its order, as its launcher found it in the run.
    """

    start: str
    session_key: str
    at: float

    @property
    def key(self) -> str:
        return f"{self.start}/earlier"


StartEvent: TypeAlias = StartFailed | StartedEarlier


class StartRun(Effect, frozen=True):
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


class WithdrawStart(Effect, frozen=True):
    """Record that a requested run is no longer wanted. One that may have begun meanwhile stays as it is."""

    session_key: str
    at: float
    why: str


class GiveUpStart(Effect, frozen=True):
    """Record that a requested run never begins, and why. A start that is over stays as it is."""

    key: str
    at: float
    why: str


class RemoveWorktree(Effect, frozen=True):
    """Have the worktree of a run that is over removed, if it has one."""

    session_key: str


class PlayOf(Question["Play"], frozen=True):
    """Question: what a playbook of this name would start now, and in which root. Answer: `Play`."""

    playbook: str


class Play(NamedTuple):
    """What can be started: the playbook, its agent with the defaults that it declares, and the root for the run.

    `problem` says why nothing can be started, which is for the operator to fix. The rest means nothing then.
    """

    playbook: Playbook | None
    agent: str | None = None
    defaults: tuple[ExpectedArtifact, ...] | None = None
    root_name: str = ""
    root_path: str = ""
    problem: str | None = None
    shell: str | None = None


class ActionOf(Question["Play"], frozen=True):
    """Question: what would running this action start, and where? Answer: `Play`, with the text for `sh -c` if a shell
    runs it."""

    action: str
