"""A start is claimed by one launcher at a time, never again once its command was let go, and by no old epoch."""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runward.daemon.disk.epoch import write_epoch
from runward.daemon.launch.record import PROCESS, RUN, BegunAlready, NameTaken
from runward.daemon.launch.ticket import (
    Claim,
    EpochOver,
    TicketHeld,
    TicketState,
    claim_start,
    name_of,
    throw_away,
    ticket_state,
)
from runward.daemon.store.ownership import prepare

EPOCH = 3


class Machine:
    """A state directory in its third epoch, and a root."""

    def __init__(self, base: Path) -> None:
        self.state, self.root = base / "state", base / "runs"
        prepare(self.state)
        write_epoch(self.state, EPOCH)
        self.root.mkdir()
        self._claims: list[Claim] = []

    def claim(self, key: str = "key", epoch: int = EPOCH, name: str = "run") -> Claim:
        claim = claim_start(self.state, key, epoch, str(self.root), name)
        self._claims.append(claim)
        return claim

    def die(self, claim: Claim) -> None:
        """The launcher that has this claim is killed."""
        claim.ticket.close()
        claim.directory.close()
        self._claims.remove(claim)

    def close(self) -> None:
        for claim in list(self._claims):
            self.die(claim)

    def tickets(self) -> int:
        return len(os.listdir(self.state / "starts"))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


def test_a_claim_makes_the_run_directory_and_keeps_others_out(machine: Machine) -> None:
    claim = machine.claim()
    assert claim.directory.path == str(machine.root / "run")
    assert os.listdir(machine.root / "run") == []
    with pytest.raises(TicketHeld):
        machine.claim()


def test_who_holds_a_claim_and_let_its_command_go_has_begun(machine: Machine) -> None:
    machine.claim().ticket.mark()
    with pytest.raises(BegunAlready):
        machine.claim()


def test_what_has_begun_is_never_claimed_again_even_if_its_directory_is_gone(machine: Machine) -> None:
    claim = machine.claim()
    claim.ticket.mark()
    machine.die(claim)
    with pytest.raises(BegunAlready):
        machine.claim()
    os.rmdir(machine.root / "run")
    with pytest.raises(BegunAlready):
        machine.claim()


def test_a_launcher_that_died_before_it_began_leaves_the_claim_to_the_next(machine: Machine) -> None:
    first = machine.claim()
    os.mkdir(machine.root / "run" / "artifacts")
    for name in ("stdout.log", "stderr.log", ".exit.json.a1b2c3.tmp", ".run.json.d4e5f6.tmp"):
        (machine.root / "run" / name).touch()
    machine.die(first)
    machine.claim()
    assert os.listdir(machine.root / "run") == []


