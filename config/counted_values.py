"""Values that expressions work on, and operations on them whose work is counted.

The data is hostile: two lists of an event can be long enough for a harmless comparison to take minutes. So whatever an
expression does is counted in a `Budget` before it is done: items that are looked at or compared, characters that are
compared or copied. No clock is read, so the answer is the same on every machine.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from runward.config.json_value import MAX_INTEGER, JsonValue
from runward.config.problem import kind, quoted

SPLIT: Final = "split it into several steps, or have a program decide"
"""How an expression becomes smaller."""

LONGEST_RESULT: Final = 64 << 10
"""Characters in the result of a text with expressions, and in each text that is put together from others."""

MOST_WORK: Final = 100_000
"""What the expressions that are evaluated for one decision may cost together, in items.

An item that is copied costs 1, one that is compared 2, one that is looked up 4, a filter or test that is called 4, and
characters as below: each about as much as it takes.
"""

MOST_MADE: Final = 2 << 20
"""Characters that they may make together."""

_LONGEST_LIST: Final = 10_000
_DEEPEST: Final = 100
_COMPARED: Final = 64
"""Characters that are compared for 1."""
_COPIED: Final = 32
"""Characters that are made for 1."""
_A_CONTAINER: Final = 3
"""What a list or a table in the result costs beside the item that it is: Python's collector visits it, too."""
_ALWAYS_LINEAR: Final = 30_000
"""From this length on, Python's search is linear in both texts. Below, it may compare each character with each."""


class ExpressionError(ValueError):
    """A text that is not a valid expression, or that can't be evaluated. `fix` says what to write instead."""

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.fix = fix


class TooMuchWork(ExpressionError):
    """The budget is spent."""


