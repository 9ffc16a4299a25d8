"""Bundles and receipts as data: events, effects, questions and their answers."""

from typing import Final, NamedTuple

from runward.config.bundle import BundleRules, Scheme
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import OfSession, Request
from runward.handlers.model.files import (
    DeliveryState,
    Unreadable,  # noqa: F401 - in the types of answers
)
from runward.handlers.model.part import Part
from runward.handlers.model.sessions import Status
from runward.handlers.model.stored import Stored, as_json


class FileEdit(NamedTuple):
    """A file that was changed, and how many lines in all. None if a change to it can't be counted."""

    path: str
    lines_changed: int | None


class WorkTree(NamedTuple):
    """The subjects of the commits, oldest first, and the files that differ, by their paths below `top`.

    Files that git does not track are among them, if they were made or changed since the session's start. With
    `lacks_untracked`, git did not list them.
    """

    top: str
    commits: tuple[str, ...]
    files: tuple[FileEdit, ...]
    lacks_untracked: bool = False


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
    about that place when the attempt was over. `estimate` is what the session cost at known prices, in words. `actions`
    says how many of the session's actions in the exchange, from its first on, are among the calls. `grown` is what was
    shown of the replay before that, if anything was. Nothing sets `cost`: it stays because stored orders go by place.
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
    estimate: str | None = None


_STORED: Final = Stored(BundleOrder)


def dump_order(order: BundleOrder) -> str:
    """The order as JSON text, for the store."""
    return as_json(order)


def load_order(text: str) -> BundleOrder:
    """The order that was stored. Raises `ValueError` for what another version of `dump_order` wrote."""
    return _STORED.load(text)


class ReceiptSignRequested(OfSession, Request, frozen=True):
    """A person wants the receipt of an attempt signed with the daemon's own key."""

    session_key: str
    attempt: int
    scheme: Scheme
    said_by: str = ""


class BundleRulesOf(Question["BundleRules | None"], frozen=True):
    """Question: how the settings make the bundle of a session at `path`. Answer: `BundleRules`, or None."""

    layout: str
    path: str


class EstimateOf(Question["str | None"], frozen=True):
    """Question: what did a session cost at the prices that are known? Answer: dollars, and whose prices, in words; or None."""

    key: str


class StretchOf(Question["Stretch | None"], frozen=True):
    """Question: the period of an attempt, and which calls are its own. Answer: `Stretch`, or None."""

    key: str
    attempt: int


class ReportedOf(Question["Reported"], frozen=True):
    """Question: what the store knows of an attempt for its summary. Answer: `Reported`."""

    key: str
    attempt: int


class WorkTreeOf(Question["WorkTree | None"], frozen=True):
    """Question: what changed since then in the git work tree around a directory. Answer: `WorkTree`, or None.
    Only a background job may ask."""

    cwd: str
    since: float


class BegunReplayOf(Question["BegunReplay | None"], frozen=True):
    """Question: what was shown of an attempt's replay while it ran. Answer: `BegunReplay`, or None."""

    key: str
    attempt: int


class BegunReplay(NamedTuple):
    """What was shown of a replay while its attempt ran, and by which rules."""

    grown: Grown
    rules: BundleRules


class Reported(NamedTuple):
    """What the store knows of an attempt: its reason in words, summaries of outcomes, tokens in and out, where it
    worked."""

    reason_summary: str = ""
    changes: tuple[str, ...] = ()
    usage: tuple[int, int] | None = None
    cwd: str | None = None


class DraftOf(Question["Draft | NoDraft | Unreadable"], frozen=True):
    """Question: the bundle for this order. Answer: `Draft`, `NoDraft` or `Unreadable`.
    Only a background job may ask."""

    order: BundleOrder


class Draft(NamedTuple):
    """A bundle without its receipt, because the receipt has to name the one before it.

    `summary` is what its summary says, as JSON text. `problem` says what is wrong with the session's files, if
    anything is.
    """

    parts: tuple[Part, ...]
    summary: str
    problem: str | None = None


class NoDraft(NamedTuple):
    """There can be no bundle, and why. With `may_pass` a later try may succeed.

    With `is_place` only the place for its parts refuses them, so that another place may take them.
    """

    why: str
    may_pass: bool = False
    is_place: bool = False


class Sealed(NamedTuple):
    """A receipt that was made: its own hash, the hash of the receipt before it, and its file."""

    receipt_hash: str
    prev: str | None
    part: Part


class RecordReceipt(Effect, frozen=True):
    """Record the receipt of an attempt as the next one of the chain, and have the bundle's parts put in place.

    Without a `draft` there is no receipt, and `problem` says why. `sealed` is added once the previous receipt is
    known.
    """

    order: BundleOrder
    draft: Draft | None
    problem: str | None = None
    sealed: Sealed | None = None


class SignReceipt(Effect, frozen=True):
    """Have an attempt's receipt signed with the daemon's own key of this kind, replacing any earlier signature."""

    key: str
    attempt: int
    scheme: Scheme
    said_by: str
