"""`[prices."MODEL"]` in the settings: what a model costs, where its list price is not known or not the one that is paid."""

from typing import Annotated, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, quoted
from runward.config.shape import Complain, Shape, Text
from runward.config.table import NamedTables, Table

_MOST: Final = 1_000_000.0


class _Price(Shape):
    """US dollars per million tokens."""

    kinds = (int, float)

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST:
            return float(value)
        fix = "write US dollars per million tokens, as in 1.25"
        complain(Complaint(loc, f"must be a number from 0 to {_MOST:.0f}, not {quoted(value)}", fix))
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "number", "minimum": 0, "maximum": _MOST}


class ModelPrice(NamedTuple):
    """What the tokens of a model cost."""

    name: str
    input: Annotated[
        float,
        _Price(
            "US dollars per million tokens of input that is neither read from the cache nor written to it."
        ),
    ]
    output: Annotated[float, _Price("US dollars per million tokens of output.")]
    cache_read: Annotated[float | None, _Price("The same, read from the cache. Default: `input`.")] = None
    cache_write: Annotated[
        float | None, _Price("The same, written to the cache for five minutes. Default: `input`.")
    ] = None
    cache_write_1h: Annotated[
        float | None, _Price("The same, written to the cache for an hour. Default: `cache_write`.")
    ] = None


PRICES: Final = NamedTables(
    "Prices of models, by their names in transcripts, instead of list prices.",
    Text("The name of a model.", 255),
    Table(ModelPrice),
    1000,
)
"""The shape of `[prices]`."""
