"""List prices of models, from the library genai-prices, which is loaded here alone: it takes a third of a second."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, TypeAlias

from genai_prices import Usage, __version__, calc_price
from genai_prices.types import ModelInfo, StartDateConstraint, TieredPrices, TimeOfDateConstraint

from runward.daemon.prices.price import Listed, Price
from runward.handlers.usage.counting import HOUR, SIZES

SOURCE: Final = "genai-prices"
VERSION: Final = __version__

_Listed: TypeAlias = Decimal | TieredPrices | None
_Constraint: TypeAlias = StartDateConstraint | TimeOfDateConstraint

_MANY: Final = Usage(input_tokens=1, output_tokens=1)


def list_price(model: str, speed: str, size: int, hour: int) -> Listed:
    """What a model cost in this hour (since 1970), for requests with more than `size` tokens, and for which hours that holds."""
    moment = datetime.fromtimestamp(hour * HOUR, UTC)
    try:
        found = calc_price(_MANY, model, genai_request_timestamp=moment, price_context={"speed": speed})
    except LookupError:
        return Listed(None)
    since, until = _holds(_constraints(found.model), hour)
    prices = found.model_price
    fresh, output = _of_size(prices.input_mtok, size), _of_size(prices.output_mtok, size)
    if fresh is None or output is None:
        return Listed(None, since, until)
    # What has no price of its own is priced as the more general kind, as the library does.
    written = _of_size(prices.cache_write_mtok, size, fresh)
    for_an_hour = _of_size(prices.cache_write_1h_mtok, size, written)
    read = _of_size(prices.cache_read_mtok, size, fresh)
    if written is None or for_an_hour is None or read is None:
        return Listed(None, since, until)
    return Listed(Price(fresh, read, written, for_an_hour, output), since, until)


def _constraints(model: ModelInfo) -> list[_Constraint]:
    conditional = model.prices if isinstance(model.prices, list) else []
    given = [each.constraint for each in (*conditional, *(model.price_variants or ()))]
    return [each for each in given if each is not None]


def _holds(constraints: Iterable[_Constraint], hour: int) -> tuple[int | None, int | None]:
    """The first hour, and the one after the last, around this one in which the same constraints are met. None: no end."""
    starts: list[int] = []
    for each in constraints:
        if not isinstance(each, StartDateConstraint):
            return hour, hour + 1  # it depends on the time of day
        begin = datetime(each.start_date.year, each.start_date.month, each.start_date.day, tzinfo=UTC)
        starts.append(int(begin.timestamp() // HOUR))
    since = max((each for each in starts if each <= hour), default=None)
    return since, min((each for each in starts if each > hour), default=None)


def _of_size(price: _Listed, size: int, otherwise: Decimal | None = None) -> Decimal | None:
    """The price for requests of this size; None if not all of them have the same."""
    if price is None:
        return otherwise
    if not isinstance(price, TieredPrices):
        return price
    above = next((each for each in SIZES if each > size), None)
    if any(size < tier.start and (above is None or tier.start < above) for tier in price.tiers):
        return None
    return next((tier.price for tier in reversed(price.tiers) if tier.start <= size), price.base)
