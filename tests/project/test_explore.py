"""What fails under a new seed is printed with the command that plays it again."""

import sys
from itertools import count

import pytest
from tests.project.explore import Explored, sweep, sweeps_of_proofs

SECONDS = 1.5


def fails_from_the_third(seed: int) -> tuple[list[str], str]:
    program = f"import sys; print('seed {seed}'); sys.exit({seed} >= 13)"
    return [sys.executable, "-S", "-c", program], f"play {seed}"


def never_ends(seed: int) -> tuple[list[str], str]:
    return [sys.executable, "-S", "-c", "import time; time.sleep(1000)"], f"play {seed}"


def test_seeds_are_played_one_after_the_other_and_what_fails_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    explored = Explored(SECONDS)
    explored.all_of(count(11), fails_from_the_third)
    assert explored.played >= 3
    assert explored.found[0] == "play 13"
    assert len(explored.found) == explored.played - 2
    assert "seed 13\n\nFOUND, play it again: play 13\n" in capsys.readouterr().out


@pytest.mark.prove
def test_the_sweeps_of_kills_and_freezes_are_played_too() -> None:
    """Which it finds by their mark: a sample that CI takes is not among them."""
    found = sweeps_of_proofs()
    every = "tests/proof/test_kill_sweep.py::test_a_daemon_killed_at_every_single_point_leaves_what_an_undisturbed_one_leaves"
    assert f"{every}[chain runs-0-5]" in found
    files = {name.partition("::")[0].rpartition("/test_")[2] for name in found}
    assert {"kill_sweep.py", "killed_channels.py", "killed_economy.py", "frozen_writers.py"} <= files
    assert {"random_kills.py", "killed_anywhere.py", "silent_and_frozen.py"} <= files
    assert not [name for name in found if "may_be_killed_at_some_points" in name]
    assert sweep(found[0])[0][-1] == found[0]


def test_what_is_not_over_in_time_is_interrupted_and_found_nothing() -> None:
    explored = Explored(0.2)
    explored.all_of(count(1), never_ends)
    assert (explored.played, explored.found) == (0, [])
