"""What Cline's two documents say together, however often they are written anew, and wherever they are cut."""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts import cline_lines
from tests.handlers.layouts.cline_lines import SESSION, Log, session
from tests.handlers.layouts.directories import document, recorded
from tests.handlers.layouts.pi_lines import BEGAN
from tests.handlers.layouts.test_conversations import LARGEST_STATE, OTHER, SITUATIONS, places_in

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Paid, Returned, Unusable
from runward.handlers.calls import Told as CallTold
from runward.handlers.layouts import cline
from runward.handlers.layouts.cline import SCANNER, State, unwrapped
from runward.handlers.layouts.layout import declared
from runward.handlers.layouts.transcript import Told, Usage
from runward.handlers.model.sessions import Document

GONE: dict[str, JsonValue] = {"metadata": {"terminal_marker": "failed_external_process_exit"}}
LATER: dict[str, JsonValue] = {"started_at": "2026-11-26T10:18:00Z", "ended_at": "2026-11-26T10:19:00Z"}
STATUS = {
    "closed run.completed.ok": "completed",
    "closed run.failed.api_error": "failed",
    "none None": "idle",
}


def seen(*looks: Sequence[Document]) -> State:
    """The state after these looks, stored and read again after each."""
    state = SCANNER.start(SESSION)
    for documents in looks:
        state = SCANNER.load(SCANNER.dump(SCANNER.see(state, documents)))
    return state


def told(*looks: Sequence[Document]) -> Told:
    return SCANNER.tell(seen(*looks))


def ends(said: Told) -> str:
    return f"{said.turn} {None if said.close is None else said.close.reason_code}"


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_happened_is_told(name: str) -> None:
    happened, turn, reason, (calls, errors), usage = SITUATIONS[name]
    found = told(happened(Log()).documents(STATUS.get(f"{turn} {reason}", "running")))
    assert ends(found) == f"{turn} {reason}"
    assert (found.counts.tool_calls, found.counts.errors) == (calls, errors)
    assert (None if found.usage is None else tuple(found.usage)) == usage
    assert (found.unreadable, found.complaints, found.headless) == (0, (), True)
    assert found.declared == (turn == "closed")


def answered(log: Log) -> Log:
    return log.prompt().say()


def in_a_tool(log: Log) -> Log:
    return log.prompt().call()


VERDICTS: list[tuple[Callable[[Log], Log], str, dict[str, JsonValue], str]] = [
    (answered, "running", {}, "open None"),
    (answered, "pending", {}, "open None"),
    (answered, "idle", {}, "closed run.completed.ok"),
    (in_a_tool, "idle", {}, "open None"),
    (lambda log: log.prompt().fail(), "idle", {}, "closed run.failed.api_error"),
    (lambda log: log.prompt().fail(), "completed", {}, "closed run.failed.api_error"),
    (lambda log: log.prompt().call().result(), "completed", {}, "closed run.completed.ok"),
    (in_a_tool, "completed", {}, "open None"),
    (lambda log: log.prompt(), "completed", {}, "open None"),
    (lambda log: answered(log).prompt(), "completed", {"ended_at": "2026-11-26T10:16:01.5Z"}, "open None"),
    (lambda log: log.prompt().fail().prompt(), "failed", {"ended_at": "2026-11-26T10:16:01.5Z"}, "open None"),
    (in_a_tool, "cancelled", {}, "closed run.cancelled.user"),
    (answered, "cancelled", {}, "closed run.cancelled.user"),
    (answered, "failed", {}, "closed run.failed.exception"),
    (lambda log: log, "failed", {}, "closed run.failed.exception"),
    (lambda log: log.prompt(), "failed", {}, "closed run.aborted.process_gone"),
    (lambda log: log.prompt(), "failed", GONE, "closed run.aborted.process_gone"),
    (in_a_tool, "failed", GONE, "closed run.aborted.process_gone"),
    (answered, "failed", GONE, "closed run.aborted.process_gone"),
    (answered, "failed", {**GONE, "interactive": True}, "closed run.completed.ok"),
    (in_a_tool, "failed", {**GONE, "interactive": True}, "closed run.aborted.process_gone"),
    (lambda log: log, "completed", {"interactive": True}, "none None"),
    (answered, "paused", {}, "open None"),
]  # fmt: skip
"""The messages, the status with more fields, and what follows."""


