"""What git says of a session's directory, and that asking it runs nothing which the repository configures."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_for

from runward.daemon.rundir import work_tree
from runward.daemon.rundir.work_tree import work_tree_since
from runward.handlers.model.bundle import FileEdit

START = 1_700_000_000
"""When the session began."""


def git(tree: Path, *arguments: str, at: int = START) -> None:
    """Run git there, as somebody who commits at this time."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": f"@{at} +0000",
        "GIT_COMMITTER_DATE": f"@{at} +0000",
    }
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(("git", *who, *arguments), cwd=tree, env=environment, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A work tree with one commit from before the session."""
    made = tmp_path / "tree"
    made.mkdir()
    git(made, "init", "-q")
    (made / "kept.txt").write_text("one\ntwo\n")
    (made / "old.txt").write_text("one\n")
    git(made, "add", ".")
    git(made, "commit", "-qm", "before the session", at=START - 100)
    return made


def test_commits_and_changed_lines_since_the_start_are_told(tree: Path) -> None:
    (tree / "new.txt").write_text("1\n2\n3\n")
    (tree / "image").write_bytes(b"\0\1\2")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "first", at=START + 10)
    git(tree, "rm", "-q", "old.txt")
    git(tree, "commit", "-qm", "second", at=START + 20)
    (tree / "kept.txt").write_text("one\nTWO\n")
    (tree / "sub").mkdir()
    told = work_tree_since(str(tree / "sub"), START)
    assert told is not None
    assert told.commits == ("first", "second")
    assert set(told.files) == {
        FileEdit("new.txt", 3),
        FileEdit("image", None),
        FileEdit("old.txt", 1),
        FileEdit("kept.txt", 2),
    }


def test_files_that_git_does_not_track_are_told_if_they_were_made_since_the_start(tree: Path) -> None:
    (tree / ".gitignore").write_text("*.log\n")
    git(tree, "add", ".gitignore")
    git(tree, "commit", "-qm", "ignore", at=START - 50)
    (tree / "earlier").write_text("e")
    start = os.stat(tree / "earlier").st_ctime + 0.5
    told = work_tree_since(str(tree), start)
    assert told is not None
    assert (told.files, told.lacks_untracked) == ((), False)
    for name in ("made.py", "sub/ünïcode name", "made.log"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("x")
    (tree / "kept.txt").write_text("one\nTWO\n")

    def is_later() -> bool:
        (tree / "made.py").touch()
        return os.stat(tree / "made.py").st_ctime > start

    wait_for(is_later, "a time after the start")
    (tree / "sub/ünïcode name").touch()
    told = work_tree_since(str(tree), start)
    assert told is not None
    assert set(told.files) == {
        FileEdit("kept.txt", 2),
        FileEdit("made.py", None),
        FileEdit("sub/ünïcode name", None),
    }
    assert not told.lacks_untracked


def test_if_git_lists_too_many_untracked_files_the_rest_is_told(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "kept.txt").write_text("one\nTWO\n")
    run = work_tree._run

    def refusing(arguments: tuple[str, ...], *rest: Any) -> str:
        if arguments[0] == "ls-files":
            raise work_tree._NoAnswer
        return run(arguments, *rest)

    monkeypatch.setattr(work_tree, "_run", refusing)
    told = work_tree_since(str(tree), START)
    assert told is not None
    assert (told.files, told.lacks_untracked) == ((FileEdit("kept.txt", 2),), True)


def test_a_commit_in_the_second_of_the_start_is_told_of_by_the_time_of_its_file(tree: Path) -> None:
    start = time.time()
    for message in ("just before", "just after"):
        git(tree, "commit", "-q", "--allow-empty", "-m", message, at=int(start))
    before, after = commits_of(tree)[1::-1]
    objects = tree / ".git/objects"
    os.utime(objects / before[:2] / before[2:], (start - 0.2, start - 0.2))
    os.utime(objects / after[:2] / after[2:], (start + 0.2, start + 0.2))
    told = work_tree_since(str(tree), start)
    assert told is not None
    assert told.commits == ("just after",)
    git(tree, "gc", "-q")
    told = work_tree_since(str(tree), start)
    assert told is not None
    assert told.commits == tuple(
        f"{each} (in the second in which the session began)" for each in ("just before", "just after")
    ), "what is not known is said"


def commits_of(tree: Path) -> list[str]:
    """The ids of the commits, newest first."""
    return subprocess.check_output(("git", "rev-list", "HEAD"), cwd=tree, text=True).split()


def test_a_change_in_the_moment_of_the_index_is_found_by_the_time_of_the_index(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tree / ".git/index"
    os.utime(index, ns=(1, 1_700_000_000_123_456_789))
    run, times = work_tree._run, set()

    def running(arguments: tuple[str, ...], cwd: str, where: dict[str, str], deadline: float) -> str:
        if "GIT_DIR" in where:
            times.add(os.stat(f"{where['GIT_DIR']}/index").st_mtime_ns)
        return run(arguments, cwd, where, deadline)

    monkeypatch.setattr(work_tree, "_run", running)
    assert work_tree_since(str(tree), START) is not None
    assert times == {index.stat().st_mtime_ns}, (
        "git would take a file for unchanged that is as old as its copy"
    )


def test_a_file_that_was_only_touched_did_not_change(tree: Path) -> None:
    os.utime(tree / "kept.txt", (1, 1))
    told = work_tree_since(str(tree), START)
    assert told is not None
    assert (told.commits, told.files) == ((), ())


def test_a_repository_that_was_made_in_the_session_has_all_its_files(tree: Path) -> None:
    told = work_tree_since(str(tree), START - 1000)
    assert told is not None
    assert told.commits == ("before the session",)
    assert set(told.files) == {FileEdit("kept.txt", 2), FileEdit("old.txt", 1)}


def test_a_linked_work_tree_is_told_of_too(tree: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(tree, "worktree", "add", "-q", "--detach", str(linked))
    (linked / "kept.txt").write_text("")
    told = work_tree_since(str(linked), START)
    assert told is not None
    assert (told.top, told.files) == (str(linked), (FileEdit("kept.txt", 2),))


def test_a_directory_without_a_repository_tells_nothing(tmp_path: Path) -> None:
    assert work_tree_since(str(tmp_path), START) is None
    assert work_tree_since(str(tmp_path / "gone"), START) is None
    assert work_tree_since("not/absolute", START) is None


def test_a_broken_repository_tells_nothing(tree: Path) -> None:
    (tree / ".git" / "index").write_bytes(b"rubbish")
    assert work_tree_since(str(tree), START) is None
    (tree / ".git" / "index").unlink()
    os.mkfifo(tree / ".git" / "index")
    assert work_tree_since(str(tree), START) is None


def program(tmp_path: Path) -> tuple[Path, Path]:
    """A program that leaves a trace when it runs, and the trace."""
    trace = tmp_path / "trace"
    made = tmp_path / "program"
    made.write_text(f"#!/bin/sh\necho ran >> {trace}\ncat\n")
    made.chmod(0o700)
    return made, trace


def arm(tree: Path, runs: Path) -> None:
    """Have a repository run a program wherever git lets it."""
    for name in (
        *("core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "diff.external"),
        *("diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge"),
        *("filter.evil.process", "pager.diff", "pager.log", "gpg.program"),
    ):
        git(tree, "config", name, str(runs))
    git(tree, "config", "core.hooksPath", str(runs.parent / "hooks"))
    git(tree, "config", "log.showSignature", "true")
    hooks = runs.parent / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / hook).symlink_to(runs)
    (tree / ".gitattributes").write_text("* filter=evil diff=evil\n")


def test_a_repository_whose_configuration_runs_programs_runs_none(tree: Path, tmp_path: Path) -> None:
    runs, trace = program(tmp_path)
    (tree / "kept.txt").write_text("one\nTWO\n")
    git(tree, "commit", "-qam", "change", at=START + 10)
    (tree / "kept.txt").write_text("one\nthree\n")
    arm(tree, runs)
    told = work_tree_since(str(tree), START)
    assert told is not None
    assert told.commits == ("change",)
    assert FileEdit("kept.txt", 2) in told.files
    assert not trace.exists()
    subprocess.run(("git", "diff", "--no-ext-diff"), cwd=tree, check=False, capture_output=True)
    assert trace.exists(), "git itself runs them"


def test_git_that_takes_too_long_or_says_too_much_tells_nothing(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for script in ("exec sleep 60", "exec yes", "exec >&-; exec sleep 60"):
        (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "git").chmod(0o700)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(work_tree, "PATIENCE_S", 0.5)
        began = time.monotonic()
        assert work_tree_since(str(tree), START) is None
        assert time.monotonic() - began < 5
