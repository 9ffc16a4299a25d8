"""Agents whose logs are translated into words: whatever happened is told, whatever portions a log is read in.

A new agent needs its `Log`, which writes what the agent writes, and a line in `AGENTS`; what only it does has tests of its own.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts import copilot_lines, droid_lines, kimi_lines, pi_lines, qwen_lines
from tests.handlers.layouts.directories import HUGE
from tests.handlers.layouts.pi_lines import BEGAN, written
from tests.handlers.layouts.placed import told as calls_told

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Paid, Returned
from runward.handlers.layouts import copilot, droid, kimi, pi, qwen
from runward.handlers.layouts.conversation import (
    Conversation,
    ConversationDirectory,
    ConversationLog,
    Elsewhere,
    Spent,
    Used,
)
from runward.handlers.layouts.foreign_values import MOST_TOKENS
from runward.handlers.layouts.transcript import LogLine, Said, Told
from runward.handlers.model.sessions import Document

LARGEST_STATE: Final = 16_384


class Agent(NamedTuple):
    """An agent's layout, its lines, and where its recordings are: the files, and what SIGINT in a tool leaves.

    The line that completes a turn contains `ends`. `has_tokens` says whether the log has the tokens of its replies.
    """

    layout: ConversationLog[Any] | ConversationDirectory[Any]
    lines: ModuleType
    recordings: str
    interrupted: str | None
    ends: bytes = b"Done."
    has_tokens: bool = True

    def fed(self, lines: Sequence[bytes], state: Conversation | None = None, name: str = "") -> Conversation:
        name = name or self.lines.NAME
        scanner = self.layout.SCANNER
        numbered = [LogLine(number, line) for number, line in enumerate(lines, 1)]
        return scanner.feed(scanner.start(name) if state is None else state, name, numbered)[0]

    def told(self, lines: Sequence[bytes], name: str = "") -> Told:
        return self.layout.SCANNER.tell(self.fed(lines, name=name))

    def recognises(self, name: str, head: bytes) -> bool:
        if isinstance(self.layout, ConversationLog):
            return self.layout.recognises_log(name, head)
        (log,) = self.layout.MARKERS
        return self.layout.recognises_directory(frozenset([log, *self.layout.DOCUMENTS]), {log: head})

    def calls(self, lines: Sequence[bytes], documents: Sequence[Document] = ()) -> list[Any]:
        found = calls_told(self.layout.LAYOUT, self.lines.NAME, lines, *documents)
        return [each for each in found if not isinstance(each, Paid)]


AGENTS: Final = {
    "copilot": Agent(
        copilot.DIRECTORY, copilot_lines, "copilot-cli/{}/.copilot/session-state", "run.aborted.user"
    ),
    "droid": Agent(
        droid.LOG, droid_lines, "droid/{}/.factory/sessions", "run.completed.ok", b"agent_turn_outcome", False
    ),
    "kimi": Agent(
        kimi.DIRECTORY, kimi_lines, "kimi-code/{}/.kimi-code/sessions", "run.aborted.user", b"turn.ended"
    ),
    "pi": Agent(pi.LOG, pi_lines, "pi/{}/.pi/agent/sessions", None),
    "qwen": Agent(qwen.LOG, qwen_lines, "qwen-code/{}/.qwen/projects", "run.aborted.user"),
}
_LOGS: Final = {name: each for name, each in AGENTS.items() if isinstance(each.layout, ConversationLog)}
EACH = pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
_FORKING: Final = {name: each for name, each in AGENTS.items() if hasattr(each.lines, "PARENT")}
FORKING = pytest.mark.parametrize("agent", _FORKING.values(), ids=_FORKING)

SITUATIONS: Final[dict[str, tuple[Callable[[Any], Any], str, str | None, tuple[int, int], tuple[int, int] | None]]] = {
    "ok": (lambda log: log.prompt().say(), "closed", "run.completed.ok", (0, 0), (100, 10)),
    "a tool": (lambda log: log.prompt().call().result().say(), "closed", "run.completed.ok", (1, 0), (200, 20)),
    "a tool that failed": (lambda log: log.prompt().call().result(failed=True).say(), "closed", "run.completed.ok", (1, 1), (200, 20)),
    "an API error": (lambda log: log.prompt().fail(), "closed", "run.failed.api_error", (0, 1), None),
    "tried again": (lambda log: log.prompt().fail("529").fail("529").say(), "closed", "run.completed.ok", (0, 2), (100, 10)),
    "tried again in vain": (lambda log: log.prompt().fail("529").fail("529"), "closed", "run.failed.api_error", (0, 2), None),
    "killed in a request": (lambda log: log.prompt(), "open", None, (0, 0), None),
    "killed in a tool": (lambda log: log.prompt().call(), "open", None, (1, 0), (100, 10)),
    "killed after a tool": (lambda log: log.prompt().call().result(), "open", None, (1, 0), (100, 10)),
    "a further prompt": (lambda log: log.prompt().say().prompt(), "open", None, (0, 0), (100, 10)),
    "nothing asked": (lambda log: log, "none", None, (0, 0), None),
}  # fmt: skip
"""What happened; then the turn, how it ended, calls and errors, and tokens."""


def made(agent: Agent, name: str) -> list[bytes]:
    lines: list[bytes] = SITUATIONS[name][0](agent.lines.Log()).lines()
    return lines


def last_time(log: Any) -> float:
    """When the last record was written that has a time: they are a second apart."""
    return BEGAN + sum(not {"timestamp", "time", "created_at"}.isdisjoint(each) for each in log.records) - 1


@EACH
@pytest.mark.parametrize("name", SITUATIONS)
def test_what_happened_is_told(agent: Agent, name: str) -> None:
    _, turn, reason, (calls, errors), usage = SITUATIONS[name]
    found = agent.told(made(agent, name))
    assert (found.turn, None if found.close is None else found.close.reason_code) == (turn, reason)
    assert (found.counts.tool_calls, found.counts.errors) == (calls, errors)
    assert (None if found.usage is None else tuple(found.usage)) == (usage if agent.has_tokens else None)
    assert (found.unreadable, found.headless) == (0, None)


@EACH
def test_who_where_and_what_is_told(agent: Agent) -> None:
    log = agent.lines.Log().prompt().say()
    lines = log.lines()
    found = agent.told(lines)
    assert found.session_id == agent.lines.SESSION
    assert (found.cwd, found.model, found.prompt) == ("/home/dev/app", "mock-model", "make a file")
    assert (found.started_at, found.moved_at) == (BEGAN, last_time(log))
    if not agent.has_tokens:
        assert found.counted == ()
        return
    (sums,) = found.counted
    assert (sums.hour, sums.model, sums.replies) == (int(BEGAN // 3600), "mock-model", 1)
    assert (sums.fresh_input, sums.cache_read, sums.output) == (60, 40, 10)
    scanner = agent.layout.SCANNER
    assert scanner.tell(scanner.taken(agent.fed(lines))).counted == ()


@EACH
def test_an_id_is_known_by_the_files_name_if_the_first_line_is_torn(agent: Agent) -> None:
    lines = made(agent, "ok")
    assert agent.told([lines[0][:20], *lines[1:]]).session_id == agent.lines.SESSION


@EACH
def test_calls_and_their_results(agent: Agent) -> None:
    lines = agent.lines.Log().prompt().call(command="ls").result(failed=True).say().lines()
    called, returned = agent.calls(lines)
    assert isinstance(called, Called)
    assert (called.id, called.tool, called.params, called.tokens) == (
        "call_1",
        "bash",
        {"command": "ls"},
        110 if agent.has_tokens else None,
    )
    assert isinstance(returned, Returned)
    assert (returned.id, returned.success, "fine" in str(returned.error)) == ("call_1", False, True)


@pytest.mark.parametrize("agent", _LOGS.values(), ids=_LOGS)
def test_texts_and_the_last_one(agent: Agent) -> None:
    assert isinstance(agent.layout, ConversationLog)
    log = agent.lines.Log().prompt("hello").say("Bye.")
    texts = [said for line in log.lines() if (said := agent.layout.message_in(line)) is not None]
    end = last_time(log)
    assert [each for each in texts if each.role != "system"] == [
        Said(end - 1, "user", "hello"),
        Said(end, "assistant", "Bye."),
    ]
    final = agent.layout.final_message
    assert final(reversed(log.lines())) == "Bye."
    for name in ("a further prompt", "killed in a tool", "an API error"):
        assert final(reversed(made(agent, name))) is None, name


@EACH
def test_a_log_is_recognised_by_its_records_and_by_no_other_agents(agent: Agent) -> None:
    for other in AGENTS.values():
        assert agent.recognises("x.jsonl", b"\n".join(made(other, "ok"))) == (other is agent)
    assert not agent.recognises(agent.lines.NAME, b'{"type":"session"}\n{"type":"user"}\n')


@EACH
@given(name=st.sampled_from(sorted(SITUATIONS)), cuts=st.lists(st.integers(0, 12), max_size=3))
def test_in_any_portions_it_is_told_the_same(agent: Agent, name: str, cuts: list[int]) -> None:
    lines, scanner = made(agent, name), agent.layout.SCANNER
    places = [0, *sorted(min(each, len(lines)) for each in cuts), len(lines)]
    state = scanner.start(agent.lines.NAME)
    for begin, end in pairwise(places):
        state = scanner.load(scanner.dump(agent.fed(lines[begin:end], state)))
    assert state == agent.fed(lines)


@EACH
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_log_that_is_cut_anywhere_never_completes_an_unfinished_turn(agent: Agent, name: str) -> None:
    whole = b"".join(line + b"\n" for line in made(agent, name))
    ends = [place for place, byte in enumerate(whole) if byte == 10]
    for cut in sorted({*ends, *(end + 1 for end in ends), *range(0, len(whole), max(1, len(whole) // 200))}):
        # A line counts once its newline is there.
        seen = whole[:cut].split(b"\n")[:-1]
        close = agent.told(seen).close
        if close is not None and close.status == "completed":
            assert agent.ends in seen[-1], (name, cut)


@EACH
@pytest.mark.parametrize("name", ["ok", "killed in a tool"])
def test_a_line_that_is_too_long_never_completes_a_turn(agent: Agent, name: str) -> None:
    *before, last = made(agent, name)
    scanner = agent.layout.SCANNER
    for kept in range(len(last)):
        cut = LogLine(len(before) + 1, last[:kept], is_cut=True)
        state, _ = scanner.feed(agent.fed(before), agent.lines.NAME, [cut])
        assert scanner.tell(state).turn == "open", last[:kept]


@EACH
def test_a_long_path_is_told_whole_and_a_longer_one_not_at_all(agent: Agent) -> None:
    for length, is_told in ((4096, True), (4097, False)):
        path = "/" + "x" * (length - 1)
        lines = [each.replace(b'"/home/dev/app"', f'"{path}"'.encode()) for each in made(agent, "ok")]
        assert agent.told(lines).cwd == (path if is_told else None)


@EACH
def test_the_state_stays_small_whatever_the_log(agent: Agent) -> None:
    log = agent.lines.Log()
    for number in range(400):
        log.prompt("p" * 10_000).call(call=f"{number}" * 300).fail("w" * 10_000)
    for number, record in enumerate(log.records):
        record["id"] = record["uuid"] = "x" * 900 + str(number)
    assert len(agent.layout.SCANNER.dump(agent.fed(written(log.records)))) < LARGEST_STATE


@EACH
def test_a_line_that_is_written_twice_counts_once(agent: Agent) -> None:
    lines = made(agent, "a tool")
    assert agent.told([each for line in lines for each in (line, line)]) == agent.told(lines)


def fork(agent: Agent) -> Any:
    """A session that copied its origin's records, and did nothing of its own."""
    return agent.lines.Log().prompt("what the origin was asked").call().result(failed=True).say().fork()