@pytest.mark.parametrize(("made", "status", "more", "wanted"), VERDICTS)
def test_the_status_and_the_messages_decide_together(
    made: Callable[[Log], Log], status: str, more: dict[str, JsonValue], wanted: str
) -> None:
    assert ends(told(made(Log()).documents(status, **more))) == wanted


def test_a_process_that_was_gone_ended_with_its_last_message_and_not_when_that_was_noted() -> None:
    close = told(in_a_tool(Log()).documents("failed", **GONE)).close
    assert close is not None
    assert (close.status, close.at) == ("aborted", BEGAN + 1)


def test_who_where_and_what_is_told() -> None:
    found = told(answered(Log()).documents("completed"))
    assert (found.session_id, found.version, found.cwd) == (SESSION, "3.0.65", "/home/dev/app")
    assert (found.model, found.prompt, found.attempt) == ("mock-model", "make a file", 1)
    assert (found.started_at, found.moved_at) == (BEGAN, BEGAN + cline_lines.ENDED - 1)
    (sums,) = found.counted
    assert (sums.fresh_input, sums.cache_read, sums.output, sums.reported_nanousd) == (60, 40, 10, None)
    assert told([session()]).prompt == "make a file", "before there is a message"
    assert told([session(), *Log().documents("cancelled", cwd=7)]).cwd is None


@pytest.mark.parametrize(
    ("written", "prompt"),
    [
        ('<user_input mode="act">fix it</user_input>', "fix it"),
        ('<mode_notice>x</mode_notice><user_input mode="plan">a\n<b></user_input>\n<file/>', "a\n<b>"),
        ('<user_command slash="/fix">fix it</user_command>', "fix it"),
        ("fix <user_input it", "fix <user_input it"),
        ("</user_input><user_input>", "</user_input><user_input>"),
        ("plain", "plain"),
    ],
)
def test_a_prompt_is_what_the_person_wrote(written: str, prompt: str) -> None:
    assert unwrapped(written) == prompt


def test_each_reply_counts_once_however_often_the_document_is_written() -> None:
    state, log, counted = SCANNER.start(SESSION), Log(), 0
    for number in range(100):
        log.prompt().call(f"c{number}", tool="spawn_agent").result(f"c{number}").say(cost=0.25)
        for _ in range(2):
            state = SCANNER.see(state, log.documents())
            counted += sum(each.replies for each in SCANNER.tell(state).counted)
            state = SCANNER.load(SCANNER.dump(SCANNER.taken(state)))
    found = SCANNER.tell(state)
    assert (found.counts.tool_calls, found.counts.subagents, found.turns) == (100, 100, 100)
    assert (counted, found.usage) == (200, Usage(20_000, 2_000))
    (sums,) = SCANNER.tell(SCANNER.see(state, log.say(cost=0.25).documents())).counted
    assert (sums.replies, sums.reported_nanousd) == (1, 250_000_000)


def of_subagent(log: Log, agent: str = "agent_1") -> Document:
    return log.messages()._replace(name=f"{agent}.messages.json")


def test_each_reply_of_a_sub_agent_counts_once_for_the_session_and_is_none_of_it() -> None:
    state, log, counted = seen(in_a_tool(Log()).documents()), Log(), 0
    before = ends(SCANNER.tell(state))
    state = SCANNER.taken(state)
    for number in range(50):
        log.prompt().call(f"c{number}").result(f"c{number}").say(cost=0.25)
        for document_ in (of_subagent(log), of_subagent(log), of_subagent(log, "teammate")):
            state = SCANNER.see(state, [document_])
            counted += sum(each.replies for each in SCANNER.tell(state).counted)
            state = SCANNER.load(SCANNER.dump(SCANNER.taken(state)))
    found = SCANNER.tell(state)
    assert (counted, found.usage, found.counts.tool_calls, ends(found)) == (200, Usage(100, 10), 1, before)


def test_what_sub_agents_used_and_was_not_taken_yet_is_not_lost_when_the_session_goes_on() -> None:
    found = told(
        in_a_tool(Log()).documents(), [of_subagent(answered(Log()))], answered(in_a_tool(Log())).documents()
    )
    assert sum(each.replies for each in found.counted) == 3


def test_what_was_not_taken_yet_is_not_lost_when_the_document_is_written_again() -> None:
    (sums,) = told(answered(Log()).documents(), answered(answered(Log())).documents()).counted
    assert sums.replies == 2


