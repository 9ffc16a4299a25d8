"""The file systems under the state directory and the roots: whether they keep, lock and tell."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runward.daemon.disk.free_space import limit_of, space_of
from runward.daemon.disk.mounts import IN_MEMORY, Mount, mount_of, mounts
from runward.daemon.doctor.findings import Finding, Installation, Patience

SHORT: Final = 2
"""Free space below this multiple of `low_disk` is little."""

_MIB: Final = 1 << 20


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """That of the state directory first, then those of the roots."""
    known = mounts()
    settings = installation.settings
    yield _of_state(settings.state_dir, mount_of(settings.state_dir, known))
    if (room := _room(installation.state, settings.low_disk)) is not None:
        yield room
    for root in settings.roots:
        patience.left()
        yield _of_root(root.name, root.path, root.layout, mount_of(root.path, known), settings.scan.period)


def _of_state(path: str, mount: Mount | None) -> Finding:
    if mount is None:
        return Finding("warning", f"can't tell which file system {path} is on", "mount /proc")
    said = f"{path} is on {mount.kind} ({mount.place})"
    move = "put state_dir on a local disk"
    if mount.is_read_only:
        return Finding("failed", f"{said}, which is mounted read-only", f"mount it read-write, or {move}")
    if mount.is_remote:
        return Finding("warning", f"{said}: only one machine may use it, and its locks must work", move)
    if mount.kind in IN_MEMORY:
        return Finding("warning", f"{said}: all records are lost when the machine restarts", move)
    return Finding("ok", said)


def _room(state: Path, low_disk: int) -> Finding | None:
    """How much more the state directory's file system takes; None if that doesn't exist yet."""
    try:
        space = space_of(state)
    except FileNotFoundError:
        return None
    limit = limit_of(space, low_disk)
    said = f"{state} has {space.free / _MIB:,.0f} MiB free (low_disk: {limit / _MIB:,.0f} MiB)"
    if space.no_files:
        return Finding(
            "failed", f"{said}, but no file can be created there (no inodes left)", "remove files there"
        )
    if space.free < limit:
        return Finding("failed", f"{said}: no run is looked at until there is more", "free space there")
    if space.free < SHORT * limit:
        return Finding("warning", f"{said}: soon no run will be looked at", "free space there")
    return Finding("ok", said)


def _of_root(name: str, path: str, layout: str, mount: Mount | None, period: float) -> Finding:
    if mount is None:
        return Finding("warning", f"can't tell which file system root {name} is on", "mount /proc")
    said = f"root {name} is on {mount.kind} ({mount.place})"
    if mount.is_read_only and layout == "native":
        return Finding(
            "warning",
            f"{said}, which is mounted read-only: runs there get no journals",
            "mount it read-write",
        )
    if mount.is_remote:
        return Finding(
            "warning",
            f"{said}: changes by other machines or by its program are not reported; only the scans find them,"
            f" every {period:g} s",
            "run the daemon where the runs are written, or live with the delay (`scan.period`)",
        )
    return Finding("ok", said)
