import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handlers.layouts.codex_lines import (
    ALL,
    BARE_SETTING,
    BEGAN,
    NAME,
    PARENT,
    THREAD,
    BareLog,
    Log,
    bare_copied,
    bare_killed,
    bare_ok,
    bare_resumed,
    bare_tool,
    compacted,
    forked,
    interrupted,
    killed_in_request,
    killed_in_tool,
    log_lines,
    ok,
    old_ok,
    old_reviewed,
    older_ok,
    oldest_tool,
    refused,
    resumed,
    reviewed,
    stamp,
    terminal,
    tool,
    turn_id,
    unanswered,
    write,
)
from tests.handlers.layouts.directories import HUGE

from runward.handlers.layouts.codex import SCANNER, Rollout, recognises_log
from runward.handlers.layouts.transcript import MOST_COMPLAINTS, LogLine, Resumed, Told, TranscriptScanner
from runward.handlers.model.reasons import status_of

Made = Callable[[], Log]
LARGEST_STATE = 16_384


def fed(lines: Sequence[LogLine], name: str = NAME) -> tuple[Rollout, tuple[Resumed, ...]]:
    return SCANNER.feed(SCANNER.start(name), name, lines)


def told(log: Log, name: str = NAME) -> Told:
    return SCANNER.tell(fed(log.lines(), name)[0])


def code(log: Log) -> str | None:
    """The reason of the end; None where the turn isn't closed."""
    close = told(log).close
    return None if close is None else close.reason_code


@pytest.mark.parametrize(
    ("made", "turn", "reason", "counts", "usage"),
    [
        (ok, "closed", "run.completed.ok", (10, 0, 0, 0), (100, 10)),
        (tool, "closed", "run.completed.ok", (15, 1, 0, 0), (200, 20)),
        (refused, "closed", "run.failed.api_error", (7, 0, 1, 0), None),
        (interrupted, "closed", "run.aborted.user", (11, 1, 1, 0), (100, 10)),
        (killed_in_tool, "open", None, (7, 1, 0, 0), (100, 10)),
        (killed_in_request, "open", None, (6, 0, 0, 0), None),
        (resumed, "closed", "run.completed.ok", (23, 1, 0, 0), (300, 30)),
        (forked, "none", None, (12, 0, 0, 0), None),
        (old_ok, "closed", "run.completed.ok", (9, 0, 0, 0), (100, 10)),
        (older_ok, "closed", "run.completed.ok", (9, 0, 0, 0), (100, 10)),
        (oldest_tool, "closed", "run.completed.ok", (12, 1, 0, 0), (200, 20)),
        (unanswered, "closed", "run.failed.api_error", (7, 0, 1, 0), None),
        (reviewed, "closed", "run.completed.ok", (6, 0, 0, 1), None),
        (old_reviewed, "closed", "run.completed.ok", (7, 0, 0, 1), None),
        (compacted, "closed", "run.completed.ok", (19, 0, 0, 0), (200, 20)),
        (terminal, "closed", "run.aborted.user", (18, 1, 0, 0), (200, 20)),
        (bare_ok, "closed", "run.completed.ok", (6, 0, 0, 0), None),
        (bare_tool, "closed", "run.completed.ok", (14, 1, 1, 0), None),
        (bare_killed, "open", None, (6, 0, 0, 0), None),
        (bare_resumed, "closed", "run.completed.ok", (15, 1, 0, 0), None),
        (bare_copied, "closed", "run.completed.ok", (12, 1, 0, 0), None),
    ],
)
def test_a_rollout_tells_its_turn_its_end_and_what_it_cost(
    made: Made, turn: str, reason: str | None, counts: tuple[int, ...], usage: tuple[int, int] | None
) -> None:
    seen = told(made())
    assert (seen.turn, seen.close.reason_code if seen.close else None) == (turn, reason)
    assert (tuple(seen.counts), seen.usage) == (counts, usage)
    assert (seen.unreadable, seen.complaints, seen.declared) == (0, (), False)


@pytest.mark.parametrize("made", ALL)
def test_an_ends_status_is_the_one_of_its_reason_and_its_time_the_record_s(made: Made) -> None:
    """Bare records have no time."""
    log = made()
    close = told(log).close
    if close is not None:
        assert close.status == status_of(close.reason_code)
        assert (close.at is None) == isinstance(log, BareLog)
        assert close.at is None or BEGAN < close.at <= BEGAN + log.second


def test_the_scanner_is_one_for_transcripts() -> None:
    scanner: TranscriptScanner[Rollout] = SCANNER
    assert scanner.tell(scanner.start(NAME)) == Told(session_id=THREAD)


def test_what_a_thread_says_of_itself() -> None:
    log = ok()
    seen = told(log)
    assert (seen.session_id, seen.parent_session_id, seen.is_subagent) == (THREAD, None, False)
    assert (seen.attempt, seen.headless, seen.waiting) == (1, True, False)
    assert (seen.model, seen.version, seen.cwd) == ("gpt-5-codex", "0.169.0", "/home/dev/app")
    assert seen.prompt == "say hello"
    assert seen.started_at == BEGAN
    assert seen.moved_at == pytest.approx(BEGAN + log.second)


