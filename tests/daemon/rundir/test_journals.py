"""Our lines in a journal: each exactly once and in order, whatever was torn, and whatever else writes."""

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runward.daemon.disk.epoch import EpochPassed
from runward.daemon.rundir import journals
from runward.daemon.rundir.journals import Appended, JournalLine, NotAppended, NotFirst

EPOCH = 7
STARTED = b'{"ts":"1","role":"runward","event":"session_started","path":"","hash":"aa"}\n'
SNAPSHOT = b'{"ts":"1","role":"runward","event":"contract_snapshotted","path":"","hash":"aa"}\n'
VERIFIED = b'{"ts":"2","role":"runward","event":"artifact_verified","path":"","hash":"bb"}\n'
CHANGED = b'{"ts":"2","role":"runward","event":"status_changed","path":"","hash":"bb"}\n'
FINISHED = b'{"ts":"2","role":"runward","event":"session_finished","path":"","hash":"bb"}\n'
FIRST, SECOND = STARTED + SNAPSHOT, VERIFIED + CHANGED + FINISHED
OURS = [STARTED, SNAPSHOT, VERIFIED, CHANGED, FINISHED]
THEIRS = b'{"role":"agent","event":"tool"}\n'


def append(
    directory: Path, content: bytes, *, check: bool = False, live: bool = False, epoch: int = EPOCH
) -> Appended | NotAppended:
    line = JournalLine(str(directory), "events.jsonl", content, check, live)
    (appended,) = journals.append([line], epoch, lambda: EPOCH)
    assert not isinstance(appended, NotFirst), "only asked for below"
    return appended


def put(directory: Path, content: bytes) -> Path:
    path = directory / "events.jsonl"
    path.write_bytes(content)
    return path


def assert_once_and_in_order(content: bytes, ours: list[bytes]) -> None:
    lines = content.splitlines(keepends=True)
    assert [line for line in lines if line in ours] == ours


def test_a_line_is_appended_to_a_new_file_that_is_for_this_user_alone(tmp_path: Path) -> None:
    assert append(tmp_path, FIRST) == Appended(0)
    path = tmp_path / "events.jsonl"
    assert path.read_bytes() == FIRST
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_follows_what_is_there_and_says_where_it_stands(tmp_path: Path) -> None:
    path = put(tmp_path, THEIRS)
    assert append(tmp_path, FIRST) == Appended(len(THEIRS))
    assert path.read_bytes() == THEIRS + FIRST


def cuts() -> Iterator[int]:
    """Every place from before the first record to after the second."""
    yield from range(len(FIRST + SECOND) + 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"", b"", id="a journal of ours alone"),
        pytest.param(THEIRS, b"", id="after the run's own line"),
        pytest.param(b"", THEIRS, id="then a line"),
        pytest.param(THEIRS, THEIRS * 2, id="then two lines"),
        pytest.param(b"", THEIRS[:9], id="then a torn line"),
        pytest.param(THEIRS, b"\n", id="then a newline"),
        pytest.param(b"", b"{", id="then a brace"),
        pytest.param(THEIRS, b"\xff\x00", id="then no text"),
        pytest.param(b"", STARTED[:30], id="then the beginning of a line like ours"),
        pytest.param(THEIRS, b'{"echo":' + STARTED, id="then an echo of ours"),
    ],
)
def test_a_journal_that_was_cut_anywhere_is_repaired(tmp_path: Path, before: bytes, after: bytes) -> None:
    """The last two records are owed; the file was cut at each of their bytes, and another writer went on."""
    for cut in cuts():
        left = before + (FIRST + SECOND)[:cut] + after
        path = put(tmp_path, left)
        for content in (FIRST, SECOND):
            assert isinstance(append(tmp_path, content, check=True), Appended), f"cut at {cut}"
        repaired = path.read_bytes()
        assert repaired.startswith(left), f"cut at {cut}: a byte that was there is gone"
        assert_once_and_in_order(repaired, OURS)
        again = [append(tmp_path, content, check=True) for content in (FIRST, SECOND)]
        assert all(isinstance(each, Appended) and each.already for each in again)
        assert path.read_bytes() == repaired


def test_a_record_whose_lines_the_run_came_between_is_completed_line_by_line(tmp_path: Path) -> None:
    for cut in range(len(SECOND) + 1):
        path = put(tmp_path, FIRST + SECOND[:cut] + THEIRS + THEIRS[:5])
        assert isinstance(append(tmp_path, SECOND, check=True), Appended)
        assert_once_and_in_order(path.read_bytes(), OURS)


