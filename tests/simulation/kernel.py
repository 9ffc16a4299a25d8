"""A kernel in memory: the system calls that the daemon makes on files, for several processes.

It stands in for the module `os` (and `fcntl`) in the code that touches files, so that this code
itself runs in the simulation. It keeps what matters there: descriptors that stay with their inode
whatever is renamed, links that aren't followed, coarse time stamps, inodes that are used again,
locks that end with their process, short writes, and what a power cut takes back.
"""

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

TICK_NS: Final = 4_000_000
"""Time stamps are as coarse as the kernel's own clock: what changes twice within a tick looks the same."""

_FOLLOW_LIMIT: Final = 40


class Weather(Protocol):
    """What befalls system calls. Each may raise, or let time go by."""

    def before(self, call: str, path: str) -> None: ...

    def room(self, wanted: int) -> int: ...


@dataclass(slots=True, eq=False)
class Node:
    """An inode. `pieces` says who wrote what of a file, `synced` how much of it a power cut leaves."""

    number: int
    kind: int
    modified_ns: int
    changed_ns: int
    data: bytearray = field(default_factory=bytearray)
    entries: dict[str, "Node"] = field(default_factory=dict)
    target: str = ""
    parent: "Node | None" = None
    name: str = ""
    locked_by: int | None = None
    synced: int = 0
    refused: int | None = None
    """From where on a failed sync left bytes that aren't on the disk, though they count as if they were."""
    pieces: list[tuple[str, int]] = field(default_factory=list)
    torn: bool = False
    """A write was short, or a power cut took bytes back."""
    locked: bool = False
    """No permission to list or enter it."""
    meddled: bool = False
    """Somebody changed what had been written."""

    @property
    def path(self) -> str:
        """Where a directory is now; for one that was removed, where it was."""
        if self.parent is None:
            return self.name
        return f"{self.parent.path}/{self.name}"


@dataclass(frozen=True, slots=True)
class Status:
    """The parts of `os.stat_result` that anybody reads."""

    st_ino: int
    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_dev: int = 1
    st_uid: int = 0
    st_nlink: int = 1

    @property
    def st_mtime(self) -> float:
        return self.st_mtime_ns / 1e9


@dataclass(slots=True)
class Opened:
    """An open file description and the process that it belongs to."""

    node: Node
    flags: int
    owner: str
    locked: bool = False
    position: int = 0
    locked_at: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """What `scandir` yields."""

    name: str
    node: Node

    def is_dir(self, follow_symlinks: bool = True) -> bool:
        assert not follow_symlinks
        return self.node.kind == stat.S_IFDIR

    def is_file(self, follow_symlinks: bool = True) -> bool:
        assert not follow_symlinks
        return self.node.kind == stat.S_IFREG

    def stat(self, follow_symlinks: bool = True) -> Status:
        assert not follow_symlinks
        return status_of(self.node)


