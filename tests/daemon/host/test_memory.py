import ctypes
import weakref

import pytest

from runward.daemon.host.upkeep import giver_back, use_one_arena


def test_free_memory_is_given_back_by_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Library:
        malloc_trim = asked.append

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    giver_back()()
    assert asked == [0]


def test_values_in_a_cycle_are_collected_before() -> None:
    class Value:
        itself: object = None

    value = Value()
    value.itself = value
    left = weakref.ref(value)
    del value
    giver_back()()
    assert left() is None


def test_all_threads_take_memory_from_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Library:
        @staticmethod
        def mallopt(option: int, value: int) -> None:
            asked.append((option, value))

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    use_one_arena()
    assert asked == [(-8, 1)], "M_ARENA_MAX in malloc.h"


def test_a_c_library_that_knows_no_such_thing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def open_library(name: object) -> object:
        opened.append(name)
        return object()

    monkeypatch.setattr(ctypes, "CDLL", open_library)
    giver_back()()
    use_one_arena()
    assert opened == [None, None]
