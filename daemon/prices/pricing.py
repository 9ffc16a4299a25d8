"""What sums of replies cost: what the agent reported, else the settings' price of the model, else its list price of that hour."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from runward.config.prices import ModelPrice
from runward.daemon.prices.kept import KeptPrices
from runward.daemon.prices.price import Price
from runward.handlers.usage.counting import Counted

_MILLION: Final = Decimal(1_000_000)
_BILLION: Final = Decimal(1_000_000_000)


class Prices:
    """The prices in force: those of the settings, else list prices."""

    def __init__(self, own: Sequence[ModelPrice], kept: KeptPrices) -> None:
        self._own = {each.name: _of_settings(each) for each in own}
        self._kept = kept
        self._uses_list = False

    @property
    def list_of(self) -> tuple[str | None, str | None]:
        """Whose list prices were applied, and their version."""
        return (self._kept.source, self._kept.version) if self._uses_list else (None, None)

    def is_at_list(self, sums: Counted) -> bool:
        """Whether the cost of these replies, if it is known, is at a list price."""
        return sums.reported_nanousd is None and sums.model not in self._own

    def cost(self, sums: Counted) -> Decimal | None:
        """What these replies cost, in US dollars; None if it is not known."""
        if sums.reported_nanousd is not None:
            return Decimal(sums.reported_nanousd) / _BILLION
        price = self._price(sums)
        if price is None:
            return None
        return (
            price.fresh_input * sums.fresh_input
            + price.cache_read * sums.cache_read
            + price.cache_write_5m * sums.cache_write_5m
            + price.cache_write_1h * sums.cache_write_1h
            + price.output * sums.output
        ) / _MILLION

    def keep(self) -> None:
        """Have the next command find the list prices that this one looked up."""
        self._kept.keep()

    def _price(self, sums: Counted) -> Price | None:
        own = self._own.get(sums.model)
        if own is not None:
            return own
        key = (sums.model, sums.speed, sums.size, sums.hour)
        found = (self._kept.find(*key) or self._kept.look_up(*key)).price
        self._uses_list = self._uses_list or found is not None
        return found


def _of_settings(own: ModelPrice) -> Price:
    written = own.input if own.cache_write is None else own.cache_write
    return Price(
        _exact(own.input),
        _exact(own.input if own.cache_read is None else own.cache_read),
        _exact(written),
        _exact(written if own.cache_write_1h is None else own.cache_write_1h),
        _exact(own.output),
    )


def _exact(price: float) -> Decimal:
    """The price as it was written."""
    return Decimal(repr(price))
