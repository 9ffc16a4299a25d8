"""A command's output goes two ways: into the log, and on to the reader of the launcher's own output.

The log comes first and is complete. A slow reader slows the command, as a pipe does. A reader that went away stops
neither command nor log. Output that would fill the disk is no longer logged. Only a write to a plain file ever blocks
here.
"""

from __future__ import annotations

import os
import select
import stat

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from runward.daemon.launch.protocols import Sink
    from runward.daemon.launch.run_log import RunLog


_CHUNK = 65536
_LARGEST_PIPE = 1 << 20
"""The size that /proc/sys/fs/pipe-max-size allows every user for a pipe."""
_LOOK_EVERY = 8 << 20
"""Bytes of a log after which the disk's free space is checked."""


class LowDisk(OSError):
    """There is so little space where a log is that no more is written to it."""


class PassedStream:
    """One output stream of a command: `source` is read, `log` is written, `sink` gets what was read.

    `source` must be non-blocking. `low_disk` is the number of bytes that must be free where the log is, by default
    the setting's. `log_problem` and `sink_problem` say why logging or passing on was given up.
    """

    def __init__(self, source: int, log: RunLog, sink: Sink | None, low_disk: int | None = None) -> None:
        self.source = source
        self.is_open = True
        self.log_problem: OSError | None = None
        self.log_omitted = 0
        self.sink_problem: OSError | None = None
        self._log = log
        self._sink = sink
        self._pending = b""
        self._low_disk = low_disk

    @property
    def sink_descriptor(self) -> int | None:
        """What to wait for before `pass_on` can do more; None if nothing is left to pass on."""
        return self._sink.descriptor if self._sink is not None and self._pending else None

    @property
    def wants_input(self) -> bool:
        """Whether the command's next output should be read now: not before the previous one was taken."""
        return self.is_open and not self._pending

    def take_in(self) -> int:
        """Reads what is there (at most a chunk), logs it, and passes on as much as the reader takes."""
        try:
            content = self._read()
        except BlockingIOError:
            return 0
        if not content:
            self.close_source()
            return 0
        self._write_log(content)
        if self._sink is not None:
            self._pending += content
            self.pass_on()
        return len(content)

    def take_in_rest(self) -> None:
        """What is still in the pipe. It doesn't wait for an end of file, which an escaped process could withhold."""
        taken = 0
        while self.is_open and taken < _LARGEST_PIPE and (size := self.take_in()):
            taken += size
        self.close_source()

    def pass_on(self) -> None:
        """Gives the reader as much as it takes now."""
        while self._pending and self._sink is not None:
            try:
                taken = self._sink.write(self._pending)
            except BlockingIOError:
                return
            except OSError as error:
                self.sink_problem = error
                self.give_up_sink()
                return
            self._pending = self._pending[taken:]

    def give_up_sink(self) -> None:
        """The reader has ended: pending output is dropped, and logging continues."""
        self._sink = None
        self._pending = b""

    def close_source(self) -> None:
        """The command's side is over."""
        if self.is_open:
            self.is_open = False
            os.close(self.source)

    def resize(self) -> None:
        """The caller's terminal may have another size; a pipe has none."""

    def restore(self, *, is_cut_off: bool) -> None:
        """The command is over, `is_cut_off` if it could not clean up; a pipe needs no restoring."""

    def close_log(self) -> None:
        """The log is complete, except for what it leaves out."""
        try:
            self.log_omitted = self._log.close()
        except OSError as error:
            self.log_problem = error

    def _read(self) -> bytes:
        """A chunk of what is there, empty if there will be no more. Raises BlockingIOError."""
        return os.read(self.source, _CHUNK)

    def _write_log(self, content: bytes) -> None:
        if self.log_problem is not None:
            return
        try:
            if self._log.size // _LOOK_EVERY < (self._log.size + len(content)) // _LOOK_EVERY:
                self._keep_room()
            self._log.append(content)
        except LowDisk as low:
            self._end_log(low)
        except OSError as error:
            self.log_problem = error

    def _end_log(self, low: LowDisk) -> None:
        self.log_problem = low
        try:
            self._log.append(f"\nrunward: the log ends here: {low}; the command continues\n".encode())
        except OSError as error:
            self.log_problem = error

    def _keep_room(self) -> None:
        """Raises LowDisk."""
        from runward.config.settings_keys import DEFAULT_LOW_DISK  # most runs write less
        from runward.daemon.disk import file_systems

        try:
            space = file_systems.space_of(self._log.descriptor)
        except OSError:
            return  # it is not known, and a write will show
        low_disk = DEFAULT_LOW_DISK if self._low_disk is None else self._low_disk
        limit = file_systems.limit_of(space, low_disk)
        if space.free < limit:
            raise LowDisk(f"less than {file_systems.rounded(limit)} is free on its disk (low_disk)")


class PlainSink:
    """A file, a device, or a pipe opened so that it doesn't block."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def write(self, content: bytes) -> int:
        """See `Sink`."""
        return os.write(self.descriptor, content)


class SharedPipeSink:
    """A pipe that can only be used as it came, blocking: each write is at most what is sure to fit.

    Also a terminal of another user, which takes at least 256 bytes when it reports that it takes any.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._size = 256 if os.isatty(descriptor) else select.PIPE_BUF

    def write(self, content: bytes) -> int:
        """See `Sink`."""
        if not self._poll.poll(0):
            raise BlockingIOError
        return os.write(self.descriptor, content[: self._size])


class SocketSink:
    """A socket. It is shared with others, so it is not made non-blocking; each write is."""

    def __init__(self, descriptor: int) -> None:
        import socket  # 10 ms that only those pay whose output is one

        self.descriptor = descriptor
        self._flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
        self._socket = socket.socket(fileno=os.dup(descriptor))

    def write(self, content: bytes) -> int:
        """See `Sink`."""
        return self._socket.send(content, self._flags)


def open_sink(descriptor: int) -> Sink | None:
    """The sink for one of the launcher's own output descriptors; None if nobody reads it."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISSOCK(mode):
        return SocketSink(descriptor)
    if not stat.S_ISFIFO(mode) and not os.isatty(descriptor):
        return PlainSink(descriptor)
    try:
        # Reopened, it has its own flags, so that no one who shares the pipe, or terminal, sees it non-blocking.
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        return PlainSink(os.open(f"/proc/self/fd/{descriptor}", flags))
    except OSError as error:
        import errno

        return None if error.errno == errno.ENXIO else SharedPipeSink(descriptor)