@pytest.mark.parametrize("made", ALL)
def test_an_end_is_told_at_no_line_before_the_agent_s_own_end(made: Made) -> None:
    """Ends that a later turn follows count as well: each is that of a record which says so, or of a bare answer."""
    log = made()
    lines = log.lines()
    ends = {"task_complete", "turn_aborted"}
    starts = {"task_started"}
    records: list[dict[str, Any]] = [record.get("payload", record) for record in log.records]
    if isinstance(log, BareLog):
        records = [{"type": record.get("role")} for record in records]
        ends, starts = {"assistant"}, {"user"}
    for cut in range(len(lines)):
        seen = SCANNER.tell(fed(lines[:cut])[0])
        if seen.turn == "closed" and cut < len(lines):
            recorded = [record.get("type") in ends for record in records[:cut]]
            assert any(recorded), f"line {cut}"
            later = [record.get("type") in starts for record in records[:cut]]
            last_end = max(number for number, ended in enumerate(recorded) if ended)
            assert not any(later[last_end:]), f"line {cut}"


@pytest.mark.parametrize(
    ("changed", "headless"),
    [
        ({"source": "exec", "originator": "codex_sdk_ts"}, True),
        ({"source": None, "originator": "codex_exec"}, True),
        ({"source": "cli", "originator": "codex_cli_rs"}, False),
        ({"source": "vscode", "originator": "codex-tui"}, False),
        ({"source": None, "originator": "codex_vscode"}, False),
        ({"source": None, "originator": "codex_cli_rs"}, None),
        ({"source": None, "originator": None}, None),
        ({"source": {"custom": "x"}, "originator": None}, None),
    ],
)
def test_whether_a_person_sits_before_it(changed: dict[str, object], headless: bool | None) -> None:
    assert told(Log().meta(**changed)).headless is headless


@pytest.mark.parametrize(("trigger", "headless"), [("exec", True), ("user", False), ("goal", False)])
def test_who_triggers_a_turn_may_differ_from_who_made_the_thread(trigger: str, headless: bool) -> None:
    assert told(Log().meta(source="cli").start(1, trigger)).headless is headless


def test_a_headless_thread_that_is_resumed_begins_the_next_attempt() -> None:
    state, begun = fed(resumed().lines())
    (again,) = begun
    assert (again.attempt, again.before.reason_code) == (2, "run.completed.ok")
    seen = SCANNER.tell(state)
    assert (seen.attempt, seen.started_at, seen.prompt) == (2, again.started_at, "say hello")
    assert again.started_at is not None
    assert again.started_at > BEGAN + 2
    assert (again.turns, seen.turns, again.began_at) == (1, 2, told(ok()).started_at)


def test_a_resume_of_an_unnumbered_thread_begins_the_next_attempt_with_its_prompt() -> None:
    state, begun = fed(old_ok().setting().prompt("again").lines())
    assert [(again.attempt, again.before.status) for again in begun] == [(2, "completed")]
    assert SCANNER.tell(state).turn == "open"


@pytest.mark.parametrize("made", [terminal, oldest_tool])
def test_turns_of_a_thread_that_may_be_interactive_are_no_attempts(made: Made) -> None:
    state, begun = fed(made().prompt("further", 3).lines())
    assert begun == ()
    assert (SCANNER.tell(state).attempt, SCANNER.tell(state).turn) == (1, "open")
    assert SCANNER.tell(state).turns == told(made()).turns + 1


def test_a_killed_thread_that_is_resumed_was_never_said_to_have_ended() -> None:
    log = killed_in_tool().start(2).prompt("again", 2)
    state, begun = fed(log.lines())
    assert begun == ()
    assert (SCANNER.tell(state).turn, SCANNER.tell(state).turns) == ("open", 2)
    assert code(log.say().tokens().complete(2)) == "run.completed.ok"


def test_nothing_that_a_fork_copied_is_its_own() -> None:
    log = forked().start(2).prompt("the fork's prompt", 2)
    seen = told(log)
    assert (seen.session_id, seen.parent_session_id) == (THREAD, PARENT)
    assert (seen.turn, seen.prompt, seen.attempt, seen.counts.tool_calls) == (
        "open",
        "the fork's prompt",
        1,
        0,
    )
    seen = told(log.say().reply_record("r9", 70, 7).tokens(70, 7).complete(2))
    assert (seen.turn, seen.usage, seen.attempt) == ("closed", (70, 7), 1)


def test_a_fork_without_records_of_its_own_copies_no_cost_either() -> None:
    log = forked().start(2).prompt("go on", 2).say().tokens(70, 7).complete(2)
    assert told(log).usage == (70, 7)


def test_a_fork_whose_origin_s_history_lies_elsewhere_counts_its_own_cost() -> None:
    log = Log().meta(forked_from_id=PARENT, history_base={"thread_id": PARENT, "end_ordinal_exclusive": 19})
    log.total = (500, 50)
    log.start(1).prompt("go on", 1).say().reply_record("r1").tokens().complete(1)
    seen = told(log)
    assert (seen.parent_session_id, seen.usage) == (PARENT, (100, 10))


def test_the_copied_records_of_a_fork_without_turn_ids_hide_none_of_its_own() -> None:
    origin = Log(PARENT).meta(cli_version="0.98.0").prompt("the origin's prompt")
    log = Log(numbered=False).meta(forked_from_id=PARENT).copy_of(origin).say().tokens()
    assert code(log) == "run.completed.ok"


def test_a_thread_is_described_again_by_itself_without_becoming_a_fork() -> None:
    seen = told(ok().meta(cwd="/elsewhere"))
    assert (seen.turn, seen.cwd, seen.parent_session_id) == ("closed", "/home/dev/app", None)


