"""Pi's sessions: how each turn ended, what it used, its calls, its texts; whatever portions it is read in."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts.pi_lines import BEGAN, NAME, SESSION, Log, written
from tests.handlers.layouts.placed import told as calls_told

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Returned
from runward.handlers.layouts.conversation import Conversation
from runward.handlers.layouts.pi import LOG
from runward.handlers.layouts.transcript import LogLine, Said, Told
from runward.handlers.usage.counting import Counted


def fed(lines: Sequence[bytes], state: Conversation | None = None, name: str = NAME) -> Conversation:
    numbered = [LogLine(number, line) for number, line in enumerate(lines, 1)]
    return LOG.SCANNER.feed(LOG.SCANNER.start(name) if state is None else state, name, numbered)[0]


def told(log: Log) -> Told:
    return LOG.SCANNER.tell(fed(log.lines()))


def ended_well() -> Log:
    return Log().prompt().say()


def used_a_tool() -> Log:
    return Log().prompt().call().result().say()


def retried() -> Log:
    return Log().prompt().fail("529: busy").fail("529: busy").say()


SITUATIONS: dict[str, tuple[Callable[[], Log], str, str | None, tuple[int, int], tuple[int, int] | None]] = {
    "ok": (ended_well, "closed", "run.completed.ok", (0, 0), (100, 10)),
    "a tool": (used_a_tool, "closed", "run.completed.ok", (1, 0), (200, 20)),
    "a tool that failed": (lambda: Log().prompt().call().result(failed=True).say(), "closed", "run.completed.ok", (1, 1), (200, 20)),
    "an API error": (lambda: Log().prompt().fail(), "closed", "run.failed.api_error", (0, 1), None),
    "tried again": (retried, "closed", "run.completed.ok", (0, 2), (100, 10)),
    "tried again in vain": (lambda: Log().prompt().fail("529").fail("529"), "closed", "run.failed.api_error", (0, 2), None),
    "interrupted": (lambda: Log().prompt().reply("aborted"), "closed", "run.aborted.user", (0, 0), (100, 10)),
    "cut off": (lambda: Log().prompt().reply("length", {"type": "text", "text": "and"}), "closed", "run.failed.limit_reached", (0, 1), (100, 10)),
    "killed in a request": (lambda: Log().prompt(), "open", None, (0, 0), None),
    "killed in a tool": (lambda: Log().prompt().call(), "open", None, (1, 0), (100, 10)),
    "killed after a tool": (lambda: Log().prompt().call().result(), "open", None, (1, 0), (100, 10)),
    "a further prompt": (lambda: ended_well().prompt(), "open", None, (0, 0), (100, 10)),
    "nothing asked": (Log, "none", None, (0, 0), None),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_happened_is_told(name: str) -> None:
    made, turn, reason, (calls, errors), usage = SITUATIONS[name]
    found = told(made())
    assert (found.turn, None if found.close is None else found.close.reason_code) == (turn, reason)
    assert (found.counts.tool_calls, found.counts.errors) == (calls, errors)
    assert (None if found.usage is None else tuple(found.usage)) == usage


def test_who_where_and_what_is_told() -> None:
    found = told(ended_well())
    assert found.session_id == SESSION
    assert (found.cwd, found.model, found.prompt) == ("/home/dev/app", "mock-model", "make a file")
    assert (found.started_at, found.moved_at) == (BEGAN, BEGAN + 4)
    assert found.headless is None
    (sums,) = found.counted
    assert sums == Counted(
        int(BEGAN // 3600), "mock-model", "standard", 0, 1, 60, 40, 0, 0, 10, reported_nanousd=80_000
    )
    assert LOG.SCANNER.tell(LOG.SCANNER.taken(fed(ended_well().lines()))).counted == ()


def test_an_id_is_known_by_the_files_name_if_the_first_line_is_torn() -> None:
    lines = ended_well().lines()
    assert LOG.SCANNER.tell(fed([lines[0][:40], *lines[1:]])).session_id == SESSION


def test_a_fork_counts_what_it_did_itself() -> None:
    origin = used_a_tool()
    fork = Log(
        parentSession=f"/home/dev/.pi/agent/sessions/--a--/2026_{SESSION.replace('e814', '0000')}.jsonl"
    )
    fork.records[0]["timestamp"] = "2026-11-26T10:17:00.000Z"
    own: dict[str, JsonValue] = {"type": "message", "timestamp": "2026-11-26T10:17:01.000Z"}
    used: JsonValue = {"input": 7, "output": 1}
    said: JsonValue = {"role": "assistant", "content": [], "stopReason": "stop", "usage": used}
    asked: JsonValue = {"role": "user", "content": "and now?"}
    records: list[dict[str, JsonValue]] = [
        fork.records[0],
        *origin.records[1:],
        {**own, "id": "own1", "message": asked},
        {**own, "id": "own2", "message": said},
    ]
    found = LOG.SCANNER.tell(fed(written(records)))
    assert found.parent_session_id == SESSION.replace("e814", "0000")
    assert (found.prompt, found.counts.tool_calls, found.usage) == ("and now?", 0, (7, 1))
    assert calls_told("pi", NAME, written(records)) == []


def test_calls_and_their_results() -> None:
    called, returned = calls_told(
        "pi", NAME, Log().prompt().call(command="ls").result(failed=True).say().lines()
    )
    assert isinstance(called, Called)
    assert (called.id, called.tool, called.params, called.tokens) == (
        "call_1",
        "bash",
        {"command": "ls"},
        110,
    )
    assert isinstance(returned, Returned)
    assert (returned.id, returned.success, returned.error) == (
        "call_1",
        False,
        [{"type": "text", "text": "fine"}],
    )


def test_texts_and_the_last_one() -> None:
    lines = Log().prompt("hello").say("Bye.").lines()
    texts = [said for line in lines if (said := LOG.message_in(line)) is not None]
    assert texts == [
        Said(BEGAN + 2, "system", "You are pi."),
        Said(BEGAN + 3, "user", "hello"),
        Said(BEGAN + 4, "assistant", "Bye."),
    ]
    assert LOG.final_message(reversed(lines)) == "Bye."
    assert LOG.final_message(reversed(Log().prompt().say().prompt().lines())) is None
    assert LOG.final_message(reversed(Log().prompt().call().lines())) is None
    assert LOG.final_message(reversed(Log().prompt().fail().lines())) is None


def test_a_log_is_recognised_by_its_records() -> None:
    lines = ended_well().lines()
    assert LOG.recognises_log("x.jsonl", b"\n".join(lines))
    assert not LOG.recognises_log(NAME, b'{"type":"session"}\n')
    assert not LOG.recognises_log(NAME, b"\n".join(lines[1:3]))


@given(name=st.sampled_from(sorted(SITUATIONS)), cuts=st.lists(st.integers(0, 12), max_size=3))
def test_in_any_portions_it_is_told_the_same(name: str, cuts: list[int]) -> None:
    lines = SITUATIONS[name][0]().lines()
    places = [0, *sorted(min(each, len(lines)) for each in cuts), len(lines)]
    state = LOG.SCANNER.start(NAME)
    for begin, end in pairwise(places):
        state = LOG.SCANNER.load(LOG.SCANNER.dump(fed(lines[begin:end], state)))
    assert state == fed(lines)


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_log_that_is_cut_anywhere_never_completes_an_unfinished_turn(name: str) -> None:
    lines = SITUATIONS[name][0]().lines()
    whole = b"\n".join(lines) + b"\n"
    ends = [place for place, byte in enumerate(whole) if byte == 10]
    for cut in sorted({*ends, *(end + 1 for end in ends), *range(0, len(whole), max(1, len(whole) // 200))}):
        # A line counts once its newline is there.
        seen = whole[:cut].split(b"\n")[:-1]
        found = LOG.SCANNER.tell(fed(seen))
        if found.close is not None and found.close.status == "completed":
            assert b'"stop"' in seen[-1], (name, cut)


def test_a_line_that_is_written_twice_counts_once() -> None:
    lines = used_a_tool().lines()
    assert LOG.SCANNER.tell(fed([each for line in lines for each in (line, line)])) == told(used_a_tool())


OTHER: st.SearchStrategy[JsonValue] = st.sampled_from(
    [None, 7, -1.5, True, "x" * 5000, [], {}, ["a"], {"a": {}}, float(2**70)]
)


@given(data=st.data())
def test_fields_of_any_type_raise_nothing(data: st.DataObject) -> None:
    records = used_a_tool().records
    for _ in range(data.draw(st.integers(1, 4))):
        record = data.draw(st.sampled_from(records))
        message = record.get("message")
        place = message if isinstance(message, dict) and data.draw(st.booleans()) else record
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(OTHER)
    lines = written(records)
    LOG.SCANNER.load(LOG.SCANNER.dump(fed(lines)))
    calls_told("pi", NAME, lines)
    LOG.final_message(reversed(lines))
    for line in lines:
        LOG.message_in(line)


RECORDED = {
    "ok": ("run.completed.ok", 0, (100, 10)),
    "tool": ("run.completed.ok", 1, (200, 20)),
    "err400": ("run.failed.api_error", 0, None),
    "int_tool": (None, 1, (100, 10)),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recordings_of_the_real_program_are_told_rightly(material: Path, name: str) -> None:
    (path,) = (material / "samples/pi" / name).rglob("*.jsonl")
    lines = path.read_bytes().splitlines()
    found = LOG.SCANNER.tell(fed(lines, name=path.name))
    reason, calls, usage = RECORDED[name]
    assert (None if found.close is None else found.close.reason_code) == reason
    assert (found.counts.tool_calls, None if found.usage is None else tuple(found.usage)) == (calls, usage)
    assert found.unreadable == 0
    assert LOG.recognises_log(path.name, path.read_bytes()[:4096])