def fork_told(agent: Agent, log: Any) -> tuple[Told, list[Any]]:
    """What a fork amounts to, which is the same if it is read line by line, and its calls."""
    scanner, documents = agent.layout.SCANNER, getattr(log, "documents", ())
    begun = scanner.see(scanner.start(agent.lines.NAME), documents)
    found = scanner.tell(agent.fed(log.lines(), begun))
    for line in log.lines():
        begun = scanner.load(scanner.dump(agent.fed([line], begun)))
    assert scanner.tell(begun) == found
    return found, agent.calls(log.lines(), documents)


@FORKING
def test_a_fork_names_its_origin_and_has_nothing_of_what_it_copied(agent: Agent) -> None:
    found, calls = fork_told(agent, fork(agent))
    assert (found.session_id, found.parent_session_id) == (agent.lines.SESSION, agent.lines.PARENT)
    assert (found.turn, found.close, found.turns, found.prompt) == ("none", None, 0, None)
    assert (found.counts.tool_calls, found.counts.errors, found.usage, found.counted) == (0, 0, None, ())
    assert (found.cwd, calls) == ("/home/dev/app", [])


@FORKING
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_fork_has_what_it_did_itself(agent: Agent, name: str) -> None:
    _, turn, reason, counts, usage = SITUATIONS[name]
    found, calls = fork_told(agent, SITUATIONS[name][0](fork(agent)))
    assert (found.turn, None if found.close is None else found.close.reason_code) == (turn, reason)
    assert (found.counts.tool_calls, found.counts.errors) == counts
    assert (None if found.usage is None else tuple(found.usage)) == (usage if agent.has_tokens else None)
    assert found.prompt == (None if turn == "none" else "make a file")
    assert sum(isinstance(each, Called) for each in calls) == counts[0]


