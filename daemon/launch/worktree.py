"""A step's git worktree: made by its launcher before the command starts, removed by the daemon after the end.

git runs without hooks, without a monitor of the file system and without a terminal. Its time is bounded, and its caller may
cut it short. The content of a worktree is the agent's: it is not consulted when the worktree is removed.
"""

from __future__ import annotations

import os
import signal
import string
import time

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

WORKTREES = "worktrees"
"""The directory of worktrees in the state directory."""

PATIENCE = 120.0
"""Seconds that git may take to make a worktree, whatever it is asked for that, or to forget one."""

_PATIENCE_TO_REMOVE = 600.0
_PATIENCE_TO_DIE = 1.0
_GRACE = 5.0
"""Seconds in which git may remove what it had made, once it is told to end."""
_TURN = 0.05
"""Seconds between two looks whether git must end early."""
_LONGEST_STEP = 0.1
"""Seconds in which the kernel's time for files must have moved on."""
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_LONGEST_SAID = 1000
_LENGTHS_OF_COMMITS = (40, 64)


class GitFailed(Exception):
    """What git said, or why it could not be asked."""


class CutShort(Exception):
    """Git was ended because its caller said so."""


def place_of(state: str, name: str) -> str:
    """Where the worktree of the run of this name is."""
    return os.path.join(state, WORKTREES, name)


def make(repo: str, ref: str, path: str, must_end: Callable[[], bool] = lambda: False) -> None:
    """A separate checkout of `ref`, on no branch. Raises GitFailed, and CutShort soon after `must_end` says so."""
    give_up = time.monotonic() + PATIENCE
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    except OSError as error:
        raise GitFailed(f"{os.path.dirname(path)}: {error.strerror}") from None
    # What is checked out may be private.
    umask = os.umask(0o077)
    try:
        _run((*_GIT, "-C", repo, "worktree", "add", "--quiet", "--detach", path, ref), PATIENCE, must_end)
    except GitFailed as failure:
        raise GitFailed(_absent(repo, ref, give_up, must_end) or str(failure)) from None
    finally:
        os.umask(umask)
    from runward.daemon.processes.kernel import (
        file_time,  # the daemon, which only removes worktrees, does without ctypes
    )

    # What the command leaves here is known by its time. So what was checked out must be older than the launch, and the
    # times of files may go in steps of some milliseconds.
    checked_out, give_up = file_time(), time.monotonic() + _LONGEST_STEP
    while file_time() == checked_out and time.monotonic() < give_up:
        time.sleep(0.001)


def _absent(repo: str, ref: str, give_up: float, must_end: Callable[[], bool]) -> str | None:
    """What fetches the commit `ref` that the repository does not have. None if something else is the matter."""
    import shlex  # only for steps with a worktree that can't be made

    if len(ref) not in _LENGTHS_OF_COMMITS or not all(char in string.hexdigits for char in ref):
        return None

    def git(*words: str) -> str:
        return _run((*_GIT, "-C", repo, *words), max(0.0, give_up - time.monotonic()), must_end)

    try:
        remotes = git("remote").split()
    except GitFailed:
        return None
    try:
        git("cat-file", "-e", f"{ref}^{{commit}}")
    except GitFailed:
        remote = "origin" if "origin" in remotes or not remotes else remotes[0]
        fetch = f"git -C {shlex.quote(repo)} fetch {shlex.quote(remote)} {ref}"
        return f"{repo} does not have the commit {ref}: `{fetch}` brings it"
    return None


def remove(repo: str, path: str) -> str | None:
    """Remove a worktree that may be gone already. Returns what is left to do if its repository may still list it.

    Raises GitFailed where the directory can't be removed.
    """
    if os.path.lexists(path):
        try:
            _run(("rm", "-rf", "--", path), _PATIENCE_TO_REMOVE)
        except GitFailed:  # the agent may have removed its own rights
            _run(("chmod", "-R", "u+rwx", "--", path), _PATIENCE_TO_REMOVE)
            _run(("rm", "-rf", "--", path), _PATIENCE_TO_REMOVE)
    try:
        _run((*_GIT, "-C", repo, "worktree", "remove", "--force", "--force", path), PATIENCE)
    except GitFailed as failure:
        return _left_to_do(repo, path, failure)
    return None


def _left_to_do(repo: str, path: str, failure: GitFailed) -> str | None:
    """What a person can do if git did not forget a worktree. None if it had already forgotten it: before a crash, say."""
    places = {path, os.path.realpath(path)}
    prune = f"run `git -C {repo} worktree prune`"
    try:
        listed = _run((*_GIT, "-C", repo, "worktree", "list", "--porcelain"), PATIENCE)
    except GitFailed as unlisted:
        return f"its repository {repo} can't be asked to forget it; if that still exists, {prune} (git: {unlisted})"
    if any(line.removeprefix("worktree ") in places for line in listed.splitlines()):
        return f"its directory is removed, and its repository {repo} still lists it: {prune} (git: {failure})"
    return None


def _run(command: Sequence[str], patience: float, must_end: Callable[[], bool] = lambda: False) -> str:
    """What the program printed. Raises GitFailed with its message if it failed or took too long, and CutShort."""
    import subprocess  # only for steps with a worktree

    # Variables such as GIT_DIR would make git work in another repository.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**inherited, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
            # A launcher blocks the signals that it reads, and git would inherit that. It has one thread, and the daemon,
            # which has several, blocks none.
            preexec_fn=_hear_signals if signal.pthread_sigmask(signal.SIG_BLOCK, ()) else None,  # noqa: PLW1509
        )
    except OSError as error:
        raise GitFailed(f"{command[0]}: {error.strerror}") from None
    give_up = time.monotonic() + patience
    while True:
        try:
            printed, complaint = process.communicate(timeout=min(_TURN, max(0.0, give_up - time.monotonic())))
            break
        except subprocess.TimeoutExpired:
            if must_end():
                _end(process)
                raise CutShort from None
            if time.monotonic() >= give_up:
                _end(process)
                raise GitFailed(f"{command[0]} did not end within {patience:g} s") from None
    if process.returncode:
        text = complaint.decode(errors="replace").strip()
        raise GitFailed(text[-_LONGEST_SAID:] or f"{command[0]} ended with {process.returncode}")
    return os.fsdecode(printed)


def _hear_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with its group; it may first remove what it has half made."""
    from subprocess import TimeoutExpired

    os.killpg(process.pid, signal.SIGTERM)
    give_up = time.monotonic() + _GRACE
    # Only looked at: until it is waited for, its number and that of its group are nobody else's.
    look = os.WEXITED | os.WNOWAIT | os.WNOHANG
    while os.waitid(os.P_PID, process.pid, look) is None and time.monotonic() < give_up:
        time.sleep(_TURN / 5)
    os.killpg(process.pid, signal.SIGKILL)
    # Not its output: what left its group may hold the pipes.
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_PATIENCE_TO_DIE)
    except TimeoutExpired:
        pass  # a program that waits for a dead disk can't be killed
