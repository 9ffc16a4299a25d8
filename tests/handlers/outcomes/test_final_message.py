"""Outcomes that agents give as their last messages: which messages are outcomes, and what of them is kept."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts import claude_code_lines
from tests.handlers.layouts.claude_code_lines import Transcript
from tests.handlers.layouts.codex_lines import BareLog, Log, write

from runward.handlers.layouts import claude_code
from runward.handlers.layouts import codex as codex_layout
from runward.handlers.model.outcomes import ReadOutcome
from runward.handlers.outcomes.reading import LARGEST, InvalidOutcome, outcome_in

REVIEW: dict[str, Any] = {
    "outcome_kind": "review_verdict",
    "summary": "two bugs",
    "verdict": "request changes",
}
TEXT = json.dumps(REVIEW, indent=2)


def claude(transcript: Transcript) -> str | None:
    return claude_code.final_message(reversed(transcript.lines))


def codex(log: Log) -> str | None:
    return codex_layout.final_message(write(each) for each in reversed(log.records))


@pytest.mark.parametrize(
    "message",
    [
        TEXT,
        f"\n  {TEXT}\n",
        f"```json\n{TEXT}\n```",
        f"I have looked.\n\n```json\n{TEXT}\n```\nThat is all.",
        f"```sh\nmake test\n```\n```json \r\n{TEXT}\r\n```\r\n",
    ],
)
def test_a_message_that_is_an_object_of_a_registered_kind_is_an_outcome(message: str) -> None:
    found = outcome_in(message, "final message")
    assert isinstance(found, ReadOutcome), found
    assert (found.name, found.is_file, found.outcome.kind) == ("final_message", False, "review_verdict")
    assert found.outcome.value["verdict"] == "REQUEST_CHANGES"


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Done. The work is finished.",
        "{",
        TEXT + " and more",
        f"See {TEXT}",
        f"```json\n{TEXT}\n```\n```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```",
        f"    ```json\n{TEXT}",
        json.dumps([REVIEW]),
        json.dumps({**REVIEW, "outcome_kind": "own_kind"}),
        json.dumps({**REVIEW, "outcome_kind": ["review_verdict"]}),
        json.dumps({"summary": "no kind"}),
        '{"outcome_kind": ' + "[" * 100_000,
        TEXT.replace('"two bugs"', "NaN"),
    ],
)
def test_any_other_message_is_no_outcome_and_no_problem(message: str) -> None:
    assert outcome_in(message, "final message") is None


@given(st.text() | st.text().map(lambda text: f'```json\n{{"outcome_kind": {json.dumps(text)}}}\n```'))
def test_no_message_breaks_the_reading(message: str) -> None:
    found = outcome_in(message, "final message")
    assert found is None or isinstance(found, InvalidOutcome)


def test_an_invalid_outcome_names_each_wrong_field() -> None:
    found = outcome_in(json.dumps({**REVIEW, "verdict": "MAYBE", "findings": [{"line": 0}]}), "final message")
    assert isinstance(found, InvalidOutcome)
    assert found.file == "final message"
    assert {each.field for each in found.problems} == {
        *("verdict", "findings[0].severity", "findings[0].category"),
        *("findings[0].description", "findings[0].line"),
    }


def test_a_message_larger_than_an_outcome_may_be_is_a_problem_only_if_it_looks_like_one() -> None:
    found = outcome_in(json.dumps({**REVIEW, "notes": "x" * LARGEST}), "final message")
    assert isinstance(found, InvalidOutcome)
    assert "256 KiB" in found.problems[0].message
    assert outcome_in(json.dumps({"notes": "x" * LARGEST}), "final message") is None


def test_the_parts_of_claude_codes_last_reply_are_put_together() -> None:
    transcript = claude_code_lines.headless_run()
    transcript.prompt("judge it")
    reply = transcript.said([{"type": "thinking", "thinking": "hm"}], None)
    transcript.text(TEXT[:20], None, reply)
    transcript.said([{"type": "text", "text": TEXT[20:]}, {"type": "text", "text": "\n"}], "end_turn", reply)
    transcript.chained("assistant", isSidechain=True, message={"id": "other", "content": "a sub-agent's"})
    transcript.system("stop_hook_summary")
    transcript.answered("context", "much", for_the_model="## Context Usage")
    transcript.lines.append(b'{"type": "assistant", "mess')
    transcript.last_prompt()
    assert claude(transcript) == TEXT + "\n"


def test_what_claude_code_said_before_it_went_on_is_not_its_last_message() -> None:
    asked = claude_code_lines.headless_run()
    asked.prompt("and now?")
    interrupted = claude_code_lines.headless_run()
    interrupted.interrupted("")
    failed = claude_code_lines.headless_run()
    failed.prompt("again")
    failed.api_error()
    answered = claude_code_lines.headless_run()
    answered.result(answered.call())
    preamble = claude_code_lines.killed_run()
    for transcript in (asked, interrupted, failed, answered, preamble, Transcript()):
        assert claude(transcript) is None
    assert claude(claude_code_lines.headless_run()) == "Done."


def test_codexs_last_message_is_the_one_that_its_turn_ended_with() -> None:
    newer = Log().meta().start(1).prompt("judge it", 1).say("I look.").call().output().say("x")
    assert codex(newer.complete(1, TEXT)) == TEXT
    older = Log(numbered=False).meta().prompt("judge it").call().output().say(TEXT).tokens()
    assert codex(older) == TEXT
    assert codex(BareLog().meta().ask("judge it").say(TEXT)) == TEXT


def test_what_codex_said_before_it_went_on_is_not_its_last_message() -> None:
    def said() -> Log:
        return Log().meta().start(1).prompt("judge it", 1).say(TEXT)

    for log in (
        *(said().call(), said().call().output(), said().abort(1), said().complete(1, TEXT).start(2)),
        said().complete(1, TEXT).prompt("and now?", 2),
        said().complete(1, None, error={"message": "refused"}),
        *(Log().meta().start(1).prompt("judge it", 1).complete(1, None), Log()),
    ):
        assert codex(log) is None
    assert (
        codex_layout.final_message([b"[1]", b"\xff", b"{}", write({"type": "event_msg", "payload": []})])
        is None
    )
