"""A launcher announces its run to the daemon that ordered it, and releases the command when that is recorded, or in the inbox."""

import json
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.launching import is_alive
from tests.daemon.world.test_starting import EPOCH, Starter
from tests.waiting import wait_for

from runward.daemon.inbox.launches import LAUNCH
from runward.daemon.inbox.spool import list_inbox
from runward.daemon.launch import channel
from runward.daemon.launch.channel import Message
from runward.daemon.world import starting
from runward.daemon.world.processes import Announced, NotBegun
from runward.daemon.world.starting import LauncherSpokenTo, StartingProcesses

IMPATIENT = (
    sys.executable,
    "-P",
    "-c",
    "from runward.daemon.launch import channel, detached; channel.ACKNOWLEDGED_WITHIN = 0.05; detached.main()",
)


class Announcing(Starter):
    """A daemon without a store. What its launchers announce is acknowledged only by the test."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.plain = StartingProcesses(self.state)
        self._ends: list[LauncherSpokenTo] = []

    def announced(self, name: str, *command: str, **further: object) -> Announced:
        answer = self.plain.start(self.order(name, *command, **further), EPOCH)
        assert isinstance(answer, Announced)
        assert isinstance(answer.channel, LauncherSpokenTo)
        self._ends.append(answer.channel)
        return answer

    def inbox(self) -> list[str]:
        """The sessions whose launches are in the inbox, each once for each file."""
        values = [json.loads(file.content) for file in list_inbox(self.state)]
        return [value["session_key"] for value in values if LAUNCH in value]

    def close(self) -> None:
        for each in self._ends:
            each.close()
        self.plain.close()
        super().close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Announcing]:
    made = Announcing(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["new", "forked"])
def either(request: pytest.FixtureRequest, daemon: Announcing) -> Announcing:
    """A daemon whose launchers are new processes, and one whose launchers are forked."""
    if request.param == "forked":
        daemon.plain.expect_start(EPOCH)
    return daemon


def test_the_command_waits_until_its_launch_is_recorded_and_nothing_goes_through_the_inbox(
    either: Announcing,
) -> None:
    announced = either.announced("one", "sh", "-c", "echo ran > ran", timeout=60.0)
    launch = announced.launch
    assert (launch.session_key, launch.timeout, launch.launcher[0]) == (
        "native:runs/one",
        60.0,
        either.launcher("one"),
    )
    waiting = Path(f"/proc/{launch.process[0]}/cmdline").read_bytes()
    assert b"echo ran" not in waiting, "it is at its gate"
    assert not (either.work / "ran").exists()
    announced.channel.acknowledge()
    either.wait("one")
    assert (either.work / "ran").read_text() == "ran\n"
    assert either.inbox() == []


def test_nothing_that_the_command_writes_is_older_than_what_was_announced(either: Announcing) -> None:
    announced = either.announced("one", "sh", "-c", "echo ran > ran")
    announced.channel.acknowledge()
    either.wait("one")
    assert (either.work / "ran").stat().st_mtime >= announced.at


def test_its_end_is_told_when_its_record_is_there(either: Announcing) -> None:
    announced = either.announced("one", "true")
    announced.channel.acknowledge()
    assert isinstance(announced.channel, LauncherSpokenTo)
    end = announced.channel._end
    assert end is not None
    select.select([end], [], [])
    heard = channel.receive(end)
    assert heard is not None
    assert heard.message == Message(channel.ENDED)
    exit_json = either.read("one", "exit.json")
    assert exit_json["cause"] == "exited"
    assert "secret" in exit_json


def test_a_daemon_that_ends_leaves_the_launch_to_its_inbox(either: Announcing) -> None:
    announced = either.announced("one", "sh", "-c", "ls ../state/inbox > ran")
    announced.channel.close()
    either.wait("one")
    assert len((either.work / "ran").read_text().splitlines()) == 1, "it was there before the command ran"
    assert either.inbox() == ["native:runs/one"] * 2, "and again when it was over"


def test_so_does_one_that_says_nothing_in_time(daemon: Announcing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "LAUNCHER", IMPATIENT)
    daemon.announced("one", "sh", "-c", "ls ../state/inbox > ran")
    daemon.wait("one")
    assert len((daemon.work / "ran").read_text().splitlines()) == 1
    assert daemon.inbox() == ["native:runs/one"] * 2


@pytest.mark.parametrize("said", [b"recorded", b"\0", b'{"runward-launcher": 2, "word": "recorded"}'])
def test_so_does_one_that_says_what_no_launcher_understands(daemon: Announcing, said: bytes) -> None:
    announced = daemon.announced("one", "true")
    assert isinstance(announced.channel, LauncherSpokenTo)
    assert announced.channel._end is not None
    announced.channel._end.send(said)
    daemon.wait("one")
    assert daemon.inbox() == ["native:runs/one"] * 2


def test_without_any_way_to_announce_it_the_command_is_not_released(daemon: Announcing) -> None:
    announced = daemon.announced("one", "touch", "ran")
    (daemon.state / "inbox").rmdir()
    (daemon.state / "inbox").touch()
    announced.channel.close()
    assert daemon.wait("one")["cause"] == "not_started"
    assert not (daemon.work / "ran").exists()


def test_a_contract_that_is_too_long_for_the_channel_goes_through_the_inbox(daemon: Announcing) -> None:
    contract = {"expected": [], "x": "x" * channel.LONGEST}
    daemon.plain.start(daemon.order("one", "true", contract=contract), EPOCH)
    daemon.wait("one")
    assert daemon.inbox() == ["native:runs/one"] * 2


def test_the_command_gets_no_descriptor_of_the_channel(either: Announcing) -> None:
    announced = either.announced("one", "sh", "-c", "readlink /proc/self/fd/* | grep -c socket")
    announced.channel.acknowledge()
    assert either.output("one") == ["0"]


ANNOUNCES = """
import json, os, socket, sys
from runward.daemon.launch import channel
from runward.daemon.launch.record import Announcement
from runward.daemon.processes.proc import identity_of
pid = {pid}
launch = Announcement("/nowhere", {session!r}, 1.0, identity_of(pid), identity_of(pid), None, None, 1.0, None)
channel.send(socket.socket(fileno=1), channel.Message(channel.ANNOUNCED, at=1.0, launch={content}))
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("pid", "session", "content"),
    [
        ("os.getppid()", "native:runs/one", "launch.content"),
        ("os.getpid()", "native:runs/another", "launch.content"),
        ("os.getpid()", "native:runs/one", "{}"),
        ("os.getpid()", "native:runs/one", "{**launch.content, 'seal': 7}"),
        ("os.getpid()", "native:runs/one", "{**launch.content, 'timeout': 10 ** 400}"),
    ],
)
def test_who_is_not_the_launcher_of_this_run_announces_nothing(
    daemon: Announcing, monkeypatch: pytest.MonkeyPatch, pid: str, session: str, content: str
) -> None:
    script = ANNOUNCES.format(pid=pid, session=session, content=content)
    monkeypatch.setattr(starting, "LAUNCHER", (sys.executable, "-P", "-c", script))
    answer = daemon.plain.start(daemon.order("one", "true"), EPOCH)
    assert answer == NotBegun("its launcher said something that this daemon doesn't understand")


def test_a_launcher_that_is_killed_while_it_waits_releases_nothing(daemon: Announcing) -> None:
    announced = daemon.announced("one", "touch", "ran")
    os.kill(announced.launch.launcher[0], 9)
    wait_for(lambda: not is_alive(announced.launch.process[0]), "the end of the command at its gate")
    announced.channel.acknowledge()
    assert not (daemon.work / "ran").exists()
