"""Where targets find their tests, and the order in which tests are dealt out to workers."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.project.repository import ROOT
from tests.scheduling import dealt, is_found


def pieces(tests: list[str], workers: int) -> list[list[str]]:
    """What each worker gets at first, by xdist's own rule."""
    found, pending = [], tests
    for left in range(workers, 0, -1):
        many = len(pending) // left
        found.append(pending[:many])
        pending = pending[many:]
    return found


@given(st.integers(0, 9), st.integers(0, 30), st.integers(30, 60), st.integers(1, 4))
def test_every_worker_begins_with_its_share_of_the_longest(
    longest: int, slow: int, quick: int, workers: int
) -> None:
    kinds = [
        [f"l{number}" for number in range(longest)],
        [f"s{number}" for number in range(slow)],
        [f"q{number}" for number in range(quick)],
    ]
    order = dealt(kinds[0], kinds[1], kinds[2], workers)
    assert sorted(order) == sorted(test for kind in kinds for test in kind)
    for piece in pieces(order, workers):
        letters = "".join(test[0] for test in piece)
        assert letters == "".join(sorted(letters, key="lsq".index))
        assert abs(letters.count("l") - longest / workers) < 1
        assert abs(letters.count("s") - slow / workers) <= 1


def test_a_mark_that_nobody_can_see_in_its_file_is_refused(tmp_path: Path) -> None:
    hidden, seen = tmp_path / "test_hidden.py", tmp_path / "test_seen.py"
    hidden.write_text("from tests.elsewhere import test_imported\n")
    seen.write_text("@pytest." + "mark.prove\n")
    assert not is_found("prove", hidden)
    assert is_found("prove", seen)
    assert not is_found("agents", seen)
    assert is_found("agents", ROOT / "tests/agents/test_live_mcp.py")
    targets = (ROOT / "Makefile").read_text()
    assert "grep -rl --include='test_*.py' 'mark\\.prove' tests" in targets
    assert '"agents and not sweep" tests/agents\n' in targets
