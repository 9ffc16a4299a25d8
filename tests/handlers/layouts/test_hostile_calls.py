"""No line, whatever an agent wrote into it, makes a scanner or a reader of calls raise; and the good lines around it count."""

import json
import random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts.adjutant_lines import session
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript
from tests.handlers.layouts.codex_lines import NAME, tool, write
from tests.handlers.layouts.ctcp_lines import event
from tests.handlers.layouts.directories import numbered
from tests.handlers.layouts.placed import told as calls_told
from tests.handlers.layouts.test_conversations import AGENTS, made

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called
from runward.handlers.layouts import native
from runward.handlers.layouts.layout import LogLayout
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.transcript import Close, Turn


def _claude() -> list[bytes]:
    log = Transcript()
    log.prompt("go")
    log.result(log.call(command="true"), "fine", toolUseResult={"stdout": "fine"})
    return log.lines


LOGS: dict[str, tuple[str, list[bytes]]] = {
    "claude-code": (f"{SESSION}.jsonl", _claude()),
    "codex": (NAME, [write(record) for record in tool().records]),
    "ctcp": (
        "run-7",
        [event("find_local_run", cmd="find", rc=0), event("VERIFY_STARTED"), event("verify_complete")],
    ),
    "adjutant": ("sess_7", session("c")),
    "native": ("run_1", session("b")),
    **{name: (each.lines.NAME, made(each, "a tool that failed")) for name, each in AGENTS.items()},
}


class Found(NamedTuple):
    """The tools that were called and, for other tools' layouts, how the turn ended and how many calls the scanner counts."""

    tools: list[str]
    turn: Turn
    close: Close | None
    calls: int


def told(layout: str, name: str, lines: list[bytes]) -> Found:
    tools = [each.tool for each in calls_told(layout, name, lines) if isinstance(each, Called)]
    if layout == native.LAYOUT:
        return Found(tools, "none", None, 0)
    read = LAYOUTS.named(layout)
    file = name if isinstance(read, LogLayout) else read.logs[0]
    said = read.start(name).feed(file, numbered(lines))[0].tell()
    return Found(tools, said.turn, said.close, said.counts.tool_calls)


@pytest.mark.parametrize("layout", LOGS)
def test_mutated_lines_raise_nothing(layout: str) -> None:
    name, lines = LOGS[layout]
    chance = random.Random(7)
    for _ in range(600):
        mutated = list(lines)
        place = chance.randrange(len(lines))
        line = bytearray(mutated[place])
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(line))
            line[at : at + chance.choice((0, 1, 9))] = bytes(
                chance.choices(b'{}[]",:0x\\ue\0\xff', k=chance.choice((0, 1, 3)))
            )
        mutated[place] = bytes(line)
        told(layout, name, mutated)


_JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _with(value: JsonValue, chosen: list[int], other: JsonValue) -> JsonValue:
    """The value with another one somewhere inside it, at the place that is chosen step by step."""
    if not chosen or not isinstance(value, dict | list) or not value:
        return other
    if isinstance(value, list):
        index = chosen[0] % len(value)
        return [*value[:index], _with(value[index], chosen[1:], other), *value[index + 1 :]]
    key = sorted(value)[chosen[0] % len(value)]
    return value | {key: _with(value[key], chosen[1:], other)}


@pytest.mark.parametrize("layout", LOGS)
@given(st.integers(0, 50), st.lists(st.integers(0, 20), min_size=1, max_size=5), _JSON)
def test_any_json_in_the_place_of_any_field_raises_nothing(
    layout: str, place: int, chosen: list[int], other: JsonValue
) -> None:
    name, lines = LOGS[layout]
    place %= len(lines)
    changed = json.dumps(_with(json.loads(lines[place]), chosen, other)).encode()
    told(layout, name, [*lines[:place], changed, *lines[place + 1 :]])


@pytest.mark.parametrize("layout", LOGS)
def test_a_bad_line_hides_no_call(layout: str) -> None:
    name, lines = LOGS[layout]
    whole = told(layout, name, lines)
    assert whole.tools
    for bad in (b"{", b"[1", b"\xff\xfe", b"null", b"[" * 100_000, b'{"a":' * 100_000, b'{"a":1}{"a":2}'):
        assert told(layout, name, [line for good in lines for line in (bad, good)]) == whole
