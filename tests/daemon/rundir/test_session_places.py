"""Where sessions lie under a root, on a real file system."""

import os
import time
from pathlib import Path

import pytest
from tests.daemon.rundir.looking_on import append
from tests.handlers.layouts.tiny import layouts

from runward.daemon.rundir import session_places
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import Listing
from runward.daemon.rundir.session_places import list_places, place_signature
from runward.handlers.layouts.places import LEVELS, Shape, shape_of
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.model.files import Unreadable

CLAUDE, CODEX = (shape_of(LAYOUTS.named(each)) for each in ("claude-code", "codex"))
DIRECTORY = shape_of(layouts().directories[0])


def listed(root: Path, shape: Shape) -> Listing:
    listing = list_places(str(root), shape)
    assert isinstance(listing, Listing)
    return listing


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}\n")
    return path


def test_sessions_are_listed_and_what_belongs_to_them_is_not(tmp_path: Path) -> None:
    for name in (
        "p/a.jsonl",
        "p/a/subagents/agent-1.jsonl",
        "p/a/deep/b.jsonl",
        "p/gone/subagents/agent-2.jsonl",
        "p/agent-3.jsonl",
        "p/.hidden.jsonl",
        ".git/x.jsonl",
        "q/c.jsonl.zst",
        "d.jsonl",
        "d.txt",
    ):
        put(tmp_path / name)
    (tmp_path / "p/link.jsonl").symlink_to(tmp_path / "d.jsonl")
    (tmp_path / "linked").symlink_to(tmp_path / "q")
    os.mkfifo(tmp_path / "p/pipe.jsonl")
    listing = listed(tmp_path, CLAUDE)
    assert sorted(listing.directories) == ["d.jsonl", "p/a.jsonl", "q/c.jsonl"]
    assert (listing.unusable, listing.unlisted) == ((), ())
    for place, found in listing.directories.items():
        assert CLAUDE.place_of(place) == place
        assert place_signature(str(tmp_path), place, CLAUDE) == found


def test_of_a_plain_and_a_packed_log_the_plain_one_is_the_place(tmp_path: Path) -> None:
    for number in range(20):  # in whatever order they are listed
        for name in (f"{number}.jsonl", f"{number}.jsonl.zst")[:: 1 if number % 2 else -1]:
            put(tmp_path / name)
    for place, found in listed(tmp_path, CODEX).directories.items():
        assert found[0] == (tmp_path / place).stat().st_ino == (place_of(tmp_path, place))
    (tmp_path / "3.jsonl").unlink()
    packed = (tmp_path / "3.jsonl.zst").stat().st_ino
    assert listed(tmp_path, CODEX).directories["3.jsonl"][0] == packed == place_of(tmp_path, "3.jsonl")


def place_of(root: Path, place: str) -> int:
    """The inode of what stands at a place."""
    found = place_signature(str(root), place, CODEX)
    assert found is not None
    return found[0]


def test_a_root_is_looked_through_six_levels_deep(tmp_path: Path) -> None:
    for depth in range(LEVELS + 3):
        put(tmp_path / ("d/" * depth + "a.jsonl"))
    assert max(place.count("/") for place in listed(tmp_path, CODEX).directories) == LEVELS


def test_no_more_entries_are_looked_at_than_a_bound_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        put(tmp_path / f"p/{number}.jsonl")
    monkeypatch.setattr(session_places, "MOST_ENTRIES", 5)
    listing = listed(tmp_path, CLAUDE)
    assert (len(listing.directories), listing.unlisted) == (4, ("p",))


