"""A process is found by its number in a namespace below ours, and by nothing less."""

import shutil
from pathlib import Path

import pytest

from runward.daemon.processes.whereabouts import NotThere, number_of


def put(proc: Path, number: int, ticks: int, *numbers: int) -> None:
    (proc / str(number)).mkdir()
    fields = ["S", *["1"] * 18, str(ticks), *["0"] * 10]
    (proc / str(number) / "stat").write_text(f"{number} (a ) b) {' '.join(fields)}\n")
    status = "Name:\ta\nNSpid:\t" + "\t".join(str(each) for each in (number, *numbers)) + "\nThreads:\t1\n"
    (proc / str(number) / "status").write_text(status)


@pytest.fixture
def proc(tmp_path: Path) -> str:
    (tmp_path / "sys").mkdir()
    (tmp_path / "77").mkdir()  # it ended while it was looked at
    put(tmp_path, 1, 1)
    put(tmp_path, 2, 10)
    put(tmp_path, 300, 500, 2)
    put(tmp_path, 301, 501, 2)
    put(tmp_path, 400, 500, 30, 4)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("inner", "ticks", "number"), [(2, 500, 300), (2, 501, 301), (30, 500, 400), (4, 500, 400)]
)
def test_number_and_start_time_together_name_it(proc: str, inner: int, ticks: int, number: int) -> None:
    assert number_of(inner, ticks, proc=proc) == number


@pytest.mark.parametrize(("inner", "ticks"), [(2, 502), (3, 500), (2, 10), (300, 500)])
def test_nobody_else_is_taken_for_it(proc: str, inner: int, ticks: int) -> None:
    """Nor a process by its number in our own namespace: who asks has looked there."""
    assert number_of(inner, ticks, proc=proc) == NotThere(is_certain=True)


def test_without_a_start_time_the_number_alone_is_looked_for(proc: str) -> None:
    assert number_of(30, None, proc=proc) == 400
    assert number_of(31, None, proc=proc) == NotThere(is_certain=True)


def test_where_processes_are_hidden_it_is_not_certain_that_it_is_not_there(proc: str) -> None:
    shutil.rmtree(Path(proc) / "1")
    assert number_of(3, 500, proc=proc) == NotThere(is_certain=False)


def test_a_process_that_may_not_be_read_may_be_the_one(proc: str) -> None:
    (Path(proc) / "1/stat").unlink()
    (Path(proc) / "1/stat").mkdir()  # refused in another way, but refused
    assert number_of(3, 500, proc=proc) == NotThere(is_certain=False)