def test_a_fork_whose_first_line_was_torn_is_known_by_its_name() -> None:
    lines = forked().start(2).lines()
    lines[0] = LogLine(1, lines[0].content[:40])
    seen = SCANNER.tell(fed(lines)[0])
    assert (seen.session_id, seen.parent_session_id, seen.turn) == (THREAD, None, "open")


def test_a_rollout_of_another_name_is_known_by_its_first_record() -> None:
    seen = told(ok(), "kept.jsonl")
    assert (seen.session_id, seen.turn) == (THREAD, "closed")


@pytest.mark.parametrize(
    "changed",
    [
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}},
        {"source": {"subagent": "review"}, "parent_thread_id": PARENT},
        {"source": "subagent_review", "parent_thread_id": PARENT, "forked_from_id": THREAD},
        {"source": "exec", "thread_source": "guardian_review", "parent_thread_id": PARENT},
    ],
)
def test_a_sub_agent_is_a_session_that_works_for_its_origin(changed: dict[str, object]) -> None:
    seen = told(Log().meta(**changed).start(1, "user").prompt("do it", 1))
    assert (seen.is_subagent, seen.works_for, seen.parent_session_id) == (False, PARENT, PARENT)
    assert (seen.turn, seen.headless, seen.prompt) == ("open", True, "do it"), "nobody types to it"


@pytest.mark.parametrize(
    "changed",
    [
        {"source": {"internal": "memory_consolidation"}},
        {"source": "exec", "thread_source": "memory_consolidation"},
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": THREAD}}}},
    ],
    ids=["internal", "by its thread's source", "its own origin"],
)
def test_what_works_for_no_other_session_is_no_session_itself(changed: dict[str, object]) -> None:
    seen = told(Log().meta(**changed))
    assert (seen.is_subagent, seen.works_for) == (True, None)


def test_a_sub_agent_with_its_origin_s_history_has_its_own_work_alone() -> None:
    """As 0.169 writes it with `fork_context`: in the middle of the turn that orders it."""
    origin = Log(PARENT).meta().start(1).prompt("the origin's", 1).call().output().tokens(70, 7)
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT}}}
    log = Log().meta(source=source, forked_from_id=PARENT).copy_of(origin)
    log.start(2).prompt("its own", 2).call().reply_record("r1", 30, 3).output().tokens(30, 3)
    seen = told(log)
    assert (seen.works_for, seen.turn, seen.prompt, seen.turns) == (PARENT, "open", "its own", 1)
    assert (seen.counts.tool_calls, seen.usage) == (1, (30, 3))
    assert code(log.say().complete(2)) == "run.completed.ok"


def test_sub_agents_are_counted_in_their_parent_once() -> None:
    log = Log().meta().start(1).prompt("share it", 1).call("spawn_agent").output("{}")
    log.event("sub_agent_activity", kind="started", agent_thread_id="a")
    log.event("sub_agent_activity", kind="interacted", agent_thread_id="a")
    log.event("item_completed", item={"type": "SubAgentActivity", "kind": "started", "agent_thread_id": "b"})
    assert told(log).counts.subagents == 2
    assert told(Log().meta().start(1).call("spawn_agent").call("spawn_agent")).counts.subagents == 2


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"message": "x", "codex_error_info": "other"}, "run.failed.api_error"),
        ({"message": "x"}, "run.failed.api_error"),
        ("x", "run.failed.api_error"),
        ({"codex_error_info": {"http_connection_failed": {"http_status_code": 502}}}, "run.failed.api_error"),
        ({"message": "x", "codex_error_info": "usage_limit_exceeded"}, "run.failed.api_error"),
        ({"message": "x", "codex_error_info": "context_window_exceeded"}, "run.failed.limit_reached"),
        ({"message": "x", "codex_error_info": "session_budget_exceeded"}, "run.failed.limit_reached"),
        ({"message": "x", "codex_error_info": "sandbox_error"}, "run.failed.exception"),
        ({"message": "x", "codex_error_info": 7}, "run.failed.api_error"),
    ],
)
def test_the_error_of_a_turn_tells_its_kind(error: object, reason: str) -> None:
    assert code(Log().meta().start(1).prompt("go", 1).complete(1, None, error=error)) == reason


def test_an_error_event_ends_the_turn_and_counts_once_with_its_end() -> None:
    log = Log().meta().start(1).prompt("go", 1).event("error", message="broken pipe")
    assert code(log) == "run.failed.api_error"
    seen = told(log.complete(1, None, error={"message": "broken pipe"}))
    assert seen.close is not None
    assert (seen.close.reason_summary, seen.counts.errors) == ("broken pipe", 1)


@pytest.mark.parametrize(
    "kind", ["thread_rollback_failed", {"active_turn_not_steerable": {"turn_kind": "review"}}]
)
def test_errors_that_codex_itself_calls_no_end_are_none(kind: object) -> None:
    assert code(Log().meta().start(1).event("error", message="no", codex_error_info=kind)) is None


@pytest.mark.parametrize(
    ("reason", "given"),
    [
        ("run.aborted.user", "interrupted"),
        ("run.aborted.user", "replaced"),
        ("run.aborted.user", "review_ended"),
        ("run.failed.limit_reached", "budget_limited"),
        ("run.aborted.user", "a reason of tomorrow"),
        ("run.aborted.user", None),
    ],
)
def test_why_a_turn_was_aborted(reason: str, given: Any) -> None:
    assert code(Log().meta().start(1).prompt("go", 1).abort(1, given)) == reason


