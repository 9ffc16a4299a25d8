"""Transactions as data: statements with their rows, and how many rows each must touch."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Value, ...]


class Statement(NamedTuple):
    """One SQL statement over many rows.

    With `exact`, each row must touch exactly one row of the table: that is how a guard such as
    `where token = ?` refuses.
    """

    sql: str
    rows: Sequence[Row]
    exact: bool = False


class Fenced(Exception):
    """A guard of the transaction didn't hold: somebody else was faster, or nothing is as assumed."""


class EpochRefused(Fenced):
    """Another daemon has taken the state directory over since this one started."""


class CommitUnknown(Exception):
    """The commit itself failed, so whether it happened must be found out."""
