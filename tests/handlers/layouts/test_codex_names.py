import pytest
from tests.handlers.layouts.codex_lines import NAME, PARENT, THREAD, turn_id

from runward.handlers.layouts.codex_records import lock_of, made_at, thread_of


@pytest.mark.parametrize(
    "name",
    [
        NAME,
        f"{NAME}.zst",
        f"sessions/2026/11/21/{NAME}",
        f"/home/dev/.codex/archived_sessions/{NAME}.zst",
        f"rollout-2026-11-21T08-37-55-{THREAD}_{PARENT}.jsonl",
    ],
)
def test_a_rollout_s_name_tells_its_thread_wherever_it_lies(name: str) -> None:
    assert thread_of(name) == THREAD


@pytest.mark.parametrize(
    "name",
    [
        "",
        f"{THREAD}.jsonl",
        f"rollout-{THREAD}.jsonl",
        f"rollout-2026-11-21T08-37-55-{THREAD}.json",
        f"rollout-2026-11-21T08-37-55-{THREAD}.jsonl.gz",
        f"rollout-2026-11-21T08-37-55-{THREAD[:-1]}.jsonl",
        f"rollout-2026-11-21T08-37-55-{THREAD}.jsonl\n",
        f"rollout-2026-11-21T08-37-55-../../{THREAD}.jsonl",
        f"rollout-٢٠٢٦-11-21T08-37-55-{THREAD}.jsonl",
    ],
)
def test_any_other_name_tells_none(name: str) -> None:
    assert thread_of(name) is None


def test_the_lock_of_a_thread() -> None:
    assert lock_of(THREAD) == f"thread-writer-locks/{THREAD}.lock"


@pytest.mark.parametrize(
    "thread", ["", "../x", f"{THREAD}/..", f"{THREAD}\n", THREAD.upper(), ".coordination"]
)
def test_what_is_no_thread_has_no_lock(thread: str) -> None:
    assert lock_of(thread) is None


def test_an_id_tells_when_it_was_made() -> None:
    made = made_at(THREAD)
    assert made == 1_795_246_675_175
    assert made_at(turn_id(1)) == made + 16


@pytest.mark.parametrize(
    "identifier", [None, "", "1", THREAD[:-1], THREAD.replace("-7", "-4", 1), THREAD + "\n"]
)
def test_another_id_tells_no_time(identifier: str | None) -> None:
    assert made_at(identifier) is None