def test_what_comes_after_an_interrupt_opens_nothing() -> None:
    log = interrupted().event("user_message", message="late").say().tokens().complete(1)
    assert code(log) == "run.aborted.user"


def test_a_late_end_of_a_finished_turn_changes_nothing() -> None:
    log = ok().start(2).prompt("next", 2)
    assert code(log.abort(1)) is None
    assert code(log.complete(1)) is None
    assert code(log.complete(2)) == "run.completed.ok"


def test_the_end_of_a_turn_that_nobody_knows_ends_the_current_one_as_in_codex() -> None:
    assert code(Log().meta().start(1).prompt("go", 1).complete(7)) == "run.completed.ok"


def test_a_turn_whose_start_was_lost_still_ends() -> None:
    assert code(Log().meta().say().complete(1)) == "run.completed.ok"
    state, begun = fed(refused().complete(2).lines())
    assert [again.attempt for again in begun] == [2]
    assert SCANNER.tell(state).close is not None
    assert SCANNER.tell(state).turn == "closed"


def test_who_calls_a_tool_is_at_work_though_the_start_of_its_turn_was_lost() -> None:
    log = Log().meta().call().reply_record("r1").output()
    assert SCANNER.tell(fed(log.lines())[0]).turn == "open"
    assert code(log.say().reply_record("r2").complete(1)) == "run.completed.ok"


def test_rolled_back_turns_are_forgotten() -> None:
    log = ok().event("thread_rolled_back", num_turns=1)
    assert code(log) == "run.completed.ok"
    assert code(killed_in_tool().event("thread_rolled_back", num_turns=1)) == "run.aborted.user"
    assert code(ok().start(2).event("thread_rolled_back", num_turns=10**30).start(3)) is None


@pytest.mark.parametrize("output", ["Process exited with code 1\nOutput:\n", "done"])
def test_a_turn_that_ends_while_the_model_owes_an_answer_did_not_end_well(output: str) -> None:
    log = (
        Log(numbered=False)
        .meta(cli_version="0.104.0")
        .start(1, None)
        .prompt("go")
        .call()
        .tokens()
        .output(output)
    )
    assert code(log.complete(1, None)) == "run.failed.api_error"


def test_a_request_that_fails_after_a_compaction_is_no_good_end() -> None:
    log = (
        Log(numbered=False)
        .meta(cli_version="0.104.0")
        .start(1, None)
        .prompt("go", None)
        .call()
        .tokens()
        .output()
    )
    log.context(1).tokens().compact().event("context_compacted").context(1)
    assert code(log.complete(1, None)) == "run.failed.api_error"


@pytest.mark.parametrize("last", ["said", "thought", "replied", "compacted"])
def test_a_turn_without_a_last_message_ends_well_where_the_model_owes_nothing(last: str) -> None:
    log = Log().meta().start(1).prompt("go", 1).call().output()
    match last:
        case "said":
            log.say()
        case "thought":
            log.item("reasoning", summary=[], encrypted_content="x")
        case "replied":
            log.reply_record("r1")
        case "compacted":
            log = Log().meta().start(1).put("compacted", {"message": "", "replacement_history": []})
    assert code(log.complete(1, None)) == "run.completed.ok"


def test_a_reply_of_an_old_version_that_calls_a_tool_is_no_end() -> None:
    log = Log(numbered=False).meta(cli_version="0.98.0").prompt("write it").say("I will.").call().tokens()
    assert code(log) is None
    assert code(log.output().context().tokens(0, 0)) is None
    assert code(log.say()) is None
    assert code(log.tokens()) == "run.completed.ok"


def test_the_guess_of_an_end_is_taken_back_when_a_call_follows() -> None:
    """Up to 0.63 a preamble is recorded after its cost and before its call: for a moment it looks like an end."""
    log = Log(numbered=False).meta(cli_version="0.63.0").prompt("write it").tokens().say("I will.")
    assert code(log) == "run.completed.ok"
    state, begun = fed(log.call().output().lines())
    assert (SCANNER.tell(state).turn, begun) == ("open", ())
    assert code(log.abort()) == "run.aborted.user"


def test_an_old_rollout_that_stops_at_a_request_is_open_whatever_stopped_it() -> None:
    assert code(Log(numbered=False).meta(cli_version="0.98.0").prompt("go")) is None


@pytest.mark.parametrize("ended_well", [True, False])
def test_an_old_rollout_that_stops_between_the_two_records_of_a_prompt_is_open(ended_well: bool) -> None:
    log = Log(numbered=False).meta(cli_version="0.77.0").setting().prompt("write it")
    log = log.say().tokens() if ended_well else log.event("turn_aborted", reason="interrupted")
    end = code(log)
    assert end == ("run.completed.ok" if ended_well else "run.aborted.user")
    assert code(log.setting()) == end, "what Codex itself tells the model is not a prompt"
    whole = log.prompt("write more").say().tokens()
    *before, _context, _said, _tokens = whole.records
    cut = replace(whole, records=before[:-1])
    assert (code(cut), told(cut).turns) == (None, 1)
    assert (code(whole), told(whole).turns, told(whole).attempt) == ("run.completed.ok", 2, 2)