def test_a_resumed_session_is_in_its_next_attempt() -> None:
    first = answered(Log()).documents("completed")
    again = told(first, Log().documents())
    assert (again.attempt, again.turn, again.usage) == (2, "open", None), (
        "its messages are not there again yet"
    )
    found = told(first, Log().documents(), answered(answered(Log())).documents("completed", **LATER))
    assert (found.attempt, found.turns, ends(found)) == (2, 2, "closed run.completed.ok")
    missed = told(first, answered(answered(Log())).documents("completed", **LATER))
    assert (missed.attempt, missed.turns) == (2, 2)
    assert told(first, first).attempt == 1
    looked_at = told(first, [session("idle", interactive=True)])
    assert looked_at.attempt == 1, "nobody asked for anything"


def test_a_fork_has_what_came_after_it() -> None:
    fork: JsonValue = {"fork": {"forkedFromSessionId": "1_a", "forkedAt": "2026-11-26T10:16:02.5Z"}}
    log = in_a_tool(Log()).result()
    before = len(log.records)
    documents = log.prompt("and now?").call("call_2").documents(metadata=fork)
    found = told(documents)
    assert (found.parent_session_id, found.prompt, found.turns) == ("1_a", "and now?", 1)
    assert (found.counts.tool_calls, found.usage) == (1, Usage(100, 10))
    assert [each.id for each in calls(documents) if isinstance(each, Called)] == ["call_2"]
    assert before == 3


def test_a_sub_agents_directory_is_no_session() -> None:
    assert told([session(metadata={"sessionHistoryOrigin": {"mode": "subagent"}})]).is_subagent
    assert not told([session()]).is_subagent


def test_what_cline_tells_the_model_is_no_prompt() -> None:
    log = answered(Log()).put("user", {"type": "text", "text": "Go on."}, metadata={"displayRole": "system"})
    found = told(log.documents("idle"))
    assert (found.turns, ends(found)) == (1, "closed run.completed.ok")


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("which", [0, 1])
def test_a_document_that_is_cut_leaves_the_state_before_and_says_so(name: str, which: int) -> None:
    documents: list[Document] = SITUATIONS[name][0](Log()).documents("completed")
    whole = documents[which]
    before = told(answered(Log()).documents())
    for cut in range(0, len(whole.content), 7):
        torn = document(whole.name, whole.content[:cut])
        alone, after = told([torn]), told(answered(Log()).documents(), [torn])
        assert (ends(alone), len(alone.complaints)) == ("none None", 1)
        assert (ends(after), after.usage, len(after.complaints)) == (ends(before), before.usage, 1)
    healed = told([torn], documents)
    assert healed.complaints == told(documents).complaints


def test_messages_alone_never_end_a_turn() -> None:
    assert ends(told([answered(Log()).messages()])) == "open None"


@pytest.mark.parametrize(
    "unread",
    [document(f"{SESSION}.messages.json", b"{"), Log().messages()._replace(problem="is too large")],
)
def test_a_status_is_no_end_while_the_messages_may_say_another(unread: Document) -> None:
    found = told([session("completed"), unread])
    assert (ends(found), len(found.complaints)) == ("open None", 1)
    assert ends(told([session("completed"), unread], answered(Log()).documents("completed"))) == (
        "closed run.completed.ok"
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"7", b'{"messages":7}', b'{"messages":' + b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe{}", b'{"status":"x'],
)  # fmt: skip
def test_another_content_is_a_problem_in_words(content: bytes) -> None:
    for name in (f"{SESSION}.json", f"{SESSION}.messages.json"):
        found = told([document(name, content)])
        if content == b'{"messages":7}' and name == f"{SESSION}.json":
            assert "''" in found.complaints[0].message
        assert [each.file for each in found.complaints] == [name]
        assert found.close is None


def test_a_document_that_is_too_large_is_a_problem_and_changes_nothing() -> None:
    large = answered(Log()).messages()._replace(content=b"", problem="is larger than 8388608 bytes")
    found = told(in_a_tool(Log()).documents(), [large])
    assert (ends(found), found.complaints[0].message) == ("open None", "is larger than 8388608 bytes")


def test_half_a_character_in_a_text_hides_nothing_but_hashes() -> None:
    whole = Log().prompt().call(command="cut here").documents("cancelled")
    cut = whole[1]._replace(content=whole[1].content.replace(b"cut here", b"cut \\ud83d"))
    assert told([whole[0], cut]).counts.tool_calls == 1
    (called,) = calls([cut])
    assert isinstance(called, Called)
    assert called.problem is not None


