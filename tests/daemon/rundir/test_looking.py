"""Looks into run directories on a real file system: what is read, what is only said, and what never is touched."""

import errno
import os
import threading
from pathlib import Path

import pytest

from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import MAXIMUM_DOCUMENT, Listing, Sight, list_root, look, standing
from runward.handlers.layouts.native import DOCUMENTS
from runward.handlers.model.files import Signature, Unreadable, signature_of
from runward.handlers.model.sessions import Document


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "run").mkdir(parents=True)
    return tmp_path / "root"


def see(root: Path, known: dict[str, Signature] | None = None) -> Sight:
    found = look(str(root), "run", DOCUMENTS, known or {})
    assert isinstance(found, Sight)
    return found


def only(root: Path) -> Document:
    (document,) = see(root).documents
    return document


def test_the_wanted_documents_are_read_and_no_others(root: Path) -> None:
    (root / "run" / "run.json").write_bytes(b"start")
    (root / "run" / "exit.json").write_bytes(b"end")
    (root / "run" / "other.json").write_bytes(b"other")
    os.utime(root / "run" / "run.json", ns=(1, 2_500_000_000))
    sight = see(root)
    assert [(each.name, each.content, each.problem) for each in sight.documents] == [
        ("run.json", b"start", None),
        ("exit.json", b"end", None),
    ]
    assert sight.documents[0].modified_at == 2.5
    assert [name for name, _ in sight.signatures] == ["run.json", "exit.json"]


def test_what_is_known_is_not_read_again(root: Path) -> None:
    (root / "run" / "run.json").write_bytes(b"start")
    first = see(root)
    (root / "run" / "exit.json").write_bytes(b"end")
    second = see(root, dict(first.signatures))
    assert [each.name for each in second.documents] == ["exit.json"]
    assert second.signatures[0] == first.signatures[0]
    assert see(root, dict(second.signatures)).documents == ()


def test_a_document_that_was_replaced_is_read_again(root: Path) -> None:
    path = root / "run" / "run.json"
    path.write_bytes(b"one")
    known = dict(see(root).signatures)
    (root / "run" / "new").write_bytes(b"two")
    os.utime(root / "run" / "new", ns=(known["run.json"].modified_ns,) * 2)
    (root / "run" / "new").rename(path)
    assert [each.content for each in see(root, known).documents] == [b"two"]


def test_a_document_that_was_rewritten_in_its_place_is_read_again_though_size_and_time_are_the_same(
    root: Path,
) -> None:
    path = root / "run" / "run.json"
    path.write_bytes(b"one")
    before = path.stat()
    known = dict(see(root).signatures)
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of the file system goes in steps
        path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [each.content for each in see(root, known).documents] == [b"two"]


def test_a_file_on_another_device_is_another_file(root: Path) -> None:
    here = root.stat()
    fields = [*here[:2], here.st_dev + 1, *here[3:]]
    elsewhere = os.stat_result(fields, {"st_mtime_ns": here.st_mtime_ns, "st_ctime_ns": here.st_ctime_ns})
    assert signature_of(here) == signature_of(root.stat())
    assert signature_of(here) != signature_of(elsewhere)
    assert signature_of(here)._replace(device=elsewhere.st_dev) == signature_of(elsewhere)


def test_a_document_that_was_taken_away_is_no_longer_among_the_signatures(root: Path) -> None:
    (root / "run" / "run.json").write_bytes(b"start")
    known = dict(see(root).signatures)
    (root / "run" / "run.json").unlink()
    sight = see(root, known)
    assert (sight.signatures, sight.documents) == ((), ())


def within(seconds: float, root: Path) -> list[Document]:
    found: list[Document] = []
    thread = threading.Thread(target=lambda: found.extend(see(root).documents), daemon=True)
    thread.start()
    thread.join(seconds)
    return found


@pytest.mark.parametrize(
    "kind", ["fifo", "socket", "directory", "link", "dangling link", "link to itself", "device"]
)
def test_what_is_no_regular_file_is_a_problem_and_never_blocks(root: Path, kind: str) -> None:
    path = root / "run" / "run.json"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "socket":
            os.mknod(path, 0o140600)
        case "directory":
            path.mkdir()
        case "device":
            try:
                os.mknod(path, 0o020600, os.makedev(1, 5))
            except PermissionError:
                pytest.skip("only root may make a device node")
        case _:
            target = {"link": "/etc/hostname", "dangling link": "nothing", "link to itself": "run.json"}[kind]
            path.symlink_to(target)
    (document,) = within(10, root)
    assert (document.problem, document.content) == ("is not a regular file", b"")


def test_a_document_is_read_up_to_its_limit_and_not_a_byte_beyond(root: Path) -> None:
    (root / "run" / "exit.json").write_bytes(b" " * MAXIMUM_DOCUMENT)
    assert len(only(root).content) == MAXIMUM_DOCUMENT
    (root / "run" / "exit.json").write_bytes(b" " * (MAXIMUM_DOCUMENT * 2))
    document = only(root)
    assert document.content == b""
    assert document.problem == f"is larger than {MAXIMUM_DOCUMENT} bytes"


