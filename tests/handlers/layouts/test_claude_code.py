"""What the lines of a Claude Code transcript tell, by small transcripts of our own and by recorded ones."""

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.handlers.layouts.claude_code_lines import (
    BEGAN,
    MODEL,
    PARENT,
    SESSION,
    Transcript,
    good_turn,
    headless_run,
    killed_run,
    notification,
    subagent_file,
)
from tests.handlers.layouts.directories import HUGE, json_text

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.claude_code import SCANNER, recognises_log
from runward.handlers.layouts.claude_code_counts import CALLS_KEPT, REPLIES_KEPT
from runward.handlers.layouts.claude_code_state import State
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.transcript import Close, Counts, LogLine, Resumed, Told, Usage
from runward.handlers.usage.counting import Counted

NAME = f"{SESSION}.jsonl"


def numbered(contents: Iterable[bytes], first: int = 1) -> list[LogLine]:
    return [LogLine(number, content) for number, content in enumerate(contents, first)]


def fed(contents: Iterable[bytes], name: str = NAME) -> tuple[State, tuple[Resumed, ...]]:
    return SCANNER.feed(SCANNER.start(name), name, numbered(contents))


def told(transcript: Transcript, name: str = NAME) -> Told:
    return SCANNER.tell(fed(transcript.lines, name)[0])


def short(told: Told) -> str:
    """`open`, `none`, or how the turn ended."""
    return told.close.reason_code if told.close is not None else told.turn


def test_a_headless_run_that_ended_well_is_told_as_a_whole() -> None:
    transcript = headless_run()
    assert told(transcript) == Told(
        session_id=SESSION,
        attempt=1,
        turn="closed",
        close=Close("completed", "run.completed.ok", "its turn ended", BEGAN + 6),
        headless=True,
        started_at=BEGAN,
        moved_at=BEGAN + 6,
        model=MODEL,
        version="2.1.197",
        cwd="/home/dev/app",
        prompt="make a file",
        counts=Counts(events=8, tool_calls=1),
        usage=Usage(222, 40),
        turns=1,
        counted=(Counted(500_000, MODEL, "standard", 0, 2, 200, 2, 20, 0, 40),),
    )


def interrupted_in_a_tool(t: Transcript) -> None:
    t.prompt("x")
    call = t.call()
    t.last_prompt()
    t.result(call, "The user doesn't want to proceed with this tool use.", is_error=True)
    t.interrupted()


def interrupted_in_an_old_result(t: Transcript) -> None:
    t.prompt("x")
    t.result(t.call(), "[Request interrupted by user for tool use]", is_error=True)


def interrupted_in_a_request(t: Transcript) -> None:
    t.prompt("x")
    t.interrupted("")


def told_to_stop_in_a_tool(t: Transcript) -> None:
    t.prompt("x")
    call = t.call()
    t.last_prompt()
    t.result(call, "Exit code 137", is_error=True)
    t.text("Done.")


def refused_by_the_api(t: Transcript) -> None:
    t.prompt("x")
    t.api_error()
    t.system("turn_duration", durationMs=60)


def out_of_turns(t: Transcript) -> None:
    t.prompt("x")
    t.result(t.call())
    t.limit()
    t.last_prompt()


def out_of_turns_in_an_old_version(t: Transcript) -> None:
    t.prompt("x")
    t.result(t.call())


def no_stop_reason(t: Transcript) -> None:
    t.prompt("x")
    t.text("Done.", stop=None)


def no_stop_reason_but_a_turns_end(t: Transcript) -> None:
    no_stop_reason(t)
    t.system("stop_hook_summary")


def a_preamble_and_a_turns_end(t: Transcript) -> None:
    t.prompt("x")
    t.call(reply=t.text("I will run a command.", stop=None))
    t.system("turn_duration")


def a_reply_cut_off(t: Transcript) -> None:
    t.prompt("x")
    t.text("Done, alm", stop="max_tokens")
    t.system("turn_duration")


def a_refusal(t: Transcript) -> None:
    t.prompt("x")
    t.text("", stop="refusal")
    t.system("turn_duration")


def a_stop_hook_that_goes_on(t: Transcript) -> None:
    good_turn(t)
    t.user("Stop hook feedback:\nthe tests fail", isMeta=True)


def a_background_task_that_ended(t: Transcript) -> None:
    good_turn(t)
    t.user("<task-notification>\n<task-id>b1</task-id></task-notification>")


def compacted_while_it_worked(t: Transcript) -> None:
    t.prompt("x")
    t.result(t.call())
    t.system("compact_boundary", compactMetadata={"trigger": "auto"})
    t.user("This session is being continued …", isCompactSummary=True, isVisibleInTranscriptOnly=True)


