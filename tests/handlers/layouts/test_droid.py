"""What only Droid does: a record ends each turn, and messages of the user's role are mostly not the user's."""

import json
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts.droid_lines import NAME, SESSION, SETTINGS, Log, settings
from tests.handlers.layouts.pi_lines import BEGAN
from tests.handlers.layouts.test_conversations import AGENTS, OTHER, RECORDED

from runward.config.json_value import JsonValue
from runward.daemon.rundir.session_files import NOT_KNOWN
from runward.daemon.rundir.session_reading import read_session
from runward.handlers.layouts.conversation import Conversation
from runward.handlers.layouts.droid import LOG
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.model.sessions import Document
from runward.handlers.usage.counting import Counted, add

DROID = AGENTS["droid"]

ENDS: Final[dict[str, tuple[JsonValue, str | None]]] = {
    "well": ("completed", "run.completed.ok"),
    "with a plan for another session": ("spec_handoff", "run.completed.ok"),
    "by a person": ("cancelled", "run.aborted.user"),
    "by the model's provider": ("model_rate_limited", "run.failed.api_error"),
    "without a permission": ("permission_rejected", "run.failed.exception"),
    "by its process": ("process_exit", "run.failed.exception"),
    "in a way that is not known yet": ("flooded", "run.failed.exception"),
    "by something else than a word": (["completed"], None),
    "by nothing": ("", None),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_outcome_says_how_the_turn_ended(name: str) -> None:
    reason, wanted = ENDS[name]
    found = DROID.told(Log().prompt().reply({"type": "text", "text": "Done."}).outcome(reason).lines())
    assert (None if found.close is None else found.close.reason_code) == wanted
    assert found.turn == ("open" if wanted is None else "closed")


def test_a_reply_alone_ends_nothing() -> None:
    assert DROID.told(Log().prompt().reply({"type": "text", "text": "Done."}).lines()).turn == "open"


def test_what_hooks_and_droid_say_is_no_prompt_and_ends_no_turn() -> None:
    log = Log().hook("SessionStart").prompt().say().hook("SessionEnd")
    log.message("user", [{"type": "text", "text": "a notice"}], visibility="user_only")
    log.message("user", "a reminder", visibility="llm_only")
    found = DROID.told(log.lines())
    assert (found.turn, found.turns, found.prompt) == ("closed", 1, "make a file")
    last = [said for line in log.lines() if (said := LOG.message_in(line)) is not None][-2:]
    assert [(each.role, each.text) for each in last] == [("system", "a notice"), ("system", "a reminder")]
    assert LOG.final_message(reversed(log.lines())) == "Done."


def test_a_prompt_may_be_a_text() -> None:
    log = Log()
    log.message("user", "make a file", visibility="both")
    assert (DROID.told(log.lines()).turn, DROID.told(log.lines()).prompt) == ("open", "make a file")


def test_a_resumed_session_goes_on_in_its_file() -> None:
    log = Log().prompt().say().hook("SessionEnd").hook("SessionStart").prompt("go on")
    assert (DROID.told(log.lines()).turn, DROID.told(log.lines()).turns) == ("open", 2)
    found = DROID.told(log.say().lines())
    assert (found.turn, found.turns, found.prompt) == ("closed", 2, "make a file")


def test_an_end_is_as_old_as_the_last_record_with_a_time() -> None:
    found = DROID.told(Log().prompt().say().lines())
    assert found.close is not None
    assert found.close.at == found.moved_at == BEGAN + 2


@pytest.mark.parametrize(
    ("caller", "wanted"), [("other", "other"), (SESSION, None), (7, None), ("", None), (None, None)]
)
def test_a_sub_agents_session_is_one_of_its_own_that_works_for_the_one_that_called_it(
    caller: JsonValue, wanted: str | None
) -> None:
    found = DROID.told(Log(callingSessionId=caller, callingToolUseId="call_1").prompt().lines())
    assert (found.session_id, found.works_for, found.is_subagent) == (SESSION, wanted, False)


def test_each_call_of_a_sub_agent_is_counted() -> None:
    assert DROID.told(Log().prompt().call(tool="Task").call("call_2").lines()).counts.subagents == 1


def test_a_session_that_goes_on_from_another_one_without_copies_counts_all() -> None:
    found = DROID.told(Log(parent="origin").prompt().call().result().say().lines())
    assert (found.parent_session_id, found.turn, found.counts.tool_calls) == ("origin", "closed", 1)


UNREADABLE: Final[dict[str, JsonValue]] = {
    "no content": None,
    "a number": 7,
    "parts of another type": [7],
    "a result without a call": [{"type": "tool_result", "content": "fine"}],
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_message_that_cannot_be_read_completes_nothing(name: str) -> None:
    log = Log().prompt().call()
    log.message("user", UNREADABLE[name])
    assert DROID.told(log.lines()).turn == "open"


@pytest.mark.parametrize(
    "record",
    [
        '{"type":"session_start"}',
        '{"type":"session_start","id":7,"title":"t","owner":"o"}',
        f'{{"type":"session","id":"{SESSION}","title":"t","owner":"o"}}',
        f'{{"type":"user","sessionId":"{SESSION}","uuid":"u","message":{{"role":"user","content":"hi"}}}}',
    ],
)
def test_a_log_that_does_not_begin_with_its_id_is_another_tools(record: str) -> None:
    assert not DROID.recognises(NAME, record.encode() + b"\n")


def seen(state: Conversation, content: bytes, at: float = BEGAN, problem: str | None = None) -> Conversation:
    """What is known after a look at the settings, and after a restart."""
    document = Document(SETTINGS, NOT_KNOWN, at, content, problem)
    return LOG.SCANNER.load(LOG.SCANNER.dump(LOG.SCANNER.see(state, [document])))


def test_the_settings_beside_the_log_have_the_tokens() -> None:
    child: JsonValue = {"inputTokens": 900, "outputTokens": 90}
    content = settings(
        60, 40, 10, 7, inclusiveTokenUsage=child, childInclusiveTokenUsageBySessionId={"c": child}
    )
    found = LOG.SCANNER.tell(seen(DROID.fed(Log().prompt().say().lines()), content))
    assert found.usage == (107, 10)
    hour = int(BEGAN // 3600)
    assert found.counted == (Counted(hour, "mock-model", "standard", 0, 0, 60, 40, 7, 0, 10),)


def test_totals_are_priced_as_small_requests_because_nobody_knows_their_sizes() -> None:
    (sums,) = LOG.SCANNER.tell(seen(DROID.fed([]), settings(2_000_000, 0, 10))).counted
    assert (sums.size, sums.fresh_input) == (0, 2_000_000)


LOOKS: Final = st.lists(
    st.tuples(*[st.integers(0, 50)] * 4, st.integers(0, 3), st.booleans()), min_size=1, max_size=8
)


@given(LOOKS)
def test_whatever_the_settings_said_the_most_of_it_is_counted_once(
    looks: list[tuple[int, int, int, int, int, bool]],
) -> None:
    """They are rewritten, in any hour, also with less; and what was counted leaves the state, or not yet."""
    scanner, sums = LOG.SCANNER, list[Counted]()
    state = DROID.fed(Log().prompt().lines())
    for *totals, hour, is_taken in looks:
        state = seen(state, settings(*totals), BEGAN + hour * 3600)
        if is_taken:
            for each in scanner.tell(state).counted:
                add(sums, each)
            state = scanner.taken(state)
    for each in scanner.tell(state).counted:
        add(sums, each)
    kinds = [
        sum(each.fresh_input for each in sums),
        sum(each.cache_read for each in sums),
        sum(each.output for each in sums),
        sum(each.cache_write_5m for each in sums),
    ]
    most = [max(each[index] for each in looks) for index in range(4)]
    assert kinds == most
    told = scanner.tell(state).usage
    assert (told or (0, 0)) == (most[0] + most[1] + most[3], most[2])


def test_without_totals_the_tokens_are_not_known() -> None:
    for content in (settings(0, 0, 0), b"{}", b'{"tokenUsage": null}', b'{"tokenUsage": {}}'):
        found = LOG.SCANNER.tell(seen(DROID.fed(Log().prompt().say().lines()), content))
        assert (found.usage, found.counted, found.complaints) == (None, (), ())


@pytest.mark.parametrize("content", [b"no JSON", b"[1]", b'{"tokenUsage":' * 50_000, b"", b"\xff"])
def test_settings_that_cannot_be_read_are_a_complaint_until_they_can(content: bytes) -> None:
    state = seen(seen(DROID.fed(Log().prompt().say().lines()), settings(60, 40, 10)), content)
    found = LOG.SCANNER.tell(state)
    assert [each.file for each in found.complaints] == [SETTINGS]
    assert found.usage == (100, 10)
    assert LOG.SCANNER.tell(seen(state, settings(60, 40, 10))).complaints == ()
    assert LOG.SCANNER.tell(seen(state, b"", problem="is too large")).complaints[0].message == "is too large"


@given(st.lists(OTHER, min_size=4, max_size=4), OTHER, OTHER, st.sampled_from([BEGAN, -1e12, 1e18]))
def test_settings_of_any_type_raise_nothing(
    totals: list[JsonValue], model: JsonValue, usage: JsonValue, at: float
) -> None:
    state = DROID.fed(Log().prompt().say().lines())
    for content in (settings(*totals, model=model), settings(tokenUsage=usage, model=model)):
        state = seen(state, content, at)
        found = LOG.SCANNER.tell(state)
        assert found.turn == "closed"
        assert all(each.hour in (0, int(BEGAN // 3600)) for each in found.counted)


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_settings_have_the_tokens_of_every_request(material: Path, name: str) -> None:
    (path,) = (material / "samples/droid" / name).rglob("*.jsonl")
    told = read_session(LAYOUTS.named("droid"), str(path)).told
    # Also of those that came after an interrupted tool.
    assert told.usage == ((200, 20) if name == "int_tool" else RECORDED[name][2])
    assert told.complaints == ()
    used = json.loads(path.with_suffix(".settings.json").read_bytes())["tokenUsage"]
    assert sum(each.cache_read for each in told.counted) == used["cacheReadTokens"]


def test_the_end_of_a_turn_does_not_end_the_one_of_a_prompt_that_was_queued_before_it() -> None:
    log = Log().prompt("first").reply({"type": "text", "text": "Done."})
    outcome = Log().prompt("first").outcome().records[-1]
    log.prompt("second")
    log.records.append(outcome)
    found = DROID.told(log.lines())
    assert (found.turn, found.prompt) == ("open", "first")
    assert DROID.told(log.outcome().lines()).turn == "closed"
