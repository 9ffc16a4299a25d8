"""Whatever a check runs into, there is an answer in time."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.daemon.doctor.examined import installation

from runward.daemon.doctor import checks
from runward.daemon.doctor.checks import CHECKS, Check, Examine, carry_out
from runward.daemon.doctor.findings import Finding, Installation, OutOfTime, Patience


def raising(error: Exception) -> Examine:
    def examine(examined: Installation, patience: Patience) -> Iterator[Finding]:
        yield Finding("ok", "before")
        raise error

    return examine


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "/root/x"), "/root/x: Permission denied"),
        (OSError("odd"), "odd"),
        (OutOfTime(), "no answer within 60 s, while things are tried"),
        (KeyError("key"), "the check itself failed: KeyError: 'key'"),
    ],
)
def test_what_a_check_raises_is_a_finding_beside_what_it_found_before(
    tmp_path: Path, error: Exception, said: str
) -> None:
    found = carry_out(Check("x", "things are tried", 60, raising(error)), installation(tmp_path))
    assert [(each.result, each.message) for each in found] == [("ok", "before"), ("failed", said)]
    assert found[1].fix


def patient(wait: Callable[[Patience], object]) -> Examine:
    def examine(examined: Installation, patience: Patience) -> Iterator[Finding]:
        yield Finding("ok", "before")
        wait(patience)

    return examine


def test_a_check_that_looks_at_the_time_ends_with_it(tmp_path: Path) -> None:
    check = Check("x", "waiting", 0.05, patient(lambda patience: patience.pause(1000)))
    assert [each.result for each in carry_out(check, installation(tmp_path))] == ["ok", "failed"]


def test_a_check_that_hangs_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "AFTERWARDS_S", 0.05)
    free = threading.Event()
    check = Check("x", "a dead disk is asked", 0.05, patient(lambda patience: free.wait()))
    try:
        found = carry_out(check, installation(tmp_path))
        assert [each.result for each in found] == ["ok", "failed"]
        assert found[1].message == "no answer within 0.05 s, while a dead disk is asked"
    finally:
        free.set()


def test_no_check_has_the_name_of_another() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.limit_s > 0 for check in CHECKS)


def test_a_scratch_directory_is_gone_afterwards_and_lies_where_the_state_would(tmp_path: Path) -> None:
    with installation(tmp_path / "not" / "yet").scratch() as scratch:
        assert scratch.parent == tmp_path
        (scratch / "file").touch()
    assert list(tmp_path.iterdir()) == []
