"""Expressions over what happened: `{{ steps.review.outcome.verdict == "APPROVE" }}`.

The syntax (`expression_syntax.py`) is a small part of Jinja2's: look-ups, comparisons, `and`, `or`, `not`, `x if y else z`,
`+`, `-`, `~` and listed filters and tests. A dot looks up a key of a table, never an attribute of an object. A missing
value is undefined, and counts as false.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from jinja2 import ChainableUndefined, TemplateError
from jinja2.environment import TemplateExpression
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runward.config.expression_syntax import FILTERS, TESTS, ExpressionError, look_ups, parsed
from runward.config.json_value import JsonValue
from runward.config.problem import quoted

LONGEST_RESULT: Final = 64 << 10
"""Characters in the result of a text with expressions, and in each intermediate text."""

_LONGEST_LIST: Final = 10_000

Given: TypeAlias = Mapping[str, object]
"""What the names of an expression stand for: plain data, or `Steps`."""


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


class _Absent(ChainableUndefined):
    """Remembers the first look-up that failed, whatever is later looked up in it or compared with it.

    A comparison with it is undefined, too, so that `outcome.verdict != "REJECT"` lets nothing pass if there is no
    verdict.
    """

    __slots__ = ()

    def why(self) -> str:
        """Which look-up failed."""
        return self._undefined_hint or f"{quoted(self._undefined_name)} is not defined"

    def __getattr__(self, name: str) -> "_Absent":
        if name[:2] == "__":
            raise AttributeError(name)
        return self

    def __str__(self) -> str:
        raise UndefinedError(self.why())  # a text with a gap in its place would look complete

    def __iter__(self) -> NoReturn:
        raise UndefinedError(self.why())  # an empty list would not be the list that was looked up

    def __len__(self) -> NoReturn:
        raise UndefinedError(self.why())

    def __bool__(self) -> bool:
        return False

    def _compared(self, other: object) -> Any:  # noqa: ANN401 # it is used as a truth value
        return self

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compared
    __hash__ = ChainableUndefined.__hash__


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("+", "-"))

    def __init__(self) -> None:
        super().__init__(undefined=_Absent, autoescape=False)
        self.filters = {name: self.filters[name] for name in FILTERS}
        self.filters |= {"replace": _replace, "join": _join}
        self.tests = {name: self.tests[name] for name in TESTS}
        self.globals = {}

    def getitem(self, obj: Any, argument: Any) -> Any:  # noqa: ANN401 # as Jinja2 declares it
        """A key of a table, or a place in a list or text."""
        if isinstance(obj, _Absent):
            return obj
        try:
            if isinstance(obj, Mapping | Steps) and isinstance(argument, str):
                return obj[argument]
            if isinstance(obj, list | str | Steps) and isinstance(argument, int | slice):
                return obj[argument]
        except LookupError:
            pass
        return _Absent(hint=_why_absent(obj, argument))

    def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401 # as Jinja2 declares it
        """The same: a dot never leads to an attribute."""
        return self.getitem(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 # as Jinja2 declares it
        """Numbers, and texts and lists of a bounded length."""
        absent = next((each for each in (left, right) if isinstance(each, _Absent)), None)
        if absent is not None:
            return absent
        result = super().call_binop(context, operator, left, right)
        return _bounded(result)


def _why_absent(obj: object, argument: object) -> str:
    what = "nothing" if obj is None else "no table" if isinstance(argument, str) else "no list"
    if isinstance(obj, Mapping | Steps | list | str):
        return f"there is no {quoted(argument)}"
    return f"{quoted(argument)} was looked up in {what}"


def _bounded(value: Any) -> Any:  # noqa: ANN401 # whatever it is
    if isinstance(value, str) and len(value) > LONGEST_RESULT:
        raise ExpressionError(f"becomes longer than {LONGEST_RESULT >> 10} KiB", "give it as a file")
    if isinstance(value, list) and len(value) > _LONGEST_LIST:
        raise ExpressionError(f"becomes a list of more than {_LONGEST_LIST}", "select what is needed")
    return value


def _replace(text: object, old: str, new: str, count: int | None = None) -> str:
    text, old, new = str(text), str(old), str(new)
    if len(text) + text.count(old) * len(new) > LONGEST_RESULT:
        raise ExpressionError(f"becomes longer than {LONGEST_RESULT >> 10} KiB", "give it as a file")
    return text.replace(old, new, -1 if count is None else int(count))


def _join(value: Iterable[object], d: str = "", attribute: str | None = None) -> str:
    parts: list[str] = []
    length = 0
    for each in value:
        picked = each if attribute is None else _ENVIRONMENT.getitem(each, attribute)
        parts.append(str(picked))
        length += len(parts[-1]) + len(str(d))
        if length > LONGEST_RESULT:
            raise ExpressionError(f"becomes longer than {LONGEST_RESULT >> 10} KiB", "give it as a file")
    return str(d).join(parts)


_ENVIRONMENT: Final = _Environment()


class Expression:
    """One expression that can be evaluated."""

    def __init__(self, source: str, known: Iterable[str]) -> None:
        """Raises `ExpressionError` if it is invalid, or uses a name that is not among `known`."""
        self.source = source.strip()
        if not self.source:
            raise ExpressionError("is empty", "write an expression, as in {{ outcome.passed }}")
        self.paths, self._compiled = _compiled(self.source, frozenset(known))

    def evaluate(self, given: Given) -> JsonValue | Missing:
        """Its value. Raises `ExpressionError` where it has none, as with a comparison of a text and a number."""
        try:
            value = self._compiled(**given)
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            if isinstance(error, ExpressionError):
                raise
            raise ExpressionError(f"can't be evaluated: {error}") from None
        except (TemplateError, SecurityError) as error:
            raise ExpressionError(f"can't be evaluated: {error.message}") from None
        if isinstance(value, _Absent):
            return Missing(value.why())
        if isinstance(value, Undefined):
            return Missing("it is not defined")
        return _plain(_bounded(value))

    def missing(self, given: Given) -> str | None:
        """Why the first look-up known by its words leads nowhere. None if all lead somewhere."""
        for path in self.paths:
            value: Any = given
            for depth, part in enumerate(path):
                following = _ENVIRONMENT.getitem(value, part)
                if isinstance(following, _Absent):
                    return f"{_written(path[: depth + 1])} is not there: {_of(value, path[:depth])}"
                value = following
        return None


@lru_cache(maxsize=512)  # the definition of a chain run is read again at each of its steps
def _compiled(
    source: str, known: frozenset[str]
) -> tuple[tuple[tuple[str | int, ...], ...], TemplateExpression]:
    """The look-ups made of names and constants alone, as in `('steps', 'review', 'outcome')`, and what to call them."""
    paths = tuple(look_ups(parsed(source), known))
    return paths, _ENVIRONMENT.compile_expression(source, undefined_to_none=False)


def _of(value: object, path: Sequence[str | int]) -> str:
    held = "null" if value is None else "a table" if isinstance(value, Mapping) else type(value).__name__
    if isinstance(value, Mapping | Steps):
        return (
            f"{_written(path)} has {', '.join(map(str, list(value)[:8])) or 'nothing'}"
            if isinstance(value, Mapping)
            else f"there are {len(value)} steps before it"
        )
    return f"{_written(path)} is {held}"


def _written(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _plain(value: object) -> JsonValue:
    """The value as plain data. Raises `ExpressionError` if it is anything else."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Steps() | Mapping():
            items = enumerate(value) if isinstance(value, Steps) else value.items()
            return {str(key): _plain(each) for key, each in items}
        case list() | tuple():
            return [_plain(each) for each in value]
    if isinstance(value, Undefined):
        return None
    try:
        return [_plain(each) for each in _bounded(list(value))]  # type: ignore[call-overload] # it may be a generator of a filter
    except TypeError:
        raise ExpressionError(f"is {type(value).__name__}, which can't be used as a value") from None


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

    def render(self, given: Given) -> JsonValue | Missing:
        """Its value, or what is missing for it. Raises `ExpressionError`."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Expression):
            return self.parts[0].evaluate(given)
        words: list[str] = []
        for part in self.parts:
            value = part if isinstance(part, str) else part.evaluate(given)
            if isinstance(value, Missing):
                return value
            words.append(value if isinstance(value, str) else json.dumps(value))
        return str(_bounded("".join(words)))


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
