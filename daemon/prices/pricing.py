"""What sums of replies cost: what the agent reported, else the settings' price of the model, else its list price of that day."""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from runward.config.prices import ModelPrice
from runward.handlers.usage.counting import Counted

if TYPE_CHECKING:
    from runward.daemon.prices.list_prices import Price

_HOURS: Final = 24
_HOUR: Final = 3600
_MILLION: Final = Decimal(1_000_000)
_BILLION: Final = Decimal(1_000_000_000)


class Prices:
    """The prices in force. Each list price is looked up once for a day."""

    def __init__(self, own: Sequence[ModelPrice]) -> None:
        self._own = {each.name: each for each in own}
        self._known: dict[tuple[str, str, int, int], Price | None] = {}
        self.uses_list = False
        """Whether a list price was applied."""

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

    def _price(self, sums: Counted) -> "Price | None":
        key = (sums.model, sums.speed, sums.size, sums.hour // _HOURS)
        if key not in self._known:
            self._known[key] = self._look_up(sums)
        return self._known[key]

    def _look_up(self, sums: Counted) -> "Price | None":
        from runward.daemon.prices.list_prices import Price, list_price

        own = self._own.get(sums.model)
        if own is None:
            found = list_price(sums.model, sums.speed, sums.size, sums.hour * _HOUR)
            self.uses_list = self.uses_list or found is not None
            return found
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