def compacted_at_rest(t: Transcript) -> None:
    good_turn(t)
    t.system("compact_boundary", compactMetadata={"trigger": "manual"})
    t.user("This session is being continued …", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    t.command("compact", "Compacted")


def left_after_an_error(t: Transcript) -> None:
    t.entrypoint = "cli"
    refused_by_the_api(t)
    t.command("exit", "Bye!")


def cleared_and_left(t: Transcript) -> None:
    t.entrypoint = "cli"
    t.command("clear", "")


def a_command_that_is_a_prompt(t: Transcript) -> None:
    t.entrypoint = "cli"
    t.command("review", None)
    t.user([{"type": "text", "text": "Review the change."}], isMeta=True)


def a_command_while_it_works(t: Transcript) -> None:
    t.entrypoint = "cli"
    t.prompt("x")
    t.call()
    t.command("status", "fine")


def at_rest(t: Transcript) -> None:
    t.entrypoint = "cli"
    good_turn(t)
    t.system("turn_duration")


def asked_for_its_context_at_rest(t: Transcript) -> None:
    at_rest(t)
    t.answered("context", "Context usage …", "## Context Usage")


def renamed_at_rest(t: Transcript) -> None:
    at_rest(t)
    t.note("custom-title", customTitle="x")
    t.answered("rename", "Session renamed to: x", '<system-reminder>\nThe user named this session "x".')


def asked_for_its_context_in_an_older_version(t: Transcript) -> None:
    at_rest(t)
    t.command("context", "Context usage …")
    t.user("## Context Usage", isMeta=True)


def asked_for_its_context_after_an_error(t: Transcript) -> None:
    left_after_an_error(t)
    t.answered("context", "Context usage …", "## Context Usage")


def asked_for_its_context_by_a_program(t: Transcript) -> None:
    t.queued("/context")
    t.command("context", "Context usage …")
    t.user("## Context Usage", isMeta=True)


def asked_for_its_context_before_anything_else(t: Transcript) -> None:
    t.entrypoint = "cli"
    t.answered("context", "Context usage …", "## Context Usage")


def asked_for_its_context_while_it_works(t: Transcript) -> None:
    t.entrypoint = "cli"
    t.prompt("x")
    t.call()
    t.answered("context", "Context usage …", "## Context Usage")


def a_prompt_after_its_context(t: Transcript) -> None:
    asked_for_its_context_at_rest(t)
    t.prompt("y")


def a_command_that_is_a_prompt_after_its_context(t: Transcript) -> None:
    asked_for_its_context_at_rest(t)
    t.user("<command-message>review</command-message>\n<command-name>/review</command-name>")
    t.user([{"type": "text", "text": "Review the change."}], isMeta=True)


def a_background_task_that_ended_after_its_context(t: Transcript) -> None:
    asked_for_its_context_at_rest(t)
    t.user(notification())


def the_shell_at_rest(t: Transcript) -> None:
    at_rest(t)
    t.shell("ls", "file", is_aside=True)


def the_shell_before_anything_else(t: Transcript) -> None:
    t.entrypoint = "cli"
    t.shell("ls", "file", is_aside=True)


def the_shell_for_the_model(t: Transcript) -> None:
    renamed_at_rest(t)
    t.shell("ls", "file", is_aside=False)


def no_such_command(t: Transcript) -> None:
    at_rest(t)
    t.user("<local-command-caveat>Caveat: The messages below …</local-command-caveat>", isMeta=True)
    t.user("Unknown skill: nosuch")


def a_prompt_that_speaks_of_an_unknown_command(t: Transcript) -> None:
    at_rest(t)
    t.user("Unknown skill: what does that mean?")


def notes_alone(t: Transcript) -> None:
    t.write({"type": "summary", "summary": "Something", "leafUuid": "u7"})
    t.note("mode", mode="normal")
    t.write({"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}})


def nothing_known(t: Transcript) -> None:
    t.prompt("x")
    t.note("wormhole", timestamp=t.tick(), what=[1, 2])
    t.write("a bare text")
    t.write(None)
    t.chained("assistant", message="a bare text")
    t.chained("user", message=None)
    t.chained("user", message={"role": "user", "content": None})
    t.chained("system", subtype="wormhole")


@pytest.mark.parametrize(
    ("history", "ending"),
    [
        (interrupted_in_a_tool, "run.aborted.user"),
        (interrupted_in_an_old_result, "run.aborted.user"),
        (interrupted_in_a_request, "run.aborted.user"),
        (told_to_stop_in_a_tool, "run.completed.ok"),
        (refused_by_the_api, "run.failed.api_error"),
        (out_of_turns, "run.failed.limit_reached"),
        (out_of_turns_in_an_old_version, "open"),
        (no_stop_reason, "open"),
        (no_stop_reason_but_a_turns_end, "run.completed.ok"),
        (a_preamble_and_a_turns_end, "open"),
        (a_reply_cut_off, "run.failed.limit_reached"),
        (a_refusal, "run.failed.api_error"),
        (a_stop_hook_that_goes_on, "open"),
        (a_background_task_that_ended, "open"),
        (compacted_while_it_worked, "open"),
        (compacted_at_rest, "run.completed.ok"),
        (left_after_an_error, "run.failed.api_error"),
        (cleared_and_left, "none"),
        (a_command_that_is_a_prompt, "open"),
        (a_command_while_it_works, "open"),
        (asked_for_its_context_at_rest, "run.completed.ok"),
        (renamed_at_rest, "run.completed.ok"),
        (asked_for_its_context_in_an_older_version, "run.completed.ok"),
        (asked_for_its_context_after_an_error, "run.failed.api_error"),
        (asked_for_its_context_by_a_program, "run.completed.ok"),
        (asked_for_its_context_before_anything_else, "none"),
        (asked_for_its_context_while_it_works, "open"),
        (a_prompt_after_its_context, "open"),
        (a_command_that_is_a_prompt_after_its_context, "open"),
        (a_background_task_that_ended_after_its_context, "open"),
        (the_shell_at_rest, "run.completed.ok"),
        (the_shell_before_anything_else, "none"),
        (the_shell_for_the_model, "open"),
        (no_such_command, "run.completed.ok"),
        (a_prompt_that_speaks_of_an_unknown_command, "open"),
        (notes_alone, "none"),
        (nothing_known, "open"),
    ],
)
def test_how_a_turn_stands_follows_from_its_last_records(
    history: Callable[[Transcript], None], ending: str
) -> None:
    transcript = Transcript()
    history(transcript)
    now = told(transcript)
    assert (short(now), now.unreadable) == (ending, 0)
    assert now.counts.events == len(transcript.lines)


def test_an_end_says_in_words_what_the_agent_said_and_when() -> None:
    refused, limited = Transcript(), Transcript()
    refused_by_the_api(refused)
    out_of_turns(limited)
    assert told(refused).close == Close("failed", "run.failed.api_error", "API Error: 400 refused", BEGAN + 3)
    assert told(limited).close == Close(
        "failed", "run.failed.limit_reached", "it reached its limit of 3 turns", BEGAN + 5
    )


def test_a_killed_run_is_open_at_every_point_of_its_way() -> None:
    lines = killed_run().lines
    for length in range(1, len(lines) + 1):
        assert SCANNER.tell(fed(lines[:length])[0]).turn == "open"


def test_a_headless_run_is_completed_from_its_last_word_on_and_never_before() -> None:
    lines = headless_run().lines
    turns = [SCANNER.tell(fed(lines[:length])[0]).turn for length in range(1, len(lines) + 1)]
    assert turns == ["open"] * (len(lines) - 2) + ["closed"] * 2


def test_a_resumed_headless_session_begins_its_next_attempt_with_the_new_prompt() -> None:
    transcript = headless_run()
    resumed_at = transcript.now
    transcript.queued("again")
    state, resumed = fed(transcript.lines)
    assert resumed == (
        Resumed(2, Close("completed", "run.completed.ok", "its turn ended", BEGAN + 6), resumed_at, 1, BEGAN),
    )
    transcript.user("again")
    transcript.text("Done.")
    state, resumed = fed(transcript.lines)
    now = SCANNER.tell(state)
    assert (now.attempt, now.started_at, short(now), len(resumed)) == (2, resumed_at, "run.completed.ok", 1)
    assert now.prompt == "make a file"


def test_a_session_that_is_resumed_after_an_error_was_not_completed_in_between() -> None:
    transcript = Transcript()
    refused_by_the_api(transcript)
    transcript.queued("again")
    transcript.continued()
    transcript.user("again")
    endings = [short(SCANNER.tell(fed(transcript.lines[:n])[0])) for n in range(1, len(transcript.lines) + 1)]
    assert "run.completed.ok" not in endings
    state, resumed = fed(transcript.lines)
    assert [each.before.reason_code for each in resumed] == ["run.failed.api_error"]
    assert (SCANNER.tell(state).attempt, endings[-1]) == (2, "open")


def test_what_is_put_there_to_go_on_with_changes_nothing_while_nobody_goes_on() -> None:
    transcript = Transcript(entrypoint="cli")
    refused_by_the_api(transcript)
    transcript.continued()
    assert short(told(transcript)) == "run.failed.api_error"


def test_a_stop_hook_that_goes_on_begins_no_attempt() -> None:
    transcript = Transcript()
    a_stop_hook_that_goes_on(transcript)
    transcript.text("Now it is done.")
    state, resumed = fed(transcript.lines)
    assert (SCANNER.tell(state).attempt, short(SCANNER.tell(state)), resumed) == (1, "run.completed.ok", ())


def test_a_command_that_a_headless_run_was_started_for_is_its_whole_turn() -> None:
    transcript = headless_run()
    transcript.queued("/compact now")
    transcript.command("compact", "Compacted")
    state, resumed = fed(transcript.lines)
    assert (short(SCANNER.tell(state)), SCANNER.tell(state).attempt, len(resumed)) == (
        "run.completed.ok",
        2,
        1,
    )


def test_turns_of_an_interactive_session_are_no_attempts() -> None:
    transcript = Transcript(entrypoint="cli")
    good_turn(transcript)
    good_turn(transcript, "more")
    state, resumed = fed(transcript.lines)
    now = SCANNER.tell(state)
    assert (now.attempt, now.headless, now.started_at, resumed) == (1, False, BEGAN, ())


def two_prompts(t: Transcript) -> None:
    good_turn(t)
    good_turn(t, "more")


def a_prompt_while_it_works(t: Transcript) -> None:
    t.prompt("x")
    t.result(t.call())
    t.prompt("and y")


def a_command_that_the_model_answers(t: Transcript) -> None:
    a_command_that_is_a_prompt(t)
    t.text("It is fine.")


def a_stop_hook_that_the_model_answers(t: Transcript) -> None:
    a_stop_hook_that_goes_on(t)
    t.result(t.call())
    t.text("Now it is.")


def a_background_task_that_the_model_reads(t: Transcript) -> None:
    a_background_task_that_ended(t)
    t.text("It ended.")


def a_command_that_a_program_gave(t: Transcript) -> None:
    t.queued("/review")
    t.command("review", None)
    t.text("It is fine.")


@pytest.mark.parametrize(
    ("history", "turns"),
    [
        (good_turn, 1),
        (two_prompts, 2),
        (a_prompt_while_it_works, 2),
        (a_command_that_the_model_answers, 1),
        (a_command_that_a_program_gave, 1),
        (compacted_at_rest, 2),
        (cleared_and_left, 0),
        (left_after_an_error, 1),
        (a_command_while_it_works, 1),
        (asked_for_its_context_at_rest, 1),
        (asked_for_its_context_in_an_older_version, 1),
        (the_shell_at_rest, 1),
        (no_such_command, 1),
        (a_prompt_after_its_context, 2),
        (a_stop_hook_that_goes_on, 1),
        (a_stop_hook_that_the_model_answers, 2),
        (a_background_task_that_ended, 1),
        (a_background_task_that_the_model_reads, 2),
        (notes_alone, 0),
        (refused_by_the_api, 1),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_turns_are_counted_by_whoevers_word_they_began(
    history: Callable[[Transcript], None], turns: int
) -> None:
    transcript = Transcript()
    history(transcript)
    assert told(transcript).turns == turns
    counted = [SCANNER.tell(fed(transcript.lines[:end])[0]).turns for end in range(len(transcript.lines))]
    assert counted == sorted(counted), "they only grow"


def test_nothing_that_a_fork_copied_is_a_turn_of_its_own() -> None:
    assert told(fork()).turns == 0


def test_a_session_that_goes_on_headless_after_a_person_left_it_begins_an_attempt() -> None:
    transcript = Transcript(entrypoint="cli")
    good_turn(transcript)
    transcript.entrypoint = "sdk-cli"
    good_turn(transcript, "more")
    state, resumed = fed(transcript.lines)
    assert (SCANNER.tell(state).attempt, SCANNER.tell(state).headless, len(resumed)) == (2, True, 1)


@pytest.mark.parametrize(
    ("entrypoint", "first", "headless"),
    [
        ("sdk-cli", "", True),
        ("sdk-py", "", True),
        ("cli", "", False),
        ("cli", "queued", False),
        ("claude-vscode", "", False),
        ("wormhole", "queued", None),
        (None, "queued", True),
        (None, "snapshot", False),
        (None, "", None),
    ],
)
def test_who_sits_before_a_session_follows_from_its_entry_point_or_its_first_record(
    entrypoint: str | None, first: str, headless: bool | None
) -> None:
    transcript = Transcript(entrypoint=entrypoint)
    if first == "queued":
        transcript.queued("x")
    elif first == "snapshot":
        transcript.write({"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}})
    transcript.user("x")
    assert told(transcript).headless is headless


def fork(**fields: JsonValue) -> Transcript:
    """A headless fork: its prompt is queued, then the copied history follows with the times it had."""
    history = headless_run()
    transcript = Transcript(now=BEGAN + 1000)
    transcript.note("mode", mode="normal")
    transcript.queued("do it differently")
    for line in history.lines:
        record = msgspec.json.decode(line)
        if "uuid" in record:
            transcript.write({**record, **fields})
    return transcript


def test_a_forks_copied_history_ends_nothing_and_is_no_attempt_of_its_own() -> None:
    transcript = fork()
    assert {SCANNER.tell(fed(transcript.lines[:n])[0]).turn for n in range(2, len(transcript.lines) + 1)} == {
        "open"
    }
    transcript.user("do it differently")
    transcript.text("Done.")
    state, resumed = fed(transcript.lines)
    now = SCANNER.tell(state)
    assert (now.attempt, now.started_at, now.prompt) == (1, BEGAN + 1000, "do it differently")
    assert (short(now), resumed) == ("run.completed.ok", ())
    assert now.close is not None
    assert now.close.at == BEGAN + 1003


@pytest.mark.parametrize(
    "fields", [{"sessionId": PARENT}, {"forkedFrom": {"sessionId": PARENT, "messageUuid": "u1"}}]
)
def test_a_fork_names_its_origin_where_its_copies_do(fields: dict[str, JsonValue]) -> None:
    transcript = fork(**fields)
    transcript.user("do it differently")
    assert (told(transcript).session_id, told(transcript).parent_session_id) == (SESSION, PARENT)


def test_a_reply_that_another_session_asked_for_names_the_origin_and_counts_there() -> None:
    """As 2.1.332 copies it into a fork, whose own id stands in every record."""
    transcript = Transcript(version="2.1.332", entrypoint="cli")
    transcript.prompt("do it")
    transcript.text("done", requestSessionId=PARENT)
    transcript.prompt("do it differently")
    transcript.text("done", requestSessionId=SESSION)
    state, _ = fed(transcript.lines)
    now = SCANNER.tell(state)
    assert (now.session_id, now.parent_session_id, now.prompt) == (SESSION, PARENT, "do it")
    assert sum(each.replies for each in now.counted) == 1


NOTES_OF_2_1_332 = (
    *("agent-color", "agent-name", "ai-title", "api-request", "api-request-blob", "api-request-resumed"),
    *("api-request-shape", "artifact-autoreact-ledger", "artifact-comment-monitor", "atis-latch"),
    *("attribution-snapshot", "bridge-session", "content-replacement", "continued-in", "cost-state"),
    *("custom-title", "data-flow-incomplete", "data-flow-records", "derived-from", "dev-mods"),
    *("ended-by-model", "file-history-delta", "file-history-snapshot", "fork-context-ref", "frame-link"),
    *("history-suppression", "isolation-latch", "last-prompt", "memory-mode", "mode", "observer-ref"),
    *("permission-mode", "pr-link", "progress", "relocated", "resume-head-vouch", "session-owner", "summary"),
    *("tag", "tools-used", "worktree-state"),
)
"""The records beside the conversation that the program's own text names."""


@pytest.mark.parametrize("kind", NOTES_OF_2_1_332)
def test_what_2_1_332_notes_beside_the_conversation_changes_no_turn(kind: str) -> None:
    plain, noted = Transcript(), Transcript()
    for transcript in (plain, noted):
        transcript.prompt("x")
        transcript.result(transcript.call())
        transcript.text("Done.")
    noted.lines = [
        line
        for each in noted.lines
        for line in (each, b'{"type":"%s","sessionId":"%s"}' % (kind.encode(), SESSION.encode()))
    ]
    for length in range(1, len(plain.lines) + 1):
        (before, _), (after, _) = fed(plain.lines[:length]), fed(noted.lines[: 2 * length])
        expected = SCANNER.tell(before)
        counts = expected.counts._replace(events=2 * length)
        assert SCANNER.tell(after) == expected._replace(counts=counts)


def test_the_id_is_the_files_name_or_where_that_is_none_what_the_first_records_say() -> None:
    assert told(headless_run(), "kept.jsonl").session_id == SESSION
    assert told(headless_run(), f"{PARENT}.jsonl").session_id == PARENT
    assert told(headless_run(), f"{PARENT}.jsonl.zst").session_id == PARENT


def test_a_reply_of_several_lines_costs_what_its_last_line_says() -> None:
    transcript = Transcript()
    transcript.prompt("x")
    reply = transcript.text("first", stop="tool_use")
    call = transcript.call(reply=reply)
    transcript.result(call)
    transcript.call(reply=reply)
    assert told(transcript).usage == Usage(111, 20)


def test_only_so_many_replies_and_calls_are_remembered() -> None:
    transcript = Transcript()
    transcript.prompt("x")
    for _ in range(200):
        transcript.result(transcript.call())
    state, _ = fed(transcript.lines)
    assert (len(state.replies), len(state.calls)) == (REPLIES_KEPT, CALLS_KEPT)
    assert SCANNER.tell(state).counts.tool_calls == 200
    assert SCANNER.tell(state).usage == Usage(200 * 111, 200 * 20)
    assert len(SCANNER.dump(state)) < 4000


def test_errors_are_those_of_the_models_interface_and_of_tools_that_say_so() -> None:
    transcript = Transcript()
    transcript.prompt("x")
    transcript.result(transcript.call(), is_error=True)
    transcript.result(transcript.call())
    transcript.system("api_error", retryAttempt=1)
    transcript.api_error(500)
    assert told(transcript).counts == Counts(events=len(transcript.lines), tool_calls=2, errors=3)


@pytest.mark.parametrize("tool", ["ExitPlanMode", "AskUserQuestion"])
def test_a_session_waits_for_a_person_until_the_question_is_answered(tool: str) -> None:
    transcript = Transcript(entrypoint="cli")
    transcript.prompt("x")
    call = transcript.call(tool)
    assert told(transcript).waiting
    transcript.result(call)
    assert not told(transcript).waiting


def test_an_agents_name_is_what_the_transcript_says() -> None:
    transcript = headless_run()
    transcript.note("agent-setting", agentSetting="reviewer")
    assert told(transcript).agent == "reviewer"


def with_subagents(transcript: Transcript, *files: tuple[str, Transcript]) -> Told:
    state, _ = fed(transcript.lines)
    before = SCANNER.tell(state)
    for name, file in files:
        for number, content in enumerate(file.lines, 1):
            state, resumed = SCANNER.feed(state, name, [LogLine(number, content)])
            assert resumed == ()
    after = SCANNER.tell(state)
    assert after._replace(counts=before.counts, counted=before.counted) == before
    return after


def test_subagents_are_counted_by_their_files_and_their_records_are_nobodys() -> None:
    transcript = killed_run()
    now = with_subagents(
        transcript,
        ("subagents/agent-a11023636826fcb4d.jsonl", subagent_file()),
        ("subagents/workflows/w1/agent-b1.jsonl", subagent_file()),
        ("subagents/workflows/w1/journal.jsonl", subagent_file()),
        ("agent-0f959bc3.jsonl", subagent_file()),
    )
    assert now.counts == Counts(events=len(transcript.lines), tool_calls=1, subagents=3)


def test_warm_ups_and_what_the_program_forks_off_for_itself_are_no_subagents() -> None:
    now = with_subagents(
        headless_run(),
        ("agent-0f959bc3.jsonl", subagent_file("Warmup")),
        ("subagents/agent-acompact-9f3a8e11.jsonl", subagent_file()),
    )
    assert now.counts.subagents == 0


def test_a_subagents_records_among_the_sessions_own_count_as_one_subagent() -> None:
    transcript = Transcript(version="1.0.60", entrypoint=None)
    transcript.user("x")
    call = transcript.call("Task", prompt="look around")
    transcript.user("look around", isSidechain=True, parentUuid=None)
    transcript.said([{"type": "text", "text": "Done."}], "end_turn", isSidechain=True)
    assert short(told(transcript)) == "open"
    transcript.result(call)
    transcript.text("Done.")
    assert told(transcript).counts == Counts(events=4, tool_calls=1, subagents=1)
    assert told(transcript).usage == Usage(222, 40)


def test_a_subagent_that_could_not_be_started_is_none() -> None:
    transcript = Transcript()
    transcript.prompt("x")
    call = transcript.call("Agent")
    assert told(transcript).counts.subagents == 1
    transcript.result(call, "no such agent", is_error=True)
    assert told(transcript).counts.subagents == 0


@pytest.mark.parametrize("name", ["agent-0f2d6c1e.jsonl", "subagents/agent-0f2d6c1e.jsonl"])
def test_a_subagents_own_file_says_that_it_is_one_and_whose(name: str) -> None:
    now = told(subagent_file(), name)
    assert now == Told(session_id="0f2d6c1e", parent_session_id=SESSION, is_subagent=True)


def test_torn_spliced_and_glued_lines_are_counted_and_hide_nothing_else() -> None:
    lines = headless_run().lines
    torn = [*lines[:4], lines[4][:50], lines[4][:80] + lines[4], lines[4] + lines[5], b"\0" * 40, *lines[6:]]
    now = SCANNER.tell(fed(torn)[0])
    assert (short(now), now.counts.events, now.unreadable) == ("run.completed.ok", 8, 3)
    assert [complaint.line for complaint in now.complaints] == [5, 6, 8]


def test_a_record_of_ten_megabytes_is_read_and_a_longer_one_by_its_beginning() -> None:
    transcript = Transcript()
    transcript.prompt("x")
    call = transcript.call()
    transcript.result(call, "x" * 10_000_000)
    state, _ = fed(transcript.lines)
    assert (SCANNER.tell(state).turn, SCANNER.tell(state).counts.events) == ("open", 5)
    cut = LogLine(6, transcript.lines[-1][:100_000], is_cut=True)
    state, _ = SCANNER.feed(state, NAME, [cut])
    assert (SCANNER.tell(state).counts.events, SCANNER.tell(state).unreadable) == (6, 0)
    assert len(SCANNER.dump(state)) < 2000


@pytest.mark.parametrize(
    "change",
    [
        {"message": {"role": "assistant", "id": 7, "content": "Done.", "stop_reason": "end_turn"}},
        {"message": {"id": "m", "usage": {"input_tokens": "many"}, "stop_reason": "end_turn"}},
        {"message": {"id": "m", "content": ["Done.", 7, {"type": 7}], "stop_reason": "end_turn"}},
        {"version": 3, "cwd": None, "isSidechain": "no", "attachment": "none"},
    ],
)
def test_a_field_of_another_type_is_as_if_it_were_not_there(change: dict[str, JsonValue]) -> None:
    lines = headless_run().lines
    last_word = msgspec.json.decode(lines[-2])
    now = SCANNER.tell(fed([*lines[:-2], msgspec.json.encode({**last_word, **change})])[0])
    assert (short(now), now.counts.events, now.unreadable) == ("run.completed.ok", 7, 0)


def test_a_transcript_is_recognised_by_a_word_of_its_conversation_and_nothing_else_is() -> None:
    content = headless_run().content()
    assert recognises_log(NAME, content)
    assert recognises_log("anything", b"\n".join(content.splitlines()[:4]) + b"\n")
    assert recognises_log(NAME, b'{"torn\n' + content)
    assert recognises_log(NAME, killed_run().lines[2] + b" " * 300_000)
    assert recognises_log(NAME, subagent_file().content())
    assert recognises_log(NAME, headless_run().lines[0] + b"\n")  # a queued prompt
    assert not recognises_log(NAME, b"")
    assert not recognises_log(NAME, b'{"type":"assistant","message":{},"session_id":"x","uuid":"u"}\n')
    assert not recognises_log(NAME, b'{"display":"x","project":"/","sessionId":"x","timestamp":1}\n')
    assert not recognises_log(
        NAME, b'{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{}}\n'
    )


@pytest.mark.parametrize("message", ['"fix it"', '{"role":"user","content":null}', '{"content":[]}'])
def test_a_word_may_have_any_form_that_claude_code_writes(message: str) -> None:
    line = f'{{"type":"user","sessionId":"s","uuid":"u","parentUuid":null,"message":{message}}}\n'
    assert recognises_log(NAME, line.encode())


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"summary","summary":"x","leafUuid":"u"}',
        '{"type":"file-history-snapshot","messageId":"m","snapshot":{}}',
        '{"type":"queue-operation","operation":"dequeue","sessionId":"s"}',
        '{"type":"queue-operation","operation":"enqueue","sessionId":"s"}',
        '{"type":"last-prompt","sessionId":"s","lastPrompt":"x"}',
        '{"type":"custom-title","sessionId":"s","customTitle":"x"}',
        '{"type":"system","sessionId":"s","uuid":"u","parentUuid":null,"subtype":"local_command"}',
    ],
)
def test_a_file_of_notes_alone_is_no_transcript(line: str) -> None:
    assert not recognises_log(NAME, f"{line}\n".encode() * 3)
    assert recognises_log(NAME, f"{line}\n".encode() + headless_run().content())


def test_the_first_word_may_come_after_a_long_beginning() -> None:
    chained = {"sessionId": "s", "uuid": "u", "parentUuid": None, "isSidechain": False}
    head = msgspec.json.encode({"type": "attachment", **chained, "attachment": {"text": "x" * 999}}) + b"\n"
    assert not recognises_log(NAME, head)
    assert recognises_log(NAME, head * 250)


@pytest.mark.parametrize("count", [1, 2000])
def test_a_chat_of_qwen_code_is_no_transcript_of_claude_code_however_long(count: int) -> None:
    chained = '"uuid":"u","parentUuid":null,"sessionId":"s","cwd":"/w","version":"0.24.4"'
    lines = (
        f'{{{chained},"type":"system","subtype":"ui_telemetry","systemPayload":{{}}}}\n'
        f'{{{chained},"type":"user","message":{{"role":"user","parts":[{{"text":"look"}}]}}}}\n'
        f'{{{chained},"type":"assistant","message":{{"role":"model","parts":[{{"text":"done"}}]}}}}\n'
    )
    assert not recognises_log(NAME, lines.encode() * count)


def test_recorded_chats_of_qwen_code_are_qwens_alone(material: Path) -> None:
    chats = [
        *(material / "samples/qwen-code").rglob("chats/*.jsonl"),
        material / "samples/reports/qwen-chat.jsonl",
    ]
    assert len(chats) > 4
    for path in chats:
        head = path.read_bytes()[: 256 * 1024]
        assert [each.name for each in LAYOUTS.logs if each.recognises(path.name, head)] == ["qwen"], path


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '{"version":1}', '{"version":2}', "null"])
def test_a_state_that_the_scanner_never_wrote_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        SCANNER.load(text)


HISTORIES = [
    headless_run,
    killed_run,
    fork,
    *[
        (lambda history=history: written(history))
        for history in (interrupted_in_a_tool, compacted_at_rest, left_after_an_error, nothing_known)
    ],
]


def written(history: Callable[[Transcript], None]) -> Transcript:
    transcript = Transcript()
    history(transcript)
    history(transcript)
    return transcript


@given(st.sampled_from(HISTORIES), st.lists(st.integers(0, 40), max_size=6))
def test_a_transcript_fed_in_portions_amounts_to_the_whole(
    history: Callable[[], Transcript], cuts: list[int]
) -> None:
    lines = numbered(history().lines)
    whole, resumed = SCANNER.feed(SCANNER.start(NAME), NAME, lines)
    state, items = SCANNER.start(NAME), list[Resumed]()
    places = [0, *sorted(min(cut, len(lines)) for cut in cuts), len(lines)]
    for start, end in pairwise(places):
        state, more = SCANNER.feed(SCANNER.load(SCANNER.dump(state)), NAME, lines[start:end])
        items += more
    assert (state, tuple(items)) == (whole, resumed)


WRITTEN = [history().lines for history in HISTORIES]
VALUES: list[JsonValue] = [
    None,
    True,
    -1,
    10**30,
    *HUGE,
    1.5,
    "",
    "x",
    "end_turn",
    [],
    [1],
    {},
    {"type": "tool_use"},
]


@st.composite
def mutated(draw: st.DrawFn) -> list[bytes]:
    """The lines of a history, some of them damaged in the ways that disks and other versions do."""
    lines = list(draw(st.sampled_from(WRITTEN)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        at = draw(st.integers(0, len(line)))
        match draw(st.sampled_from(["flip", "cut", "splice", "glue", "nul", "swap", "swap", "twice"])):
            case "flip" if at < len(line):
                lines[place] = line[:at] + bytes([line[at] ^ (1 << draw(st.integers(0, 7)))]) + line[at + 1 :]
            case "cut":
                lines[place] = line[:at]
            case "splice":
                lines[place] = line[:at] + lines[draw(st.integers(0, len(lines) - 1))]
            case "glue":
                lines[place] = line + lines[draw(st.integers(0, len(lines) - 1))]
            case "nul":
                lines[place] = line[:at] + b"\0" * draw(st.integers(1, 9)) + line[at:]
            case "twice":
                lines.insert(place, line)
            case _:
                lines[place] = swapped(draw, line)
    return lines


def swapped(draw: st.DrawFn, line: bytes) -> bytes:
    """The line with one field, at any depth, that holds something else."""
    try:
        record: JsonValue = json.loads(line)
    except ValueError:
        return line
    inside = record
    while isinstance(inside, dict) and inside:
        key = draw(st.sampled_from(sorted(inside)))
        below = inside[key]
        if isinstance(below, list) and below:
            below = below[0]
        if isinstance(below, dict) and below and draw(st.booleans()):
            inside = below
            continue
        inside[key] = draw(st.sampled_from(VALUES))
        break
    return json_text(record, separators=(",", ":")).encode()


def harm_done(lines: list[bytes]) -> list[str]:
    """What does not hold of a transcript, whatever is in its lines."""
    state, _ = fed(lines)
    now = SCANNER.tell(state)
    beside = sum(b'"isSidechain":true' in line for line in lines)
    taken = now.counts.events + now.unreadable + beside
    one_by_one = SCANNER.start(NAME)
    for line in numbered(lines):
        one_by_one, _ = SCANNER.feed(one_by_one, NAME, [line])
    holds = {
        "what is known can be stored": SCANNER.load(SCANNER.dump(state)) == state,
        "every line counts": taken >= sum(bool(line.strip()) for line in lines),
        "what is named is unreadable": len(now.complaints) <= now.unreadable <= len(lines),
        "line by line amounts to the whole": one_by_one == state,
    }
    return [what for what, does in holds.items() if not does]


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(mutated())
def test_no_damage_makes_the_scanner_raise(lines: list[bytes]) -> None:
    assert harm_done(lines) == []


@pytest.mark.sweep
@pytest.mark.timeout(600)
@settings(max_examples=20_000, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(mutated())
def test_no_damage_makes_the_scanner_raise_in_twenty_thousand_tries(lines: list[bytes]) -> None:
    assert harm_done(lines) == []


RECORDINGS = {
    "ok.jsonl": (
        "736b29cc-f014-4cfd-8653-5c88a69ffa05",
        "run.completed.ok",
        "2026-11-21T07:34:58.150Z",
        "2026-11-21T07:34:58.227Z",
        Counts(7, 0, 0, 0),
        Usage(120, 20),
    ),
    "tool.jsonl": (
        "00391a7d-01ed-4b8a-934b-6cd5927bc522",
        "run.completed.ok",
        "2026-11-21T07:34:58.795Z",
        "2026-11-21T07:34:58.995Z",
        Counts(10, 1, 0, 0),
        Usage(240, 40),
    ),
    "err400.jsonl": (
        "8a36cf73-da8a-49f9-8e3d-905f8ffa19df",
        "run.failed.api_error",
        "2026-11-21T07:35:00.946Z",
        "2026-11-21T07:35:01.128Z",
        Counts(7, 0, 1, 0),
        None,
    ),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_told_as_its_lines_say(material: Path, name: str) -> None:
    lines = (material / "samples/claude-code" / name).read_bytes().splitlines()
    session_id, reason, started, ended, counts, usage = RECORDINGS[name]
    now = SCANNER.tell(fed(lines, name)[0])
    assert now.close is not None
    assert (now.session_id, now.close.reason_code, now.counts, now.usage) == (
        session_id,
        reason,
        counts,
        usage,
    )
    assert (now.started_at, now.close.at) == (parse_time(started), parse_time(ended))
    assert (now.headless, now.version, now.cwd, now.attempt) == (True, "2.1.197", "/home/dev/app", 1)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_open_until_its_last_word_at_every_newline(material: Path, name: str) -> None:
    lines = (material / "samples/claude-code" / name).read_bytes().splitlines()
    turns = [SCANNER.tell(fed(lines[:length], name)[0]).turn for length in range(1, len(lines) + 1)]
    assert turns == ["open"] * (len(lines) - 2) + ["closed"] * 2


def test_what_the_program_printed_is_no_transcript(material: Path) -> None:
    for path in sorted((material / "samples").rglob("*.jsonl")):
        is_transcript = path.parent.name == "claude-code" and not path.name.endswith(".stream.jsonl")
        assert recognises_log(path.name, path.read_bytes()[: 256 * 1024]) == is_transcript, path.name
