"""Ids: whole, by any unique beginning, or `@last`."""

import pytest
from tests.daemon.cli.calling import Place


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("silent", "native:runs/silent"),
        ("si", "native:runs/silent"),
        ("native:runs/silent", "native:runs/silent"),
        ("native:runs/si", "native:runs/silent"),
        ("@last", "native:runs/plain"),
    ],
)
def test_an_id_may_be_shortened_to_any_unique_beginning(recorded: Place, text: str, key: str) -> None:
    assert recorded.call("session", "show", text, "--json").object()["key"] == key


def test_an_ambiguous_id_names_its_candidates_and_exits_2(recorded: Place) -> None:
    shown = recorded.call("session", "show", "c")
    assert shown.code == 2
    assert shown.err == "runward: 'c' is ambiguous: careless, crashed; write more of it, or the whole key\n"
    assert shown.out == ""


def test_a_whole_id_that_also_begins_another_is_no_doubt(place: Place) -> None:
    place.add_run("run", exit_code=0)
    place.add_run("run-2", exit_code=0)
    place.daemon_once()
    assert place.call("session", "show", "run", "--json").object()["session_id"] == "run"


def test_an_id_that_two_sessions_have_is_told_apart_by_their_keys(place: Place) -> None:
    for name in ("one", "two"):
        place.add_run(name, exit_code=0, session_id="same")
    place.daemon_once()
    shown = place.call("session", "show", "same")
    assert shown.code == 2
    assert "native:runs/one, native:runs/two" in shown.err
    assert place.call("session", "show", "native:runs/two", "--json").object()["key"] == "native:runs/two"


def test_an_unknown_id_names_the_nearest_and_exits_3(recorded: Place) -> None:
    shown = recorded.call("session", "show", "delivred")
    assert (shown.code, shown.err) == (
        3,
        "runward: there is no session 'delivred'; did you mean 'delivered'?\n",
    )


def test_an_empty_id_is_wrong_usage(recorded: Place) -> None:
    assert recorded.call("session", "show", "").code == 2


def test_the_last_of_nothing_is_not_found(place: Place) -> None:
    assert place.call("session", "show", "@last").code == 3
