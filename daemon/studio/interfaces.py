"""What an artifact says of itself, as its page shows it. An interface is foreign: it may be any JSON."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from runward.config.json_value import JsonValue
from runward.daemon.studio.bounded_json import Room

_ROOM: Final = 256 << 10
_MOST: Final = 100
"""Methods, and examples of each thing, that a page shows."""
_MOST_FACTS: Final = 20

_NAMES: Final = {"inputSchema": "Input", "outputSchema": "Output", "cost": "Cost", "errors": "Errors"}

T = TypeVar("T")


class Method(NamedTuple):
    """A method: the other fields of its description by name, as text or JSON."""

    name: str
    description: str
    facts: list[tuple[str, str]]
    examples: list[str]


class Interface(NamedTuple):
    """The fields that pages know; the text of those that are absent is empty. `rest` is the JSON of everything else.

    `left_out` says how many methods and examples there are beside those that are shown.
    """

    description: str
    data_type: str
    methods: list[Method]
    examples: list[str]
    rest: str
    left_out: int


def interface_of(artifact: Mapping[str, JsonValue]) -> Interface:
    """The interface of an artifact; a genesis artifact has only methods."""
    room = Room(_ROOM)
    value = artifact.get("interface")
    rest = dict(value) if isinstance(value, dict) else {}
    described, data_type = (_taken(rest, name, str) or "" for name in ("description", "dataType"))
    methods = _taken(rest, "methods", list) or _listed(artifact.get("genesis_methods"))
    examples = _taken(rest, "examples", list) or []
    return Interface(
        room.text(described),
        room.text(data_type),
        [_method(room, each) for each in methods[:_MOST]],
        [room.text(each) for each in examples[:_MOST]],
        room.text(rest, 2) if rest else "",
        sum(max(0, len(each) - _MOST) for each in (methods, examples)),
    )


def _method(room: Room, value: JsonValue) -> Method:
    if not isinstance(value, dict):
        return Method(room.text(value), "", [], [])
    rest = dict(value)
    name, described = (_taken(rest, key, str) or "" for key in ("name", "description"))
    examples = _taken(rest, "examples", list) or []
    shown = list(rest.items())[:_MOST_FACTS]
    return Method(
        room.text(name or "(no name)"),
        room.text(described),
        [(_NAMES.get(key) or room.text(key), room.text(each)) for key, each in shown],
        [room.text(each) for each in examples[:_MOST]],
    )


def _taken(fields: dict[str, JsonValue], name: str, kind: type[T]) -> T | None:
    """A field of this kind, which is then no longer among the fields. One of another kind stays there."""
    value = fields.get(name)
    return None if not isinstance(value, kind) or fields.pop(name, None) is None else value


def _listed(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list) else []