def test_an_old_version_records_an_interrupt_without_an_id() -> None:
    log = (
        Log(numbered=False).meta(cli_version="0.98.0").prompt("go").call().tokens().output("aborted by user")
    )
    assert code(log.abort()) == "run.aborted.user"
    assert code(log.prompt("again")) is None


def test_what_a_bare_rollout_says_of_its_thread() -> None:
    """Its records have no times: when it ended is told by its file's own."""
    seen = told(bare_tool())
    assert (seen.session_id, seen.parent_session_id, seen.is_subagent) == (THREAD, None, False)
    assert (seen.attempt, seen.turns, seen.headless) == (1, 1, None)
    assert (seen.started_at, seen.moved_at, seen.version, seen.model) == (BEGAN, None, None, None)
    assert (seen.cwd, seen.prompt) == ("/home/dev/app", "write it")
    assert told(bare_tool(), "renamed.jsonl") == seen


@pytest.mark.parametrize(
    ("text", "cwd"),
    [
        (BARE_SETTING, "/home/dev/app"),
        (
            "<environment_context>\nCurrent working directory: /home/a b\nApproval policy: never\n",
            "/home/a b",
        ),
        ("<environment_context>\n  <approval_policy>never</approval_policy>\n", None),
        ("<user_instructions>\n<cwd>/elsewhere</cwd>\n", None),
    ],
)
def test_what_codex_says_in_a_person_s_name_is_no_prompt(text: str, cwd: str | None) -> None:
    seen = told(BareLog().meta().batch().aside(text))
    assert (seen.turn, seen.prompt, seen.cwd) == ("none", None, cwd)


def test_a_bare_thread_that_is_resumed_into_its_file_has_a_further_turn() -> None:
    """Its surroundings are told anew, which opens nothing."""
    log = BareLog().meta().batch().aside(BARE_SETTING).ask("say hello").batch().say()
    assert told(log.batch().aside(BARE_SETTING)).turn == "closed"
    log.ask("write it")
    assert (told(log).turn, told(log).turns, told(log).prompt) == ("open", 2, "say hello")


def test_the_history_that_a_bare_thread_copied_ends_nothing() -> None:
    log = bare_copied()
    for cut in range(len(log.records)):
        assert SCANNER.tell(fed(log.lines()[:cut])[0]).close is None


@pytest.mark.parametrize("is_first", [True, False])
def test_the_words_of_a_bare_reply_that_calls_a_tool_are_no_end(is_first: bool) -> None:
    log = BareLog().meta().ask("write it").batch()
    log = log.say("I will.").call().output("{}") if is_first else log.call().output("{}").say("I did.")
    assert told(log).turn == "open"


def test_bare_words_that_stand_in_no_batch_are_no_end() -> None:
    assert told(BareLog().meta().aside("say hello").say()).turn == "open"


def test_a_description_without_a_payload_describes_nothing() -> None:
    lines = [{"timestamp": stamp(0), "type": kind, "payload": None} for kind in ("session_meta", "state")]
    seen = SCANNER.tell(fed([*log_lines([write(line) for line in lines]), *ok().lines()])[0])
    assert seen == told(ok())._replace(counts=seen.counts)


@pytest.mark.parametrize("name", ["request_user_input", "request_permissions"])
def test_a_call_that_asks_a_person_waits_until_it_is_answered(name: str) -> None:
    log = terminal().start(3, "user").prompt("third", 3).call(name, "ask")
    assert told(log).waiting is True
    assert told(log.output("{}", "other")).waiting is True
    assert told(log.output("{}", "ask")).waiting is False


def test_a_recorded_request_for_leave_waits_until_something_comes_of_it() -> None:
    log = (
        terminal().start(3, "user").prompt("third", 3).call().event("exec_approval_request", call_id="call_9")
    )
    assert told(log).waiting is True
    assert told(log.output()).waiting is False
    assert told(log.event("exec_approval_request", call_id="x").abort(3)).waiting is False


@pytest.mark.parametrize(
    "output",
    [
        "Chunk ID: 051785\nWall time: 0.0 seconds\nProcess exited with code 3\nOriginal token count: 0\nOutput:\n",
        "Exit code: 3\nWall time: 0 seconds\nOutput:\n",
        '{"output":"","metadata":{"exit_code":3,"duration_seconds":0.0}}',
        {"content": "no", "success": False},
    ],
)
def test_a_failed_command_is_one_error_in_every_version_s_words(output: object) -> None:
    log = Log().meta().start(1).call()
    item = {"type": "CommandExecution", "id": "call_1", "status": "failed", "exit_code": 3}
    log.event("item_completed", turn_id=turn_id(1), item=item).output(output)
    assert told(log).counts.errors == 1
    assert told(Log().meta().start(1).call().output(output)).counts.errors == 1


