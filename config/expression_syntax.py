"""The syntax of expressions: a small part of Jinja2's.

The syntax tree is checked when an expression is read, because a sandbox alone does not limit processor time.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from jinja2 import nodes

from runward.config.problem import nearest, quoted

FILTERS: Final = (
    "abs",
    "count",
    "default",
    "d",
    "first",
    "float",
    "int",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "round",
    "select",
    "selectattr",
    "sort",
    "string",
    "sum",
    "tojson",
    "trim",
    "unique",
    "upper",
)
TESTS: Final = (
    "defined",
    "undefined",
    "none",
    "true",
    "false",
    "boolean",
    "number",
    "string",
    "sequence",
    "mapping",
    "in",
    "eq",
    "equalto",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
)
_ALLOWED: Final = (
    *(
        nodes.Template,
        nodes.Output,
        nodes.TemplateData,
        nodes.Name,
        nodes.Const,
        nodes.List,
        nodes.Dict,
        nodes.Pair,
    ),
    *(
        nodes.Compare,
        nodes.Operand,
        nodes.And,
        nodes.Or,
        nodes.Not,
        nodes.CondExpr,
        nodes.Add,
        nodes.Sub,
        nodes.Neg,
    ),
    *(
        nodes.Pos,
        nodes.Concat,
        nodes.Getattr,
        nodes.Getitem,
        nodes.Slice,
        nodes.Filter,
        nodes.Test,
        nodes.Tuple,
    ),
    *(nodes.Keyword,),
)
_MOST_LOOK_UPS: Final = 64


class ExpressionError(ValueError):
    """A text that is not a valid expression, or that can't be evaluated. `fix` says what to write instead."""

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.fix = fix


def look_ups(tree: nodes.Template, known: frozenset[str]) -> Iterable[tuple[str | int, ...]]:
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
        elif isinstance(node, nodes.Filter) and node.name not in FILTERS:
            raise ExpressionError(f"uses the unknown filter {quoted(node.name)}", _guess(node.name, FILTERS))
        elif isinstance(node, nodes.Test) and node.name not in TESTS:
            raise ExpressionError(f"uses the unknown test {quoted(node.name)}", _guess(node.name, TESTS))
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


def _guess(name: str, known: Sequence[str]) -> str:
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