def test_the_state_stays_small_whatever_the_messages() -> None:
    log = Log()
    for number in range(400):
        log.prompt("p" * 10_000).call(call=f"{number}" * 300).fail("w" * 10_000)
    documents = log.documents("failed" * 1000, prompt="p" * 100_000, cwd="/" + "x" * 4000)
    assert len(SCANNER.dump(seen(documents))) < LARGEST_STATE


@given(data=st.data())
def test_fields_of_any_type_raise_nothing_and_complete_nothing(data: st.DataObject) -> None:
    log = Log().prompt().call().result(failed=True).fail().say().call("call_2")
    state, about = json.loads(session("running").content), log.records
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(
            st.sampled_from([each for record in (state, *about) for each in places_in(record) if each])
        )
        place[data.draw(st.sampled_from(sorted(place)))] = deepcopy(data.draw(OTHER))
    documents = [document(f"{SESSION}.json", state), log.messages()]
    assert told(documents).close is None
    calls(documents)


def calls(*looks: Sequence[Document]) -> list[CallTold]:
    """What is told of calls. What replies cost is told, too."""
    reader = declared("cline").calls.start(SESSION, lambda name: ())
    found = [each for documents in looks for one in documents for each in reader.see(one)]
    return [each for each in found if not isinstance(each, Paid)]


@pytest.mark.parametrize("ts", [10**400, -(10**400), 1e308], ids=["large", "small", "float"])
def test_a_message_with_a_time_that_is_no_time_counts_without_it(ts: JsonValue) -> None:
    log = answered(Log()).put("user", {"type": "text", "text": "go on"}, ts=ts)
    assert ends(told(log.documents("idle"))) == "open None"
    assert [each.at for each in calls(log.call().documents()) if isinstance(each, Called)] == [BEGAN + 3]


def test_calls_and_results_are_told_once() -> None:
    log = Log().prompt().call(command="ls")
    first = log.documents()
    called, returned = calls(first, log.result(failed=True).documents(), log.say().documents("completed"))
    assert isinstance(called, Called)
    assert (called.id, called.tool, called.params) == ("call_1", "bash", {"command": "ls"})
    assert (called.tokens, called.at) == (110, BEGAN + 1)
    assert isinstance(returned, Returned)
    assert (returned.id, returned.at, returned.success) == ("call_1", BEGAN + 2, False)
    torn = document(f"{SESSION}.messages.json", b"{")
    assert [type(each) for each in calls([torn, document(f"{SESSION}.json", b"{")])] == [Unusable, Unusable]


def test_a_directory_is_recognised_by_either_document_and_by_no_other_tools() -> None:
    about, messages = (each.content for each in answered(Log()).documents())
    heads = {cline.SESSION: about, cline.MESSAGES: messages}
    assert all(cline.recognises_directory(frozenset(), {head: content}) for head, content in heads.items())
    assert not cline.recognises_directory(
        frozenset(), {cline.SESSION: b'{"session_id": 1}', cline.MESSAGES: about}
    )


RECORDED = {
    "ok": ("closed run.completed.ok", 0, Usage(100, 10)),
    "tool": ("closed run.completed.ok", 1, Usage(200, 20)),
    "err400": ("closed run.failed.api_error", 0, None),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recordings_of_the_real_program_are_told_rightly(material: Path, name: str) -> None:
    (directory,) = (material / "samples/cline-cli" / name / ".cline/data/sessions").iterdir()
    names = [each.replace("{name}", directory.name) for each in cline.DOCUMENTS[:2]]
    documents = recorded(directory, names)
    found: Any = SCANNER.tell(SCANNER.see(SCANNER.start(directory.name), documents))
    reason, count, usage = RECORDED[name]
    assert (ends(found), found.counts.tool_calls, found.usage) == (reason, count, usage)
    assert (found.session_id, found.headless, found.complaints) == (directory.name, True, ())
    assert found.prompt.startswith("MOCK:")
    used = json.loads(documents[0].content)["metadata"]["usage"]
    read = sum(each.cache_read for each in found.counted)
    assert (used["inputTokens"], used["cacheReadTokens"]) == ((usage or (0, 0))[0], read)
    heads = {
        head: (directory / each).read_bytes() for head, each in zip(cline.DOCUMENTS[:2], names, strict=True)
    }
    assert cline.recognises_directory(frozenset(names), heads)