def test_a_record_cut_while_the_run_lives_is_completed_but_no_foreign_torn_line_is(tmp_path: Path) -> None:
    path = put(tmp_path, FIRST[:20])
    assert isinstance(append(tmp_path, FIRST, check=True, live=True), Appended)
    assert path.read_bytes() == FIRST
    path = put(tmp_path, FIRST[:20] + b"\x00torn")
    assert append(tmp_path, FIRST, check=True, live=True) == NotAppended("the run is in the middle of a line")
    assert path.read_bytes() == FIRST[:20] + b"\x00torn"


def test_a_completed_record_says_where_each_piece_of_it_stands(tmp_path: Path) -> None:
    put(tmp_path, THEIRS + FIRST[: len(STARTED) + 5])
    assert append(tmp_path, FIRST, check=True) == Appended(len(THEIRS)), "it is one piece again"
    put(tmp_path, THEIRS + STARTED + THEIRS)
    pieces = ((len(THEIRS), len(STARTED)), (len(THEIRS + STARTED + THEIRS), len(SNAPSHOT)))
    assert append(tmp_path, FIRST, check=True) == Appended(len(THEIRS), places=pieces)
    assert append(tmp_path, FIRST, check=True) == Appended(len(THEIRS), already=True, places=pieces)


def test_a_line_that_only_resembles_ours_is_not_taken_for_it(tmp_path: Path) -> None:
    echoed = b'{"echo": ' + STARTED
    path = put(tmp_path, echoed + echoed)
    assert append(tmp_path, STARTED, check=True) == Appended(len(echoed) * 2)
    assert path.read_bytes() == echoed * 2 + STARTED


def test_our_line_is_found_behind_an_echo_of_it(tmp_path: Path) -> None:
    echoed = b'{"echo": ' + STARTED
    put(tmp_path, echoed + STARTED + THEIRS)
    assert append(tmp_path, STARTED, check=True) == Appended(len(echoed), already=True)


@pytest.mark.parametrize("shift", range(-2, 3))
def test_our_line_is_found_where_two_pieces_of_a_long_journal_meet(tmp_path: Path, shift: int) -> None:
    long = (1 << 20) - len(STARTED) // 2 + shift
    put(tmp_path, b"x" * (long - 1) + b"\n" + STARTED + b"y" * (1 << 20) + b"\n")
    assert append(tmp_path, STARTED, check=True) == Appended(long, already=True)


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_our_line_is_looked_for_behind_a_hole_that_nobody_would_read_through(
    tmp_path: Path, shift: int
) -> None:
    path = put(tmp_path, b"theirs\n")
    os.truncate(path, (1 << 40) + shift)
    with path.open("ab") as file:
        file.write(b"\n" + STARTED)
    begins = (1 << 40) + shift + 1
    assert append(tmp_path, STARTED, check=True) == Appended(begins, already=True)
    assert append(tmp_path, SNAPSHOT, check=True) == Appended(begins + len(STARTED))


def test_a_foreign_torn_line_waits_while_the_run_lives(tmp_path: Path) -> None:
    path = put(tmp_path, THEIRS[:9])
    assert append(tmp_path, FIRST, live=True) == NotAppended("the run is in the middle of a line")
    assert path.read_bytes() == THEIRS[:9]
    path.write_bytes(THEIRS)
    assert append(tmp_path, FIRST, check=True, live=True) == Appended(len(THEIRS))


def test_a_foreign_torn_line_is_closed_off_and_reported_once_the_run_is_over(tmp_path: Path) -> None:
    path = put(tmp_path, THEIRS + THEIRS[:9])
    appended = append(tmp_path, SECOND)
    assert isinstance(appended, Appended)
    content = path.read_bytes()
    assert content.startswith(THEIRS + THEIRS[:9])
    assert content[appended.offset :] == SECOND
    assert appended.closed == 9
    assert_once_and_in_order(content, [VERIFIED, CHANGED, FINISHED])


def test_a_passed_epoch_writes_nothing(tmp_path: Path) -> None:
    path = put(tmp_path, THEIRS)
    with pytest.raises(EpochPassed):
        append(tmp_path, FIRST, epoch=EPOCH - 1)
    assert path.read_bytes() == THEIRS


