"""What replies used is counted once, whatever portions their transcripts are read in; held against a second, naive reader."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts import codex_lines
from tests.handlers.layouts.claude_code_lines import BEGAN, MODEL, PARENT, SESSION, Transcript, headless_run
from tests.handlers.usage.naive import Reply, claude_code_replies, codex_replies

from runward.handlers.layouts import claude_code, codex
from runward.handlers.layouts.transcript import LogLine, TranscriptScanner
from runward.handlers.model.sessions import Document
from runward.handlers.times import iso_time
from runward.handlers.usage.counting import SIZES, Counted, counted, hour_in

Sums = dict[tuple[int, str, str, int, bool], tuple[int, ...]]


def summed(rows: Iterable[Counted]) -> Sums:
    """The rows of all portions together, without the sums of nothing. A cost is only in the sums of reported ones."""
    sums: dict[tuple[int, str, str, int, bool], Counter[int]] = {}
    for row in rows:
        is_reported = row.reported_nanousd is not None
        values = row[4:] if is_reported else row[4:10]
        sums.setdefault((*row[:4], is_reported), Counter()).update(dict(enumerate(values)))
    return {
        key: tuple(values[i] for i in range(7 if key[-1] else 6))
        for key, values in sums.items()
        if any(values.values())
    }


def of_replies(replies: Iterable[Reply]) -> Sums:
    """What the naive reader found, in the same sums."""
    return summed(
        counted(
            each.at,
            each.model,
            "fast" if each.fast else "standard",
            fresh_input=each.fresh_input,
            cache_read=each.cache_read,
            cache_write_5m=each.cache_write_5m,
            cache_write_1h=each.cache_write_1h,
            output=each.output,
            reported_nanousd=each.reported_nanousd,
        )
        for each in replies
    )


def counts(
    scanner: TranscriptScanner[Any], name: str, contents: Sequence[bytes], cuts: Iterable[int] = ()
) -> Sums:
    """What the scanner counts if the file is read in portions that end at these lines, as the daemon reads it."""
    return summed(counted_in(scanner, name, contents, cuts))


def counted_in(
    scanner: TranscriptScanner[Any],
    name: str,
    contents: Sequence[bytes],
    cuts: Iterable[int] = (),
    documents: Iterable[Document] = (),
) -> list[Counted]:
    """The same sum by sum, and what it counts in documents that are seen one after the other after that."""
    rows: list[Counted] = []
    state, begin = scanner.start(name), 0
    for end in [*sorted(cut for cut in cuts if cut < len(contents)), len(contents)]:
        lines = [LogLine(begin + i + 1, content) for i, content in enumerate(contents[begin:end])]
        state, _ = scanner.feed(scanner.load(scanner.dump(state)), name, lines)
        rows += scanner.tell(state).counted
        state, begin = scanner.taken(state), end
    for document in documents:
        state = scanner.see(scanner.load(scanner.dump(state)), [document])
        rows += scanner.tell(state).counted
        state = scanner.taken(state)
    return rows


TOKENS = st.sampled_from([0, 1, 7, 1_000, 199_999, 200_001, 272_001])
USAGES = st.fixed_dictionaries(
    {
        "input_tokens": TOKENS,
        "cache_read_input_tokens": TOKENS,
        "five": TOKENS,
        "hour": TOKENS,
        "output_tokens": TOKENS,
        "speed": st.sampled_from(["standard", "fast", None]),
        "model": st.sampled_from([MODEL, "claude-sonnet-5-5"]),
        "lines": st.integers(1, 3),
        "pause": st.sampled_from([0.0, 1800.0, 90_000.0]),
        "is_agent": st.booleans(),
    }
)


def transcript_of(replies: Sequence[dict[str, Any]], now: float = BEGAN) -> Transcript:
    """A session with these replies. Each is written in some lines, whose output grows; other records come between them."""
    transcript = Transcript(now=now)
    transcript.prompt("x")
    for number, each in enumerate(replies):
        transcript.now += each["pause"]
        for line in range(1, each["lines"] + 1):
            usage = {
                "input_tokens": each["input_tokens"],
                "cache_read_input_tokens": each["cache_read_input_tokens"],
                "cache_creation_input_tokens": each["five"] + each["hour"],
                "cache_creation": {
                    "ephemeral_5m_input_tokens": each["five"],
                    "ephemeral_1h_input_tokens": each["hour"],
                },
                "output_tokens": each["output_tokens"] * line,
            }
            if each["speed"] is not None:
                usage["speed"] = each["speed"]
            message = {
                "id": f"msg_{number}",
                "model": each["model"],
                "role": "assistant",
                "content": [{"type": "text", "text": "…"}],
                "stop_reason": None,
                "usage": usage,
            }
            transcript.chained("assistant", message=message, isSidechain=each["is_agent"])
            if line == 2:
                transcript.user("and then?")
    return transcript


@given(st.lists(USAGES, max_size=8), st.lists(st.integers(1, 40), max_size=4))
def test_replies_of_claude_code_are_counted_as_a_naive_reader_counts_them(
    replies: list[dict[str, Any]], cuts: list[int]
) -> None:
    contents = transcript_of(replies).lines
    expected = of_replies(claude_code_replies(SESSION, contents))
    assert counts(claude_code.SCANNER, f"{SESSION}.jsonl", contents, cuts) == expected


def counts_with_agents(
    session: Sequence[bytes], agents: Sequence[Sequence[bytes]], turns: Iterable[int]
) -> Sums:
    """The same for a session and its sub-agents' files, of which each turn reads a few lines of one."""
    scanner = claude_code.SCANNER
    names = [f"{SESSION}.jsonl", *(f"{SESSION}/subagents/agent-{i}.jsonl" for i in range(len(agents)))]
    rows: list[Counted] = []
    state, left = scanner.start(names[0]), [list(enumerate(each, 1)) for each in (session, *agents)]
    for turn in [0, *turns, *range(len(names))]:
        which = turn % len(names)
        count = len(session) if which == 0 else 1 + turn % 7
        while left[which]:
            lines = [LogLine(*each) for each in left[which][:count]]
            left[which] = left[which][count:]
            state, _ = scanner.feed(scanner.load(scanner.dump(state)), names[which], lines)
            rows += scanner.tell(state).counted
            state = scanner.taken(state)
            if turn >= len(names):
                break
    return summed(rows)


