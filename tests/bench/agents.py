"""What the further agents cost, against Claude Code and Codex: reading a file of each, and watching the homes of many."""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_ratio
from tests.bench.product import daemon
from tests.bench.scratch import Scratch, scratch
from tests.handlers.layouts import (
    claude_code_lines,
    cline_lines,
    codex_lines,
    copilot_lines,
    droid_lines,
    kimi_lines,
    pi_lines,
    qwen_lines,
)

from runward.daemon.rundir.session_reading import read_session
from runward.handlers.layouts import kimi
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.times import iso_time

_READING: Final = Figure(
    "agents-reading",
    "a session of each further agent, read; the slowest",
    "x Claude Code's reader for as many bytes",
    Goal("at most", 1.0),
    "each record takes some Python code, and theirs are shorter: Claude Code's have 350 bytes more beside the same texts",
)
_IDLE: Final = Figure(
    "agents-idle",
    "idle over seven homes of agents with 1,000 sessions each",
    "x two such homes",
    Goal("at most", 1.2),
    "each scan lists all sessions and compares a tenth of those that are over, and there are 3.5 times as many",
)
_TWO: Final = ("claude-code", "codex")
_SEVEN: Final = ("claude-code", "cline", "copilot", "droid", "kimi", "pi", "qwen")
_TEXT: Final = "What a tool gave back, or somebody said.\n" * 50
"""2 kB."""

_ID_IN_PATH: Final = "{id}"
Files = Mapping[str, bytes]


class _Agent(NamedTuple):
    """How sessions of an agent are made: where they are in a root, of which `session` names the place that is read."""

    session: str
    log: str
    lines: ModuleType


_AGENTS: Final = {
    "copilot": _Agent("{id}", "{id}/events.jsonl", copilot_lines),
    "droid": _Agent("work/{id}.jsonl", "work/{id}.jsonl", droid_lines),
    "kimi": _Agent("wd_work_1/session_{id}", "wd_work_1/session_{id}/agents/main/wire.jsonl", kimi_lines),
    "pi": _Agent("--work--/0_{id}.jsonl", "--work--/0_{id}.jsonl", pi_lines),
    "qwen": _Agent("work/chats/{id}.jsonl", "work/chats/{id}.jsonl", qwen_lines),
}


def _made(layout: str, number: int, turns: int) -> tuple[str, Files]:
    """A session that is over: the place that is read, and its files, all below a root."""
    name = str(UUID(int=number + 1, version=4))
    if layout == "claude-code":
        made = claude_code_lines.Transcript(session=name)
        for _ in range(turns):
            made.prompt(_TEXT)
            made.result(made.call(command=_TEXT))
            made.text(_TEXT)
        return f"work/{name}.jsonl", {f"work/{name}.jsonl": made.content()}
    if layout == "codex":
        content = b"".join(codex_lines.write(each) + b"\n" for each in codex_lines.ok().records)
        place = f"sessions/2026/11/26/rollout-2026-11-26T10-16-00-{name}.jsonl"
        return place, {place: content.replace(codex_lines.THREAD.encode(), name.encode())}
    if layout == "cline":
        place = f"{1_795_688_160_000 + number}_w0zca"
        log = cline_lines.Log()
        _talk(log, turns)
        documents = {each.name: each.content for each in log.documents("completed")}
        own = cline_lines.SESSION
        return place, {
            f"{place}/{file.replace(own, place)}": content.replace(own.encode(), place.encode())
            for file, content in documents.items()
        }
    agent = _AGENTS[layout]
    log = agent.lines.Log()
    _talk(log, turns)
    for second, record in enumerate(log.records):
        if "timestamp" in record:
            record["timestamp"] = iso_time(pi_lines.BEGAN + second)
    content = b"".join(msgspec.json.encode(record) + b"\n" for record in log.records)
    own_id = agent.lines.SESSION.removeprefix("session_").encode()
    place = agent.session.replace(_ID_IN_PATH, name)
    state = {f"{place}/{kimi.STATE}": b"{}"} if layout == kimi.LAYOUT else {}
    return place, {agent.log.replace(_ID_IN_PATH, name): content.replace(own_id, name.encode()), **state}


