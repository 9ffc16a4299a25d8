"""Which file system a path lies on, and what follows from that."""

from pathlib import Path

import pytest
from tests.daemon.doctor.examined import findings, installation, root

from runward.daemon.disk import file_systems
from runward.daemon.disk.file_systems import Mount, Space, mount_of, parse
from runward.daemon.doctor import machine

LINES = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:20 / /mnt/with\\040blank rw - nfs4 server:/x rw,vers=4.2
23 21 0:21 / /mnt/fuse rw,nosuid - fuse.sshfs host:/ rw
24 21 0:22 / /mnt/win rw - fuseblk /dev/sdb1 rw
25 21 0:23 / /run rw - tmpfs tmpfs rw
26 21 8:2 / /mnt/frozen ro - ext4 /dev/sdc1 rw
27 21 8:3 / /over rw - ext4 /dev/sdd1 rw
28 27 0:24 / /over rw - ceph mon:/ rw
torn line
""".splitlines()


@pytest.mark.parametrize(
    ("path", "kind", "is_remote"),
    [
        ("/home/x", "ext4", False),
        ("/mnt/with blank/deep", "nfs4", True),
        ("/mnt/with blank", "nfs4", True),
        ("/mnt/with blankets", "ext4", False),
        ("/mnt/fuse/runs", "fuse.sshfs", True),
        ("/mnt/win/runs", "fuseblk", False),
        ("/over/there", "ceph", True),
    ],
)
def test_the_longest_and_last_mount_above_a_path_is_its_own(path: str, kind: str, is_remote: bool) -> None:
    found = mount_of(path, parse(LINES))
    assert found is not None
    assert (found.kind, found.is_remote) == (kind, is_remote)


def test_a_mount_that_is_only_read_is_known() -> None:
    assert mount_of("/mnt/frozen/x", parse(LINES)) == Mount("/mnt/frozen", "ext4", True)


def test_without_mounts_nothing_is_known() -> None:
    assert mount_of("/home", []) is None


def mounted(tmp_path: Path, kind: str, options: str = "rw") -> str:
    return f"1 0 8:1 / / rw - ext4 d rw\n2 1 0:9 / {tmp_path}/there {options} - {kind} d rw\n"


@pytest.mark.parametrize(
    ("kind", "options", "of_state", "of_root"),
    [
        ("ext4", "rw", "ok", "ok"),
        ("nfs4", "rw", "warning", "warning"),
        ("fuse.sshfs", "rw", "warning", "warning"),
        ("tmpfs", "rw", "warning", "ok"),
        ("ext4", "ro", "failed", "warning"),
    ],
)
def test_what_follows_for_the_state_directory_and_for_a_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: str, of_state: str, of_root: str
) -> None:
    (tmp_path / "mountinfo").write_text(mounted(tmp_path, kind, options))
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "mountinfo")
    there = tmp_path / "there"
    found = findings(machine.examine_file_systems, installation(there / "state", root(there / "runs")))
    assert [each.result for each in found] == [of_state, of_root]
    assert all(each.fix for each in found if each.result != "ok")


def test_this_machines_own_mounts_can_be_read(tmp_path: Path) -> None:
    assert mount_of(str(tmp_path), file_systems.mounts()) is not None


@pytest.mark.parametrize(
    ("free", "no_files", "result"),
    [
        (10 << 30, False, "ok"),
        (300 << 20, False, "warning"),
        (1 << 20, False, "failed"),
        (10 << 30, True, "failed"),
    ],
)
def test_the_state_directorys_room_is_held_against_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, no_files: bool, result: str
) -> None:
    monkeypatch.setattr(machine, "space_of", lambda path: Space(free, 100 << 30, no_files))
    assert [each.result for each in findings(machine.examine_file_systems, installation(tmp_path))][
        1
    ] == result
