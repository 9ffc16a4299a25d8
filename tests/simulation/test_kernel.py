"""The kernel in memory answers as the real one does, for programs of the calls that the daemon makes."""

import errno
import fcntl
import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.kernel import Kernel

READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NAMES: Final = ("a", "b", "d", "d/a", "d/b", "l", "a/x", "l/a")

Answer = Any
"""Whatever a call gives: compared, never looked into."""


class FineWeather:
    """Nothing befalls any call."""

    def before(self, call: str, path: str) -> None:
        return

    def room(self, wanted: int) -> int:
        return wanted


class Machine(Protocol):
    """What a program runs on; `base` is its directory."""

    base: str
    calls: Any

    def symlink(self, target: str, path: str) -> None: ...

    def mkdir(self, path: str) -> None: ...


class RealMachine:
    def __init__(self, base: str) -> None:
        self.base = base
        self.calls: Any = os

    def symlink(self, target: str, path: str) -> None:
        os.symlink(target, path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)


class SimulatedMachine:
    def __init__(self) -> None:
        kernel = Kernel(lambda: 1_700_000_000_000_000_000, FineWeather(), lambda path: None)
        kernel.mkdir("/base")
        self.base = "/base"
        self.calls: Any = kernel

    def symlink(self, target: str, path: str) -> None:
        self.calls.symlink(target, path)

    def mkdir(self, path: str) -> None:
        self.calls.mkdir(path)


def kind(status: Any) -> Answer:
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return stat.S_IFMT(status.st_mode), size


def perform(machine: Machine, step: tuple[str, str, str]) -> Answer:
    """One step of a program on a machine: what it gives, or its error's number."""
    deed, name, other = step
    calls, path = machine.calls, f"{machine.base}/{name}"
    match deed:
        case "mkdir":
            return machine.mkdir(path)
        case "symlink":
            return machine.symlink(other, path)
        case "rename":
            return calls.rename(path, f"{machine.base}/{other}")
        case "unlink":
            return calls.unlink(path)
        case "stat":
            return kind(calls.stat(path))
        case "lstat":
            return kind(calls.stat(path, follow_symlinks=False))
        case "isdir":
            return calls.path.isdir(path)
        case "list":
            return sorted(calls.listdir(path))
        case "scan":
            with calls.scandir(path) as entries:
                return sorted(
                    (each.name, each.is_dir(follow_symlinks=False), each.is_file(follow_symlinks=False))
                    for each in entries
                )
        case "below":
            return below(calls, path, other.rpartition("/")[2])
        case "read" | "append" | "new":
            return through(calls, path, {"read": READ, "append": APPEND, "new": NEW}[deed])
    raise AssertionError(deed)


def through(calls: Any, path: str, flags: int) -> Answer:
    """Open, write where that is meant, ask where, read everything, close."""
    descriptor = calls.open(path, flags, 0o600)
    try:
        if flags & (os.O_RDWR | os.O_WRONLY):
            written = calls.write(descriptor, b"some bytes\n"), calls.lseek(descriptor, 0, os.SEEK_CUR)
        else:
            written = None
        status = kind(calls.fstat(descriptor))
        if flags & os.O_WRONLY or stat.S_ISDIR(status[0]):
            return written, status
        data = calls.lseek(descriptor, 2, os.SEEK_DATA) if status[1] > 2 else None
        return written, status, data, calls.pread(descriptor, 100, 3), calls.pread(descriptor, 4, 0)
    finally:
        calls.close(descriptor)


def below(calls: Any, path: str, name: str) -> Answer:
    """Look at `name` in the directory at `path`, by descriptor."""
    descriptor = calls.open(path, PLACE)
    try:
        return kind(calls.stat(name, dir_fd=descriptor, follow_symlinks=False))
    finally:
        calls.close(descriptor)


def answer(machine: Machine, step: tuple[str, str, str]) -> Answer:
    try:
        return perform(machine, step)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


DEEDS: Final = (
    "mkdir", "symlink", "unlink", "stat", "lstat", "isdir", "list", "scan", "below", "read", "append", "new"
)  # fmt: skip
NOT_COMPARED: Final = [
    [
        "unlink",
        "EISDIR",
    ],  # the world's remove_tree is an unlink of directories, which the daemon never asks for
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(DEEDS), st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=12)
)
def test_every_program_of_system_calls_gets_the_same_answers(program: list[tuple[str, str, str]]) -> None:
    simulated = SimulatedMachine()
    with TemporaryDirectory() as directory:
        real = RealMachine(directory)
        for step in program:
            expected = answer(real, step)
            if [step[0], expected] in NOT_COMPARED:
                continue
            assert answer(simulated, step) == expected, f"{step} of {program}"


def test_a_rename_replaces_a_file_and_moves_a_directory_with_what_is_in_it(tmp_path: Path) -> None:
    for machine in (SimulatedMachine(), RealMachine(str(tmp_path))):
        for step in (
            ("new", "a", ""),
            ("append", "b", ""),
            ("append", "b", ""),
            ("rename", "b", "a"),
            ("mkdir", "d", ""),
        ):
            answer(machine, step)
        assert answer(machine, ("new", "d/a", "")) == ((11, 11), (stat.S_IFREG, 11))
        answer(machine, ("rename", "d", "l"))
        assert answer(machine, ("lstat", "a", "")) == (stat.S_IFREG, 22)
        assert answer(machine, ("list", "l", "")) == ["a"]
        assert answer(machine, ("list", "d", "")) == "ENOENT"


def test_a_lock_refuses_the_next_one_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    kernel = SimulatedMachine().calls
    for calls, locks, name in ((os, fcntl, str(path)), (kernel, kernel, "/base/journal")):
        first, second = calls.open(name, APPEND, 0o600), calls.open(name, APPEND, 0o600)
        locks.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            locks.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        calls.close(first)
        locks.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        calls.close(second)


def test_a_removed_directory_that_is_still_open_takes_no_new_files(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    kernel = SimulatedMachine().calls
    kernel.mkdir("/base/d")
    for calls, path in ((os, str(tmp_path / "d")), (kernel, "/base/d")):
        descriptor = calls.open(path, PLACE)
        os.rmdir(path) if calls is os else calls.remove_tree(path)
        with pytest.raises(FileNotFoundError):
            calls.open("new", APPEND, 0o600, dir_fd=descriptor)
        calls.close(descriptor)


def test_inodes_are_used_again_and_time_stamps_are_coarse() -> None:
    kernel = SimulatedMachine().calls
    kernel.put("/base/a", b"one")
    first = kernel.stat("/base/a")
    kernel.unlink("/base/a")
    kernel.put("/base/a", b"two")
    assert kernel.stat("/base/a") == first
