"""What Claude Code's own account of a session has beyond its replies is counted, once."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts.claude_code_lines import BEGAN, MODEL, PARENT, SESSION, Transcript

from runward.config.json_value import JsonValue
from runward.handlers.layouts.claude_code import SCANNER
from runward.handlers.layouts.transcript import LogLine
from runward.handlers.usage.counting import Counted

NAME, AGENT = f"{SESSION}.jsonl", f"{SESSION}/subagents/agent-a1.jsonl"
HAIKU = "claude-haiku-4-5"
REPLY = (100, 1, 10, 20)
"""What each reply of `Transcript` used: fresh input, read from the cache, written to it, output."""


def account(log: Transcript, **models: Sequence[int]) -> None:
    """What a process writes at its end."""
    names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
    used: JsonValue = {
        {"opus": MODEL, "haiku": HAIKU}.get(model, model): dict(zip(names, counts, strict=True))
        for model, counts in models.items()
    }
    log.note("cost-state", totalCostUSD=0.5, modelUsage=used)


def times(count: int, more: int = 0) -> tuple[int, ...]:
    return tuple(count * each + more for each in REPLY)


def counted(*portions: tuple[str, Sequence[bytes]]) -> dict[str, tuple[int, ...]]:
    """What each model used by all that was counted, and of how many replies, when these are read one after the other."""
    state, numbers, found = SCANNER.start(NAME), dict[str, int](), list[Counted]()
    for name, contents in portions:
        first = numbers.get(name, 0) + 1
        numbers[name] = first + len(contents) - 1
        lines = [LogLine(number, content) for number, content in enumerate(contents, first)]
        state, _ = SCANNER.feed(SCANNER.load(SCANNER.dump(state)), name, lines)
        found += SCANNER.tell(state).counted
        state = SCANNER.taken(state)
    sums: dict[str, tuple[int, ...]] = {}
    for each in found:
        written = each.cache_write_5m + each.cache_write_1h
        values = (each.fresh_input, each.cache_read, written, each.output, each.replies)
        sums[each.model] = tuple(map(sum, zip(values, sums.get(each.model, (0,) * 5), strict=True)))
    return sums


def answered() -> Transcript:
    log = Transcript()
    log.prompt("go")
    log.text("Done.")
    return log


def test_what_no_reply_shows_is_counted_by_its_model_and_is_no_reply() -> None:
    log = answered()
    account(log, opus=times(1, 5), haiku=(7, 0, 0, 3))
    assert counted((NAME, log.lines)) == {MODEL: (*times(1, 5), 1), HAIKU: (7, 0, 0, 3, 0)}


def test_each_account_has_what_the_one_before_it_had() -> None:
    log = answered()
    account(log, opus=times(1, 5))
    log.prompt("go on")
    log.text("Done.")
    account(log, opus=times(2, 9))
    assert counted((NAME, log.lines)) == {MODEL: (*times(2, 9), 2)}


@pytest.mark.parametrize("is_read_first", [True, False])
def test_what_a_sub_agent_used_is_in_the_account_and_counts_once(is_read_first: bool) -> None:
    log = answered()
    agent = Transcript(now=log.now)
    agent.user("look", isSidechain=True)
    agent.said([{"type": "text", "text": "Done."}], "end_turn", isSidechain=True)
    log.now = agent.now + 1
    log.text("Done.")
    end = len(log.lines)
    account(log, opus=times(3, 5))
    own = [(NAME, log.lines[:end]), (NAME, log.lines[end:])]
    read = [own[0], (AGENT, agent.lines), own[1]] if is_read_first else [*own, (AGENT, agent.lines)]
    assert counted(*read) == {MODEL: (*times(3, 5), 3)}


def test_a_sub_agent_of_the_next_process_is_not_in_the_account() -> None:
    log = answered()
    account(log, opus=times(1, 5))
    agent = Transcript(now=log.now + 10)
    agent.user("look", isSidechain=True)
    agent.said([{"type": "text", "text": "Done."}], "end_turn", isSidechain=True)
    assert counted((NAME, log.lines), (AGENT, agent.lines)) == {MODEL: (*times(2, 5), 2)}


def test_the_first_account_of_a_fork_has_what_its_origin_used_so_it_counts_nothing() -> None:
    log = Transcript(entrypoint="cli")
    log.prompt("go")
    log.text("Done.", requestSessionId=PARENT)
    log.prompt("go on")
    log.text("Done.")
    account(log, opus=times(2, 5))
    first = len(log.lines)
    assert counted((NAME, log.lines)) == {MODEL: (*times(1), 1)}
    log.prompt("and again")
    log.text("Done.")
    account(log, opus=times(3, 9), haiku=(7, 0, 0, 3))
    expected = {MODEL: (*times(2, 4), 2), HAIKU: (7, 0, 0, 3, 0)}
    assert counted((NAME, log.lines)) == expected, "what its next process used for itself is its own"
    assert counted((NAME, log.lines[:first]), (NAME, log.lines[first:])) == expected


def test_a_model_of_another_name_in_the_account_counts_nothing_twice() -> None:
    log = answered()
    account(log, **{f"{MODEL}[1m]": times(1)})
    assert counted((NAME, log.lines)) == {MODEL: (*times(1), 1)}


@pytest.mark.parametrize(
    "usage", [None, [], {MODEL: 1}, {MODEL: {"inputTokens": -1}}, {key: {} for key in "abcdefghijklmnopq"}]
)
def test_an_account_that_is_not_as_claude_code_writes_it_counts_nothing(usage: JsonValue) -> None:
    log = answered()
    log.note("cost-state", modelUsage=usage)
    assert counted((NAME, log.lines)) == {MODEL: (*times(1), 1)}
    account(log, opus=times(1, 5))
    log.note("cost-state", modelUsage=usage)
    assert counted((NAME, log.lines)) == {MODEL: (*times(1, 5), 1)}, "and takes nothing back"


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=5), st.data())
def test_in_any_portions_all_is_counted_that_the_last_account_has(
    processes: list[tuple[int, int]], data: st.DataObject
) -> None:
    log, replies, unseen = Transcript(now=BEGAN), 0, 0
    for count, more in processes:
        log.prompt("go on")
        for _ in range(count):
            log.text("Done.")
        replies, unseen = replies + count, unseen + more
        log.now += 2000
        account(log, opus=times(replies, unseen))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log.lines)), max_size=4)))
    edges = [0, *cuts, len(log.lines)]
    portions = [(NAME, log.lines[a:b]) for a, b in itertools.pairwise(edges)]
    expected = (*times(replies, unseen), replies)
    assert counted(*portions) == ({MODEL: expected} if any(expected) else {})
