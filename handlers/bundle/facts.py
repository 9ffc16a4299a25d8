"""What can be asked about bundles, and the answers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.bundle import BundleRules
from runward.handlers.asking import Question
from runward.handlers.bundle.order import BundleOrder, Grown, Stretch  # noqa: F401 - in the types of answers
from runward.handlers.bundle.part import Part
from runward.handlers.bundle.work_tree import WorkTree  # noqa: F401 - in the types of answers
from runward.handlers.unreadable import Unreadable  # noqa: F401 - in the types of answers


@dataclass(frozen=True, slots=True)
class BundleRulesOf(Question["BundleRules | None"]):
    """Question: how the settings make the bundle of a session at `path`. Answer: `BundleRules`, or None."""

    layout: str
    path: str


@dataclass(frozen=True, slots=True)
class StretchOf(Question["Stretch | None"]):
    """Question: the period of an attempt, and which calls are its own. Answer: `Stretch`, or None."""

    key: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ReportedOf(Question["Reported"]):
    """Question: what the store knows of an attempt for its summary. Answer: `Reported`."""

    key: str
    attempt: int


@dataclass(frozen=True, slots=True)
class WorkTreeOf(Question["WorkTree | None"]):
    """Question: what changed since then in the git work tree around a directory. Answer: `WorkTree`, or None.
    Only a background job may ask."""

    cwd: str
    since: float


@dataclass(frozen=True, slots=True)
class BegunReplayOf(Question["BegunReplay | None"]):
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


@dataclass(frozen=True, slots=True)
class DraftOf(Question["Draft | NoDraft | Unreadable"]):
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


QUESTIONS: Final = (BundleRulesOf, StretchOf, BegunReplayOf, ReportedOf, WorkTreeOf, DraftOf)