@given(
    st.lists(st.lists(USAGES, max_size=25), min_size=1, max_size=3),
    st.lists(st.integers(3, 200), max_size=40),
)
def test_replies_of_sub_agents_with_files_of_their_own_are_the_sessions(
    agents: list[list[dict[str, Any]]], turns: list[int]
) -> None:
    session = headless_run().lines
    files = [transcript_of(each, now=BEGAN + 100 + number).lines for number, each in enumerate(agents)]
    replies = [reply for lines in (session, *files) for reply in claude_code_replies(SESSION, lines)]
    assert counts_with_agents(session, files, turns) == of_replies(replies)


def test_what_a_sub_agent_copied_of_the_conversation_that_it_continues_counts_once() -> None:
    session = headless_run()
    copied = Transcript(now=session.now)
    copied.lines = session.lines[2:]
    copied.user("and what about the tests?")
    copied.text("None.", reply="msg_own")
    summary = Transcript(now=session.now)
    summary.user("what came before: …", isCompactSummary=True)
    summary.lines += copied.lines
    named = Transcript(now=session.now)
    named.write({"type": "fork-context-ref", "agentId": "a1", "parentSessionId": SESSION})
    named.text("I go on.", reply="msg_named")
    alone = counts_with_agents(session.lines, [], ())
    assert counts_with_agents(session.lines, [copied.lines, summary.lines], ()) == alone
    ((more, *_),) = counts_with_agents(session.lines, [named.lines], ()).values()
    ((few, *_),) = alone.values()
    assert more == few + 1


def test_what_a_fork_copied_is_counted_where_it_came_from() -> None:
    origin = headless_run()
    fork = Transcript(session=SESSION, entrypoint="cli")
    for line in origin.lines:
        record = msgspec.json.decode(line)
        fork.write({**record, "forkedFrom": {"sessionId": PARENT, "messageUuid": "u1"}})
    fork.now = origin.now
    fork.prompt("go on")
    fork.text("On.", reply="msg_own")
    sums = counts(claude_code.SCANNER, f"{SESSION}.jsonl", fork.lines)
    assert sums == of_replies(claude_code_replies(SESSION, fork.lines))
    assert sum(values[0] for values in sums.values()) == 1


