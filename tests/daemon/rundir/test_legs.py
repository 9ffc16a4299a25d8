"""What tells that a leg worked before its plan, on a real file system: times that nobody can set, within bounds."""

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from runward.daemon.rundir import legs
from runward.daemon.rundir.legs import early_legs, filled_without
from runward.handlers.model.contracts import EarlyLegs, LegsBefore
from runward.handlers.model.files import Unreadable

ROOT_USER = os.geteuid() == 0
HOUR = 3600 * 10**9


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with an artifacts directory, beside a directory that isn't its own."""
    (tmp_path / "run" / "artifacts").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "old").write_text("not this run's")
    return tmp_path / "run"


def put(run: Path, path: str) -> Path:
    file = run / "artifacts" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("work")
    return file


def plan(run: Path) -> os.stat_result:
    """The plan, written a tick of the file system's clock after all that was before it."""
    path = run / "flow.json"
    path.write_text("{}")
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        path.write_text("{}")
    found = path.stat()
    while (run / ".tick").exists() is False or (run / ".tick").stat().st_ctime_ns == found.st_ctime_ns:
        (run / ".tick").write_text("")
    return found


def question(run: Path, planned: os.stat_result, *paths: str, within: bool = True) -> LegsBefore:
    root = str(run / "artifacts")
    return LegsBefore(root, str(run) if within else "", paths, planned.st_mtime_ns, planned.st_ctime_ns)


def early(run: Path, planned: os.stat_result, *paths: str) -> dict[str, str]:
    answer = early_legs(question(run, planned, *paths))
    assert isinstance(answer, EarlyLegs)
    return dict(answer.older)


def test_what_lay_there_before_the_plan_is_found_at_any_depth(run: Path) -> None:
    put(run, "one/review.md")
    put(run, "legs/two/a/b/c.md")
    planned = plan(run)
    put(run, "three/late.md")
    assert early(run, planned, "one", "legs/two", "three", "four") == {
        "one": "one/review.md",
        "legs/two": "legs/two/a/b/c.md",
    }


def test_directories_alone_and_what_lies_beside_are_no_work_of_a_leg(run: Path) -> None:
    (run / "artifacts/one/logs").mkdir(parents=True)
    put(run, "one.md")
    put(run, "one-more/x.md")
    put(run, "legs/index.md")
    assert early(run, plan(run), "one", "legs/two") == {}


def test_what_came_after_the_plan_counts_whatever_time_it_claims(run: Path) -> None:
    planned = plan(run)
    old = put(run, "one/unpacked.md")
    os.utime(old, ns=(1, 1))
    assert early(run, planned, "one") == {}


def test_what_was_written_before_and_claims_a_later_time_is_let_pass(run: Path) -> None:
    """So that a copy of a run, made in any order under the files' own times, is judged like the run itself."""
    copied = put(run, "one/review.md")
    later = time.time_ns() + HOUR
    os.utime(copied, ns=(later, later))
    assert early(run, plan(run), "one") == {}


def test_a_time_that_is_set_alike_everywhere_tells_nothing_and_the_order_of_changes_does(run: Path) -> None:
    before = put(run, "one/review.md")
    os.utime(before, ns=(5, 5))
    plan(run)
    os.utime(run / "flow.json", ns=(5, 5))
    planned = (run / "flow.json").stat()
    while put(run, "two/review.md").stat().st_ctime_ns == planned.st_ctime_ns:
        pass
    os.utime(run / "artifacts/two/review.md", ns=(5, 5))
    assert early(run, planned, "one", "two") == {"one": "one/review.md"}


def test_links_and_pipes_are_things_and_are_neither_followed_nor_opened(run: Path) -> None:
    (run / "artifacts/one").mkdir()
    (run / "artifacts/one/link").symlink_to(run.parent / "other")
    (run / "artifacts/two").mkdir()
    os.mkfifo(run / "artifacts/two/pipe")
    (run / "artifacts/three").symlink_to(run.parent / "other")
    (run / "artifacts/four").symlink_to("four")
    put(run, "five")
    assert early(run, plan(run), "one", "two", "three", "four", "five") == {
        "one": "one/link",
        "two": "two/pipe",
    }


def test_no_artifacts_are_no_early_work(run: Path) -> None:
    planned = plan(run)
    (run / "artifacts").rmdir()
    assert early(run, planned, "one") == {}
    (run / "artifacts").symlink_to(run.parent / "other")
    assert early(run, planned, ".") == {}
    for file in (".tick", "flow.json", "artifacts"):
        (run / file).unlink()
    run.rmdir()
    assert early(run, planned, "one") == {}