@pytest.mark.parametrize(
    "output",
    [
        "Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 0\nOutput:\n\nProcess exited with code 3\n",
        "Chunk ID: 1\nWall time: 30.0 seconds\nProcess running with session ID 7\nOutput:\n",
        "Exit code: 0\nWall time: 0 seconds\nOutput:\nExit code: 3",
        "Exit code: none of your business",
        '{"output":"\\"exit_code\\":3","metadata":{"exit_code":0,"duration_seconds":0.0}}',
        "a text",
        [{"type": "input_text", "text": "Exit code: 3"}],
        None,
    ],
)
def test_what_a_command_prints_is_no_error(output: object) -> None:
    assert told(Log().meta().start(1).call().output(output)).counts.errors == 0


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("patch_apply_end", {"success": False}),
        ("exec_command_end", {"exit_code": 1}),
        ("mcp_tool_call_end", {"result": {"Err": "no"}}),
        ("dynamic_tool_call_response", {"success": False}),
        ("stream_error", {"message": "reconnecting"}),
    ],
)
def test_other_errors_that_are_recorded_count(kind: str, payload: dict[str, object]) -> None:
    assert told(Log().meta().start(1).event(kind, call_id="c", **payload)).counts.errors == 1


def test_calls_of_every_kind_count_once_each() -> None:
    log = (
        Log().meta().start(1).call(call="a").call(call="a").item("custom_tool_call", call_id="b", name="exec")
    )
    log.item("local_shell_call", call_id="c").item("web_search_call", status="completed")
    assert told(log).counts.tool_calls == 4


def test_a_total_that_is_repeated_costs_nothing() -> None:
    log = Log(numbered=False).meta().start(1, None).prompt("go").tokens(100, 10).tokens(0, 0).tokens(50, 5)
    assert told(log).usage == (150, 15)
    log.total = (0, 0)
    assert told(log.event("token_count", info=None).tokens(50, 5)).usage == (200, 20)


def test_a_total_without_the_last_reply_s_cost_tells_it_by_the_difference() -> None:
    total = {"input_tokens": 100, "output_tokens": 10}
    log = Log(numbered=False).meta().start(1, None).event("token_count", info={"total_token_usage": total})
    total = {"input_tokens": 130, "output_tokens": 13}
    log.event("token_count", info={"total_token_usage": total, "last_token_usage": None})
    assert told(log).usage == (130, 13)


def test_a_reply_that_is_recorded_twice_and_one_of_another_thread_cost_nothing_more() -> None:
    log = Log().meta().start(1).reply_record("r1").reply_record("r1").reply_record("r2", thread=PARENT)
    assert told(log).usage == (100, 10)


def test_a_torn_line_is_named_and_its_full_copy_counts() -> None:
    log = ok()
    lines = [line.content for line in log.lines()]
    spliced = [*lines[:-1], lines[-1][:50], lines[-1]]
    seen = SCANNER.tell(fed(log_lines(spliced))[0])
    assert (seen.turn, seen.counts.events, seen.unreadable) == ("closed", len(lines), 1)
    (complaint,) = seen.complaints
    assert (complaint.file, complaint.line) == (NAME, len(lines))


@pytest.mark.parametrize("torn", [5, 50, 90])
def test_the_full_copy_of_a_torn_record_is_read_behind_it_in_the_same_line(torn: int) -> None:
    lines = [line.content for line in ok().lines()]
    spliced = [*lines[:-1], lines[-1][:torn] + lines[-1]]
    seen = SCANNER.tell(fed(log_lines(spliced))[0])
    assert (seen.turn, seen.counts.events, seen.unreadable) == ("closed", len(lines), 1)


def test_nul_bytes_before_a_record_hide_nothing() -> None:
    lines = [b"\0" * 4096 + line.content for line in ok().lines()]
    seen = SCANNER.tell(fed(log_lines(lines))[0])
    assert (seen.turn, seen.counts.events, seen.unreadable) == ("closed", len(lines), 0)


@pytest.mark.parametrize("made", ALL)
def test_a_record_tells_the_same_whether_it_is_skimmed_or_read_whole(made: Made) -> None:
    """A line with a NUL before it is fixed, and then read with all its fields."""
    lines = [line.content for line in made().lines()]
    skimmed, begun = fed(log_lines(lines))
    whole, begun_whole = fed(log_lines([b"\0" + line for line in lines]))
    assert (SCANNER.tell(whole), begun_whole) == (SCANNER.tell(skimmed), begun)


@pytest.mark.parametrize(
    "record",
    [
        {"type": "event_msg", "payload": "text"},
        {"type": "event_msg", "payload": {"type": "item_completed", "item": []}},
        {"type": {}, "timestamp": [], "ordinal": "1", "payload": None},
    ],
)
def test_a_record_of_another_shape_counts_and_tells_nothing(record: object) -> None:
    seen = SCANNER.tell(fed(log_lines([write(record)]))[0])
    assert (seen.counts.events, seen.turn, seen.unreadable) == (1, "none", 0)


@pytest.mark.parametrize("content", [b"[" * 200_000, b'{"payload":' * 100_000, b'{"x":' + b"[" * 200_000])
def test_a_line_nested_without_end_is_only_unreadable(content: bytes) -> None:
    assert SCANNER.tell(fed(log_lines([content]))[0]).unreadable == 1


def test_a_numbered_record_that_was_written_twice_counts_once() -> None:
    contents = [line.content for line in ok().lines()]
    for twice in ([contents[-1]] * 2, [contents[-1], contents[-1][:30], contents[-1]]):
        seen = SCANNER.tell(fed(log_lines([*contents[:-1], *twice]))[0])
        assert (seen.turn, seen.counts.events, seen.attempt) == ("closed", len(contents), 1)


