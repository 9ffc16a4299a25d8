"""What replies used in a stretch of time, and what that costs: one row for each day, model, project, …"""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.prices.kept import KeptPrices
from runward.daemon.prices.pricing import Prices
from runward.daemon.store.tables import session_lists, usage
from runward.daemon.store.tables.sessions import SessionRow, about_of, session_rows
from runward.daemon.views.text import ESTIMATE, UNKNOWN
from runward.handlers.times import iso
from runward.handlers.usage.counting import HOUR, Counted

KINDS: Final = ("day", "week", "month", "project", "model", "agent", "playbook", "chain", "session")
"""By what it is shown."""

_OF_TIME: Final = ("day", "week", "month")
_OF_SESSIONS: Final = ("project", "agent", "playbook", "chain", "session")


class Asked(NamedTuple):
    """What is asked for. Times are Unix seconds; an hour that is partly inside counts whole. Without `models`: all of them."""

    by: str
    since: float
    until: float
    wanted: session_lists.Wanted = session_lists.EVERY
    models: tuple[str, ...] = ()


LIST_PRICES: Final = "list prices"
SETTINGS_PRICES: Final = "the prices of the settings"


class Sum(NamedTuple):
    """Tokens and dollars. `unpriced` are tokens whose price is not known; they are not in `cost`.

    `is_estimate` says whether any of `cost` is what tokens cost at a price, and not what the agent reported; `is_at_list`,
    whether any of these prices is a list price.
    """

    sessions: int = 0
    replies: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    is_estimate: bool = False
    is_at_list: bool = False

    @property
    def known_cost(self) -> Decimal | None:
        """What those cost whose price is known; None if none is."""
        return self.cost if self.cost or not self.unpriced else None

    def in_dollars(self) -> str:
        """The dollars that are known, marked if they are an estimate. What isn't known is a question mark, never nothing."""
        if self.known_cost is None:
            return UNKNOWN
        return f"{ESTIMATE if self.is_estimate else ''}{dollars(self.cost)}{' + ?' if self.unpriced else ''}"

    def at_prices(self) -> str:
        """Words to put after the dollars: at which prices they are; "" if the agent reported all of them."""
        if not self.is_estimate:
            return ""
        return f" at {LIST_PRICES if self.is_at_list else SETTINGS_PRICES}"

    def as_json(self) -> dict[str, JsonValue]:
        """What `--json` says."""
        return {
            "sessions": self.sessions,
            "replies": self.replies,
            "input_tokens": self.input,
            "cache_read_tokens": self.cache_read,
            "cache_write_tokens": self.cache_write,
            "output_tokens": self.output,
            "cost_usd": None if self.known_cost is None else float(self.known_cost),
            "cost_is_estimate": None if self.known_cost is None else self.is_estimate,
            "unpriced_tokens": self.unpriced,
        }


class UsageTable(NamedTuple):
    """The answer. `rows` are by their keys, None for what belongs to none; `shown` are names of keys for people.

    `missing` counts sessions whose replies are not counted yet, `without_price` names models. `months` are those of the
    first and the last reply. `source` and `version` are those of the list prices; None if none was applied.
    """

    asked: Asked
    rows: tuple[tuple[str | None, Sum], ...]
    total: Sum
    missing: int
    without_price: tuple[str, ...]
    months: tuple[str, str] | None
    source: str | None
    version: str | None
    shown: Mapping[str | None, str]

    def as_json(self) -> dict[str, JsonValue]:
        """What `runward usage --json` prints."""
        return {
            "since": iso(self.asked.since),
            "until": iso(self.asked.until),
            "by": self.asked.by,
            "prices": {"source": self.source, "version": self.version},
            "rows": [{"key": key, **each.as_json()} for key, each in self.rows],
            "total": self.total.as_json(),
            "missing_sessions": self.missing,
        }


class _Priced(NamedTuple):
    """A sum with what it costs, None if that is not known, and whether that is at a list price."""

    spent: usage.Spent
    cost: Decimal | None
    is_at_list: bool