def test_while_the_root_is_away_nothing_is_known(run: Path) -> None:
    planned = plan(run)
    run.parent.rename(run.parent.with_name("away"))
    assert isinstance(early_legs(question(run, planned, "one")), Unreadable)
    run.parent.with_name("away").rename(run.parent)


def test_a_machine_that_refuses_is_no_empty_directory(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(run, "one/review.md")
    planned = plan(run)

    def broken(*unused: object) -> object:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("runward.daemon.rundir.legs.os.scandir", broken)
    assert early_legs(question(run, planned, "one")) == Unreadable("Input/output error")
    assert filled_without("no.json", str(run), str(run / "artifacts")) == ()


@pytest.mark.skipif(ROOT_USER, reason="nothing is denied to root")
def test_a_leg_that_cant_be_listed_is_not_held_against_it(run: Path) -> None:
    directory = put(run, "one/review.md").parent
    planned = plan(run)
    directory.chmod(0)
    try:
        assert early(run, planned, "one") == {}
    finally:
        directory.chmod(0o700)


def test_a_crowd_of_files_costs_a_bounded_look(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        put(run, f"one/{number}")
    looked = 0
    entries = os.scandir

    class Counted:
        def __init__(self, directory: int) -> None:
            self._entries = entries(directory)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *unused: object) -> None:
            self._entries.close()

        def __iter__(self) -> Iterator["os.DirEntry[str]"]:
            nonlocal looked
            for entry in self._entries:
                looked += 1
                yield entry

    planned = plan(run)
    after = (run / "flow.json").stat()
    monkeypatch.setattr(legs, "MAXIMUM_ENTRIES", 10)
    monkeypatch.setattr(legs, "LEAST_ENTRIES", 5)
    monkeypatch.setattr("runward.daemon.rundir.legs.os.scandir", Counted)
    old = LegsBefore(str(run / "artifacts"), str(run), ("one", "two"), 0, 0)
    assert early_legs(old) == EarlyLegs(())
    assert looked == 6
    assert early(run, planned, "one").keys() == {"one"}
    assert after.st_ino == planned.st_ino


def test_a_walk_goes_only_so_deep(run: Path) -> None:
    put(run, "/".join(["one", *"d" * legs.MAXIMUM_DEPTH, "seen"]))
    put(run, "/".join(["two", *"d" * (legs.MAXIMUM_DEPTH + 1), "unseen"]))
    assert early(run, plan(run), "one", "two").keys() == {"one"}


def test_a_name_that_is_no_text_is_shown_escaped(run: Path) -> None:
    directory = os.fsencode(run / "artifacts" / "one")
    os.mkdir(directory)
    with open(directory + b"/\xff", "w"):
        pass
    assert early(run, plan(run), "one") == {"one": "one/\\xff"}


def test_every_descriptor_is_closed_again(run: Path) -> None:
    put(run, "one/a/b")
    planned = plan(run)
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        early(run, planned, "one", "none")
        filled_without("no.json", str(run), str(run / "artifacts"))
    assert os.listdir("/proc/self/fd") == before


def test_a_flow_without_a_plan_is_known_by_the_directories_that_hold_something(run: Path) -> None:
    for path in ("top.md", "one/a", "one/b", "legs/two/c/d"):
        put(run, path)
    (run / "artifacts/empty").mkdir()
    assert filled_without("flow.json", str(run), str(run / "artifacts")) == ("legs/two/c", "one")


def test_once_there_is_a_plan_nothing_was_seen_without_it(run: Path) -> None:
    put(run, "one/a")
    plan(run)
    assert filled_without("flow.json", str(run), str(run / "artifacts")) == ()


def test_what_is_not_there_was_not_seen(run: Path) -> None:
    assert filled_without("flow.json", str(run), str(run / "elsewhere")) == ()
    assert filled_without("flow.json", str(run.parent / "none"), str(run.parent / "none/artifacts")) == ()
    assert filled_without("flow.json", "/none/at/all", "/none/at/all/artifacts") == ()


def test_artifacts_outside_the_run_directory_are_seen_too(run: Path) -> None:
    outside = run.parent / "out"
    (outside / "one").mkdir(parents=True)
    (outside / "one" / "a").write_text("work")
    assert filled_without("flow.json", str(run), str(outside)) == ("one",)


def test_directories_whose_names_are_no_text_are_nobodys_legs(run: Path) -> None:
    directory = os.fsencode(run / "artifacts") + b"/\xff"
    os.mkdir(directory)
    with open(directory + b"/a", "w"):
        pass
    assert filled_without("flow.json", str(run), str(run / "artifacts")) == ()
