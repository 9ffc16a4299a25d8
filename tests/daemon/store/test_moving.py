"""Where a path is after directories were moved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.store.moving import Moves, asked, common_move

HOME = Moves((("/home/a", "/home/b"), ("/home/a/work", "/srv/work"), ("/x", "/home/a")))


@pytest.mark.parametrize(
    ("path", "now"),
    [
        ("/home/a", "/home/b"),
        ("/home/a/.claude", "/home/b/.claude"),
        ("/home/ab", "/home/ab"),
        ("/home/ab/a", "/home/ab/a"),
        ("/home/a/work", "/srv/work"),
        ("/home/a/work/app", "/srv/work/app"),
        ("/home/a/works", "/home/b/works"),
        ("/x/y", "/home/a/y"),
        ("/home", "/home"),
        ("home/a", "home/a"),
        ("sessions/home/a", "sessions/home/a"),
        ("look into /home/a", "look into /home/a"),
        ("/home/a look", "/home/a look"),
        ("", ""),
    ],
)
def test_the_innermost_old_directory_counts_and_each_path_is_moved_once(path: str, now: str) -> None:
    assert HOME.path(path) == now


def test_in_json_only_values_that_are_paths_are_moved() -> None:
    text = '{"cwd":"/home/a/app","words":["ls /home/a","/home/a"],"/home/a":1,"name":"/home/ab"}'
    moved = '{"cwd":"/home/b/app","words":["ls /home/a","/home/b"],"/home/a":1,"name":"/home/ab"}'
    assert HOME.in_json(text) == moved
    kept = '{ "a" : "/home/ab", "b": "in /home/a" }'
    assert HOME.in_json(kept) is kept


_NAMES = st.sampled_from(("a", "ab", "b"))
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


@given(st.dictionaries(_PATHS, _PATHS, max_size=4), _PATHS)
def test_moves_are_what_a_walk_up_the_tree_finds(pairs: dict[str, str], path: str) -> None:
    names, rest = path.split("/"), list[str]()
    while len(names) > 1 and "/".join(names) not in pairs:
        rest.insert(0, names.pop())
    found = pairs.get("/".join(names))
    expected = path if found is None else "/".join([found, *rest])
    assert Moves(tuple(pairs.items())).path(path) == expected


def test_what_is_asked_is_read_with_or_without_slashes_at_the_ends() -> None:
    assert [*asked(("/a=/b", "/c//d/=/e/"))] == [("/a", "/b"), ("/c/d", "/e")]


@pytest.mark.parametrize(
    "text", ["", "/a", "/a=", "=/a", "a=/b", "/a=b", "/=/b", "/a=/", "/a/../b=/c", "/a=/b/."]
)
def test_what_is_no_pair_of_absolute_paths_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        list(asked((text,)))


def test_one_directory_is_moved_to_one_place() -> None:
    with pytest.raises(ValueError, match="moved twice"):
        list(asked(("/a=/b", "/a/=/c")))


@pytest.mark.parametrize(
    ("old", "new", "move"),
    [
        ("/home/a/.local/state/runward", "/home/b/.local/state/runward", ("/home/a", "/home/b")),
        ("/home/a/state", "/srv/data/state", ("/home/a", "/srv/data")),
        ("/var/lib/runward", "/var/lib/other", None),
        ("/a/b", "/a/b", None),
        ("/a", "/x/a", None),
    ],
)
def test_where_a_directory_went_is_guessed_from_the_names_that_stayed(
    old: str, new: str, move: tuple[str, str] | None
) -> None:
    assert common_move(old, new) == move