def test_records_without_numbers_that_were_written_twice_tell_nothing_twice() -> None:
    log = Log(numbered=False).meta().start(1, None).prompt("go").call().output({"success": False}).tokens()
    log.say().reply_record("r2").tokens().complete(1)
    contents = [line.content for line in log.lines() for _ in range(2)]
    state, begun = fed(log_lines(contents))
    seen, once = SCANNER.tell(state), told(log)
    assert begun == ()
    assert seen._replace(counts=once.counts, turns=once.turns) == once
    assert seen.counts == once.counts._replace(events=2 * once.counts.events)


def test_records_and_fields_of_tomorrow_are_passed_over() -> None:
    log = ok().put("flux_capacitor", {"type": "task_started", "turn_id": "x"}).event("task_started_maybe")
    log.put("event_msg", {"type": ["task_started"]}).put("response_item", {})
    seen = told(log)
    assert (seen.turn, seen.counts.events) == ("closed", len(log.records))


@pytest.mark.parametrize("error", [None, {"message": "refused", "codex_error_info": "other"}])
def test_an_end_of_which_a_part_is_missing_never_completes_a_turn(error: dict[str, str] | None) -> None:
    log = tool()
    log.records[-1]["payload"]["error"] = error
    *before, end = log.lines()
    for kept in range(len(end.content)):
        cut = end._replace(content=end.content[:kept], is_cut=True)
        seen = SCANNER.tell(fed([*before, cut])[0])
        assert seen.close is None or seen.close.status == "failed", cut.content
        assert seen.counts.events >= len(before)


def test_lines_of_ten_megabytes_are_survived_whole_and_cut() -> None:
    log = Log().meta().start(1).prompt("go", 1).call().output("Exit code: 1\n" + "x" * 10_000_000)
    log.say().reply_record("r1").tokens().complete(1)
    lines = log.lines()
    assert told(log).counts.errors == 1
    cut = [LogLine(n, content[:8_388_608], len(content) > 8_388_608) for n, content, _ in lines]
    seen = SCANNER.tell(fed(cut)[0])
    assert (seen.turn, seen.counts.tool_calls, seen.unreadable) == ("closed", 1, 0)


def test_only_the_first_unreadable_lines_are_named() -> None:
    seen = SCANNER.tell(fed(log_lines([b"{"] * 100))[0])
    assert (seen.unreadable, len(seen.complaints)) == (100, MOST_COMPLAINTS)


@pytest.mark.parametrize("made", ALL)
def test_a_rollout_is_recognised_by_its_records(made: Made) -> None:
    content = b"\n".join(line.content for line in made().lines()) + b"\n"
    assert recognises_log("anything.jsonl", content) is True
    assert recognises_log("anything.jsonl", content[:120]) is True


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n\n",
        b"\0" * 5000,
        b'{"type":"thread.started","thread_id":"x"}\n{"type":"turn.started"}\n',
        b'{"type":"user","sessionId":"x","timestamp":"2026-11-21T07:37:55.592Z","message":{}}\n',
        b'{"timestamp":"2026-11-21T07:37:55.592Z","type":"session_meta","payload":null}\n',
        b'["session_meta"]\n',
        b'{"id":"x","timestamp":"2026-11-21T07:37:55.592Z","instructions":null}\n',
        b'{"type":"message","id":null,"role":"user","content":[]}\n',
        b'{"record_type":"result","value":1}\n',
    ],
)
def test_what_is_no_rollout_is_not_recognised_by_its_name(head: bytes) -> None:
    assert recognises_log(NAME, head) is False


def test_a_rollout_whose_first_line_is_torn_is_recognised() -> None:
    for made in (ok, bare_ok):
        lines = [line.content for line in made().lines()]
        assert recognises_log(NAME, b"\n".join([lines[0][100:], *lines[1:]])) is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '{"version": 3}',
        '{"version": 1, "events": "many"}',
        '{"turns": {"turn": "ajar"}}',
    ],
)
def test_a_state_that_this_program_never_wrote_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expected|Invalid|truncated|malformed"):
        SCANNER.load(text)


@pytest.mark.parametrize("made", ALL)
def test_a_state_survives_being_stored_at_every_line(made: Made) -> None:
    lines = made().lines()
    state = SCANNER.start(NAME)
    begun: list[Resumed] = []
    for line in lines:
        before = SCANNER.dump(state)
        loaded = SCANNER.load(before)
        assert loaded == state
        following, further = SCANNER.feed(loaded, NAME, [line])
        assert SCANNER.dump(loaded) == before, "feeding changes no state that was handed out"
        begun += further
        state = following
    assert (state, tuple(begun)) == fed(lines)
    assert SCANNER.see(state, ()) == state


def test_the_state_stays_small_whatever_the_rollout() -> None:
    log = Log().meta(cwd="/" + "x" * 4000).start(1).prompt("p" * 100_000, 1)
    for number in range(400):
        log.call(call="c" * 300 + str(number)).output({"success": False}, call=f"d{number}" * 100)
        log.event("sub_agent_activity", agent_thread_id=f"{number}" * 100)
        log.event("task_started", turn_id="t" * 150 + str(number)).event("task_complete", turn_id="u" * 150)
    state, _ = fed(log.lines())
    assert len(SCANNER.dump(state)) < LARGEST_STATE


portions = st.lists(st.integers(1, 7), min_size=1, max_size=40)