def test_a_headless_fork_counts_what_came_after_its_own_prompt() -> None:
    """The copied records don't name their origin. They are older than the prompt that was queued."""
    fork = Transcript(now=BEGAN + 1000)
    fork.queued("go on")
    fork.lines += headless_run().lines[2:]
    fork.user("go on")
    fork.text("On.", reply="msg_own")
    sums = counts(claude_code.SCANNER, f"{SESSION}.jsonl", fork.lines)
    assert sums == {(int(BEGAN // 3600), MODEL, "standard", 0, False): (1, 100, 1, 10, 0, 20)}


def test_what_only_claude_code_wrote_costs_nothing() -> None:
    transcript = Transcript()
    transcript.prompt("x")
    transcript.synthetic("No response requested.")
    assert counts(claude_code.SCANNER, f"{SESSION}.jsonl", transcript.lines) == {}


@pytest.mark.parametrize(
    "broken",
    [
        {"cache_creation": 7},
        {"cache_creation": {"ephemeral_1h_input_tokens": -1}},
        {"cache_creation": {"ephemeral_1h_input_tokens": 10**9}},
        {"speed": ["fast"]},
    ],
)
def test_malformed_tokens_cost_no_others(broken: dict[str, Any]) -> None:
    transcript = Transcript()
    transcript.prompt("x")
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 6, "output_tokens": 7, **broken}
    message: Any = {"id": "m", "model": MODEL, "content": [], "usage": usage}
    transcript.chained("assistant", message=message)
    ((_, values),) = counts(claude_code.SCANNER, f"{SESSION}.jsonl", transcript.lines).items()
    assert (values[0], values[1], values[2] + values[3] + values[4], values[5]) == (1, 5, 6, 7)


CODEX = {"input_tokens": 7, "cached_input_tokens": 4, "output_tokens": 5}


def with_reply(log: codex_lines.Log, given: int, cached: int, written: int, made: int, style: str) -> None:
    """A reply as Codex reports it: as a total, by a record of its own and then a total, or both again."""
    usage = {
        "input_tokens": given + cached + written,
        "cached_input_tokens": cached,
        "cache_write_input_tokens": written,
        "output_tokens": made,
    }
    log.total = (log.total[0] + 1, 0)
    if style != "total":
        log.put(
            "token_usage_record",
            {"thread_id": log.thread, "response_id": f"r{log.total[0]}", "usage": usage},
        )
    before = next(
        (
            each["payload"]["info"]["total_token_usage"]
            for each in reversed(log.records)
            if each["payload"].get("type") == "token_count"
        ),
        dict.fromkeys(usage, 0),
    )
    total = {key: before[key] + value for key, value in usage.items()}
    for _ in range(2 if style == "again" else 1):
        log.event("token_count", info={"total_token_usage": total, "last_token_usage": usage})


@given(
    st.lists(
        st.tuples(TOKENS, TOKENS, TOKENS, st.integers(1, 9), st.sampled_from([0.2, 7200.0])), max_size=6
    ),
    st.sampled_from(["total", "own", "again"]),
    st.lists(st.integers(1, 20), max_size=3),
)
def test_replies_of_codex_are_counted_as_a_naive_reader_counts_them(
    replies: list[tuple[int, int, int, int, float]], style: str, cuts: list[int]
) -> None:
    log = codex_lines.Log()
    log.put("turn_context", {"model": "gpt-5-codex", "cwd": "/x"})
    for given_tokens, cached, written, made, pause in replies:
        at = log.second
        log.second += pause
        with_reply(log, given_tokens, cached, written, made, style)
        assert log.second > at
    for index, record in enumerate(log.records):
        record["timestamp"] = iso_time(codex_lines.BEGAN + index * 1900)
    contents = [codex_lines.write(each) for each in log.records]
    sums = counts(codex.SCANNER, codex_lines.NAME, contents, cuts)
    assert sums == of_replies(codex_replies(contents))


def test_what_a_forked_thread_copied_is_counted_where_it_came_from() -> None:
    log = codex_lines.forked()
    contents = [codex_lines.write(each) for each in log.records]
    assert counts(codex.SCANNER, codex_lines.NAME, contents) == {}
    log.start(0x7000)
    log.put("token_usage_record", {"thread_id": codex_lines.PARENT, "response_id": "a", "usage": CODEX})
    log.put("token_usage_record", {"thread_id": log.thread, "response_id": "b", "usage": CODEX})
    contents = [codex_lines.write(each) for each in log.records]
    ((_, values),) = counts(codex.SCANNER, codex_lines.NAME, contents).items()
    assert values == (1, 3, 4, 0, 0, 5)


@pytest.mark.parametrize(
    ("tokens", "size"),
    [(200_000, SIZES[0]), (200_001, SIZES[1]), (272_000, SIZES[1]), (272_001, SIZES[2])],
)
def test_a_request_is_large_by_all_of_its_input(tokens: int, size: int) -> None:
    one = counted(0.0, "m", "standard", fresh_input=1, cache_read=tokens - 1, output=10**6)
    assert one.size == size


@pytest.mark.parametrize(
    ("stamp", "hour"),
    [
        ("2027-01-15T08:00:03.000Z", "2027-01-15T08"),
        ("2027-01-15T08:00:03Z", "2027-01-15T08"),
        ("2027-01-15T08:00;03.000Z", None),
        ("2027-01-15T08:00:03+01:00", None),
        ("2027-01-15T08", None),
        ("", None),
        (None, None),
    ],
)
def test_only_a_whole_time_in_utc_names_an_hour(stamp: str | None, hour: str | None) -> None:
    assert hour_in(stamp) == hour
