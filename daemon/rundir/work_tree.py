"""What git says about a session's directory, without running anything that its repository configures.

The repository is the agent's. Git works in an empty repository of Runward's, which borrows the objects and a copy of
the index of the real one. So no configuration of the repository applies while files are compared: no filter, hook,
external diff, text conversion or monitor exists. Submodules are left out. Time and output are bounded.
"""

import hashlib
import os
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.rundir.opening import REGULAR, opened
from runward.handlers.model.bundle import FileEdit, WorkTree

PATIENCE_S: Final = 5.0
"""Seconds that all questions about one directory may take."""

_MOST_SAID: Final = 1 << 20
_MOST_INDEX: Final = 64 << 20
_EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_SHA1: Final = 40
_MOST_OF_A_SECOND: Final = 64
"""Commits that are looked at to find the last one from before the session."""

_TICK_S: Final = 0.01
"""The kernel's time of a file may be this much behind the clock."""

GIT: Final = (
    *("git", "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "core.attributesFile=/dev/null"),
)  # fmt: skip
"""git without the hooks, the monitor and the attributes that a repository or a user may have configured."""
_DIFF: Final = ("diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
_STAGED: Final = (
    *("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none"),
)  # fmt: skip


class _NoAnswer(Exception):
    """Git doesn't answer, or exceeds the bounds."""


def work_tree_since(cwd: str, since: float) -> WorkTree | None:
    """What changed in the work tree around `cwd` since then; None if there is none, or git doesn't say."""
    if not _is_in_a_tree(cwd):
        return None
    deadline = time.monotonic() + PATIENCE_S
    try:
        return _asked(cwd, since, deadline)
    except (_NoAnswer, OSError):
        return None  # the summary is shorter then; nothing depends on it


class CheckedOut(NamedTuple):
    """The commit of a worktree, and a hash (SHA-256, hex) of what its index has in addition; None if nothing."""

    commit: str
    staged: str | None


def checked_out(worktree: str) -> CheckedOut | None:
    """What is checked out in a worktree; None if git doesn't say."""
    deadline = time.monotonic() + PATIENCE_S
    own = {
        "GIT_CEILING_DIRECTORIES": os.path.dirname(worktree)
    }  # a `.git` that was removed is not looked for above
    try:
        commit = _run(("rev-parse", "--verify", "HEAD^{commit}"), worktree, own, deadline).strip()
        staged = _run((*_STAGED, commit, "--"), worktree, own, deadline)
    except (_NoAnswer, OSError):
        return None
    return CheckedOut(commit, hashlib.sha256(staged.encode()).hexdigest() if staged else None)


def _asked(cwd: str, since: float, deadline: float) -> WorkTree:
    from runward.handlers.bundle import edits  # only bundles need it

    places = _run(("rev-parse", "--show-toplevel", "--absolute-git-dir", "HEAD"), cwd, {}, deadline)
    lines = places.split("\n")
    common = _run(("rev-parse", "--git-common-dir"), cwd, {}, deadline).rstrip("\n")
    if len(lines) != 4 or len(lines[2]) != _SHA1:
        raise _NoAnswer
    top, git_directory, commit = lines[:3]
    objects = os.path.join(cwd, common, "objects")
    with tempfile.TemporaryDirectory(prefix="runward-git-") as ours:
        _borrow(Path(ours), git_directory, commit)
        where = {"GIT_DIR": ours, "GIT_WORK_TREE": top, "GIT_OBJECT_DIRECTORY": objects}
        base, unsure = _base(top, where, since, deadline)
        log = (
            "log",
            "-z",
            "--format=%H %s",
            f"-{edits.MOST_COMMITS}",
            *([f"{base}..HEAD"] if base else ["HEAD"]),
        )
        commits = edits.subjects(_run(log, top, where, deadline), unsure)
        diff = (*_DIFF, "--ignore-submodules=all", base or _EMPTY_TREE, "--")
        files = edits.changed(_run(diff, top, where, deadline))
        try:
            made = _untracked(top, where, since, deadline)
        except _NoAnswer:
            return WorkTree(top, commits, files, lacks_untracked=True)
        return WorkTree(top, commits, (*files, *made)[: edits.MOST_FILES_OF_GIT])


def _base(top: str, where: dict[str, str], since: float, deadline: float) -> tuple[str, frozenset[str]]:
    """The last commit from before the session ("" if there is none), and those that may be from before or after its start.

    git knows only the second of a commit. For one in the second in which the session began, the time of its object's
    file decides, if it is a file of its own.
    """
    before = f"--before=@{int(since)}"
    log = ("log", "--first-parent", f"-{_MOST_OF_A_SECOND}", before, "--format=%H %ct", "HEAD")
    listed = [line.split() for line in _run(log, top, where, deadline).splitlines()]
    unsure: set[str] = set()
    for commit, at in listed:
        if int(at) < int(since):
            return commit, frozenset(unsure)
        try:
            made = os.lstat(f"{where['GIT_OBJECT_DIRECTORY']}/{commit[:2]}/{commit[2:]}").st_mtime
        except OSError:
            unsure.add(commit)
            continue
        if made < since:
            return commit, frozenset(unsure)
    is_cut = len(listed) == _MOST_OF_A_SECOND
    return listed[-1][0] if is_cut else "", frozenset(unsure)


def _untracked(top: str, where: dict[str, str], since: float, deadline: float) -> list[FileEdit]:
    """The files that git does not track or ignore, and that were made or changed since then."""
    from runward.handlers.bundle.edits import MOST_FILES_OF_GIT

    untracked: list[FileEdit] = []
    for path in _run(("ls-files", "--others", "--exclude-standard", "-z"), top, where, deadline).split("\0"):
        if path and len(untracked) < MOST_FILES_OF_GIT and _changed_since(f"{top}/{path}", since):
            untracked.append(FileEdit(path, None))
    return untracked


def _changed_since(path: str, since: float) -> bool:
    try:
        return os.lstat(path).st_ctime >= since - _TICK_S
    except (OSError, ValueError):
        return False


def _is_in_a_tree(cwd: str) -> bool:
    """Whether the directory or one above it has a `.git`. Most have none, and then git need not be started."""
    place = Path(cwd)
    return place.is_absolute() and any(os.path.lexists(each / ".git") for each in (place, *place.parents))


def _borrow(ours: Path, git_directory: str, commit: str) -> None:
    """Make our repository: empty, at the same commit, with a copy of the index."""
    (ours / "objects").mkdir()
    (ours / "refs").mkdir()
    (ours / "HEAD").write_text(commit + "\n")
    with opened(os.path.join(git_directory, "index"), REGULAR) as descriptor:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_INDEX:
            raise _NoAnswer
        with os.fdopen(os.dup(descriptor), "rb") as index:
            (ours / "index").write_bytes(index.read(_MOST_INDEX))
        # A file that changed at the moment the index was written has the index's time. Git reads such a file again,
        # and recognises it by the time of the index.
        os.utime(ours / "index", ns=(status.st_atime_ns, status.st_mtime_ns))


def _run(arguments: tuple[str, ...], cwd: str, where: dict[str, str], deadline: float) -> str:
    """Git's output. Raises `_NoAnswer` if it refuses, takes too long or prints too much."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise _NoAnswer
    process = subprocess.Popen(
        (*GIT, "-c", "core.bigFileThreshold=8m", *arguments),
        cwd=cwd,
        env=git_environment(where),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    timer = threading.Timer(left, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        output = process.stdout.read(_MOST_SAID + 1)
        if len(output) > _MOST_SAID:
            os.killpg(process.pid, signal.SIGKILL)
    finally:
        timer.cancel()
        timer.join()  # it does nothing once the process was waited for
        process.stdout.close()
        code = _end_of(process, deadline)
    if code != 0:
        raise _NoAnswer
    return output.decode(errors="replace")


def _end_of(process: subprocess.Popen[bytes], deadline: float) -> int:
    """The exit code of a process; one that exceeds the deadline is killed."""
    try:
        return process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def git_environment(where: Mapping[str, str]) -> dict[str, str]:
    """The environment for `GIT`: it reads no configuration of the machine or the user, fetches nothing and asks nobody."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        **where,
    }
