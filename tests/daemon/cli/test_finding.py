"""Ids: whole, by any unique beginning, or `@last`."""

import sqlite3

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


UUIDS = (
    "0190a000-1111-4222-8333-4444000000aa",
    "0190a000-1111-4222-8333-4444000000bb",
    "0190a000-2222-4222-8333-4444000000bb",
)


@pytest.fixture
def with_uuids(place: Place) -> Place:
    for name in (*UUIDS, "000000aa-more", "4444beef"):
        place.add_run(name, exit_code=0)
    return place


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("text", ["…000000aa", "...000000aa", UUIDS[0]])
def test_a_uuid_is_named_by_its_last_eight_characters(
    with_uuids: Place, text: str, is_recorded: bool
) -> None:
    if is_recorded:
        with_uuids.daemon_once()
    assert with_uuids.call("session", "show", text, "--json").object()["session_id"] == UUIDS[0]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("000000bb", UUIDS[1:]),
        ("…000000bb", UUIDS[1:]),
        ("000000aa", (UUIDS[0], "000000aa-more")),
    ],
)
def test_ends_that_several_have_name_them_all(with_uuids: Place, text: str, named: tuple[str, ...]) -> None:
    with_uuids.daemon_once()
    shown = with_uuids.call("session", "show", text)
    assert shown.code == 2
    assert all(each in shown.err for each in named)


def test_an_exact_id_and_the_end_of_another_are_several_and_the_key_names_one(place: Place) -> None:
    for name in ("000000cc", "0190a000-1111-4222-8333-4444000000cc"):
        place.add_run(name, exit_code=0)
    place.daemon_once()
    assert place.call("why", "000000cc").code == 2
    assert (
        place.call("session", "show", "native:runs/000000cc", "--json").object()["session_id"] == "000000cc"
    )
    ended = place.call("session", "show", "…000000cc", "--json").object()["session_id"]
    assert ended == "0190a000-1111-4222-8333-4444000000cc"


def test_the_end_of_an_id_is_found_by_an_index(with_uuids: Place) -> None:
    with_uuids.daemon_once()
    with sqlite3.connect(with_uuids.state / "runward.db") as store:
        said = store.execute(
            "explain query plan select key from sessions where substr(session_id, -8) = ?"
            " and session_id glob '????????-????-????-????-????????????'",
            ("000000aa",),
        ).fetchall()
    assert "sessions_ending" in str(said)