def test_a_sparse_giant_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "run" / "exit.json").touch()
    os.truncate(root / "run" / "exit.json", 1 << 30)

    def refuse(descriptor: int, length: int) -> bytes:
        raise AssertionError("it was read")

    monkeypatch.setattr(os, "read", refuse)
    assert only(root).problem == f"is larger than {MAXIMUM_DOCUMENT} bytes"


def test_a_document_that_may_not_be_read_is_a_problem(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "run" / "run.json").write_bytes(b"start")
    open_it = os.open

    def denied(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "run.json":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return open_it(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", denied)
    assert only(root).problem == "can't be read: permission denied"


@pytest.mark.parametrize("swapped_for", ["link", "fifo", "nothing"])
def test_a_document_that_is_swapped_between_looking_and_opening_is_never_followed(
    root: Path, swapped_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, open_it = root / "run" / "run.json", os.open
    path.write_bytes(b"start")

    def swap(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name == "run.json":
            path.unlink()
            if swapped_for == "link":
                path.symlink_to("/etc/hostname")
            elif swapped_for == "fifo":
                os.mkfifo(path)
        return open_it(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap)
    found = see(root)
    monkeypatch.undo()
    if swapped_for == "nothing":
        assert found.documents == ()
    else:
        assert [(each.problem, each.content) for each in found.documents] == [("is not a regular file", b"")]


def test_a_directory_that_is_gone_or_no_directory_any_more_is_gone(root: Path) -> None:
    (root / "file").touch()
    (root / "link").symlink_to("run")
    for name in ("nothing", "file", "link"):
        assert look(str(root), name, DOCUMENTS, {}) == Gone()


def test_nothing_is_said_of_a_run_whose_root_is_gone(root: Path) -> None:
    found = look(f"{root}-elsewhere", "run", DOCUMENTS, {})
    assert isinstance(found, Unreadable)
    assert found.why.startswith("the root can't be reached")


def test_a_directory_that_goes_while_it_is_read_is_still_read_or_empty(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, stat_it = root / "run", os.stat
    (run / "run.json").write_bytes(b"start")

    def remove_first(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if path == "run.json" and run.exists():
            (run / "run.json").unlink()
            run.rmdir()
        return stat_it(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", remove_first)
    sight = look(str(root), "run", DOCUMENTS, {})
    monkeypatch.undo()
    assert isinstance(sight, Sight)
    assert sight.documents == ()
    assert look(str(root), "run", DOCUMENTS, {}) == Gone()


def test_a_machine_in_trouble_is_unreadable(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "run" / "run.json").write_bytes(b"start")

    def broken(descriptor: int, length: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "read", broken)
    assert look(str(root), "run", DOCUMENTS, {}) == Unreadable("Input/output error")


def test_the_directorys_own_signature_changes_with_its_entries(root: Path) -> None:
    before = see(root).directory
    os.utime(root / "run", ns=(1, 1))
    assert see(root).directory != before
    assert see(root).directory == see(root).directory


def test_no_descriptor_stays_open(root: Path) -> None:
    (root / "run" / "run.json").symlink_to("x")
    (root / "run" / "exit.json").write_bytes(b"end")
    before = os.listdir("/proc/self/fd")
    for name in ("run", "nothing"):
        look(str(root), name, DOCUMENTS, {})
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_root_lists_its_directories_and_nothing_else(root: Path) -> None:
    (root / "file").touch()
    (root / "link").symlink_to("run")
    (root / ".hidden").mkdir()
    (root / "two\nlines \x1b[31m").mkdir()
    found = list_root(str(root))
    assert isinstance(found, Listing)
    assert sorted(found.directories) == ["run", "two\nlines \x1b[31m"]
    assert found.unusable == ()


def test_names_that_are_not_utf_8_are_told_and_left_alone(root: Path) -> None:
    os.mkdir(os.fsencode(root) + b"/\xff\xfe")
    found = list_root(str(root))
    assert isinstance(found, Listing)
    assert sorted(found.directories) == ["run"]
    assert found.unusable == ("\\udcff\\udcfe",)


def test_a_root_that_is_not_there_or_no_directory_is_gone(root: Path) -> None:
    (root / "file").touch()
    assert list_root(str(root / "nothing")) == Gone()
    assert list_root(str(root / "file")) == Gone()


def test_a_root_that_may_not_be_listed_says_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "scandir", denied)
    assert list_root(str(root)) == Unreadable("Permission denied")


def test_a_root_that_another_directory_stands_in_for_has_another_identity(root: Path) -> None:
    before = standing(str(root))
    assert before is not None
    assert standing(str(root)) == before
    root.rename(f"{root}-aside")
    assert standing(str(root)) is None
    root.mkdir()
    assert standing(str(root)) != before