def test_the_epoch_is_read_inside_the_lock(tmp_path: Path) -> None:
    path = put(tmp_path, b"")

    def epoch() -> int:
        with path.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return EPOCH

    line = JournalLine(str(tmp_path), "events.jsonl", FIRST, check=False, live=False)
    assert journals.append([line, line._replace(content=SECOND)], EPOCH, epoch) == [
        Appended(0),
        Appended(len(FIRST)),
    ]


def test_a_lock_that_another_writer_holds_is_waited_for_elsewhere(tmp_path: Path) -> None:
    path = put(tmp_path, THEIRS)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert append(tmp_path, FIRST) == NotAppended("another writer has its lock")
        assert path.read_bytes() == THEIRS
    assert append(tmp_path, FIRST) == Appended(len(THEIRS))


@pytest.mark.parametrize("room", [0, 1, 20, len(FIRST) - 1])
def test_what_a_full_disk_tore_off_is_completed_by_the_next_try(
    tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = put(tmp_path, THEIRS), os.write

    def full(descriptor: int, content: bytes) -> int:
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content[:room])

    monkeypatch.setattr(os, "write", full)
    assert isinstance(append(tmp_path, FIRST), NotAppended)
    monkeypatch.undo()
    assert path.read_bytes() == THEIRS + FIRST[:room]
    assert append(tmp_path, FIRST, check=True) == Appended(len(THEIRS))
    assert path.read_bytes() == THEIRS + FIRST


@pytest.mark.parametrize("room", [1, 2, 3, 20])
def test_a_full_disk_while_a_torn_line_is_closed_off_loses_nothing(
    tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = put(tmp_path, THEIRS[:9]), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:room]))
    assert isinstance(append(tmp_path, SECOND), NotAppended)
    monkeypatch.undo()
    assert isinstance(append(tmp_path, SECOND, check=True), Appended)
    assert path.read_bytes().startswith(THEIRS[:9])
    assert_once_and_in_order(path.read_bytes(), [VERIFIED, CHANGED, FINISHED])


