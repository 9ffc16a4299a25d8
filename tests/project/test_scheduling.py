"""The order in which tests are dealt out to workers."""

from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling import dealt


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
