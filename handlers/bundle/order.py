"""What a bundle is made from, apart from the session's own files: everything that decides its bytes, as data."""

from typing import Final, NamedTuple

from runward.config.bundle import BundleRules
from runward.handlers.bundle.work_tree import WorkTree
from runward.handlers.events import DeliveryState, Status
from runward.handlers.model.stored import Stored, as_json


class Stretch(NamedTuple):
    """An attempt: when it began and ended, and the period in which the calls in its session's files are its own.

    Without `begins` it has all calls up to `ends`, without `ends` all from `begins` on (Unix seconds). `hash` is that
    of the event that began it. Of the session's log it has what comes after the first `log_before` lines and up to
    `log_up_to`; for a native run both are bytes of its trace. Where they are known, no time divides the log. `attempts`
    are the first and the last attempt that have its calls: a correction has those of the attempt that it corrects.
    """

    started_at: float
    ended_at: float | None = None
    begins: float | None = None
    ends: float | None = None
    hash: str | None = None
    log_before: int | None = None
    log_up_to: int | None = None
    attempts: tuple[int, int] | None = None


class Verdict(NamedTuple):
    """How an attempt ended. `hash` is that of the event of its verdict, None if that is no longer recorded."""

    at: float
    status: Status
    reason_code: str
    reason_summary: str
    delivery: DeliveryState | None
    hash: str | None


class Cost(NamedTuple):
    """What a session cost, by its own account; `unit` is msats or usd."""

    amount: float
    unit: str


class Step(NamedTuple):
    """Up to where the sources of a replay had been shown at one time: the byte of the session's log, and how much of
    what the store added to it.

    The last step also has the length and the hash of what was written before its own lines, if anything was.
    """

    end: int
    others: int
    length: int = 0
    sha256: str = ""


class Grown(NamedTuple):
    """What was shown of a replay while its attempt ran: the length of these bytes and their hash.

    `issue_number` and `policy_bundle_id` are what its `SessionStart` says. What the run says later doesn't change it.
    `steps` say in which order the two sources were shown.
    """

    length: int
    sha256: str
    issue_number: int | None
    policy_bundle_id: str | None
    steps: tuple[Step, ...] = ()


class BundleOrder(NamedTuple):
    """One bundle. `path` is where the session's files are, `directory` where the parts are put.

    `changes` are the summaries of the session's outcomes, `next_steps` what to do about a failure. `usage` are the
    numbers of tokens that the session was given and made, `cwd` is where it worked, `work_tree` what git said
    about that place when the attempt was over. `actions` says how many of the session's actions in the exchange, from
    its first on, are among the calls. `grown` is what was shown of the replay before that, if anything was.
    """

    key: str
    session_id: str
    layout: str
    path: str
    directory: str
    attempt: int
    stretch: Stretch
    verdict: Verdict
    rules: BundleRules
    changes: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    usage: tuple[int, int] | None = None
    cost: Cost | None = None
    cwd: str | None = None
    work_tree: WorkTree | None = None
    actions: int = 0
    grown: Grown | None = None


_STORED: Final = Stored(BundleOrder)


def dump_order(order: BundleOrder) -> str:
    """The order as JSON text, for the store."""
    return as_json(order)


def load_order(text: str) -> BundleOrder:
    """The order that was stored. Raises `ValueError` for what another version of `dump_order` wrote."""
    return _STORED.load(text)
