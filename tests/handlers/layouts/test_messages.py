"""The texts of a conversation, line by line, as two tools record them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.handlers.layouts.registry import MESSAGES
from runward.handlers.layouts.transcript import Said

AT = "2026-11-21T07:34:58.896Z"
AT_S = 1795246498.896


def said(layout: str, **record: JsonValue) -> Said | None:
    return MESSAGES[layout](json.dumps(record).encode())


def claude(kind: str, content: JsonValue, **more: JsonValue) -> Said | None:
    message: JsonValue = {"role": kind, "content": content, "model": "m"}
    return said("claude-code", type=kind, timestamp=AT, message=message, **more)


def codex(role: str, text: str) -> Said | None:
    content: JsonValue = [{"type": "input_text", "text": text}]
    payload: JsonValue = {"type": "message", "role": role, "content": content}
    return said("codex", timestamp=AT, type="response_item", payload=payload)


def test_a_prompt_and_a_reply_of_claude_code() -> None:
    assert claude("user", "make a file") == Said(AT_S, "user", "make a file")
    blocks: JsonValue = [{"type": "text", "text": "I "}, {"type": "tool_use"}, {"type": "text", "text": "do"}]
    assert claude("assistant", blocks) == Said(AT_S, "assistant", "I do")


def test_what_claude_code_itself_says_is_not_the_users_or_the_models() -> None:
    assert claude("user", "<task-notification>done</task-notification>") == Said(
        AT_S, "system", "<task-notification>done</task-notification>"
    )
    assert claude("assistant", "API Error: 400", isApiErrorMessage=True) == Said(
        AT_S, "system", "API Error: 400"
    )


def test_results_of_tools_and_sub_agents_are_no_messages_of_claude_code() -> None:
    assert claude("user", [{"type": "tool_result", "content": "hi"}]) is None
    assert claude("assistant", "aside", isSidechain=True) is None
    assert said("claude-code", type="queue-operation", content="MOCK") is None


def test_a_prompt_and_a_reply_of_codex() -> None:
    assert codex("user", "make a file") == Said(AT_S, "user", "make a file")
    assert codex("assistant", "done") == Said(AT_S, "assistant", "done")
    bare: JsonValue = [{"type": "output_text", "text": "as before 0.30"}]
    assert said("codex", type="message", role="assistant", content=bare) == Said(
        None, "assistant", "as before 0.30"
    )


def test_what_codex_itself_says_is_not_the_users() -> None:
    for role, text in (("developer", "rules"), ("user", "<environment_context>\n</environment_context>")):
        assert codex(role, text) == Said(AT_S, "system", text)


def test_what_codex_repeats_as_an_event_is_left_out() -> None:
    payload: JsonValue = {"type": "agent_message", "message": "done"}
    assert said("codex", timestamp=AT, type="event_msg", payload=payload) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: (
        st.lists(each)
        | st.dictionaries(
            st.sampled_from(["type", "message", "content", "payload", "role", "text", "timestamp"])
            | st.text(),
            each,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("layout", sorted(MESSAGES))
@given(value=JSON, before=st.binary(max_size=3))
def test_no_line_makes_it_fail(layout: str, value: JsonValue, before: bytes) -> None:
    for line in (before + json.dumps(value).encode(), before, b"\xff\0" + before):
        found = MESSAGES[layout](line)
        assert found is None or found.text
