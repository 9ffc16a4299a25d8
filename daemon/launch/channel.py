"""What a launcher and the daemon that started it say to each other, over a pair of sockets that the daemon made.

A message is one packet with a JSON object of at most `LONGEST` bytes. Only who holds the other end can speak, and the
kernel says with each message who sent it. What is not such a message ends the conversation: the daemon closes its
end, and a launcher that gets no acknowledgement uses the inbox, as one does that nobody listens to.
"""

import array
import json
import os
import select
import socket
import struct
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue

ANNOUNCED: Final = "announced"
"""A launcher is about to release its command: `launch` is the record of its launch, as it would be in the inbox."""
BEGUN: Final = "begun"
HELD: Final = "held"
SUPERSEDED: Final = "superseded"
TAKEN: Final = "taken"
FAILED: Final = "failed"
ENDED: Final = "ended"
"""Its run is over, and `exit.json` is there."""
FREE: Final = "free"
"""Nothing of its run is left in this launcher, which waits for another order."""
ORDER: Final = "order"
"""The daemon's word: the order is in the file whose descriptor comes with it."""
RECORDED: Final = "recorded"
"""The daemon's word: what was announced is durable in the store, so the command may be released."""

LONGEST: Final = 64 << 10
"""A longer message is not sent: a launch with so large a contract goes through the inbox."""

ACKNOWLEDGED_WITHIN: Final = 5.0
"""Seconds that a command waits for the daemon before its launch is put into the inbox instead."""

_VERSION_KEY: Final = "runward-launcher"
_VERSION: Final = 1
_WORDS: Final = frozenset({ANNOUNCED, BEGUN, HELD, SUPERSEDED, TAKEN, FAILED, ENDED, FREE, ORDER, RECORDED})
_LAST_MOMENT: Final = 1e11
_LONGEST_WHY: Final = 2000
_AT_ONCE: Final = int(socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
_CREDENTIALS: Final = struct.Struct("iII")


class Message(NamedTuple):
    """One message. `why` is for people, `at` in Unix seconds."""

    word: str
    why: str = ""
    at: float | None = None
    launch: dict[str, JsonValue] | None = None


class Heard(NamedTuple):
    """A message and who sent it, as the kernel knows it. Without a `message`, what was sent was none."""

    message: Message | None
    pid: int = 0
    uid: int = -1


def dump(message: Message) -> bytes:
    """The packet of a message."""
    given = {name: value for name, value in message._asdict().items() if value not in ("", None)}
    # As in the inbox: a record with a ? in it is better than none.
    return json.dumps({_VERSION_KEY: _VERSION, **given}, ensure_ascii=False).encode(errors="replace")


def load(packet: bytes) -> Message | None:
    """The message in a packet; None if it is not one."""
    try:
        value = json.loads(packet)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.pop(_VERSION_KEY, None) != _VERSION:
        return None
    if not value.keys() <= {*Message._fields}:
        return None
    word, why = value.get("word"), value.get("why", "")
    at, launch = value.get("at"), value.get("launch")
    if not isinstance(word, str) or word not in _WORDS or not isinstance(why, str):
        return None
    if not (at is None or (isinstance(at, float) and 0.0 <= at < _LAST_MOMENT)):
        return None
    if not (launch is None or isinstance(launch, dict)):
        return None
    return Message(word, why, at, launch)


def pair() -> tuple[socket.socket, socket.socket]:
    """The daemon's end, which is told who sends, and the launcher's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # The descriptor alone is no proof: a process of the run that got hold of it must not speak for its launcher.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    ours.setblocking(False)
    return ours, theirs


def send(end: socket.socket, message: Message) -> bool:
    """Send a message without waiting; returns whether it is on its way. One that is too long is not."""
    packet = dump(message)
    if len(packet) > LONGEST:
        return False
    try:
        end.send(packet, _AT_ONCE)
    except OSError:
        return False  # the other one has ended, or reads nothing any more
    return True


def send_order(end: socket.socket, content: int) -> bool:
    """Order what is in the file `content`; returns whether the order is on its way."""
    try:
        socket.send_fds(end, [dump(Message(ORDER))], [content], _AT_ONCE)
    except OSError:
        return False
    return True


def receive(end: socket.socket) -> Heard | None:
    """What was sent, and who sent it; None if the other end was closed. Raises BlockingIOError if there is nothing."""
    try:
        # One byte more than is allowed, so that a longer packet is seen to be cut.
        packet, further, flags, _ = end.recvmsg(LONGEST + 1, socket.CMSG_SPACE(_CREDENTIALS.size) + 256)
    except BlockingIOError:
        raise
    except OSError:
        return None
    sender = 0, -1
    for level, kind, content in further:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            sender = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[:2]
        elif level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            # Descriptors are not part of any message, and would stay open here.
            for descriptor in array.array("i", content[: len(content) // 4 * 4]):
                os.close(descriptor)
    if not packet:
        return None
    is_cut = bool(flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)) or len(packet) > LONGEST
    return Heard(None if is_cut else load(packet), *sender)


class DaemonSpokenTo:
    """A launcher's end. Everything it says is best effort: a daemon that has gone hears of the run otherwise."""

    def __init__(self, descriptor: int) -> None:
        self._end: socket.socket | None = socket.socket(fileno=descriptor)

    def answer(self, word: str, why: str = "", at: float | None = None) -> None:
        """Say how the start went, unless it was said already, and nothing more."""
        if self._end is not None:
            send(self._end, Message(word, why[:_LONGEST_WHY], at))
        self.close()

    def announce(self, launch: dict[str, JsonValue]) -> bool:
        """Announce a launch; returns whether the daemon has recorded it durably. If not, it must go into the inbox."""
        if self._end is None:
            return False
        from runward.daemon.processes.kernel import (
            file_time,  # the daemon, which only hears of it, does without ctypes
        )

        announced = Message(ANNOUNCED, at=file_time(), launch=launch)
        return send(self._end, announced) and self._is_recorded()

    def _is_recorded(self) -> bool:
        assert self._end is not None
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        if not poll.poll(ACKNOWLEDGED_WITHIN * 1000):
            return False
        heard = receive(self._end)
        return heard is not None and heard.message is not None and heard.message.word == RECORDED

    def ended(self) -> bool:
        """Say that the run is over; returns whether anybody may hear it."""
        return self._end is not None and send(self._end, Message(ENDED))

    def next_order(self, patience: float) -> int | None:
        """Say that this launcher is free, and wait for another order, at most `patience` seconds.

        Returns the descriptor of the file that it is in. None if there will be none, or if anything else was said.
        """
        if self._end is None or not send(self._end, Message(FREE)):
            return None
        return self.order(patience)

    def order(self, patience: float) -> int | None:
        """Wait for an order. See `next_order`."""
        if self._end is None:
            return None
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        if not poll.poll(patience * 1000):
            return None
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._end, LONGEST, 1)
        except OSError:
            return None
        message = load(packet)
        if len(descriptors) == 1 and message is not None and message.word == ORDER:
            return descriptors[0]
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def close(self) -> None:
        """Say nothing more."""
        if self._end is not None:
            self._end.close()
        self._end = None
