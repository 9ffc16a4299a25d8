"""The tree of an expression: Jinja2 parses it, and it is checked and evaluated here.

Jinja2 only parses, because each step must be counted before it is done (`counted_values.py`), and compiled templates
compare and copy in one go whatever the data has. Only a chain with an expression needs this module.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from jinja2 import Environment, TemplateError, nodes

from runward.config.counted_values import (
    SPLIT,
    Budget,
    ExpressionError,
    Missing,
    Steps,
    added,
    is_true,
    joined,
    look_up,
    number,
    present,
    text_of,
)
from runward.config.expression_filters import FILTERS, TESTS, call, check_maps, compared
from runward.config.json_value import MAX_INTEGER, is_text
from runward.config.problem import nearest, quoted

_ALLOWED: Final = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.Const,
    nodes.List,
    nodes.Dict,
    nodes.Pair,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.CondExpr,
    nodes.Add,
    nodes.Sub,
    nodes.Neg,
    nodes.Pos,
    nodes.Concat,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Slice,
    nodes.Filter,
    nodes.Test,
    nodes.Tuple,
    nodes.Keyword,
)
LONGEST_SOURCE: Final = 4096
"""Characters of one expression."""

MOST_WORDS: Final = 1000
"""Names, constants and signs of one expression, and also nodes of its syntax tree."""

MOST_BRACKETS: Final = 20
"""How deep brackets may be nested."""

MOST_PREFIXES: Final = 50
"""Signs before a value, `not` and `else` together."""

DEEPEST_TREE: Final = 100
"""Levels of the syntax tree: each look-up, filter and operator that applies to the result of another one is a level."""

_MOST_LOOK_UPS: Final = 64
_JINJA: Final = Environment(autoescape=False)  # noqa: S701 # it only parses
_VALUE_ENDS: Final = frozenset(("name", "string", "integer", "float"))
_BEFORE_A_VALUE: Final = frozenset(("and", "or", "not", "in", "is", "if", "else"))


def parsed(source: str) -> nodes.Template:
    """The syntax tree of an expression, which is small enough to be walked. Raises `ExpressionError`."""
    # Jinja2's parser calls itself for each bracket and prefix, and whatever walks a tree does so for each level. So the
    # size is bounded by the words before the text is parsed, and again before the tree is walked.
    if len(source) > LONGEST_SOURCE:
        raise ExpressionError(f"is longer than {LONGEST_SOURCE} characters", "shorten it")
    text = "{{ " + source + " }}"
    try:
        _check_words(text)
        tree = _JINJA.parse(text)
    except TemplateError as error:
        raise ExpressionError(f"is not a valid expression: {error.message}") from None
    _check_tree(tree)
    return tree


def _check_words(text: str) -> None:
    """Refuse what would have the parser call itself too often."""
    words = brackets = prefixes = 0
    comes_after_value = False
    for _, kind, word in _JINJA.lexer.tokeniter(text, None):
        if kind == "whitespace":
            continue
        words += 1
        if kind == "operator":
            brackets += (word in "([{") - (word in ")]}")
            prefixes += word in "+-" and not comes_after_value
            comes_after_value = word in ")]}"
        else:
            prefixes += kind == "name" and word in ("not", "else")
            comes_after_value = kind in _VALUE_ENDS and not (kind == "name" and word in _BEFORE_A_VALUE)
        if brackets > MOST_BRACKETS:
            raise ExpressionError(f"has brackets nested more than {MOST_BRACKETS} deep", SPLIT)
        if prefixes > MOST_PREFIXES:
            raise ExpressionError(f"has more than {MOST_PREFIXES} signs, 'not' and 'else'", SPLIT)
        if words > MOST_WORDS:
            raise ExpressionError(f"has more than {MOST_WORDS} words and signs", SPLIT)


def _check_tree(tree: nodes.Template) -> None:
    """Refuse a tree that is too deep or too large to be walked, and constants that no JSON can hold."""
    count, depth = 0, 0
    level: list[nodes.Node] = [tree]
    while level:
        count, depth = count + len(level), depth + 1
        if depth > DEEPEST_TREE:
            raise ExpressionError(f"has more than {DEEPEST_TREE} steps that need one another", SPLIT)
        if count > MOST_WORDS:
            raise ExpressionError(f"has more than {MOST_WORDS} parts", SPLIT)
        for node in level:
            if isinstance(node, nodes.Const):
                _check_constant(node.value)
        level = [child for node in level for child in node.iter_child_nodes()]


def _check_constant(value: object) -> None:
    if isinstance(value, str) and not is_text(value):
        raise ExpressionError("has half a character in it", "write the character itself")
    if isinstance(value, float) and not math.isfinite(value):
        raise ExpressionError("has a number that is not finite", "write a smaller one")
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ExpressionError("has a whole number of more than 64 bits", "write it as a text")


def look_ups(
    tree: nodes.Template, known: frozenset[str], filters: Collection[str], tests: Collection[str]
) -> Iterable[tuple[str | int, ...]]:
    """The look-ups made of names and constants alone. Raises `ExpressionError` for what is not allowed."""
    outputs = tree.body
    if len(outputs) != 1 or not isinstance(outputs[0], nodes.Output) or len(outputs[0].nodes) != 1:
        raise ExpressionError("must be one expression", "write {{ … }} once")
    count = 0
    inside: set[int] = set()
    for node in [tree, *tree.find_all(nodes.Node)]:
        if not isinstance(node, _ALLOWED):
            raise ExpressionError(
                f"may not use {_NOT_ALLOWED.get(type(node), type(node).__name__.lower())}", _INSTEAD
            )
        if isinstance(node, nodes.Name):
            count += 1
            _check_name(node.name, known)
        elif isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
            raise ExpressionError(f"may not look up {quoted(node.attr)}", "names do not begin with '_' here")
        elif isinstance(node, nodes.Filter) and node.name not in filters:
            raise ExpressionError(f"uses the unknown filter {quoted(node.name)}", _guess(node.name, filters))
        elif isinstance(node, nodes.Test) and node.name not in tests:
            raise ExpressionError(f"uses the unknown test {quoted(node.name)}", _guess(node.name, tests))
        elif isinstance(node, nodes.Filter | nodes.Test) and (node.dyn_args or node.dyn_kwargs):
            raise ExpressionError("may not use '*' or '**'", "write what the filter is given one by one")
        if isinstance(node, nodes.Filter) and node.name == "map":
            check_maps([each.value if isinstance(each, nodes.Const) else None for each in node.args])
        if isinstance(node, nodes.Getattr | nodes.Getitem):
            inside.add(id(node.node))
            path = _path(node) if id(node) not in inside else None
            if path is not None:
                yield path
    if count > _MOST_LOOK_UPS:
        raise ExpressionError(f"has more than {_MOST_LOOK_UPS} look-ups", "split it")


_NOT_ALLOWED: Final[Mapping[type[nodes.Node], str]] = {
    nodes.Call: "calls",
    nodes.Mul: "'*'",
    nodes.Div: "'/'",
    nodes.FloorDiv: "'//'",
    nodes.Mod: "'%'",
    nodes.Pow: "'**'",
}
_INSTEAD: Final = "use look-ups, comparisons, and, or, not, +, -, ~ and filters"


def _check_name(name: str, known: frozenset[str]) -> None:
    if name.startswith("_"):
        raise ExpressionError(f"may not use {quoted(name)}", "names do not begin with '_' here")
    if name not in known:
        raise ExpressionError(f"uses the unknown name {quoted(name)}", _guess(name, sorted(known)))


def _guess(name: str, known: Collection[str]) -> str:
    guess = nearest(name, known)
    return f"did you mean {guess!r}?" if guess else f"known here: {', '.join(known)}"


def _path(node: nodes.Node) -> tuple[str | int, ...] | None:
    """The path from a name to a value, as far as it is known before evaluation."""
    match node:
        case nodes.Name(name=name):
            return (name,)
        case nodes.Getattr(node=inner, attr=attr):
            before = _path(inner)
            return None if before is None else (*before, attr)
        case nodes.Getitem(node=inner, arg=nodes.Const(value=value)) if isinstance(value, str | int):
            before = _path(inner)
            return None if before is None else (*before, value)
        case nodes.Getitem(node=inner, arg=nodes.Neg(node=nodes.Const(value=value))) if isinstance(
            value, int
        ):
            before = _path(inner)
            return None if before is None else (*before, -value)
    return None


@lru_cache(maxsize=512)  # the definition of a chain run is read again at each of its steps
def read(source: str, known: frozenset[str]) -> tuple[tuple[tuple[str | int, ...], ...], nodes.Expr]:
    """The look-ups made of names and constants alone, as in `('steps', 'review', 'outcome')`, and the tree."""
    template = parsed(source)
    paths = tuple(look_ups(template, known, FILTERS, TESTS))
    (output,) = template.body
    assert isinstance(output, nodes.Output)
    return paths, output.nodes[0]


class Evaluation:
    """Walks the tree of one expression. It calls itself for each level: `parsed` bounds these."""

    def __init__(self, given: Mapping[str, object], budget: Budget) -> None:
        self._given, self._budget = given, budget

    def of(self, node: nodes.Node | None) -> object:
        """The value of this part of the tree."""
        self._budget.work(1)
        match node:
            case nodes.Const(value=value):
                return value
            case nodes.Name(name=name):
                return self._given[name] if name in self._given else Missing(f"{name!r} is not defined")
            case nodes.Getattr(node=inner, attr=attr):
                return look_up(self.of(inner), attr)
            case nodes.Getitem(node=inner, arg=nodes.Slice() as places):
                return self._slice(self.of(inner), places)
            case nodes.Getitem(node=inner, arg=arg):
                return look_up(self.of(inner), self.of(arg))
            case nodes.Compare():
                return self._comparison(node)
            case nodes.And(left=left, right=right):
                first = self.of(left)
                return self.of(right) if is_true(first) else first
            case nodes.Or(left=left, right=right):
                first = self.of(left)
                return first if is_true(first) else self.of(right)
            case nodes.Not(node=inner):
                return not is_true(self.of(inner))
            case nodes.CondExpr(test=test, expr1=one, expr2=other):
                if is_true(self.of(test)):
                    return self.of(one)
                return Missing("its 'if' is false, and it has no 'else'") if other is None else self.of(other)
            case nodes.Add(left=left, right=right):
                return added(self.of(left), self.of(right), self._budget)
            case nodes.Sub() | nodes.Neg() | nodes.Pos():
                return self._signed(node)
            case nodes.Concat(nodes=parts):
                return joined([text_of(self.of(each), self._budget) for each in parts], "", self._budget)
            case nodes.Filter() | nodes.Test():
                return self._call(node)
            case nodes.List(items=items) | nodes.Tuple(items=items):
                return [self.of(each) for each in items]
            case nodes.Dict(items=pairs):
                return {self._key(pair.key): self.of(pair.value) for pair in pairs}
        raise ExpressionError(f"can't be evaluated: it has a {type(node).__name__.lower()} in it")

    def _comparison(self, node: nodes.Compare) -> object:
        left: object = self.of(node.expr)
        result: object = True
        for operand in node.ops:
            right = self.of(operand.expr)
            result = compared(operand.op, left, right, self._budget)
            if not is_true(result):
                break
            left = right
        return result

    def _signed(self, node: nodes.Sub | nodes.Neg | nodes.Pos) -> object:
        inner = [node.left, node.right] if isinstance(node, nodes.Sub) else [node.node]
        values = [self.of(each) for each in inner]
        gone = next((each for each in values if isinstance(each, Missing)), None)
        if gone is not None:
            return gone
        last = number(values[-1])
        return (
            number(values[0]) - last
            if isinstance(node, nodes.Sub)
            else last
            if isinstance(node, nodes.Pos)
            else -last
        )

    def _slice(self, value: object, places: nodes.Slice) -> object:
        ends = [None if each is None else self.of(each) for each in (places.start, places.stop, places.step)]
        gone = next((each for each in (value, *ends) if isinstance(each, Missing)), None)
        if gone is not None:
            return gone
        if not isinstance(value, list | str | Steps):
            return Missing("a part of it was looked up in no list")
        part: slice[Any, Any, Any] = slice(*ends)
        count = len(range(*_indices(part, len(value))))
        if isinstance(value, str):
            self._budget.make(count)
        else:
            self._budget.make_items(count)
        return value[part]

    def _call(self, node: nodes.Filter | nodes.Test) -> object:
        given = [self.of(node.node), *(self.of(each) for each in node.args)]
        more = {str(pair.key): self.of(pair.value) for pair in node.kwargs}
        what, among = ("filter", FILTERS) if isinstance(node, nodes.Filter) else ("test", TESTS)
        return call(what, among, node.name, budget=self._budget, given=given, more=more)

    def _key(self, node: nodes.Expr) -> str:
        key = present(self.of(node))
        if isinstance(key, list | dict | Steps):
            raise ExpressionError("can't be evaluated: a list or a table can't be the key of a table")
        return text_of(key, self._budget)


def _indices(part: "slice[Any, Any, Any]", length: int) -> tuple[int, int, int]:
    try:
        return part.indices(length)
    except TypeError:
        raise ExpressionError("can't be evaluated: places in a list are whole numbers") from None
