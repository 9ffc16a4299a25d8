"""`<state>/prices.json`: list prices of the models that were seen, so that commands needn't load the library for them.

The file says what the library's data were when it was written. If they are others now, nothing of it counts.
"""

import json
import os
from contextlib import suppress
from decimal import Decimal, DecimalException
from importlib.machinery import PathFinder
from typing import Final

from runward.config.json_value import JsonValue, objects
from runward.daemon.disk.durable import write_whole
from runward.daemon.prices.price import Listed, Price
from runward.handlers.model.files import signature_of

FILE: Final = "prices.json"

_LIBRARY: Final = "genai_prices"
_DATA: Final = "data.py"
_MOST_BYTES: Final = 1 << 20
_MOST: Final = 500
"""Prices that are kept. Transcripts name the models, so there may be any number of them."""

_LONGEST: Final = 128
"""Characters of a model's name that is kept."""


class KeptPrices:
    """The prices in the file of this state directory, and those that were added to them."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._data = _data_of_library()
        self._prices: dict[tuple[str, str, int], list[Listed]] = {}
        self._count = 0
        self._is_changed = False
        self.source: str | None = None
        """Whose list it is; None if it is not known yet."""
        self.version: str | None = None
        self._read()

    def find(self, model: str, speed: str, size: int, hour: int) -> Listed | None:
        """What is known of a model's price in an hour (since 1970)."""
        known = self._prices.get((model, speed, size), ())
        return next((each for each in known if each.holds(hour)), None)

    def look_up(self, model: str, speed: str, size: int, hour: int) -> Listed:
        """Ask the library, and remember what it says."""
        from runward.daemon.prices.list_prices import SOURCE, VERSION, list_price

        self.source, self.version = SOURCE, VERSION
        found = list_price(model, speed, size, hour)
        self._add(model, speed, size, found)
        self._is_changed = True
        return found

    def keep(self) -> None:
        """Write what was added. Who may not write there looks it up again next time."""
        if not self._is_changed or self._data is None:
            return
        content: dict[str, JsonValue] = {
            "source": self.source,
            "version": self.version,
            "data": self._data,
            "prices": [
                {
                    "model": model,
                    "speed": speed,
                    "size": size,
                    "since": each.since,
                    "until": each.until,
                    "usd_per_million": None if each.price is None else [str(price) for price in each.price],
                }
                for (model, speed, size), listed in self._prices.items()
                for each in listed
                if len(model) <= _LONGEST
            ],
        }
        self._is_changed = False
        with suppress(OSError):
            directory = os.open(self._state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                write_whole(directory, FILE, json.dumps(content).encode())
            finally:
                os.close(directory)

    def _add(self, model: str, speed: str, size: int, listed: Listed) -> None:
        if self._count >= _MOST:
            self._forget()
        self._prices.setdefault((model, speed, size), []).append(listed)
        self._count += 1

    def _read(self) -> None:
        try:
            with open(os.path.join(self._state, FILE), "rb") as file:
                content = json.loads(file.read(_MOST_BYTES))
            if self._data is None or content["data"] != self._data:
                return
            for each in objects(content["prices"])[:_MOST]:
                listed = Listed(_price(each["usd_per_million"]), _hour(each["since"]), _hour(each["until"]))
                self._add(str(each["model"]), str(each["speed"]), int(str(each["size"])), listed)
            self.source, self.version = str(content["source"]), str(content["version"])
        # Whatever is wrong with it: it is written anew.
        except (OSError, ValueError, TypeError, LookupError, DecimalException):
            self._forget()

    def _forget(self) -> None:
        self._prices.clear()
        self._count = 0


def _price(value: JsonValue) -> Price | None:
    match value:
        case None:
            return None
        case [fresh, read, five_minutes, an_hour, output]:
            kinds = (fresh, read, five_minutes, an_hour, output)
            return Price(*(Decimal(str(each)) for each in kinds))
    raise ValueError("it has not one price for each kind of token")


def _hour(value: JsonValue) -> int | None:
    return None if value is None else int(str(value))


def _data_of_library() -> list[JsonValue] | None:
    """What tells the library's data from those of another version; None if they can't be looked at."""
    found = PathFinder.find_spec(_LIBRARY)
    if found is None or found.origin is None:
        return None
    data = os.path.join(os.path.dirname(found.origin), _DATA)
    try:
        status = os.stat(data)
    except OSError:
        return None
    return [data, *signature_of(status)]
