"""The filters and tests of expressions. They have Jinja2's names and meanings, and count what they do."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Final, TypeAlias

from jinja2.utils import htmlsafe_json_dumps

from runward.config.counted_values import (
    SPLIT,
    Budget,
    ExpressionError,
    Missing,
    Steps,
    added,
    budget_search,
    check_length,
    contains,
    equal,
    is_true,
    items_of,
    joined,
    look_up,
    number,
    order,
    plain,
    present,
    text_of,
    weigh,
)

MOST_MAPS: Final = 3
"""How often `map` may be the filter of another `map`, as in `map('map', 'upper')`: each is a level of the evaluation."""

Filter: TypeAlias = Callable[..., object]
"""Is called with the budget, the value, and what stands in its brackets."""

A_CALL: Final = 4
"""What it costs to call a filter or a test, in items."""

_A_LOOK_UP: Final = 4
_IN_ORDER: Final = 6
"""What it costs to compare two items while a list is sorted, beside the comparison."""

_A_NUMBER: Final = 4
"""What it costs to write a number as a text that tells it apart from others."""

_ARGUMENTS: Final = 8
"""What stands in the brackets of a filter is copied at each call: as many cost 1."""

_LETTERS: Final = 8
"""As many characters of an attribute are taken apart for 1."""

_DIGITS: Final = 32
"""As many digits of a text are read as a number for 1, and as many bits of a number are rounded."""

_LONGEST_ATTRIBUTE: Final = 256
_LONGEST_NUMBER: Final = 400
_MOST_PLACES: Final = 100
_WHOLE_FROM: Final = 2**53
"""From here on, each float is a whole number."""


def call(
    what: str,
    among: Mapping[str, Filter],
    name: object,
    *,
    budget: Budget,
    given: Sequence[object],
    more: Mapping[str, object],
) -> object:
    """The result of the filter or test of this name. `given` begins with the value."""
    function = among.get(name) if isinstance(name, str) else None
    if function is None:
        raise ExpressionError(f"can't be evaluated: there is no {what} {name!r:.80}")
    budget.work(A_CALL + len(given) // _ARGUMENTS)
    try:
        return function(budget, *given, **more)
    except TypeError:
        raise ExpressionError(f"can't be evaluated: the {what} {name!r} can't be used in this way") from None


def compared(operator: str, left: object, right: object, budget: Budget) -> object:
    """The result of a comparison. With something missing it is missing, so that `!=` lets nothing pass by mistake."""
    if isinstance(left, Missing):
        return left
    if operator in ("in", "notin"):
        return contains(right, left, budget) is (operator == "in")
    if isinstance(right, Missing):
        return right
    if operator in ("eq", "ne"):
        return equal(left, right, budget) is (operator == "eq")
    return _ORDERS[operator](order(left, right, budget))


_ORDERS: Final[Mapping[str, Callable[[int], bool]]] = {
    "lt": lambda sign: sign < 0,
    "lteq": lambda sign: sign <= 0,
    "gt": lambda sign: sign > 0,
    "gteq": lambda sign: sign >= 0,
}


def check_maps(given: Sequence[object]) -> None:
    """Refuse `map` as the filter of `map` too often. `given` is what the first one is given."""
    if list(given[: MOST_MAPS + 1]) == ["map"] * (MOST_MAPS + 1):
        raise ExpressionError(f"has 'map' as the filter of 'map' more than {MOST_MAPS} times", SPLIT)


def _picker(attribute: object, budget: Budget) -> Callable[[object], object]:
    """A function that follows an attribute, as in `author.name` or `0`. The attribute is taken apart once, not for each item."""
    if attribute is None:
        path: list[object] = []
    elif isinstance(attribute, str):
        _check_attribute(attribute, budget)
        path = [int(part) if part.isdecimal() and len(part) < 10 else part for part in attribute.split(".")]
    else:
        path = [attribute]
    price = max(1, _A_LOOK_UP * len(path))

    def picked(value: object) -> object:
        budget.work(price)
        for part in path:
            value = look_up(value, part)
        return value

    return picked


def _check_attribute(attribute: str, budget: Budget) -> None:
    """Refuse an attribute that is too long to be one, and count that it is taken apart."""
    if len(attribute) > _LONGEST_ATTRIBUTE:
        raise ExpressionError(f"can't be evaluated: an attribute has at most {_LONGEST_ATTRIBUTE} characters")
    budget.work(len(attribute) // _LETTERS)


def _folded(value: object, case_sensitive: object, budget: Budget) -> object:
    return _lower(budget, value) if isinstance(value, str) and not is_true(case_sensitive) else value


def _made(text: str, budget: Budget) -> None:
    """Count the text that a change of case makes: up to three characters of one."""
    budget.make(len(text) if text.isascii() else 3 * len(text))


def _lower(budget: Budget, value: object) -> str:
    text = text_of(value, budget)
    _made(text, budget)
    return text.lower()


def _upper(budget: Budget, value: object) -> str:
    text = text_of(value, budget)
    _made(text, budget)
    return text.upper()


def _trim(budget: Budget, value: object, chars: object = None) -> str:
    text = text_of(value, budget)
    taken = None if chars is None else text_of(chars, budget)
    budget.compare(len(text) * max(1, len(taken or "")))
    budget.make(len(text))
    return text.strip(taken)


def _replace(budget: Budget, value: object, old: object, new: object, count: object = None) -> str:
    text, old, new = text_of(value, budget), text_of(old, budget), text_of(new, budget)
    most = -1 if count is None else int(number(count))
    budget_search(text, old, budget)
    replaced = text.count(old) if most < 0 else min(most, text.count(old))
    length = len(text) + replaced * (len(new) - len(old))
    check_length(length)
    budget_search(text, old, budget)
    budget.work(replaced)
    budget.make(length)
    return text.replace(old, new, most)


def _join(budget: Budget, value: object, d: object = "", attribute: object = None) -> str:
    picked, between = _picker(attribute, budget), text_of(d, budget)
    parts = [text_of(picked(each), budget) for each in items_of(value, budget)]
    return joined(parts, between, budget)


def _tojson(budget: Budget, value: object) -> str:
    value = present(value)
    weigh(value, budget)
    text = str(htmlsafe_json_dumps(plain(value, budget), sort_keys=True))
    check_length(len(text))
    return text


def _length(budget: Budget, value: object) -> int:
    value = present(value)
    if isinstance(value, str | list | dict | Steps):
        return len(value)
    raise ExpressionError(f"can't be evaluated: {type(value).__name__} has no length")


def _first(budget: Budget, value: object) -> object:
    items = _as_sequence(value, budget)
    return items[0] if len(items) else Missing("there is no first item: it is empty")


def _last(budget: Budget, value: object) -> object:
    items = _as_sequence(value, budget)
    return items[-1] if len(items) else Missing("there is no last item: it is empty")


def _as_sequence(value: object, budget: Budget) -> Sequence[object]:
    return value if isinstance(value, list | str | Steps) else items_of(value, budget)


def _default(budget: Budget, value: object, default_value: object = "", boolean: object = False) -> object:
    is_gone = isinstance(value, Missing) or (is_true(boolean) and not is_true(value))
    return default_value if is_gone else value


def _int(budget: Budget, value: object, default: object = 0, base: object = 10) -> object:
    value = present(value)
    if not _is_short(value, budget):
        return default
    try:
        return int(value, int(number(base))) if isinstance(value, str) else int(number(value))
    except (ExpressionError, ValueError, OverflowError):
        try:
            return int(float(value)) if isinstance(value, str) else default
        except (ValueError, OverflowError):
            return default


def _float(budget: Budget, value: object, default: object = 0.0) -> object:
    value = present(value)
    try:
        return float(value) if isinstance(value, str | int | float) and _is_short(value, budget) else default
    except ValueError:
        return default


def _is_short(value: object, budget: Budget) -> bool:
    """Whether a text is short enough to be read as a number, which is counted."""
    if not isinstance(value, str):
        return True
    if len(value) > _LONGEST_NUMBER:
        return False
    budget.work(len(value) // _DIGITS)
    return True


def _round(budget: Budget, value: object, precision: object = 0, method: object = "common") -> object:
    rounded, places = number(value), number(precision)
    if not isinstance(places, int) or abs(places) > _MOST_PLACES:
        raise ExpressionError(f"can't be evaluated: round needs -{_MOST_PLACES} to {_MOST_PLACES} places")
    if method not in ("common", "ceil", "floor"):
        raise ExpressionError("can't be evaluated: round knows common, ceil and floor")
    if places >= 0 and abs(rounded) >= _WHOLE_FROM:  # Python would write out all its digits
        return rounded
    bits = rounded.bit_length() if isinstance(rounded, int) else math.frexp(rounded)[1]
    budget.work(max(0, bits) // _DIGITS)
    if method == "common":
        return round(rounded, places)
    return (math.ceil if method == "ceil" else math.floor)(rounded * 10**places) / 10**places


def _sum(budget: Budget, value: object, attribute: object = None, start: object = 0) -> object:
    total, picked = start, _picker(attribute, budget)
    for each in items_of(value, budget):
        total = present(added(total, picked(each), budget))
    return total


def _items_or_none(value: object, budget: Budget) -> list[object]:
    """The items of a list; none for null, as in an outcome whose findings are null."""
    return [] if value is None else items_of(value, budget)


def _map(budget: Budget, value: object, *given: object, **more: object) -> list[object]:
    items = _items_or_none(value, budget)
    if not given:
        attribute, default = more.pop("attribute", None), more.pop("default", None)
        if attribute is None or more:
            raise ExpressionError("can't be evaluated: map needs a filter or an attribute")
        picked = map(_picker(attribute, budget), items)
        return [default if default is not None and isinstance(each, Missing) else each for each in picked]
    check_maps(given)
    name, *rest = given
    return [call("filter", FILTERS, name, budget=budget, given=[each, *rest], more=more) for each in items]


def _selected(wanted: bool, by_attribute: bool) -> Filter:
    def select(budget: Budget, value: object, *given: object) -> list[object]:
        attribute = None
        if by_attribute:
            if not given:
                raise ExpressionError("can't be evaluated: it needs the name of an attribute")
            attribute, *given = given  # type: ignore[assignment] # a list does as well
        kept, picked = [], _picker(attribute, budget)
        for each in _items_or_none(value, budget):
            seen = picked(each)
            result = (
                seen
                if not given
                else call("test", TESTS, given[0], budget=budget, given=[seen, *given[1:]], more={})
            )
            if is_true(result) is wanted:
                kept.append(each)
        return kept

    return select


def _sort(budget: Budget, value: object, reverse: object = False, case_sensitive: object = False, attribute: object = None) -> list[object]:  # fmt: skip
    names: list[object] = [attribute]
    if isinstance(attribute, str):
        _check_attribute(attribute, budget)
        names = [*attribute.split(",")]
        budget.work(_A_LOOK_UP * (len(names) - 1))
    pickers = [_picker(name, budget) for name in names]
    keyed = [
        ([_folded(picked(each), case_sensitive, budget) for picked in pickers], each)
        for each in items_of(value, budget)
    ]

    def compare(left: tuple[list[object], object], right: tuple[list[object], object]) -> int:
        budget.work(_IN_ORDER)
        return order(left[0], right[0], budget)

    return [each for _, each in sorted(keyed, key=cmp_to_key(compare), reverse=is_true(reverse))]


def _extreme(sign: int) -> Filter:
    def extreme(
        budget: Budget, value: object, case_sensitive: object = False, attribute: object = None
    ) -> object:
        best: tuple[object, object] | None = None
        picked = _picker(attribute, budget)
        for each in items_of(value, budget):
            key = _folded(picked(each), case_sensitive, budget)
            if best is None or order(key, best[0], budget) * sign > 0:
                best = key, each
        return Missing("it is empty") if best is None else best[1]

    return extreme


def _unique(budget: Budget, value: object, case_sensitive: object = False, attribute: object = None) -> list[object]:  # fmt: skip
    seen: set[tuple[str, str | None]] = set()
    kept, picked = [], _picker(attribute, budget)
    for each in items_of(value, budget):
        key = _told_apart(_folded(picked(each), case_sensitive, budget), budget)
        if key not in seen:
            seen.add(key)
            kept.append(each)
    return kept


def _told_apart(value: object, budget: Budget) -> tuple[str, str | None]:
    """A kind and a text that are the same for the same values: data can choose the hash of a number, not of a text."""
    value = present(value)
    if isinstance(value, str):
        budget.compare(len(value))
        return "text", value
    if isinstance(value, int | float):
        budget.work(_A_NUMBER)
        is_whole = value - value == 0 and int(value) == value
        return "number", f"{int(value):x}" if is_whole else repr(value)
    if value is None:
        return "null", None
    raise ExpressionError("can't be evaluated: only texts and numbers can be told apart")


def _list(budget: Budget, value: object) -> list[object]:
    return items_of(value, budget)


def _abs(budget: Budget, value: object) -> object:
    return abs(number(value))


FILTERS: Final[Mapping[str, Filter]] = {
    "abs": _abs,
    "count": _length,
    "default": _default,
    "d": _default,
    "first": _first,
    "float": _float,
    "int": _int,
    "join": _join,
    "last": _last,
    "length": _length,
    "list": _list,
    "lower": _lower,
    "map": _map,
    "max": _extreme(1),
    "min": _extreme(-1),
    "reject": _selected(False, False),
    "rejectattr": _selected(False, True),
    "replace": _replace,
    "round": _round,
    "select": _selected(True, False),
    "selectattr": _selected(True, True),
    "sort": _sort,
    "string": lambda budget, value: text_of(value, budget),
    "sum": _sum,
    "tojson": _tojson,
    "trim": _trim,
    "unique": _unique,
    "upper": _upper,
}


def _comparison(operator: str) -> Filter:
    return lambda budget, value, other: compared(operator, value, other, budget)


def _kind(*kinds: Any) -> Filter:  # noqa: ANN401 # types
    return lambda budget, value: isinstance(value, kinds)


TESTS: Final[Mapping[str, Filter]] = {
    "defined": lambda budget, value: not isinstance(value, Missing),
    "undefined": _kind(Missing),
    "none": lambda budget, value: value is None,
    "true": lambda budget, value: value is True,
    "false": lambda budget, value: value is False,
    "boolean": _kind(bool),
    "number": _kind(int, float),
    "string": _kind(str),
    "sequence": _kind(str, list, dict, Steps),
    "mapping": _kind(dict),
    "in": _comparison("in"),
    **dict.fromkeys(("eq", "equalto", "=="), _comparison("eq")),
    **dict.fromkeys(("ne", "!="), _comparison("ne")),
    **dict.fromkeys(("lt", "<"), _comparison("lt")),
    **dict.fromkeys(("le", "<="), _comparison("lteq")),
    **dict.fromkeys(("gt", ">"), _comparison("gt")),
    **dict.fromkeys(("ge", ">="), _comparison("gteq")),
}