def test_names_that_are_no_text_are_told_apart(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/p\xff")
    put(tmp_path / "p\udcff/a.jsonl")
    assert listed(tmp_path, CLAUDE) == Listing({}, ("p\\udcff/a.jsonl",))
    assert listed(tmp_path, DIRECTORY) == Listing({}, ("p\\udcff",))


@pytest.mark.parametrize("shape", [CLAUDE, DIRECTORY], ids=["logs", "directories"])
def test_a_root_that_is_not_there_is_gone(tmp_path: Path, shape: Shape) -> None:
    assert list_places(str(tmp_path / "nowhere"), shape) == Gone()
    assert place_signature(str(tmp_path / "nowhere"), "a", shape) is None
    assert place_signature(str(tmp_path), "p/a", shape) is None
    (tmp_path / "root").symlink_to(tmp_path)
    assert isinstance(list_places(str(tmp_path / "root"), shape), Listing)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
def test_a_directory_that_cannot_be_listed_is_said(tmp_path: Path) -> None:
    put(tmp_path / "p/a.jsonl")
    put(tmp_path / "b.jsonl")
    (tmp_path / "p").chmod(0)
    try:
        listing = listed(tmp_path, CLAUDE)
        assert (list(listing.directories), listing.unlisted) == (["b.jsonl"], ("p",))
        assert isinstance(list_places(str(tmp_path / "p"), CLAUDE), Unreadable)
    finally:
        (tmp_path / "p").chmod(0o700)


def test_a_directory_that_the_system_refuses_to_list_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "p/a.jsonl")
    put(tmp_path / "b.jsonl")
    inode, scandir = (tmp_path / "p").stat().st_ino, os.scandir

    def refuse(within: int) -> object:
        if os.fstat(within).st_ino == inode:
            raise PermissionError(13, "Permission denied")
        return scandir(within)

    monkeypatch.setattr(os, "scandir", refuse)
    listing = listed(tmp_path, CLAUDE)
    assert (list(listing.directories), listing.unlisted) == (["b.jsonl"], ("p",))
    assert list_places(str(tmp_path / "p"), CLAUDE) == Unreadable("Permission denied")


def test_whatever_tells_of_a_session_changes_its_directorys_signature(tmp_path: Path) -> None:
    put(tmp_path / "run/events.jsonl")
    put(tmp_path / "run/inner/status.json")
    put(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert list(listed(tmp_path, DIRECTORY).directories) == ["run"]
    seen = [listed(tmp_path, DIRECTORY).directories["run"]]
    changed = ("run", "run/events.jsonl", "run/inner", "run/inner/status.json")
    for number, name in enumerate(changed):
        os.utime(tmp_path / name, (2e9 + number, 2e9 + number))
        seen.append(listed(tmp_path, DIRECTORY).directories["run"])
    append(tmp_path / "run/events.jsonl", b"{}\n")
    seen.append(listed(tmp_path, DIRECTORY).directories["run"])
    assert len(set(seen)) == 6
    assert place_signature(str(tmp_path), "run", DIRECTORY) == seen[-1]
    assert place_signature(str(tmp_path), "link", DIRECTORY) is None


def test_ten_thousand_logs_are_listed_in_less_than_half_a_second(tmp_path: Path) -> None:
    for directory in range(100):
        (tmp_path / str(directory)).mkdir()
        for number in range(100):
            os.close(os.open(tmp_path / f"{directory}/{number}.jsonl", os.O_CREAT | os.O_WRONLY))
    before = time.process_time()
    assert len(listed(tmp_path, CODEX).directories) == 10_000
    assert time.process_time() - before < 0.5


def test_sessions_two_levels_below_the_root_are_listed_with_the_signatures_of_their_places(
    tmp_path: Path,
) -> None:
    kimi = shape_of(LAYOUTS.named("kimi"))
    for place in ("wd_a/session_1", "wd_a/session_2", "wd_b/session_3", "wd_b/.session", ".wd/session_4"):
        log = tmp_path / place / "agents/main/wire.jsonl"
        log.parent.mkdir(parents=True)
        log.write_text("{}\n")
    found = list_places(str(tmp_path), kimi)
    assert isinstance(found, Listing)
    assert sorted(found.directories) == ["wd_a/session_1", "wd_a/session_2", "wd_b/session_3"]
    assert found.directories == {
        each: place_signature(str(tmp_path), each, kimi) for each in found.directories
    }


@pytest.mark.parametrize(
    ("layout", "log"),
    [
        ("claude-code", "work/{}.jsonl"),
        ("kimi", "wd_a/{}/agents/main/wire.jsonl"),
        ("copilot", "{}/events.jsonl"),
    ],
)
def test_a_place_that_nobody_asks_about_is_there_without_a_signature(
    tmp_path: Path, layout: str, log: str
) -> None:
    shape = shape_of(LAYOUTS.named(layout))
    for name in ("session_a", "session_b"):
        put(tmp_path / log.format(name)).write_text("{}\n")
    everything = listed(tmp_path, shape)
    one, other = sorted(everything.directories)
    found = list_places(str(tmp_path), shape, lambda place: place == one)
    assert isinstance(found, Listing)
    assert found.directories == {one: everything.directories[one]}
    assert found.left_out == {other}
