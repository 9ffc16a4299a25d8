"""What a lionagi run directory says: its words, its own branch, its sub-agents, and what streams meanwhile."""

from pathlib import Path

import pytest
from tests.handlers.layouts.directories import document, fed, numbered, recorded
from tests.handlers.layouts.lionagi_lines import (
    OWN,
    RUN_ID,
    WORKER,
    branch,
    chunk,
    instruction,
    message,
    response,
    run_json,
    stream,
)

from runward.config.json_value import JsonValue
from runward.handlers.layouts.lionagi import MOST_BRANCHES, RUN, SCANNER, State
from runward.handlers.layouts.transcript import Close, Counts, Told, Usage
from runward.handlers.model.reasons import status_of
from runward.handlers.model.sessions import Document

BUFFER = f"stream/{OWN}.buffer.jsonl"


def told(*documents: Document) -> Told:
    return fed(SCANNER, "dir-1", {}, documents)[0]


def run(status: str = "running", **more: JsonValue) -> Document:
    return document(RUN, run_json(status, **more))


def conversation(*messages: JsonValue, branch_id: str = OWN) -> Document:
    return document(f"branches/{branch_id}.json", branch(branch_id, messages))


def streamed(state: State, lines: list[bytes], first: int = 1) -> State:
    return SCANNER.feed(state, BUFFER, numbered(lines, first))[0]


def test_a_run_that_completed_is_told_with_its_conversation() -> None:
    calls = [message("ActionRequest"), message("ActionResponse", is_error=True), message("ActionRequest")]
    assert told(run("completed"), conversation(instruction(), *calls, response())) == Told(
        session_id=RUN_ID,
        attempt=1,
        turn="closed",
        close=Close("completed", "run.completed.ok", "the run completed", 1009.5),
        declared=True,
        headless=True,
        started_at=1000.5,
        moved_at=1009.5,
        agent="reviewer",
        model="claude/sonnet",
        cwd="/home/dev/app",
        prompt="fix the lift",
        counts=Counts(events=5, tool_calls=2, errors=1),
        usage=Usage(100, 20),
        turns=1,
    )


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        ("completed", None, "run.completed.ok"),
        ("completed_empty", None, "run.failed.exception"),
        ("failed", None, "run.failed.exception"),
        ("failed", "ValueError: no such tool", "run.failed.exception"),
        ("failed", "ProviderError: 400 bad request", "run.failed.api_error"),
        ("failed", "ProviderQuotaError: try later", "run.failed.api_error"),
        ("failed", "a ProviderError was survived", "run.failed.exception"),
        ("timed_out", None, "run.timed_out.deadline"),
        ("aborted", None, "run.aborted.user"),
        ("cancelled", None, "run.cancelled.sigterm"),
        ("COMPLETED", None, "run.completed.ok"),
    ],
)
def test_each_last_word_means_one_state(status: str, error: str | None, reason: str) -> None:
    said = told(run(status, error=error))
    assert (said.turn, said.declared) == ("closed", True)
    assert said.close is not None
    assert said.close.reason_code == reason
    assert said.close.status == status_of(reason)
    if error:
        assert said.close.reason_summary.endswith(error)


def test_a_run_that_is_running_is_an_open_turn_whatever_it_said_already() -> None:
    said = told(run("running"), conversation(instruction(), response()))
    assert (said.turn, said.close, said.headless) == ("open", None, True)


@pytest.mark.parametrize("more", [{"status": None}, {"status": 7}, {"status": ""}, {"status": ["completed"]}])
def test_a_run_without_a_word_is_an_open_turn(more: dict[str, JsonValue]) -> None:
    said = told(document(RUN, run_json() | more))
    assert (said.turn, said.complaints) == ("open", ())


def test_an_unknown_word_is_said_to_be_unknown() -> None:
    said = told(run("paused", ended_at=1009.5))
    assert said.turn == "open"
    (complaint,) = said.complaints
    assert (complaint.file, "'paused'" in complaint.message) == (RUN, True)
    state = SCANNER.see(SCANNER.start("d"), [run("paused"), run("completed")])
    assert SCANNER.tell(state).complaints == ()


def test_other_branches_are_sub_agents_whose_records_are_nobodys() -> None:
    worker = conversation(instruction("help"), message("ActionRequest"), response(), branch_id=WORKER)
    said = told(run(), worker, conversation(instruction(), response()))
    assert said.counts == Counts(events=2, subagents=1)
    assert said.usage == Usage(100, 20)
    assert said.prompt == "fix the lift"


def test_a_run_that_names_no_branch_has_its_only_one_or_none() -> None:
    flow = run(branch_id=None)
    one = conversation(instruction(), response())
    assert told(flow, one).counts == Counts(events=2)
    both = told(flow, one, conversation(instruction("help"), branch_id=WORKER))
    assert (both.counts, both.usage, both.prompt) == (Counts(subagents=2), None, None)


def test_what_streams_is_counted_and_counted_once_when_it_is_kept() -> None:
    state = SCANNER.see(SCANNER.start("d"), [run(), conversation(instruction())])
    state = streamed(state, stream())
    told_meanwhile = SCANNER.tell(state)
    assert told_meanwhile.counts == Counts(events=7, tool_calls=1, errors=1)
    assert told_meanwhile.usage == Usage(50, 7)
    kept = conversation(
        instruction(), message("ActionRequest"), message("ActionResponse", is_error=True), response()
    )
    state = SCANNER.see(state, [kept])
    assert SCANNER.tell(state).counts == Counts(events=4, tool_calls=1, errors=1)
    state = streamed(state, [chunk("tool_use")])
    assert SCANNER.tell(state).counts.tool_calls == 2, "the next turn's"
    state = SCANNER.see(state, [run("completed")])
    assert SCANNER.tell(state).counts.tool_calls == 1, "what is kept is all there is at the end"