OTHER: st.SearchStrategy[JsonValue] = st.sampled_from(
    [None, 7, -1.5, True, "x" * 5000, [], {}, ["a"], {"a": {}}, float(2**70), *HUGE]
)


def places_in(value: JsonValue) -> list[dict[str, JsonValue]]:
    """Every object in a record, itself first."""
    found = [value] if isinstance(value, dict) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*found, *(each for part in inner for each in places_in(part))]


@EACH
@given(data=st.data())
def test_fields_of_any_type_raise_nothing(agent: Agent, data: st.DataObject) -> None:
    records: list[dict[str, JsonValue]] = SITUATIONS["a tool that failed"][0](agent.lines.Log()).records
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from([each for record in records for each in places_in(record) if each]))
        place[data.draw(st.sampled_from(sorted(place)))] = deepcopy(data.draw(OTHER))
    lines = written(records)
    scanner = agent.layout.SCANNER
    state = agent.fed(lines)
    assert scanner.load(scanner.dump(state)) == state
    agent.calls(lines)
    if isinstance(agent.layout, ConversationLog):
        agent.layout.final_message(reversed(lines))
        for line in lines:
            agent.layout.message_in(line)


BAD: Final = (
    b"{",
    b"\xff\xfe",
    b"null",
    b"[" * 100_000,
    b'{"type":' * 100_000,
    b'{"a":' + b"[" * 70 + b"]" * 70 + b"}",
)
"""Lines that are torn, no text, no record, or nested too deeply."""