@pytest.mark.parametrize("theirs", [THEIRS, THEIRS[:9]], ids=["a whole line", "a torn line"])
def test_a_run_that_writes_at_the_same_moment_tears_no_line_of_ours(
    tmp_path: Path, theirs: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run takes no lock: its bytes may come between our looking at the end and our writing there."""
    path, write = put(tmp_path, THEIRS), os.write

    def after_the_runs(descriptor: int, content: bytes) -> int:
        with path.open("ab") as run:
            run.write(theirs)
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", after_the_runs)
    first = append(tmp_path, SECOND)
    monkeypatch.undo()
    if isinstance(first, NotAppended):
        assert isinstance(append(tmp_path, SECOND, check=True), Appended)
    content = path.read_bytes()
    assert content.startswith(THEIRS + theirs)
    found = [line for line in content.splitlines(keepends=True) if line in OURS]
    # Only the line that the run's torn bytes ran into may come late, and none comes twice.
    in_order = theirs.endswith(b"\n")
    assert found == ([VERIFIED, CHANGED, FINISHED] if in_order else [CHANGED, FINISHED, VERIFIED])


def test_a_directory_that_is_gone_is_gone_for_good_while_its_root_is_there(tmp_path: Path) -> None:
    gone = append(tmp_path / "run", FIRST)
    assert isinstance(gone, NotAppended)
    assert gone.for_good
    rootless = append(tmp_path / "root" / "run", FIRST)
    assert isinstance(rootless, NotAppended)
    assert not rootless.for_good


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "events.jsonl").write_bytes(THEIRS)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").symlink_to(elsewhere / "events.jsonl")
    (tmp_path / "link").symlink_to(elsewhere)
    for directory in (tmp_path / "run", tmp_path / "link"):
        refused = append(directory, FIRST)
        assert isinstance(refused, NotAppended)
        assert refused.for_good
    assert (elsewhere / "events.jsonl").read_bytes() == THEIRS


def test_nothing_is_written_through_a_hard_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine\n")
    (tmp_path / "run").mkdir()
    os.link(precious, tmp_path / "run" / "events.jsonl")
    refused = append(tmp_path / "run", FIRST)
    assert isinstance(refused, NotAppended)
    assert refused.for_good
    assert "hard link" in refused.why
    assert precious.read_bytes() == b"mine\n"


@pytest.mark.parametrize("kind", ["fifo", "directory", "socket"])
def test_what_is_no_regular_file_is_never_written_to_and_never_blocks(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "events.jsonl"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        os.mknod(path, 0o140600)
    refused = append(tmp_path, FIRST, check=True)
    assert isinstance(refused, NotAppended)
    assert refused.for_good
    assert journals.sync([(str(tmp_path), "events.jsonl")], refuse_to_sync) == {}


def refuse_to_sync(descriptor: int) -> None:
    raise AssertionError("nothing there needs a sync of the whole file system")


def test_a_sync_passes_over_journals_that_are_gone_or_are_links(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.jsonl").symlink_to("loop")
    there = [(str(tmp_path / name), "events.jsonl") for name in ("run", "gone")]
    assert journals.sync([*there, (str(tmp_path), "REPLAY.jsonl")], refuse_to_sync) == {}


def test_many_journals_are_synced_with_their_file_system(tmp_path: Path) -> None:
    synced: list[str] = []
    many = [(str(tmp_path / str(number)), "events.jsonl") for number in range(journals.MANY + 1)]
    journals.sync(many, lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    assert synced == [str(tmp_path)]


def test_a_journal_that_may_not_be_opened_any_more_is_synced_with_its_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_it = os.open
    synced: list[int] = []

    def denied(path: str, flags: int, *further: int) -> int:
        if path.endswith("events.jsonl"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return open_it(path, flags, *further)

    monkeypatch.setattr(os, "open", denied)
    journals.sync([(str(tmp_path / "run"), "events.jsonl")], synced.append)
    assert len(synced) == 1


def test_a_disk_that_refuses_to_sync_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, FIRST)

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    refused = journals.sync([(str(tmp_path), "events.jsonl")], refuse_to_sync)
    assert refused == {(str(tmp_path), "events.jsonl"): "not synced: Input/output error"}


def test_a_file_system_that_refuses_to_sync_is_reported_for_each_of_its_journals(tmp_path: Path) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    many = [(str(tmp_path / str(number)), "events.jsonl") for number in range(journals.MANY + 1)]
    refused = journals.sync(many, broken)
    assert refused == dict.fromkeys(many, "its file system isn't synced: Input/output error")


def test_a_journal_whose_root_is_away_is_not_synced_and_one_whose_run_is_gone_needs_it_not(
    tmp_path: Path,
) -> None:
    away = (str(tmp_path / "root" / "run"), "events.jsonl")
    assert journals.sync([away], refuse_to_sync) == {away: "its root is missing"}
    (tmp_path / "root").mkdir()
    assert journals.sync([away], refuse_to_sync) == {}


def test_a_line_that_stands_already_is_written_over_itself_so_that_the_next_sync_means_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, FIRST + THEIRS)
    written: list[tuple[bytes, int]] = []
    really = os.pwrite

    def noted(descriptor: int, content: bytes, offset: int) -> int:
        written.append((content, offset))
        return really(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", noted)
    assert isinstance(append(tmp_path, FIRST, check=True), Appended)
    assert written == [(STARTED, 0), (SNAPSHOT, len(STARTED))]
    assert path.read_bytes() == FIRST + THEIRS


def test_the_lines_of_these_tests_are_like_ours() -> None:
    assert [json.loads(line)["role"] for line in OURS] == ["runward"] * 5


def test_a_long_torn_line_is_completed_in_no_time(tmp_path: Path) -> None:
    """How much of it stands was tried byte by byte: a megabyte took most of a minute."""
    paths = ",".join(f'"{number:04}{"x" * 1300}"' for number in range(930))
    line = b'{"ts":"2","role":"runward","event":"artifact_verified","produced":[%s]}\n' % paths.encode()
    path = put(tmp_path, THEIRS + line[:-20])
    began = time.process_time()
    assert append(tmp_path, line, check=True) == Appended(len(THEIRS))
    assert time.process_time() - began < 5.0
    assert path.read_bytes() == THEIRS + line


def test_a_line_that_is_to_be_the_first_is_written_to_an_empty_journal_alone(tmp_path: Path) -> None:
    first = JournalLine(str(tmp_path), "events.jsonl", FIRST, False, False, only_first=True)
    assert journals.append([first], EPOCH, lambda: EPOCH) == [Appended(0)]
    again = first._replace(content=SECOND)
    assert journals.append([again, again], EPOCH, lambda: EPOCH) == [NotFirst()]
    assert (tmp_path / "events.jsonl").read_bytes() == FIRST