def test_a_killed_run_keeps_what_had_streamed_whichever_is_read_first() -> None:
    documents = [run(), conversation(instruction())]
    first = streamed(SCANNER.see(SCANNER.start("d"), documents), stream())
    last = SCANNER.see(streamed(SCANNER.start("d"), stream()), documents)
    assert SCANNER.tell(first) == SCANNER.tell(last)
    assert SCANNER.tell(last).counts == Counts(events=7, tool_calls=1, errors=1)
    assert SCANNER.tell(last).turn == "open"


def test_a_buffer_that_begins_anew_is_the_next_turns() -> None:
    state = streamed(streamed(SCANNER.start("d"), stream()), [chunk("text")])
    assert SCANNER.tell(state).counts == Counts(events=1)
    state = streamed(state, [chunk("tool_use")], first=2)
    assert SCANNER.tell(state).counts == Counts(events=2, tool_calls=1)


def test_an_error_of_the_provider_is_an_error_and_the_end_of_a_stream_is_none() -> None:
    lines = [chunk("error", content="400"), chunk("error", metadata={"benign_eos": True})]
    assert SCANNER.tell(streamed(SCANNER.start("d"), lines)).counts.errors == 1
    assert told(run(), conversation(response(error="400"))).counts.errors == 1


def test_cached_input_is_input_and_each_reply_counts() -> None:
    cached: JsonValue = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 200,
        "output_tokens": 5,
    }
    assert told(run(), conversation(response(cached), response())).usage == Usage(313, 25)
    assert told(run(), conversation(instruction())).usage is None


def test_a_directory_that_is_used_again_after_an_end_is_the_next_attempt() -> None:
    state = SCANNER.see(SCANNER.start("d"), [run("completed")])
    again = SCANNER.see(state, [run("running", started_at=2000.0)])
    assert (SCANNER.tell(again).attempt, SCANNER.tell(again).turns) == (2, 2)
    assert SCANNER.tell(again).started_at == 2000.0
    missed = SCANNER.see(state, [run("failed", started_at=2000.0)])
    assert SCANNER.tell(missed).attempt == 2, "its beginning was not seen, but it had one"
    corrected = SCANNER.see(state, [run("failed")])
    assert SCANNER.tell(corrected).attempt == 1, "another word for the same stretch"


def test_a_torn_file_is_waited_for_and_a_sub_agents_is_nobodys_business() -> None:
    torn = [document(RUN, b'{"run_id"'), *(document(f"branches/{name}.json", b"{") for name in (OWN, WORKER))]
    said = told(run(), *torn)
    assert [complaint.file for complaint in said.complaints] == [RUN, f"branches/{OWN}.json"]
    assert said.counts == Counts(subagents=1)
    assert told(run(), *torn, run(), conversation(instruction())).complaints == ()


def test_a_run_without_run_json_is_open_and_named_after_its_directory() -> None:
    said = told(conversation(instruction()))
    assert (said.session_id, said.turn, said.attempt) == ("dir-1", "open", 1)
    assert said.started_at == 1000.0
    assert told().turn == "none"


@pytest.mark.parametrize(
    "name",
    [
        "branches/.json",
        "branches/a/b.json",
        f"branches/{'x' * 81}.json",
        "branches/a.json.tmp",
        "checkpoint.json",
        "a.json",
    ],
)
def test_files_of_other_names_change_nothing(name: str) -> None:
    state = SCANNER.start("d")
    assert SCANNER.see(state, [document(name, branch(OWN, [instruction()]))]) == state
    assert SCANNER.feed(state, name, numbered(stream())) == (state, ())
    assert SCANNER.feed(state, BUFFER, []) == (state, ())


def test_the_state_of_a_big_flow_stays_small_and_has_the_runs_own_branch() -> None:
    many = [conversation(instruction("x" * 5000), branch_id=f"w{n:060}") for n in range(200)]
    state = SCANNER.see(SCANNER.start("d"), [run(), *many, conversation(instruction(), response())])
    said = SCANNER.tell(state)
    assert said.counts == Counts(events=2, subagents=MOST_BRANCHES)
    assert len(SCANNER.dump(state)) < 10_000


def test_what_was_never_written_here_is_refused() -> None:
    good = SCANNER.dump(SCANNER.start("d"))
    for text in ("", "{}", "[]", good.replace('"version":1', '"version":2'), good.replace("[]", "7")):
        with pytest.raises(ValueError, match=r".+"):
            SCANNER.load(text)


def test_the_recorded_run_completed(material: Path) -> None:
    directory = material / "samples" / "lionagi" / "run_completed"
    branches = [f"branches/{path.name}" for path in (directory / "branches").iterdir()]
    assert told(*recorded(directory, [RUN, *branches])) == Told(
        session_id="20261121T075401-0f5cc0",
        attempt=1,
        turn="closed",
        close=Close("completed", "run.completed.ok", "the run completed", 1795247642.325997),
        declared=True,
        headless=True,
        started_at=1795247641.4005554,
        moved_at=1795247642.325997,
        model="claude/sonnet",
        cwd="/home/dev/lapp",
        prompt="MOCK:OK hello",
        counts=Counts(events=2),
        usage=Usage(120, 20),
        turns=1,
    )