def _talk(log: "cline_lines.Log", turns: int) -> None:
    """Prompts, each with a call and an answer. All the makers of logs have the same words for that."""
    for turn in range(turns):
        log.prompt(_TEXT)
        log.call(f"call_{turn}", _TEXT)
        log.result(f"call_{turn}")
        log.say(_TEXT)


def _put(root: Path, files: Files) -> int:
    """Write them; their bytes."""
    for place, content in files.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_bytes(content)
    return sum(map(len, files.values()))


def _reading(conditions: Conditions) -> list[Measured]:
    turns = conditions.size(600, 60)
    taken: dict[str, list[float]] = {}
    with scratch(conditions.memory) as place:
        made = {layout: _to_read(place, layout, turns) for layout in ("claude-code", *_SEVEN[1:])}
        for layout, reading in made.items():
            assert reading() > 0.0, layout  # its modules are imported now
        for _ in range(conditions.repeats):
            for layout, reading in made.items():
                taken.setdefault(layout, []).append(reading())
    usual = taken.pop("claude-code")
    slowest = max(taken, key=lambda layout: statistics.median(taken[layout]))
    beside = ", ".join(
        f"{layout} {statistics.median(each) / statistics.median(usual):.2f}" for layout, each in taken.items()
    )
    return [of_ratio(_READING, taken[slowest], usual, f"{beside}; {slowest} is the slowest")]


def _to_read(place: Scratch, layout: str, turns: int) -> Callable[[], float]:
    """A session to read again and again: the processor time for each of its bytes."""
    root = place.fresh(layout)
    session, files = _made(layout, 0, turns)
    size = _put(root, files)

    def reading() -> float:
        begin = time.process_time()
        read = read_session(LAYOUTS.named(layout), str(root / session))
        took = time.process_time() - begin
        assert (read.told.turn, read.told.complaints) == ("closed", ()), layout
        assert read.told.counts.tool_calls == turns, layout
        return took / size

    return reading


def _idle(conditions: Conditions) -> list[Measured]:
    count, seconds = conditions.size(1_000, 30), conditions.size(40, 4)
    shares: dict[Sequence[str], list[float]] = {_TWO: [], _SEVEN: []}
    with ExitStack() as stack:
        running = {}
        for layouts in shares:
            place = stack.enter_context(scratch(conditions.memory))
            settings = "".join(_home(place, layout, count) for layout in layouts)
            running[layouts] = stack.enter_context(daemon(place, settings))
        for layouts, each in running.items():
            each.wait_judged(count * len(layouts))
            each.wait_scanned()
        for each in running.values():
            each.wait_packing()
            each.settle()
        for _ in range(conditions.size(2, 1)):
            before = {layouts: each.cpu_s() for layouts, each in running.items()}
            time.sleep(seconds)
            for layouts, each in running.items():
                shares[layouts].append((each.cpu_s() - before[layouts]) / seconds * 100)
    seven, two = (statistics.median(shares[layouts]) for layouts in (_SEVEN, _TWO))
    return [of_ratio(_IDLE, shares[_SEVEN], shares[_TWO], f"{seven:.2f} against {two:.2f} % of a core")]


def _home(place: Scratch, layout: str, count: int) -> str:
    """A home with so many sessions; the settings that have it watched."""
    root = place.fresh(layout)
    _put_all(root, (_made(layout, number, 1)[1] for number in range(count)))
    return f'[[roots]]\nname = "{layout}"\npath = "{root}"\nlayout = "{layout}"\n'


def _put_all(root: Path, sessions: Iterable[Files]) -> None:
    for files in sessions:
        _put(root, files)


MEASUREMENTS: Final = (
    Measurement(
        "agents-reading",
        "a session of 4 MB of each agent, read in turn with one of Claude Code's with the same texts",
        (_READING,),
        _reading,
    ),
    Measurement(
        "agents-idle",
        "two daemons side by side, over two and over seven homes of agents whose sessions are over",
        (_IDLE,),
        _idle,
    ),
)
