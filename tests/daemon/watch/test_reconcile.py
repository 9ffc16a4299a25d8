"""The scan is the truth: what it finds different, over real directories."""

import os
from pathlib import Path

import pytest

from runward.config.root import Root
from runward.daemon.rundir.run_directories import UNTRUSTED, mark
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.watch.rounds import scan, settle
from runward.daemon.world.files import Files
from runward.handlers.model.files import Signature, signature_of

NOW = 1000.0


@pytest.fixture
def root(tmp_path: Path) -> WatchedRoot:
    (tmp_path / "runs").mkdir()
    return WatchedRoot(Root("runs", str(tmp_path / "runs"), "native"))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def make(root: WatchedRoot, *names: str) -> None:
    for name in names:
        Path(root.path, name).mkdir()


def found(files: Files, root: WatchedRoot, everything: bool = False) -> list[str]:
    return sorted(name for _, name in scan(files, root, everything, NOW).targets)


def trust(root: WatchedRoot, *names: str) -> None:
    for name in names:
        status = os.stat(Path(root.path, name))
        root.seen[name] = mark(signature_of(status))


def test_what_was_never_seen_is_found(files: Files, root: WatchedRoot) -> None:
    make(root, "a", "b", ".hidden")
    assert found(files, root) == ["a", "b"]


def test_what_is_as_it_was_seen_is_left_alone_unless_everything_is_asked_for(
    files: Files, root: WatchedRoot
) -> None:
    make(root, "a", "b")
    trust(root, "a", "b")
    assert found(files, root) == []
    assert found(files, root, everything=True) == ["a", "b"]


def test_what_changed_since_or_may_have_is_found(files: Files, root: WatchedRoot) -> None:
    make(root, "a", "b", "c")
    trust(root, "a", "b", "c")
    os.utime(Path(root.path, "a"), ns=(1, 1))
    root.seen["b"] = UNTRUSTED
    assert found(files, root) == ["a", "b"]


def test_what_is_gone_is_found_also_if_only_its_open_attempt_is_remembered(
    files: Files, root: WatchedRoot
) -> None:
    make(root, "a", "b")
    trust(root, "a")
    root.open["b"] = root.open["c"] = ()
    trust(root, "b")
    Path(root.path, "a").rmdir()
    assert found(files, root) == ["a", "c"]


def test_what_the_settings_ignore_is_ignored(files: Files, root: WatchedRoot) -> None:
    root.settings = root.settings._replace(ignore=("tmp-*", "B"))
    make(root, "tmp-1", "a", "b")
    assert found(files, root) == ["a", "b"]


def test_a_root_that_is_away_says_nothing_of_the_runs_inside_it(files: Files, root: WatchedRoot) -> None:
    root.seen["a"], root.open["a"] = 7, ()
    Path(root.path).rmdir()
    scanned = scan(files, root, True, NOW)
    assert scanned.targets == ()
    assert settle(scanned) == "the directory is not there"
    assert (root.health, root.seen) == ("missing", {"a": 7})


def test_a_complaint_about_a_root_is_made_once_and_taken_back(files: Files, root: WatchedRoot) -> None:
    assert settle(scan(files, root, False, NOW)) is None
    assert (root.health, root.problem) == ("ok", None)
    os.mkdir(os.fsencode(root.path) + b"/\xff")
    complaint = settle(scan(files, root, False, NOW))
    assert complaint is not None
    assert "not UTF-8" in complaint
    assert settle(scan(files, root, False, NOW)) is None
    os.rmdir(os.fsencode(root.path) + b"/\xff")
    assert settle(scan(files, root, False, NOW)) is None
    assert root.problem is None


def test_no_mark_of_a_directory_is_the_untrusted_one() -> None:
    assert UNTRUSTED not in {
        mark(Signature(inode, 4096, moment)) for inode in range(50) for moment in range(50)
    }
    assert mark(Signature(0, 0, 0)) != UNTRUSTED
