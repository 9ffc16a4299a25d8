"""List prices of models, from the library genai-prices, which is loaded here alone: it takes a third of a second."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, NamedTuple, TypeAlias

from genai_prices import Usage, __version__, calc_price
from genai_prices.types import TieredPrices

from runward.handlers.usage.counting import SIZES

SOURCE: Final = "genai-prices"
VERSION: Final = __version__


class Price(NamedTuple):
    """US dollars per million tokens of each kind."""

    fresh_input: Decimal
    cache_read: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    output: Decimal


_Listed: TypeAlias = Decimal | TieredPrices | None

_MANY: Final = Usage(input_tokens=1, output_tokens=1)


def list_price(model: str, speed: str, size: int, at: float) -> Price | None:
    """What a model cost at this time (Unix seconds), for requests with more than `size` tokens. None if no price is known."""
    moment = datetime.fromtimestamp(at, UTC)
    try:
        found = calc_price(
            _MANY, model, genai_request_timestamp=moment, price_context={"speed": speed}
        ).model_price
    except LookupError:
        return None
    fresh, output = _of_size(found.input_mtok, size), _of_size(found.output_mtok, size)
    if fresh is None or output is None:
        return None
    # What has no price of its own is priced as the more general kind, as the library does.
    written = _of_size(found.cache_write_mtok, size, fresh)
    for_an_hour = _of_size(found.cache_write_1h_mtok, size, written)
    read = _of_size(found.cache_read_mtok, size, fresh)
    if written is None or for_an_hour is None or read is None:
        return None
    return Price(fresh, read, written, for_an_hour, output)


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
