"""What a model costs, and when."""

from decimal import Decimal
from typing import NamedTuple


class Price(NamedTuple):
    """US dollars per million tokens of each kind."""

    fresh_input: Decimal
    cache_read: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    output: Decimal


class Listed(NamedTuple):
    """A list price, None if none is known, and the hours (since 1970) from `since` until before `until` for which it holds.

    None: it has no such end.
    """

    price: Price | None
    since: int | None = None
    until: int | None = None

    def holds(self, hour: int) -> bool:
        """Whether this is the price of that hour."""
        return (self.since is None or self.since <= hour) and (self.until is None or hour < self.until)
