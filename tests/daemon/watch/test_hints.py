from runward.daemon.watch.hints import Hints, Target, Why

A, B, C = ("runs", "a"), ("runs", "b"), ("other", "a")


def test_a_directory_is_hinted_at_once_however_often_it_changed() -> None:
    hints = Hints(lambda: None)
    hints.add([A, B, A], Why.WATCH)
    hints.add([A], Why.SCAN)
    assert len(hints) == 2
    assert hints.take(10) == [(A, Why.WATCH | Why.SCAN), (B, Why.WATCH)]
    assert (len(hints), hints.take(10)) == (0, [])


def test_hints_are_taken_oldest_first_and_the_rest_wait() -> None:
    hints = Hints(lambda: None)
    hints.add([A, B, C], Why.WATCH)
    hints.add([A], Why.PROCESS)
    assert [target for target, _ in hints.take(2)] == [A, B]
    assert [target for target, _ in hints.take(2)] == [C]


def test_there_is_a_wake_whenever_something_waits() -> None:
    woken: list[int] = []
    hints = Hints(lambda: woken.append(1))
    nothing: list[Target] = []
    hints.add(nothing, Why.WATCH)
    assert woken == []
    hints.add([A], Why.WATCH)
    hints.add([A], Why.WATCH)
    assert len(woken) == 2