class Budget:
    """What may still be done for one decision."""

    __slots__ = ("_made", "_work")

    def __init__(self) -> None:
        self._work, self._made = 0, 0

    @property
    def spent(self) -> tuple[int, int]:
        """The work that was done, and the characters that were made."""
        return self._work, self._made

    def work(self, items: int) -> None:
        """Count what is about to be done. Raises `TooMuchWork`."""
        self._work += items
        if self._work > MOST_WORK:
            raise TooMuchWork(
                f"takes too much work: more than {MOST_WORK} items would be looked at or compared", _LESS
            )

    def compare(self, characters: int) -> None:
        """Count characters that are about to be compared."""
        self.work(characters // _COMPARED)

    def make(self, characters: int) -> None:
        """Count characters that are about to be made."""
        self._made += characters
        if self._made > MOST_MADE:
            raise TooMuchWork(f"makes too much: more than {MOST_MADE >> 20} Mi characters", _LESS)
        self.work(1 + characters // _COPIED)

    def make_items(self, count: int) -> None:
        """Count a list that is about to be made."""
        self.work(count)


_LESS: Final = "look up less, or have a program decide"


class Missing(NamedTuple):
    """The value of something missing; `why` says which look-up failed."""

    why: str


class Steps(Sequence[Mapping[str, object]]):
    """Steps that are looked up by their number, also from the end, or by their id."""

    def __init__(self, steps: Iterable[Mapping[str, object]]) -> None:
        self._steps = list(steps)
        self._by_id = {str(each["id"]): each for each in self._steps}

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 # a number, a slice or an id, whatever the caller has
        return self._by_id[index] if isinstance(index, str) else self._steps[index]

    def __len__(self) -> int:
        return len(self._steps)


def present(value: object) -> object:
    """The value itself. Raises `ExpressionError` if it is missing: an empty text in its place would look complete."""
    if isinstance(value, Missing):
        raise ExpressionError(f"can't be evaluated: {value.why}")
    return value


def is_true(value: object) -> bool:
    """Whether a value counts as true. What is missing does not."""
    return not isinstance(value, Missing) and bool(value)


def look_up(value: object, key: object) -> object:
    """A key of a table, or a place in a list or text; never an attribute. `Missing` if it is not there."""
    if isinstance(value, Missing):
        return value
    if isinstance(key, Missing):
        return key
    try:
        if isinstance(value, dict | Steps) and isinstance(key, str):
            return value[key]
        if isinstance(value, list | str | Steps) and isinstance(key, int):
            return value[key]
    except LookupError:
        pass
    if isinstance(value, Mapping | Steps | list | str):
        return Missing(f"there is no {quoted(key)}")
    what = "nothing" if value is None else "no table" if isinstance(key, str) else "no list"
    return Missing(f"{quoted(key)} was looked up in {what}")


def items_of(value: object, budget: Budget) -> list[object]:
    """The items of a list, the characters of a text or the keys of a table, as a new list."""
    value = present(value)
    if not isinstance(value, list | str | dict | Steps):
        raise ExpressionError(f"can't be evaluated: {_shown(value)} has no items")
    budget.make_items(len(value))
    return list(value)


def equal(left: object, right: object, budget: Budget, depth: int = 0) -> bool:
    """Whether two values are the same. What is missing is not the same as anything."""
    budget.work(2)
    _check_depth(depth)
    if isinstance(left, str) and isinstance(right, str):
        if len(left) != len(right):
            return False
        budget.compare(len(left))
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            equal(one, other, budget, depth + 1) for one, other in zip(left, right, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(
            _has(right, key, budget) and equal(each, right[key], budget, depth + 1)
            for key, each in left.items()
        )
    if isinstance(left, int | float | None) and isinstance(right, int | float | None):
        return left == right
    return left is right


def order(left: object, right: object, budget: Budget, depth: int = 0) -> int:
    """Less than 0, 0, or more than 0, as `left` comes before, with or after `right`. Raises `ExpressionError`."""
    budget.work(2)
    left, right = present(left), present(right)
    if isinstance(left, str) and isinstance(right, str):
        budget.compare(min(len(left), len(right)))
        return (left > right) - (left < right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        return (left > right) - (left < right)
    if isinstance(left, list) and isinstance(right, list):
        for one, other in zip(left, right, strict=False):
            if not equal(one, other, budget, depth + 1):
                return order(one, other, budget, depth + 1)
        return (len(left) > len(right)) - (len(left) < len(right))
    raise ExpressionError(f"can't be evaluated: {_shown(left)} can't be compared with {_shown(right)}")


def contains(whole: object, part: object, budget: Budget) -> bool:
    """Whether a text has this part, a list this item, or a table this key."""
    whole = present(whole)
    if isinstance(whole, str):
        if not isinstance(part, str):
            raise ExpressionError(f"can't be evaluated: {_shown(part)} can't be in a text")
        budget_search(whole, part, budget)
        return part in whole
    if isinstance(whole, dict):
        return isinstance(part, str) and _has(whole, part, budget)
    if isinstance(whole, list | Steps):
        return any(equal(each, part, budget) for each in whole)
    raise ExpressionError(f"can't be evaluated: {_shown(whole)} has nothing in it")


def _has(table: Mapping[str, object], key: str, budget: Budget) -> bool:
    """Whether a table has this key. Its text is compared with the one that is there, however long both are."""
    budget.compare(len(key))
    return key in table


def budget_search(text: str, part: str, budget: Budget) -> None:
    """Count the search for a part of a text, at its worst."""
    each = len(part) if len(text) < _ALWAYS_LINEAR else min(len(part), 6)
    budget.compare(len(text) * max(1, each))


def added(left: object, right: object, budget: Budget) -> object:
    """The sum of two numbers, or two texts or lists one after the other."""
    if isinstance(left, Missing):
        return left
    if isinstance(right, Missing):
        return right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left + right
    if isinstance(left, str) and isinstance(right, str):
        return joined([left, right], "", budget)
    if isinstance(left, list) and isinstance(right, list):
        if len(left) + len(right) > _LONGEST_LIST:
            raise ExpressionError(f"becomes a list of more than {_LONGEST_LIST}", "select what is needed")
        budget.make_items(len(left) + len(right))
        return left + right
    raise ExpressionError(f"can't be evaluated: {_shown(left)} and {_shown(right)} can't be added")


def number(value: object) -> int | float:
    """The value, which must be a number."""
    if not isinstance(value, int | float):
        raise ExpressionError(f"can't be evaluated: {_shown(present(value))} is not a number")
    return value


def joined(parts: Sequence[str], between: str, budget: Budget) -> str:
    """These texts as one, which has a bounded length."""
    length = sum(map(len, parts)) + len(between) * max(0, len(parts) - 1)
    check_length(length)
    budget.make(length)
    return between.join(parts)


def check_length(length: int) -> None:
    """Refuse a text that is put together and becomes too long."""
    if length > LONGEST_RESULT:
        raise ExpressionError(f"becomes longer than {LONGEST_RESULT >> 10} KiB", "give it as a file")


def text_of(value: object, budget: Budget) -> str:
    """The value as a text; a list or a table as Python writes it."""
    value = present(value)
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return str(plain(value, budget))
    weigh(value, budget)
    text = str(plain(value, budget))
    check_length(len(text))  # the digits of numbers are not weighed
    return text


def weigh(value: object, budget: Budget) -> None:
    """Count what it takes to write a value as one text, and refuse it if the text becomes too long."""
    length, level = 0, [value]
    while level:
        budget.work(len(level))
        inner: list[object] = []
        for each in map(present, level):
            if isinstance(each, str):
                length += len(each)
            elif isinstance(each, dict):
                length += sum(map(len, map(str, each)))
                budget.work(len(each))
                inner.extend(each.values())
            elif isinstance(each, list | Steps):
                inner.extend(each)
        length += 2 * len(level)
        level = inner
    check_length(length)
    budget.make(length * 2)


def plain(value: object, budget: Budget, depth: int = 0) -> JsonValue:
    """The value as plain data. What is missing inside of it becomes null. Raises `ExpressionError`."""
    budget.work(1)
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ExpressionError("becomes a whole number of more than 64 bits", "give it as a text")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ExpressionError("becomes a number that is not finite", "give it as a text")
        return value
    _check_depth(depth)
    budget.work(_A_CONTAINER)
    if isinstance(value, dict):
        return {str(key): plain(each, budget, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each, budget, depth + 1) for each in value]
    if isinstance(value, Steps):
        return {str(number): plain(each, budget, depth + 1) for number, each in enumerate(value)}
    if isinstance(value, Missing):
        return None
    raise ExpressionError(f"is {type(value).__name__}, which can't be used as a value")


def bounded(value: JsonValue) -> JsonValue:
    """The value, if the result of an expression may be as large."""
    if isinstance(value, str):
        check_length(len(value))
    if isinstance(value, list) and len(value) > _LONGEST_LIST:
        raise ExpressionError(f"becomes a list of more than {_LONGEST_LIST}", "select what is needed")
    return value


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise ExpressionError(f"meets data that is nested more than {_DEEPEST} deep", _LESS)


def _shown(value: object) -> str:
    return quoted(value) if isinstance(value, str) else "a list" if isinstance(value, Steps) else kind(value)
