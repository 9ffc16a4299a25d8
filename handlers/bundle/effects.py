"""What can be ordered for bundles: a row of the chain of receipts, and a signature."""

from typing import NamedTuple, TypeAlias

from runward.config.bundle import Scheme
from runward.handlers.bundle.facts import Draft
from runward.handlers.bundle.order import BundleOrder
from runward.handlers.bundle.part import Part


class Sealed(NamedTuple):
    """A receipt that was made: its own hash, the hash of the receipt before it, and its file."""

    receipt_hash: str
    prev: str | None
    part: Part


class RecordReceipt(NamedTuple):
    """Record the receipt of an attempt as the next one of the chain, and have the bundle's parts put in place.

    Without a `draft` there is no receipt, and `problem` says why. `sealed` is added once the previous receipt is
    known.
    """

    order: BundleOrder
    draft: Draft | None
    problem: str | None = None
    sealed: Sealed | None = None


class SignReceipt(NamedTuple):
    """Have an attempt's receipt signed with the daemon's own key of this kind, replacing any earlier signature."""

    key: str
    attempt: int
    scheme: Scheme
    said_by: str


BundleEffect: TypeAlias = RecordReceipt | SignReceipt