@pytest.mark.parametrize("last", [RUN, "artifacts", "stdout.log"])
def test_nothing_is_cleared_away_in_a_run_that_began(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    claim = machine.claim()
    os.mkdir(machine.root / "run" / "artifacts")
    (machine.root / "run" / "stdout.log").touch()
    claim.directory.write_json(RUN, {"metadata": {"start": "key"}})
    machine.die(claim)
    there = sorted(os.listdir(machine.root / "run"))
    monkeypatch.setattr(os, "listdir", lambda place: sorted(there, key=lambda name: name == last))
    with pytest.raises(BegunAlready):
        machine.claim()
    monkeypatch.undo()
    assert sorted(os.listdir(machine.root / "run")) == there


def test_a_run_json_of_this_start_says_that_it_began(machine: Machine) -> None:
    claim = machine.claim()
    claim.directory.write_json(RUN, {"metadata": {"start": "key"}})
    machine.die(claim)
    with pytest.raises(BegunAlready):
        machine.claim()


@pytest.mark.parametrize(
    "content",
    [
        '{"metadata": {"start": "another"}}',
        '{"metadata": {"start": ["key"]}}',
        '{"metadata": "start"}',
        "{}",
        "[]",
        "not json",
        "[" * 100_000,
        "\udcff",
    ],
)
def test_another_run_under_the_name_is_left_as_it_is(machine: Machine, content: str) -> None:
    (machine.root / "run").mkdir()
    path = machine.root / "run" / RUN
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(NameTaken, match="it already contains a run"):
        machine.claim()
    assert path.read_bytes() == content.encode(errors="surrogateescape")


def test_files_that_were_written_without_a_sync_are_synced_once_and_wherever_they_are_then(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = machine.claim().directory
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    directory.write_json(PROCESS, {"pid": 7}, is_synced=False)
    run = machine.root / "run"
    assert synced == []
    (run / PROCESS).rename(run / "moved")
    (run / PROCESS).mkdir()
    directory.make_durable()
    directory.make_durable()
    assert synced == [path.stat().st_ino for path in (run / "moved", run)]


def test_nothing_that_no_launcher_leaves_is_touched(machine: Machine) -> None:
    run = machine.root / "run"
    run.mkdir()
    for name, content in (("notes.md", ""), ("stdout.log", "words"), (".hidden.tmp", "")):
        (run / name).write_text(content)
        with pytest.raises(NameTaken, match=name):
            machine.claim()
        assert (run / name).read_text() == content
        (run / name).unlink()
    (run / "artifacts").mkdir()
    (run / "artifacts" / "review.md").write_text("mine")
    with pytest.raises(NameTaken, match="artifacts"):
        machine.claim()
    assert (run / "artifacts" / "review.md").read_text() == "mine"


def test_a_hostile_thing_in_place_of_the_directory_or_its_record_is_no_way_out(machine: Machine) -> None:
    elsewhere = machine.root.parent / "elsewhere"
    elsewhere.mkdir()
    (machine.root / "run").symlink_to(elsewhere)
    with pytest.raises(NameTaken, match="not a directory"):
        machine.claim()
    (machine.root / "file").touch()
    with pytest.raises(NameTaken, match="not a directory"):
        machine.claim("two", name="file")
    (machine.root / "fifo").mkdir()
    os.mkfifo(machine.root / "fifo" / RUN)
    with pytest.raises(NameTaken, match="contains a run"):
        machine.claim("three", name="fifo")
    (machine.root / "link").mkdir()
    (machine.root / "link" / "stdout.log").symlink_to("/etc/passwd")
    with pytest.raises(NameTaken, match=r"stdout\.log"):
        machine.claim("four", name="link")
    assert list(elsewhere.iterdir()) == []


def test_a_directory_of_another_user_is_not_taken_over(machine: Machine) -> None:
    (machine.root / "run").mkdir()
    try:
        os.chown(machine.root / "run", 12345, -1)
    except PermissionError:
        pytest.skip("only root may give a directory away")
    with pytest.raises(NameTaken, match="another user"):
        machine.claim()


def test_a_root_that_is_away_is_not_made(machine: Machine) -> None:
    machine.root.rmdir()
    with pytest.raises(OSError, match="its root is missing"):
        machine.claim()
    assert not machine.root.exists()
    machine.root.mkdir()
    machine.claim()


def test_a_launcher_of_an_old_epoch_claims_nothing(machine: Machine) -> None:
    with pytest.raises(EpochOver):
        machine.claim(epoch=EPOCH - 1)
    assert list(machine.root.iterdir()) == []
    machine.claim()


def test_a_refused_claim_keeps_nobody_out(machine: Machine) -> None:
    (machine.root / "run").symlink_to("nowhere")
    with pytest.raises(NameTaken):
        machine.claim()
    (machine.root / "run").unlink()
    machine.claim()


def test_tickets_of_what_is_over_are_thrown_away_and_those_that_are_owed_stay(machine: Machine) -> None:
    for key in ("owed", "over", "any/key\n"):
        claim = machine.claim(key, name=f"run-{len(key)}")
        claim.ticket.mark()
        machine.die(claim)
    throw_away(machine.state, {"owed"})
    assert machine.tickets() == 1
    with pytest.raises(BegunAlready):
        machine.claim("owed", name="run-4")


def test_a_ticket_that_cannot_be_read_is_not_thrown_away(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    machine.claim()
    monkeypatch.setattr(fcntl, "flock", refuse)
    throw_away(machine.state, ())
    assert machine.tickets() == 1
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        ticket_state(machine.state, name_of("key"))
    monkeypatch.undo()
    assert ticket_state(machine.state, name_of("key")) is TicketState.HELD
    assert ticket_state(machine.state, name_of("another")) is TicketState.ABSENT


def test_a_ticket_is_for_the_daemons_user_alone(machine: Machine) -> None:
    machine.claim()
    (ticket,) = (machine.state / "starts").iterdir()
    assert ticket.stat().st_mode & 0o777 == 0o600
    assert (machine.state / "starts").stat().st_mode & 0o777 == 0o700
