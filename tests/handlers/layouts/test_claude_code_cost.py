"""What a session of Claude Code cost is what its account says, unless a process was killed that is not in it.

A fork's is what its account has beyond the one that it began with, if it is certain which one that was.
"""

from collections.abc import Iterable, Sequence

import pytest
from tests.handlers.layouts.claude_code_lines import BEGAN, MODEL, PARENT, SESSION, Transcript
from tests.handlers.layouts.placed import placed

from runward.config.json_value import JsonValue
from runward.handlers.calls import Paid
from runward.handlers.layouts.claude_code import CALLS

NAME = f"{SESSION}.jsonl"


def account(
    log: Transcript, usd: float, replies: int, began: float, lasted: float, **more: JsonValue
) -> None:
    """What a process writes at its end. Each reply of `Transcript` makes 20 tokens."""
    used: JsonValue = {MODEL: {"inputTokens": 100 * replies, "outputTokens": 20 * replies}}
    times: dict[str, JsonValue] = {"startTime": int(began * 1000), "totalDuration": int(lasted * 1000)}
    log.note("cost-state", totalCostUSD=usd, modelUsage=used, **times, **more)


def answered(log: Transcript) -> Transcript:
    log.prompt("go")
    log.text("Done.")
    return log


def origin() -> Transcript:
    """A session of one reply, over within ten seconds."""
    log = answered(Transcript(session=PARENT))
    account(log, 0.25, 1, BEGAN - 1, log.now - BEGAN + 1)
    return log


def fork(
    at: float,
    *,
    usd: float = 1.0,
    replies: int = 2,
    began: float = BEGAN - 1,
    lasted: float = 20,
    copied: int = 1,
) -> Transcript:
    """A session that copied the origin's replies, and was asked for one more then."""
    log = Transcript(entrypoint="cli")
    for _ in range(copied):
        log.prompt("go")
        log.text("Done.", requestSessionId=PARENT)
    log.now = at
    answered(log)
    account(log, usd, replies, began, lasted)
    return log


def paid(log: Transcript, beside: Sequence[bytes] = ()) -> list[float | None]:
    """What each account added, where the origin's log has these lines."""
    asked: list[str] = []

    def lines_beside(name: str) -> Iterable[bytes]:
        asked.append(name)
        return beside

    found = list(CALLS.start(NAME, lines_beside).take(NAME, placed(log.lines)))
    assert asked in ([], [f"{PARENT}.jsonl"])
    return [each.usd for each in found if isinstance(each, Paid)]


def test_what_its_origin_had_cost_is_subtracted() -> None:
    log = fork(BEGAN + 60)
    assert paid(log, origin().lines) == [0.75]
    answered(log)
    account(log, 1.5, 3, BEGAN - 1, 40)
    assert paid(log, origin().lines) == [0.75, 0.5], "and what its next process adds is its own"


def test_what_its_origin_cost_later_is_not_subtracted() -> None:
    log = origin()
    log.now = BEGAN + 100
    answered(log)
    account(log, 0.75, 2, BEGAN - 1, 20)
    assert paid(fork(BEGAN + 60), log.lines) == [0.75]
    assert paid(fork(BEGAN + 200, replies=3, copied=2), log.lines) == [0.25], "that of a later fork is"


@pytest.mark.parametrize(
    "beside", [[], [b"torn"], [b"[]"], origin().lines[:-1]], ids=["gone", "torn", "other", "none"]
)
def test_without_its_origin_s_account_it_is_not_known(beside: Sequence[bytes]) -> None:
    log = fork(BEGAN + 60)
    answered(log)
    account(log, 1.5, 3, BEGAN - 1, 40)
    assert paid(log, beside) == [None, 0.5], "what its next process adds is known"


def test_an_origin_that_may_have_ended_later_leaves_it_unknown() -> None:
    log = answered(Transcript(session=PARENT))
    account(log, 0.25, 1, BEGAN - 1, 100)
    assert paid(fork(BEGAN + 60, lasted=150), log.lines) == [None]
    log.now = BEGAN + 50
    log.prompt("go on")
    assert paid(fork(BEGAN + 60, lasted=150), log.lines) == [0.75], "unless a record that follows is older"


def test_an_account_that_does_not_go_on_with_the_origin_s_leaves_it_unknown() -> None:
    assert paid(fork(BEGAN + 60, began=BEGAN - 500), origin().lines) == [None], "another process began it"
    assert paid(fork(BEGAN + 60, usd=0.1), origin().lines) == [None], "it has less"
    assert paid(fork(BEGAN + 60, replies=1), origin().lines) == [None], "it has no room for both replies"


def test_a_fork_of_a_session_without_an_account_has_begun_its_own() -> None:
    assert paid(fork(BEGAN + 60, began=BEGAN + 58, replies=1)) == [1.0]


def test_a_branch_that_a_running_process_made_is_not_known() -> None:
    log = Transcript(entrypoint="cli")
    log.prompt("go", forkedFrom={"sessionId": PARENT})
    log.text("Done.", requestSessionId=PARENT, forkedFrom={"sessionId": PARENT})
    log.now = BEGAN + 60
    answered(log)
    account(log, 1, 2, BEGAN - 1, 20)
    assert paid(log, origin().lines) == [None]


def test_a_model_whose_price_claude_code_guesses_leaves_it_unknown() -> None:
    log = answered(Transcript())
    account(log, 0.25, 1, BEGAN - 1, 5, hasUnknownModelCost=True)
    assert paid(log) == [None]
    log = answered(Transcript())
    account(log, 0.25, 1, BEGAN - 1, 5, hasUnknownModelCost=False)
    assert paid(log) == [0.25]


def called(log: Transcript) -> Transcript:
    log.prompt("go")
    log.result(log.call())
    return log


def test_a_session_whose_first_process_was_killed_is_not_known() -> None:
    log = answered(Transcript())
    log.now += 60
    answered(log)
    account(log, 0.5, 1, BEGAN + 50, 20)
    assert paid(log) == [None]
    log = answered(Transcript())
    log.now += 60
    answered(log)
    account(log, 0.5, 2, BEGAN - 1, 80)
    assert paid(log) == [0.5], "one process did both"


def test_a_session_of_which_a_later_process_was_killed_is_not_known() -> None:
    log = called(Transcript())
    account(log, 0.5, 1, BEGAN - 1, 20)
    log.now += 60
    called(log)  # and killed
    log.now += 60
    called(log)
    account(log, 0.75, 2, BEGAN - 1, 40)
    assert paid(log) == [0.5, None]
    log = called(Transcript())
    account(log, 0.5, 1, BEGAN - 1, 20)
    log.now += 60
    called(log)
    account(log, 0.75, 2, BEGAN - 1, 40)
    assert paid(log) == [0.5, 0.25], "none was killed"


def test_a_reply_that_is_written_twice_was_made_once() -> None:
    log = called(Transcript())
    log.lines[-2:-2] = [log.lines[-2]]
    account(log, 0.5, 1, BEGAN - 1, 20)
    assert paid(log) == [0.5]
