"""What only Kimi does: one record ends a turn, a reply is several records, and reminders are written as messages of the user."""

import pytest
from hypothesis import given
from tests.handlers.layouts.directories import as_bytes, numbered
from tests.handlers.layouts.kimi_lines import NAME, PARENT, Log
from tests.handlers.layouts.pi_lines import BEGAN
from tests.handlers.layouts.test_conversations import AGENTS, OTHER

from runward.config.json_value import JsonValue
from runward.daemon.rundir.session_files import NOT_KNOWN
from runward.handlers.calls import Called
from runward.handlers.layouts.conversation import Conversation
from runward.handlers.layouts.kimi import DIRECTORY, LOG, STATE
from runward.handlers.model.sessions import Document

KIMI = AGENTS["kimi"]


def test_only_the_turns_own_end_ends_it() -> None:
    log = Log().prompt().say()
    end = log.records.pop()
    log.event("step.end", uuid="u3", finishReason="end_turn").put("prompt.completed", reason="completed")
    log.put("agent.turn.ended", turnId=0, outcome="done", kind="event")
    assert KIMI.told(log.lines()).turn == "open"
    log.records.append(end)
    assert KIMI.told(log.lines()).turn == "closed"


@pytest.mark.parametrize(
    ("reason", "told"),
    [("cancelled", "run.aborted.user"), ("failed", "run.failed.exception"), ("new", None), (7, None)],
)
def test_the_reason_of_the_end_decides(reason: str | int, told: str | None) -> None:
    close = KIMI.told(Log().prompt().put("turn.ended", turnId=0, reason=reason).lines()).close
    assert (None if close is None else close.reason_code) == told


def test_a_failed_turn_says_what_the_api_said() -> None:
    close = KIMI.told(Log().prompt().fail("400 mock 400").lines()).close
    assert close is not None
    assert "400 mock 400" in close.reason_summary


def test_a_reminder_is_no_prompt() -> None:
    reminder: JsonValue = {
        "role": "user",
        "content": [{"type": "text", "text": "Today"}],
        "origin": {"kind": "injection"},
    }
    log = Log().put("context.append_message", message=reminder).prompt("go").say()
    log.put("context.append_message", message=reminder)
    found = KIMI.told(log.lines())
    assert (found.prompt, found.turn, found.turns) == ("go", "closed", 1)


def test_a_resumed_session_has_a_further_turn() -> None:
    log = Log().prompt("first").say().put("profile.bind", modelAlias="mock").prompt("second")
    found = KIMI.told(log.lines())
    assert (found.prompt, found.turn, found.turns, found.cwd) == ("first", "open", 2, "/home/dev/app")


def test_a_delegated_task_is_counted() -> None:
    found = KIMI.told(Log().prompt().call(tool="Agent").result().say().lines())
    assert (found.counts.subagents, found.counts.tool_calls, found.usage) == (1, 1, (200, 20))


def fed_with_subagents(*logs: Log, documents: list[Document] | None = None) -> Conversation:
    """What is known of a session whose sub-agents wrote these logs."""
    scanner = KIMI.layout.SCANNER
    state = scanner.see(scanner.start(NAME), documents or [])
    for number, log in enumerate(logs):
        for line in numbered(log.lines()):
            state, _ = scanner.feed(state, f"agents/agent-{number}/wire.jsonl", [line])
            state = scanner.load(scanner.dump(state))
    return state


def test_what_sub_agents_used_is_part_of_what_the_session_cost_and_all_else_is_their_own() -> None:
    other = Log().prompt().say()
    for record in other.records:
        if record["type"] == "llm.request":
            record["model"] = "smaller-model"
    state = fed_with_subagents(Log().prompt().call().result().fail(), other)
    found = KIMI.layout.SCANNER.tell(state)
    assert (found.turn, found.counts.events, found.usage, found.prompt) == ("none", 0, None, None)
    used = {
        each.model: (each.replies, each.fresh_input, each.cache_read, each.output) for each in found.counted
    }
    assert used == {"mock-model": (1, 60, 40, 10), "smaller-model": (1, 60, 40, 10)}
    own = KIMI.layout.SCANNER.tell(KIMI.fed(Log().prompt().say().lines(), state))
    assert (own.model, own.usage, sum(each.replies for each in own.counted)) == ("mock-model", (100, 10), 3)


def test_what_a_fork_copied_of_its_sub_agents_counts_where_it_came_from() -> None:
    copied = Log().prompt().say()
    fork = Log().prompt().say().fork()
    assert KIMI.layout.SCANNER.tell(fed_with_subagents(copied, documents=fork.documents)).counted == ()
    for _ in range(9):
        copied.put("filler")
    after = fed_with_subagents(copied.say(), documents=fork.documents)
    assert sum(each.replies for each in KIMI.layout.SCANNER.tell(after).counted) == 1


@pytest.mark.parametrize(("items", "started"), [(["a", "b", "c"], 3), ([], 0), ("many", 0), (None, 0)])
def test_a_swarm_counts_as_many_sub_agents_as_it_has_items(items: JsonValue, started: int) -> None:
    args: JsonValue = {"prompt_template": "Do {{item}}.", "items": items}
    log = Log().prompt().reply()
    log.event("tool.call", uuid="u2", toolCallId="call_1", name="AgentSwarm", args=args)
    found = KIMI.told(log.result().say().lines())
    assert (found.counts.subagents, found.counts.tool_calls) == (started, 1)


def test_a_step_s_tokens_are_those_of_its_call_and_not_of_the_text_before_it() -> None:
    log = Log().prompt().reply()
    log.event("content.part", uuid="u1", part={"type": "text", "text": "I look."})
    log.event("tool.call", uuid="u2", toolCallId="call_1", name="bash", args={"command": "ls"}).result()
    assert [each.tokens for each in KIMI.calls(log.lines()) if isinstance(each, Called)] == [110]


def test_a_session_is_read_once_its_state_says_whether_it_is_a_fork() -> None:
    """A fork's log is there first: its copies would count as its own."""
    head = b"\n".join(Log().prompt().lines())
    assert not DIRECTORY.recognises_directory(frozenset(["agents"]), {LOG: head})
    assert DIRECTORY.recognises_directory(frozenset(["agents", STATE]), {LOG: head})


@given(OTHER, OTHER, OTHER)
def test_a_state_of_any_type_raises_nothing(origin: JsonValue, at: JsonValue, cwd: JsonValue) -> None:
    log, scanner = Log().prompt().say(), KIMI.layout.SCANNER
    for state in (
        {"forkedFrom": origin, "createdAt": at},
        {"forkedFrom": PARENT, "createdAt": at, "cwd": cwd},
    ):
        document = Document(STATE, NOT_KNOWN, BEGAN, as_bytes(state))
        told = scanner.tell(KIMI.fed(log.lines(), scanner.see(scanner.start(NAME), [document])))
        assert (told.counts.events, told.cwd) == (len(log.records), "/home/dev/app")
        KIMI.calls(log.lines(), [document])
