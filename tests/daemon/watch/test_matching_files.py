"""Which files a glob matches on a real disk, and what is too much for it."""

import os
from pathlib import Path

import pytest

from runward.daemon.parts import changed_files
from runward.daemon.parts.changed_files import matching

FILES = ("a.md", "b.txt", "sub/c.md", "sub/deep/d.md", ".hidden.md", "sub/e.md/inside.md")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for each in FILES:
        path = tmp_path / each
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(each)
    return tmp_path


def found(place: Path, glob: str) -> list[str]:
    return sorted(os.path.relpath(each, place) for each in matching(f"{place}/{glob}").files)


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("a.md", ["a.md"]),
        ("*.md", [".hidden.md", "a.md"]),
        ("**/*.md", [".hidden.md", "a.md", "sub/c.md", "sub/deep/d.md", "sub/e.md/inside.md"]),
        ("sub/*", ["sub/c.md"]),
        ("*/*.md", ["sub/c.md"]),
        ("sub/**", ["sub/c.md", "sub/deep/d.md", "sub/e.md/inside.md"]),
        ("**/deep/*", ["sub/deep/d.md"]),
        ("sub/**/d.md", ["sub/deep/d.md"]),
        ("?.txt", ["b.txt"]),
        ("none/*", []),
        ("a.md/x", []),
    ],
)
def test_a_glob_matches_regular_files_name_by_name(place: Path, glob: str, files: list[str]) -> None:
    assert found(place, glob) == files
    assert matching(f"{place}/{glob}").problem is None


def test_only_directories_that_may_hold_a_match_are_looked_into(place: Path) -> None:
    assert matching(f"{place}/*.md").directories == [str(place)]
    assert matching(f"{place}/sub/*/d.md").directories == [
        f"{place}/sub",
        f"{place}/sub/e.md",
        f"{place}/sub/deep",
    ]


def test_where_a_directory_is_missing_the_one_above_it_is_watched(place: Path) -> None:
    assert matching(f"{place}/none/at/all/*.md").directories == [str(place)]


def test_no_link_is_followed_and_nothing_but_regular_files_counts(place: Path) -> None:
    os.symlink(place / "a.md", place / "link.md")
    os.symlink(place / "sub", place / "linked")
    os.mkfifo(place / "fifo.md")
    assert found(place, "*.md") == [".hidden.md", "a.md"]
    assert not [each for each in found(place, "**") if "link" in each]
    assert found(place, "*/c.md") == ["sub/c.md"]
    assert found(place, "linked/c.md") == ["linked/c.md"], "the operator wrote it out"


@pytest.mark.parametrize(
    ("bound", "said"),
    [("MOST_FILES", "matches more than 2 files, such as "), ("MOST_DIRECTORIES", "covers more than 2")],
)
def test_a_glob_that_matches_too_much_is_not_watched_at_all(
    place: Path, monkeypatch: pytest.MonkeyPatch, bound: str, said: str
) -> None:
    monkeypatch.setattr(changed_files, bound, 2)
    found = matching(f"{place}/**")
    assert (found.files, found.problem is not None and said in found.problem) == ({}, True)


def test_a_name_that_is_no_text_is_left_out(place: Path) -> None:
    Path(os.fsdecode(bytes(place) + b"/\xff.md")).write_text("x")
    assert found(place, "*.md") == [".hidden.md", "a.md"]
