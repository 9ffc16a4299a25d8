from runward.daemon.watch.hints import LATER_AT_ONCE, PATIENT_TURNS, Hints, Target, Why

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


def test_the_backlog_is_taken_last_and_a_little_at_a_time() -> None:
    hints = Hints(lambda: None)
    many = [("home", str(number)) for number in range(LATER_AT_ONCE + 5)]
    hints.add_to_backlog(many, Why.START)
    hints.add([A], Why.WATCH)
    assert hints.take(256) == [(A, Why.WATCH)]
    assert hints.take(256) == [(target, Why.START) for target in many[:LATER_AT_ONCE]]
    assert (hints.backlog, len(hints)) == (5, 5)
    assert [target for target, _ in hints.take(3)] == many[LATER_AT_ONCE:-2]


def test_the_backlog_comes_on_though_something_else_always_waits() -> None:
    hints = Hints(lambda: None)
    hints.add_to_backlog([B], Why.START)
    for _ in range(PATIENT_TURNS):
        hints.add([A], Why.WATCH)
        assert hints.take(256) == [(A, Why.WATCH)]
    hints.add([A], Why.WATCH)
    assert hints.take(256) == [(A, Why.WATCH), (B, Why.START)]
    assert len(hints) == 0


def test_what_changes_leaves_the_backlog_and_what_waits_already_never_comes_to_it() -> None:
    hints = Hints(lambda: None)
    hints.add_to_backlog([A, B], Why.START)
    hints.add([B], Why.WATCH)
    hints.add_to_backlog([B], Why.SCAN)
    assert hints.take(10) == [(B, Why.START | Why.WATCH | Why.SCAN)]
    assert hints.take(10) == [(A, Why.START)]
