"""Expressions over what happened: `{{ steps.review.outcome.verdict == "APPROVE" }}`.

The syntax is a small part of Jinja2's: look-ups, comparisons, `and`, `or`, `not`, `x if y else z`, `+`, `-`, `~` and listed
filters and tests (`expression_filters.py`). A dot looks up a key of a table, never an attribute of an object. A missing
value is undefined, and counts as false.

`expression_tree.py` parses and evaluates one.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from runward.config.counted_values import (
    SPLIT,
    Budget,
    ExpressionError,
    Missing,
    Steps,
    bounded,
    joined,
    look_up,
    plain,
    weigh,
)
from runward.config.json_value import JsonValue
from runward.config.problem import MAX_QUOTED

Given: TypeAlias = Mapping[str, object]
"""What the names of an expression stand for: plain data, or `Steps`."""


class Expression:
    """One expression that can be evaluated."""

    def __init__(self, source: str, known: Iterable[str]) -> None:
        """Raises `ExpressionError` if it is invalid, or uses a name that is not among `known`."""
        self.source = source.strip()
        if not self.source:
            raise ExpressionError("is empty", "write an expression, as in {{ outcome.passed }}")
        from runward.config.expression_tree import read  # imports Jinja2: only if there is an expression

        try:
            self.paths, self._tree = read(self.source, frozenset(known))
        except RecursionError:
            raise ExpressionError("is nested too deep", SPLIT) from None

    def evaluate(self, given: Given, budget: Budget | None = None) -> JsonValue | Missing:
        """Its value. Raises `ExpressionError` where it has none, as with a comparison of a text and a number."""
        from runward.config.expression_tree import Evaluation

        budget = Budget() if budget is None else budget
        try:
            value = Evaluation(given, budget).of(self._tree)
            return value if isinstance(value, Missing) else bounded(plain(value, budget))
        except RecursionError:
            raise ExpressionError("can't be evaluated: it needs too many levels", SPLIT) from None
        except (ValueError, ArithmeticError) as error:
            if isinstance(error, ExpressionError):
                raise
            raise ExpressionError(f"can't be evaluated: {error}") from None

    def missing(self, given: Given) -> str | None:
        """Why the first look-up known by its words leads nowhere. None if all lead somewhere."""
        for path in self.paths:
            value: Any = given
            for depth, part in enumerate(path):
                following = look_up(value, part)
                if isinstance(following, Missing):
                    return f"{written(path[: depth + 1])} is not there: {_of(value, path[:depth])}"
                value = following
        return None

    def values_seen(self, given: Given) -> list[tuple[tuple[str | int, ...], object]]:
        """The look-ups known by their words that lead somewhere, each once, and what is there."""
        values = [(path, _at(path, given)) for path in dict.fromkeys(self.paths)]
        return [(path, value) for path, value in values if not isinstance(value, Missing)]


def _at(path: Sequence[str | int], given: Given) -> object:
    value: object = given
    for part in path:
        value = look_up(value, part)
    return value


def _of(value: object, path: Sequence[str | int]) -> str:
    held = "null" if value is None else "a table" if isinstance(value, dict) else type(value).__name__
    if isinstance(value, dict | Steps):
        return (
            f"{written(path)} has {', '.join(str(key)[:MAX_QUOTED] for key in islice(value, 8)) or 'nothing'}"
            if isinstance(value, dict)
            else f"there are {len(value)} steps before it"
        )
    return f"{written(path)} is {held}"


def written(path: Sequence[str | int]) -> str:
    """A look-up as people write it."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


class Value:
    """A text with expressions between braces, or one whole expression, whose value keeps its type."""

    def __init__(self, text: str, known: Iterable[str]) -> None:
        """Raises `ExpressionError`."""
        names = tuple(known)
        self.parts: list[str | Expression] = []
        position = 0
        while (begin := text.find("{{", position)) >= 0:
            end = _end(text, begin + 2)
            if begin > position:
                self.parts.append(text[position:begin])
            self.parts.append(Expression(text[begin + 2 : end], names))
            position = end + 2
        if position < len(text) or not self.parts:
            self.parts.append(text[position:])
        for part in self.parts:
            if isinstance(part, str) and ("{%" in part or "{#" in part):
                raise ExpressionError("may not use '{%' or '{#'", "only {{ … }} is known here")

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions in it."""
        return tuple(part for part in self.parts if isinstance(part, Expression))

    def render(self, given: Given, budget: Budget | None = None) -> JsonValue | Missing:
        """Its value, or what is missing for it. Raises `ExpressionError`."""
        budget = Budget() if budget is None else budget
        if len(self.parts) == 1 and isinstance(self.parts[0], Expression):
            return self.parts[0].evaluate(given, budget)
        words: list[str] = []
        for part in self.parts:
            value = part if isinstance(part, str) else part.evaluate(given, budget)
            if isinstance(value, Missing):
                return value
            if not isinstance(value, str):
                weigh(value, budget)
                value = json.dumps(value)
            words.append(value)
        return joined(words, "", budget)


def _end(text: str, begin: int) -> int:
    """The end of the braces that opened before `begin`. Braces in quotes and tables don't count."""
    depth, quote, position = 0, "", begin
    while position < len(text):
        char = text[position]
        if quote:
            if char == "\\":
                position += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "{[(":
            depth += 1
        elif depth and char in "}])":
            depth -= 1
        elif text.startswith("}}", position):
            return position
        position += 1
    raise ExpressionError("has a '{{' without its '}}'", "write {{ … }}")