class Scan:
    """The context that `scandir` returns."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def __enter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __exit__(self, *unused: object) -> None:
        return None


class _Path:
    """What is asked of `os.path`."""

    def __init__(self, kernel: "Kernel") -> None:
        self._kernel = kernel

    def isdir(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(self._kernel.stat(path).st_mode)
        except OSError:
            return False

    def lexists(self, path: str | os.PathLike[str]) -> bool:
        return self._kernel.exists(os.fspath(path))

    dirname = staticmethod(posixpath.dirname)
    basename = staticmethod(posixpath.basename)
    join = staticmethod(posixpath.join)
    relpath = staticmethod(posixpath.relpath)
    split = staticmethod(posixpath.split)
    splitext = staticmethod(posixpath.splitext)


class Kernel:
    """The file system and its open files. `me` names the process that runs; "agent" is anybody else."""

    stat_result = os.stat_result
    PathLike = os.PathLike
    LOCK_SH, LOCK_EX, LOCK_NB, LOCK_UN = 1, 2, 4, 8
    F_GETFL, F_SETFL = 3, 4
    SEEK_CUR, SEEK_DATA = os.SEEK_CUR, os.SEEK_DATA
    O_RDONLY, O_WRONLY, O_RDWR = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
    O_CREAT, O_EXCL, O_APPEND = os.O_CREAT, os.O_EXCL, os.O_APPEND
    O_NOFOLLOW, O_NONBLOCK, O_CLOEXEC = os.O_NOFOLLOW, os.O_NONBLOCK, os.O_CLOEXEC
    O_DIRECTORY, O_NOCTTY, O_PATH = os.O_DIRECTORY, os.O_NOCTTY, os.O_PATH
    R_OK, X_OK = os.R_OK, os.X_OK
    strerror = staticmethod(os.strerror)
    fsencode = staticmethod(os.fsencode)
    fspath = staticmethod(os.fspath)

    def __init__(self, now_ns: Callable[[], int], weather: Weather, changed: Callable[[str], None]) -> None:
        self.me: Callable[[], str] = lambda: "agent"
        self.path = _Path(self)
        self._now_ns = now_ns
        self._weather = weather
        self._changed = changed
        self._free: list[int] = []
        self._next_inode = 11
        self._open: dict[int, Opened] = {}
        self._next_descriptor = 100
        self._made = 0
        self._order = 0
        self._written_over_at = 0
        self.appended: Callable[[str, bool], None] = lambda writer, lock_is_older: None
        """Told of every append: by whom, and whether its lock is older than the last file written over."""
        self.root = self._node(stat.S_IFDIR)

    # What the daemon calls, by the names of `os`.

    def open(
        self, path: str | os.PathLike[str], flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        name = os.fspath(path)
        self._weather.before("open", name)
        try:
            node = self._find(name, dir_fd, follow=not flags & os.O_NOFOLLOW)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            node = self._create(name, dir_fd)
        else:
            if flags & os.O_EXCL:
                raise _error(errno.EEXIST, name)
        if node.kind == stat.S_IFLNK:
            raise _error(errno.ENOTDIR if flags & os.O_DIRECTORY else errno.ELOOP, name)
        if flags & os.O_DIRECTORY and node.kind != stat.S_IFDIR:
            raise _error(errno.ENOTDIR, name)
        if node.kind == stat.S_IFDIR:
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise _error(errno.EISDIR, name)
            if node.locked and not flags & os.O_PATH:
                raise _error(errno.EACCES, name)
        return self._descriptor(Opened(node, flags, self.me()))

    def dup(self, descriptor: int) -> int:
        opened = self._open[descriptor]
        return self._descriptor(Opened(opened.node, opened.flags, opened.owner))

    def close(self, descriptor: int) -> None:
        opened = self._open.pop(descriptor)
        if opened.locked:
            opened.node.locked_by = None

    def fstat(self, descriptor: int) -> Status:
        return status_of(self._open[descriptor].node)

    def stat(
        self, path: str | os.PathLike[str], *, dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> Status:
        name = os.fspath(path)
        self._weather.before("stat", name)
        return status_of(self._find(name, dir_fd, follow_symlinks))

    def access(self, path: str, mode: int) -> bool:
        try:
            return not self._find(path, None, follow=True).locked
        except OSError:
            return False

    def readlink(self, path: str, *, dir_fd: int | None = None) -> str:
        return self._find(path, dir_fd, follow=False).target

    def scandir(self, path: str | int) -> Scan:
        return Scan([Entry(name, node) for name, node in list(self._listed(path).entries.items())])

    def listdir(self, path: str | os.PathLike[str] | int) -> list[str]:
        node = self._open[path].node if isinstance(path, int) else self._listed(os.fspath(path))
        return list(node.entries)

    def umask(self, mask: int) -> int:
        return 0o022

    def geteuid(self) -> int:
        return 0

    def makedirs(self, path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        assert exist_ok
        if not self.path.isdir(path):
            self.makedirs(posixpath.dirname(path), exist_ok=True)
            self.mkdir(path)

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        node = self._find(path, dir_fd, follow=False)
        if node.kind != stat.S_IFDIR:
            raise _error(errno.ENOTDIR, path)
        if node.entries:
            raise _error(errno.ENOTEMPTY, path)
        self.unlink(path, dir_fd=dir_fd)

    def _listed(self, place: str | int) -> Node:
        opened = self._open[place].node if isinstance(place, int) else None
        path = opened.path if opened is not None else str(place)
        self._weather.before("scandir", path)
        node = opened or self._find(path, None, follow=True)
        if node.kind != stat.S_IFDIR:
            raise _error(errno.ENOTDIR, path)
        if node.locked:
            raise _error(errno.EACCES, path)
        return node

    def read(self, descriptor: int, length: int) -> bytes:
        opened = self._open[descriptor]
        got = self.pread(descriptor, length, opened.position)
        opened.position += len(got)
        return got

    def preadv(self, descriptor: int, buffers: list[memoryview], offset: int) -> int:
        (buffer,) = buffers
        self._weather.before("preadv", self._open[descriptor].node.path)
        got = self.pread(descriptor, len(buffer), offset)
        buffer[: len(got)] = got
        return len(got)

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        return bytes(self._open[descriptor].node.data[offset : offset + length])

    def write(self, descriptor: int, content: bytes | memoryview) -> int:
        opened = self._open[descriptor]
        in_place = not opened.flags & os.O_APPEND and opened.position + len(content) <= len(opened.node.data)
        # What is written over takes no room, as on ext4 and XFS.
        room = len(content) if in_place else self._weather.room(len(content))
        if room == 0 and len(content):
            raise _error(errno.ENOSPC, "")
        written = bytes(content[:room])
        opened.node.torn = opened.node.torn or room < len(content)
        if not opened.flags & os.O_APPEND:
            start, length = opened.position, len(opened.node.data)
            opened.node.data[start : start + len(written)] = written
            if len(opened.node.data) > length:
                opened.node.pieces.append((self.me(), len(opened.node.data) - length))
            opened.position += len(written)
            self._order += 1
            self._written_over_at = self._order
            self._touch(opened.node)
        else:
            self.appended(self.me(), opened.locked and opened.locked_at < self._written_over_at)
            self._append(opened.node, written)
            opened.position = len(opened.node.data)
        return len(written)

    def lseek(self, descriptor: int, offset: int, whence: int) -> int:
        opened = self._open[descriptor]
        if whence == self.SEEK_DATA:  # nothing here has holes
            if offset >= len(opened.node.data):
                raise _error(errno.ENXIO, "")
            opened.position = offset
        else:
            assert (offset, whence) == (0, self.SEEK_CUR)
        return opened.position

    def fsync(self, descriptor: int) -> None:
        self._sync([self._open[descriptor].node])

    def syncfs(self) -> None:
        self._sync([node for _, node in self.files()])

    def _sync(self, nodes: list[Node]) -> None:
        try:
            self._weather.before("fsync", "")
        except OSError:
            # The pages count as written all the same: the next sync finds nothing left to do.
            for node in nodes:
                if node.synced < len(node.data):
                    node.refused = node.synced if node.refused is None else min(node.refused, node.synced)
                    node.synced = len(node.data)
            raise
        for node in nodes:
            node.synced = len(node.data)

    def pwrite(self, descriptor: int, content: bytes | memoryview, offset: int) -> int:
        """Over what is there, and beyond it; the simulated files are so small that one page holds all of it.

        What the disk has stays there, for it is the same; what it refused is to be written again.
        """
        node = self._open[descriptor].node
        assert not self._open[descriptor].flags & os.O_APPEND
        whole = bytes(content)
        there = bytes(node.data[offset : offset + len(whole)])
        assert whole.startswith(there), "only our own line is written over itself"
        assert offset <= len(node.data), "no hole is left"
        room = self._weather.room(len(whole) - len(there)) if len(whole) > len(there) else 0
        if room == 0 and not there and whole:
            raise _error(errno.ENOSPC, "")
        if room:
            node.data += whole[len(there) : len(there) + room]
            node.pieces.append((self.me(), room))
        if node.refused is not None:
            node.synced, node.refused = min(node.synced, node.refused), None
        self._touch(node)
        return len(there) + room

    def fcntl(self, descriptor: int, command: int, argument: int = 0) -> int:
        assert command in (self.F_GETFL, self.F_SETFL)
        opened = self._open[descriptor]
        if command == self.F_SETFL:
            opened.flags = argument
        return opened.flags

    def rename(
        self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        directory, name = self._parent(source, src_dir_fd)
        into, new = self._parent(target, dst_dir_fd)
        node = directory.entries.get(name)
        if node is None:
            raise _error(errno.ENOENT, source)
        replaced = into.entries.get(new)
        if replaced is not None and replaced.kind == stat.S_IFDIR and replaced.entries:
            raise _error(errno.ENOTEMPTY, target)
        del directory.entries[name]
        into.entries[new] = node
        node.parent, node.name = into, new
        node.changed_ns = self._now()
        if replaced is not None:
            self._forget(replaced)
        self._touch(directory)
        self._touch(into)
        self._tell(directory, name)
        self._tell(into, new)

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        directory, name = self._parent(path, dir_fd)
        node = directory.entries.pop(name, None)
        if node is None:
            raise _error(errno.ENOENT, path)
        self._forget(node)
        self._touch(directory)
        self._tell(directory, name)

    def urandom(self, length: int) -> bytes:
        self._made += 1
        return self._made.to_bytes(length, "big")

    def flock(self, descriptor: int, operation: int) -> None:
        opened = self._open[descriptor]
        if operation == self.LOCK_UN:
            if opened.node.locked_by == descriptor:
                opened.node.locked_by, opened.locked = None, False
            return
        if opened.node.locked_by not in (None, descriptor):
            raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        if operation == self.LOCK_SH | self.LOCK_NB:
            return  # whoever asks lets it go at once
        assert operation == self.LOCK_EX | self.LOCK_NB
        self._order += 1
        opened.node.locked_by, opened.locked, opened.locked_at = descriptor, True, self._order

    # What agents and the world do.

    def mkdir(self, path: str | os.PathLike[str], mode: int = 0o777, *, dir_fd: int | None = None) -> Node:
        path = os.fspath(path)
        directory, name = self._parent(path, dir_fd)
        if name in directory.entries:
            raise _error(errno.EEXIST, path)
        node = self._node(stat.S_IFDIR)
        self._enter(directory, name, node)
        return node

    def symlink(self, target: str, path: str) -> None:
        directory, name = self._parent(path, None)
        if name in directory.entries:
            raise _error(errno.EEXIST, path)
        node = self._node(stat.S_IFLNK)
        node.target = target
        self._enter(directory, name, node)

    def remove_tree(self, path: str) -> None:
        """Everything below `path`, and it, is gone at once."""
        self.unlink(path)

    def put(self, path: str, content: bytes) -> None:
        """A file with this content in place of what was there, renamed into place."""
        directory, name = self._parent(path, None)
        node = self._node(stat.S_IFREG)
        node.data += content
        node.synced = len(content)
        replaced = directory.entries.get(name)
        self._enter(directory, name, node)
        if replaced is not None:
            self._forget(replaced)

    def overwrite(self, path: str, content: bytes) -> None:
        """A file written in place, as people do by hand; there may be nothing yet."""
        try:
            node = self._find(path, None, follow=False)
        except FileNotFoundError:
            node = self._create(path, None)
        node.data[:] = content
        node.synced = len(content)
        self._touch(node)

    def append(self, path: str, content: bytes) -> None:
        """Agents append with O_APPEND, to a file that they make if they must."""
        try:
            node = self._find(path, None, follow=False)
        except FileNotFoundError:
            node = self._create(path, None)
        self._append(node, content)

    def change(self, path: str, offset: int, content: bytes) -> None:
        """Somebody writes over what was there, in place."""
        node = self.node(path)
        assert offset + len(content) <= len(node.data)
        node.data[offset : offset + len(content)] = content
        node.meddled = True
        self._touch(node)

    def insert(self, path: str, content: bytes) -> None:
        """Somebody writes a line before everything that was there."""
        node = self.node(path)
        node.data[0:0] = content
        node.pieces.insert(0, (self.me(), len(content)))
        node.synced = len(node.data)
        node.meddled = True
        self._touch(node)

    def exists(self, path: str) -> bool:
        try:
            self.node(path)
        except OSError:
            return False
        return True

    def content(self, path: str) -> bytes:
        return bytes(self.node(path).data)

    def names(self, path: str) -> list[str]:
        return sorted(self.node(path).entries)

    def node(self, path: str) -> Node:
        """What lies there, no matter who may read it."""
        return self._find(path, None, follow=False, anybody=True)

    def end(self, process: str) -> None:
        """The process is gone: its descriptors are closed and its locks are free."""
        for descriptor, opened in list(self._open.items()):
            if opened.owner == process:
                self.close(descriptor)

    def files(self) -> Iterator[tuple[str, Node]]:
        """Every regular file with its path."""
        waiting = [self.root]
        while waiting:
            directory = waiting.pop()
            for name in sorted(directory.entries):
                node = directory.entries[name]
                if node.kind == stat.S_IFDIR:
                    waiting.append(node)
                elif node.kind == stat.S_IFREG:
                    yield f"{directory.path}/{name}", node

    # How it works.

    def _node(self, kind: int) -> Node:
        if self._free:
            number = self._free.pop()
        else:
            number, self._next_inode = self._next_inode, self._next_inode + 1
        return Node(number, kind, self._now(), self._now())

    def _now(self) -> int:
        return self._now_ns() // TICK_NS * TICK_NS

    def _descriptor(self, opened: Opened) -> int:
        self._next_descriptor += 1
        self._open[self._next_descriptor] = opened
        return self._next_descriptor

    def _start(self, path: str, dir_fd: int | None) -> Node:
        if path.startswith("/"):
            return self.root
        assert dir_fd is not None, f"{path} is relative to nothing"
        return self._open[dir_fd].node

    def _find(
        self, path: str, dir_fd: int | None, follow: bool, hops: int = 0, anybody: bool = False
    ) -> Node:
        node = self._start(path, dir_fd)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        for part in parts:
            if node.kind == stat.S_IFLNK:
                node = self._follow(node, hops)
            if node.kind != stat.S_IFDIR:
                raise _error(errno.ENOTDIR, path)
            if node.locked and not anybody:
                raise _error(errno.EACCES, path)
            found = node.parent if part == ".." else node.entries.get(part)
            if found is None:
                raise _error(errno.ENOENT, path)
            node = found
        return self._follow(node, hops) if follow and node.kind == stat.S_IFLNK else node

    def _follow(self, link: Node, hops: int) -> Node:
        if hops > _FOLLOW_LIMIT:
            raise _error(errno.ELOOP, link.target)
        assert link.parent is not None
        path = link.target if link.target.startswith("/") else f"{link.parent.path}/{link.target}"
        return self._find(path, None, True, hops + 1)

    def _parent(self, path: str, dir_fd: int | None) -> tuple[Node, str]:
        way, _, name = path.rpartition("/")
        if not way and not path.startswith("/"):
            directory = self._start(path, dir_fd)
        else:
            directory = self._find(way or "/", dir_fd, follow=True)
        if directory.kind != stat.S_IFDIR:
            raise _error(errno.ENOTDIR, path)
        return directory, name

    def _create(self, path: str, dir_fd: int | None) -> Node:
        directory, name = self._parent(path, dir_fd)
        if directory is not self.root and directory.parent is None:
            raise _error(errno.ENOENT, path)  # it was removed while it was open
        node = self._node(stat.S_IFREG)
        self._enter(directory, name, node)
        return node

    def _enter(self, directory: Node, name: str, node: Node) -> None:
        directory.entries[name] = node
        node.parent, node.name = directory, name
        self._touch(directory)
        self._tell(directory, name)

    def _forget(self, node: Node) -> None:
        """The node has no name any more; its number may be used again, as ext4 does at once."""
        where = node.path
        for child in node.entries.values():
            self._forget(child)
        node.entries.clear()
        node.parent, node.name = None, where
        if not any(opened.node is node for opened in self._open.values()):
            self._free.append(node.number)

    def _append(self, node: Node, content: bytes) -> None:
        if content:
            node.data += content
            node.pieces.append((self.me(), len(content)))
            self._touch(node)

    def _touch(self, node: Node) -> None:
        node.modified_ns = node.changed_ns = self._now()
        if node.kind == stat.S_IFREG and node.parent is not None:
            self._tell(node.parent, node.name)

    def _tell(self, directory: Node, name: str) -> None:
        self._changed(f"{directory.path}/{name}")


def status_of(node: Node) -> Status:
    """What `stat` says of a node."""
    size = len(node.data) if node.kind == stat.S_IFREG else 4096
    return Status(node.number, node.kind | 0o644, size, node.modified_ns, node.changed_ns)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
