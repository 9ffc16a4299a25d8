"""Which file system a path is on, by /proc/self/mountinfo (proc_pid_mountinfo(5)), and how much is free on it."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

MOUNTS: Final = Path("/proc/self/mountinfo")

NETWORK: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
        "ocfs2", "orangefs", "pvfs2", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
    }
)  # fmt: skip
"""File systems that others can change unseen by this kernel."""

IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})


class Mount(NamedTuple):
    """A mounted file system: where, of what type, and whether it is read-only."""

    place: str
    kind: str
    is_read_only: bool

    @property
    def is_remote(self) -> bool:
        """Whether it changes without this kernel knowing: a network file system, or one of a program (FUSE)."""
        return self.kind in NETWORK or self.kind == "fuse" or self.kind.startswith("fuse.")


def mounts() -> list[Mount]:
    """All that this process sees, the later ones over the earlier. Raises `OSError`."""
    return parse(MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines())


def parse(lines: Iterable[str]) -> list[Mount]:
    """The mounts of such a file."""
    parsed = []
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(rest) < 3:
            continue
        read_only = "ro" in fields[5].split(",") or "ro" in rest[2].split(",")
        parsed.append(Mount(_unescaped(fields[4]), rest[0], read_only))
    return parsed


def mount_of(path: str, known: Iterable[Mount]) -> Mount | None:
    """The mount of `path`, or of its nearest existing ancestor."""
    real = os.path.realpath(path)
    over = [each for each in known if each.place == "/" or f"{real}/".startswith(f"{each.place}/")]
    longest = max((len(each.place) for each in over), default=0)
    return next((each for each in reversed(over) if len(each.place) == longest), None)


def is_local(path: str) -> bool:
    """Whether only this machine's kernel writes the file system that `path` is on. If that can't be told, it is not."""
    try:
        mount = mount_of(path, mounts())
    except OSError:
        return False
    return mount is not None and not mount.is_remote


def _unescaped(text: str) -> str:
    import re  # the launcher asks for free space, and doesn't pay for this

    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)


_SHARE: Final = 10
"""The limit is at most this part of the file system, so that the daemon also works on a small one."""


class Space(NamedTuple):
    """Of a file system: bytes that are free for this user, bytes in all, and whether no more files can be created."""

    free: int
    total: int
    no_files: bool = False


def space_of(place: Path | int) -> Space:
    """The space where a directory or an open file is. Raises `OSError`."""
    space = os.statvfs(place)
    # Where files aren't counted, as on btrfs, there are 0 of 0.
    no_files = space.f_files > 0 and space.f_favail == 0
    return Space(space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize, no_files)


def limit_of(space: Space, low_disk: int) -> int:
    """The free bytes below which a disk is low, by the setting and by the size of the disk."""
    return min(low_disk, space.total // _SHARE)


def rounded(count: int) -> str:
    """This many bytes for people to read, as round as limits are."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{count} B"