class _Adding:
    """A sum while it is added up."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.sum = Sum()

    def add(self, priced: _Priced) -> None:
        spent, cost, is_at_list = priced
        counted = spent.counted
        self.sessions.add(spent.session_key)
        written = counted.cache_write_5m + counted.cache_write_1h
        given = counted.fresh_input + counted.cache_read + written
        before = self.sum
        self.sum = Sum(
            0,
            before.replies + counted.replies,
            before.input + given,
            before.cache_read + counted.cache_read,
            before.cache_write + written,
            before.output + counted.output,
            before.cost + (cost or 0),
            before.unpriced + (given + counted.output if cost is None else 0),
            before.is_estimate or (cost is not None and counted.reported_nanousd is None),
            before.is_at_list or (cost is not None and is_at_list),
        )

    def done(self) -> Sum:
        return self.sum._replace(sessions=len(self.sessions))


def usage_of(connection: sqlite3.Connection, settings: Settings, asked: Asked) -> UsageTable:
    """What was used, as the store knows it now."""
    spent = usage.spent(connection, int(asked.since // HOUR), -int(-asked.until // HOUR))
    if asked.models:
        spent = [each for each in spent if each.counted.model in asked.models]
    shown: dict[str | None, str] = {}
    if asked.wanted != session_lists.EVERY:
        kept = {row.key for row in _rows(connection, spent) if asked.wanted.has(row)}
        spent = [each for each in spent if each.session_key in kept]
    key_of = _keys(connection, asked.by, spent, shown)
    prices = _prices(settings)
    sums: dict[str | None, _Adding] = {}
    total, without = _Adding(), dict[str, None]()
    for each in _priced(spent, prices):
        if each.cost is None:
            without[each.spent.counted.model or UNKNOWN] = None
        sums.setdefault(key_of(*each.spent), _Adding()).add(each)
        total.add(each)
    rows = [(key, each.done()) for key, each in sums.items()]
    if asked.by in _OF_TIME:
        rows.sort(key=lambda row: row[0] or "")
    else:
        rows.sort(key=lambda row: (-row[1].cost, -row[1].input - row[1].output, row[0] or ""))
    source, version = prices.list_of
    return UsageTable(
        asked=asked,
        rows=tuple(rows),
        total=total.done(),
        missing=usage.sessions_missing(connection),
        without_price=tuple(sorted(without)),
        months=_months(spent),
        source=source,
        version=version,
        shown=shown,
    )


def _prices(settings: Settings) -> Prices:
    return Prices(settings.prices, KeptPrices(settings.state_dir))


def _priced(spent: Sequence[usage.Spent], prices: Prices) -> list[_Priced]:
    """Each with what it costs. List prices that were looked up are kept."""
    priced = [_Priced(each, prices.cost(each.counted), prices.is_at_list(each.counted)) for each in spent]
    prices.keep()
    return priced


def used_by(connection: sqlite3.Connection, settings: Settings, of: Mapping[str, str]) -> dict[str, Sum]:
    """What sessions used together: `of` says by their keys to what each belongs. One without counted replies adds nothing."""
    spent = usage.spent_by(connection, list(of))
    if not spent:
        return {}
    sums: dict[str, _Adding] = {}
    for each in _priced(spent, _prices(settings)):
        sums.setdefault(of[each.spent.session_key], _Adding()).add(each)
    return {name: each.done() for name, each in sums.items()}


def cost_in_words(connection: sqlite3.Connection, settings: Settings, key: str) -> tuple[str, bool]:
    """What a session cost, in dollars, and whether that is an estimate: then also at whose prices."""
    spent, prices = usage.spent_by(connection, [key]), _prices(settings)
    used = _together(spent, prices)
    if not used.is_estimate:
        return (used.in_dollars() if spent else UNKNOWN), False
    return f"{used.in_dollars()} at {prices_in_words(_months(spent), *prices.list_of)}", True


def estimate_of(connection: sqlite3.Connection, settings: Settings, key: str) -> str | None:
    """The cost of a session in words, if it is an estimate."""
    words, is_estimate = cost_in_words(connection, settings, key)
    return words if is_estimate else None


def used_between(connection: sqlite3.Connection, settings: Settings, since: float, until: float) -> Sum:
    """What was used in the hours from the one of `since` to the one of `until` (Unix seconds)."""
    return _together(usage.spent(connection, int(since // HOUR), -int(-until // HOUR)), _prices(settings))


def _together(spent: Sequence[usage.Spent], prices: Prices) -> Sum:
    total = _Adding()
    for each in _priced(spent, prices):
        total.add(each)
    return total.done()


def usage_json(known: JsonValue, used: Sum | None) -> JsonValue:
    """The `usage` of a session: its tokens as they are `known`, with what was counted of its replies."""
    if not isinstance(known, dict):
        return known
    counted = {} if used is None else used.as_json()
    further = ("cache_read_tokens", "cache_write_tokens", "cost_usd", "cost_is_estimate", "unpriced_tokens")
    return {**known, **{name: counted.get(name) for name in further}}


_CENTS: Final = Decimal("0.01")
_FRACTION: Final = Decimal("0.0001")


def dollars(cost: Decimal) -> str:
    """An amount: with cents, and a small one with hundredths of a cent."""
    return f"${cost.quantize(_CENTS if cost >= 1 else _FRACTION):,}"


def prices_in_words(months: tuple[str, str] | None, source: str | None, version: str | None) -> str:
    """Of which months and in which table the list prices are; whose prices were applied if none of them was."""
    if months is None or source is None:
        return SETTINGS_PRICES
    first, last = months
    return f"{LIST_PRICES} of {first if first == last else f'{first} to {last}'} ({source} {version})"


def _months(spent: Sequence[usage.Spent]) -> tuple[str, str] | None:
    if not spent:
        return None
    hours = [each.counted.hour for each in spent]
    return _local(min(hours), "%Y-%m"), _local(max(hours), "%Y-%m")


def _local(hour: int, form: str) -> str:
    return time.strftime(form, time.localtime(hour * HOUR))


def _rows(connection: sqlite3.Connection, spent: Sequence[usage.Spent]) -> list[SessionRow]:
    """The sessions, with where they worked."""
    rows = session_rows(connection, list(dict.fromkeys(each.session_key for each in spent)))
    return [row._replace(cwd=about_of(row).cwd) for row in rows]


_Key = Callable[[str, Counted], str | None]


def _keys(
    connection: sqlite3.Connection, by: str, spent: Sequence[usage.Spent], shown: dict[str | None, str]
) -> _Key:
    """How the key of a row is found; what it is called is put into `shown`, if that is another text."""
    if by == "model":
        return lambda session, counted: counted.model or None
    if by in _OF_TIME:
        return _by_time(by)
    rows = _rows(connection, spent)
    if by == "session":
        shown.update({row.key: row.session_id for row in rows})
        return lambda session, counted: session
    keys: dict[str, str | None] = {}
    if by == "project":
        keys = {row.key: _project(row.cwd) for row in rows}
    elif by == "agent":
        keys = {row.key: row.agent or row.layout for row in rows}
    else:
        launched = usage.launchers(connection, [row.key for row in rows])
        found = (
            usage.playbooks_of(connection, set(launched.values()))
            if by == "playbook"
            else usage.chains_of(connection, {*launched.values(), *(row.key for row in rows)})
        )
        own = {row.key: row.playbook if by == "playbook" else found.get(row.key) for row in rows}
        keys = {key: own[key] or found.get(launched.get(key, "")) for key in own}
    return lambda session, counted: keys.get(session)


def _by_time(by: str) -> _Key:
    """Days of local time. A week is called by its Monday. An hour belongs to the day in which it begins."""
    known: dict[int, str] = {}

    def key(_: str, counted: Counted) -> str:
        if counted.hour not in known:
            at = counted.hour * HOUR
            if by == "week":
                moment = time.localtime(at)
                noon = time.mktime((*moment[:2], moment.tm_mday - moment.tm_wday, 12, 0, 0, 0, 0, -1))
                known[counted.hour] = time.strftime("%Y-%m-%d", time.localtime(noon))
            else:
                known[counted.hour] = _local(counted.hour, "%Y-%m-%d" if by == "day" else "%Y-%m")
        return known[counted.hour]

    return key


def _project(directory: str | None) -> str | None:
    """The top of the git repository that a directory is in, else the directory."""
    if directory is None or not directory.startswith("/") or "\0" in directory:
        return directory
    top = directory
    while True:
        try:
            if os.path.lexists(os.path.join(top, ".git")):
                return top
        except (OSError, ValueError):
            return directory
        above = os.path.dirname(top)
        if above == top:
            return directory
        top = above
