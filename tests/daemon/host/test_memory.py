import ctypes

import pytest

from runward.daemon.host.upkeep import giver_back


def test_free_memory_is_given_back_by_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Library:
        malloc_trim = asked.append

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    giver_back()()
    assert asked == [0]


def test_a_c_library_that_knows_no_such_thing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def open_library(name: object) -> object:
        opened.append(name)
        return object()

    monkeypatch.setattr(ctypes, "CDLL", open_library)
    giver_back()()
    assert opened == [None]
