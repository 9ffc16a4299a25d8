"""What a launcher and its daemon say to each other: whole messages of a known form, from whom they come, and no others."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import wait_for

from runward.daemon.launch import channel
from runward.daemon.launch.channel import DaemonSpokenTo, Heard, Message, dump, load

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    daemon, launcher = channel.pair()
    with daemon, launcher:
        yield daemon, launcher


WORDS = st.sampled_from(sorted(channel._WORDS))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT


@given(WORDS, TEXT, st.none() | st.floats(0.0, 1e10), st.none() | st.dictionaries(TEXT, VALUES, min_size=1))
def test_a_message_is_read_as_it_was_sent(
    word: str, why: str, at: float | None, launch: dict[str, bool | int | str | None] | None
) -> None:
    message = Message(word, why, at, None if launch is None else {**launch})
    assert load(dump(message)) == message


@pytest.mark.parametrize(
    "packet",
    [
        b"\0",
        b"[]",
        b"1",
        b"{",
        b"{}",
        b'{"word": "recorded"}',
        b'{"runward-launcher": 2, "word": "recorded"}',
        b'{"runward-launcher": 1}',
        b'{"runward-launcher": 1, "word": "obey"}',
        b'{"runward-launcher": 1, "word": ["recorded"]}',
        b'{"runward-launcher": 1, "word": "recorded", "more": 1}',
        b'{"runward-launcher": 1, "word": "recorded", "why": 1}',
        b'{"runward-launcher": 1, "word": "announced", "at": "now"}',
        b'{"runward-launcher": 1, "word": "announced", "at": NaN}',
        b'{"runward-launcher": 1, "word": "announced", "at": -1.0}',
        b'{"runward-launcher": 1, "word": "announced", "launch": []}',
        b"[" * 10_000,
        b"\xff",
    ],
)
def test_what_is_not_a_message_is_seen_to_be_none(packet: bytes, ends: Ends) -> None:
    daemon, launcher = ends
    assert load(packet) is None
    launcher.send(packet)
    assert channel.receive(daemon) == Heard(None, os.getpid(), os.getuid())


@given(st.binary(max_size=200))
def test_no_bytes_at_all_make_reading_fail(packet: bytes) -> None:
    load(packet)


def test_a_message_that_is_too_long_is_not_sent_and_one_that_was_sent_is_none(ends: Ends) -> None:
    daemon, launcher = ends
    assert not channel.send(launcher, Message(channel.ANNOUNCED, launch={"x": "x" * channel.LONGEST}))
    launcher.send(dump(Message(channel.FAILED, "x" * channel.LONGEST)))
    assert channel.receive(daemon) == Heard(None, os.getpid(), os.getuid())
    with pytest.raises(BlockingIOError):
        channel.receive(daemon)


def test_the_kernel_says_who_sent_a_message_whatever_the_message_says(ends: Ends) -> None:
    daemon, launcher = ends
    sends = f"import socket; socket.socket(fileno={launcher.fileno()}).send({dump(Message(channel.BEGUN))!r})"
    other = subprocess.Popen([sys.executable, "-c", sends], pass_fds=[launcher.fileno()])
    assert other.wait() == 0
    assert channel.receive(daemon) == Heard(Message(channel.BEGUN), other.pid, os.getuid())


def test_descriptors_that_come_with_a_message_are_closed(ends: Ends) -> None:
    daemon, launcher = ends
    before = sorted(os.listdir("/proc/self/fd"))
    socket.send_fds(launcher, [dump(Message(channel.BEGUN))], [0, 1, 2])
    channel.receive(daemon)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_the_end_of_either_is_the_end_of_the_channel(ends: Ends) -> None:
    daemon, launcher = ends
    launcher.close()
    assert channel.receive(daemon) is None
    assert not channel.send(daemon, Message(channel.RECORDED))


def announce(ends: Ends, *answers: bytes) -> bool:
    """A launcher announces a launch to a daemon that says this, and then closes its end."""
    daemon, launcher = ends
    for answer in answers:
        daemon.send(answer)
    daemon.shutdown(socket.SHUT_WR)
    return announced(launcher)


def announced(launcher: socket.socket) -> bool:
    spoken_to = DaemonSpokenTo(os.dup(launcher.fileno()))
    try:
        return spoken_to.announce({"launch": "1"})
    finally:
        spoken_to.close()


def test_a_launch_is_recorded_if_the_daemon_says_so(ends: Ends) -> None:
    assert announce(ends, dump(Message(channel.RECORDED)))
    heard = channel.receive(ends[0])
    assert heard is not None
    assert heard.message is not None
    assert (heard.message.word, heard.message.launch) == (channel.ANNOUNCED, {"launch": "1"})


@pytest.mark.parametrize(
    "answers", [(), (b"recorded",), (b"\0",), (dump(Message(channel.BEGUN)), dump(Message(channel.RECORDED)))]
)
def test_it_is_not_if_the_daemon_ends_or_says_anything_else(ends: Ends, answers: tuple[bytes, ...]) -> None:
    assert not announce(ends, *answers)


def test_it_is_not_if_the_daemon_says_nothing_in_time(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "ACKNOWLEDGED_WITHIN", 0.01)
    assert not announced(ends[1])


def test_a_daemon_that_reads_nothing_makes_no_launcher_wait(ends: Ends) -> None:
    launcher = ends[1]
    while channel.send(launcher, Message(channel.FAILED, "x" * 1000)):
        pass
    wait_for(lambda: not channel.send(launcher, Message(channel.FAILED, "x" * 1000)), "a full channel")