@EACH
@pytest.mark.parametrize("name", ["a tool", "killed in a tool", "an API error"])
def test_lines_that_cannot_be_read_are_counted_and_hide_nothing(agent: Agent, name: str) -> None:
    lines = made(agent, name)
    expected = agent.told(lines)
    for bad in BAD:
        found = agent.told([lines[0], *(each for line in lines[1:] for each in (bad, line))])
        close = None if found.close is None else found.close.reason_code
        assert (found.turn, close) == (expected.turn, expected.close and expected.close.reason_code), bad[:20]
        assert (found.counts.tool_calls, found.usage) == (expected.counts.tool_calls, expected.usage), bad[
            :20
        ]
        assert found.unreadable in (0, len(lines) - 1), bad[:20]
        assert agent.calls([*lines, bad])[: len(agent.calls(lines))] == agent.calls(lines)


RECORDED: Final = {
    "ok": ("run.completed.ok", 0, (100, 10)),
    "tool": ("run.completed.ok", 1, (200, 20)),
    "err400": ("run.failed.api_error", 0, None),
    "int_tool": ("", 1, (100, 10)),
}


@EACH
@pytest.mark.parametrize("name", RECORDED)
def test_recordings_of_the_real_program_are_told_rightly(agent: Agent, material: Path, name: str) -> None:
    (path,) = (material / "samples" / agent.recordings.format(name)).rglob("*.jsonl")
    place = path.name
    if isinstance(agent.layout, ConversationDirectory):
        place = path.parents[agent.layout.LOGS[0].count("/")].name
    found = agent.told(path.read_bytes().splitlines(), place)
    reason, calls, usage = RECORDED[name]
    wanted = agent.interrupted if name == "int_tool" else reason
    assert (None if found.close is None else found.close.reason_code) == wanted
    tokens = usage if agent.has_tokens else None
    assert (found.counts.tool_calls, None if found.usage is None else tuple(found.usage)) == (calls, tokens)
    assert found.unreadable == 0
    assert found.session_id is not None
    assert found.session_id in place
    assert agent.recognises(path.name, path.read_bytes()[:4096])


@pytest.mark.parametrize("word", [Used, Elsewhere])
def test_no_request_counts_more_tokens_than_anybody_could_use(word: type[Used | Elsewhere]) -> None:
    conversation = Conversation()
    conversation.take(word("m", Spent(1 << 60, 1 << 60, -1, 1 << 60)), BEGAN)
    (counted,) = conversation.counted
    assert (counted.fresh_input, counted.cache_read, counted.cache_write_5m, counted.output) == (
        MOST_TOKENS,
        MOST_TOKENS,
        0,
        MOST_TOKENS,
    )