@given(made=st.sampled_from(ALL), sizes=portions, seed=st.integers(0, 2**32))
def test_portions_amount_to_the_whole_even_of_a_broken_rollout(
    made: Made, sizes: list[int], seed: int
) -> None:
    lines = log_lines(broken(made(), random.Random(seed), share=0.2))
    whole = fed(lines)
    state, place = SCANNER.start(NAME), 0
    begun: list[Resumed] = []
    while place < len(lines):
        size = sizes[place % len(sizes)]
        state, further = SCANNER.feed(SCANNER.load(SCANNER.dump(state)), NAME, lines[place : place + size])
        begun += further
        place += size
    assert (state, tuple(begun)) == whole


def broken(log: Log, chance: random.Random, share: float = 1.0) -> list[bytes]:
    """The rollout's lines, some of them mutated as a disk, a kill or another version might."""
    contents = [write(record) for record in log.records]
    return [
        mutated(log.records, content, chance) if chance.random() < share else content for content in contents
    ]


def mutated(records: list[dict[str, Any]], content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    other = write(chance.choice(records))
    match chance.randrange(7):
        case 0:
            return content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]
        case 1:
            return content[:place]
        case 2:
            return content[:place] + other[chance.randrange(len(other)) :]
        case 3:
            return content + other
        case 4:
            return content[:place] + b"\0" * chance.randrange(1, 40) + content[place:]
        case 5:
            return content
    return write(swapped(chance.choice(records), chance))


def swapped(value: Any, chance: random.Random) -> Any:
    """The value with one of its fields, however deep, of another type."""
    strange: tuple[Any, ...] = (None, True, -1, 2**63, 1e308, *HUGE, "", "x", [], {}, [None], {"type": "x"})
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        return {**value, key: swapped(value[key], chance)}
    return chance.choice(strange)


def harm_done(contents: list[bytes]) -> list[str]:
    """What does not hold of a rollout, whatever is in its lines."""
    state, _ = fed(log_lines(contents))
    now = SCANNER.tell(state)
    holds = {
        "what is known can be stored": SCANNER.load(SCANNER.dump(state)) == state,
        "nothing counts often": now.counts.events <= 2 * len(contents),
        "a closed turn has an end": (now.close is None) == (now.turn != "closed"),
        "an end has its code's status": now.close is None
        or now.close.status == status_of(now.close.reason_code),
    }
    return [what for what, does in holds.items() if not does]


def harm_of_mutations(count: int) -> list[tuple[list[str], list[bytes]]]:
    """What mutated rollouts of so many lines do, and which."""
    chance, seen = random.Random(20_261_121), 0
    found = []
    while seen < count:
        contents = broken(chance.choice(ALL)(), chance)
        if harm := harm_done(contents):
            found.append((harm, contents))
        seen += len(contents)
    return found


def test_mutated_lines_raise_nothing() -> None:
    assert harm_of_mutations(500) == []


@pytest.mark.prove
def test_twenty_thousand_mutated_lines_raise_nothing() -> None:
    assert harm_of_mutations(20_000) == []


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda each: (
            st.lists(each)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "payload", "timestamp", "ordinal", "item", "info", "turn_id", "error", "source"]
                ),
                each,
            )
        ),
    )
)
@settings(max_examples=50)
def test_any_json_is_survived(value: object) -> None:
    for content in (
        value,
        {"type": "event_msg", "payload": value},
        {"type": "session_meta", "payload": value},
    ):
        try:
            line = write(content)
        except UnicodeEncodeError:
            continue
        state, _ = fed(log_lines([line]))
        assert SCANNER.load(SCANNER.dump(state)) == state


RECORDED = [
    ("rollout-ok.jsonl", "run.completed.ok", (14, 0, 0, 0), (100, 10), "MOCK:OK hi"),
    ("rollout-tool.jsonl", "run.completed.ok", (19, 1, 0, 0), (200, 20), "MOCK:TOOL hi"),
    ("rollout-err400.jsonl", "run.failed.api_error", (10, 0, 1, 0), None, "MOCK:ERR400 hi"),
]


@pytest.mark.parametrize(("file", "reason", "counts", "usage", "prompt"), RECORDED)
def test_a_recording_of_the_real_program_is_judged_rightly_and_only_at_its_last_line(
    material: Path,
    file: str,
    reason: str,
    counts: tuple[int, ...],
    usage: tuple[int, int] | None,
    prompt: str,
) -> None:
    contents = (material / "samples" / "codex" / file).read_bytes().splitlines()
    assert recognises_log(file, contents[0][:5000]) is True
    for cut in range(len(contents)):
        assert SCANNER.tell(fed(log_lines(contents[:cut]), file)[0]).turn != "closed"
    seen = SCANNER.tell(fed(log_lines(contents), file)[0])
    assert seen.close is not None
    assert (seen.turn, seen.close.reason_code, seen.headless, seen.attempt) == ("closed", reason, True, 1)
    assert (tuple(seen.counts), seen.usage, seen.prompt) == (counts, usage, prompt)
    assert (seen.version, seen.cwd, seen.model) == ("0.169.0", "/home/dev/capp", "gpt-5-codex")
    assert seen.close.at == seen.moved_at


def test_what_exec_prints_is_no_rollout(material: Path) -> None:
    head = (material / "samples" / "codex" / "ok.exec.jsonl").read_bytes()
    assert recognises_log("ok.exec.jsonl", head) is False


def test_the_times_of_these_tests_are_those_that_codex_would_write() -> None:
    assert stamp(0) == "2026-11-21T07:37:55.500Z"
    assert stamp(10) == "2026-11-21T07:38:05.500Z"
