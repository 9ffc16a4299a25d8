"""A command's output goes two ways: into the log, and on to the reader of the launcher's own output.

The log comes first and is complete, or has its beginning and its end if it exceeds its limit. A slow reader slows the
command, as a pipe does. A reader that went away stops neither command nor log. Output that would fill the disk is no
longer logged. Only a write to a plain file ever blocks here.
"""

from __future__ import annotations

import os
import select
import stat

from runward.daemon.disk.durable import write_all

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from typing import Protocol

    class Sink(Protocol):
        """Where output is passed on to."""

        descriptor: int

        def write(self, content: bytes) -> int:
            """How much of it was taken. Raises BlockingIOError for nothing, and OSError where nobody reads."""


# The first half of the limit is the file itself. What comes after it goes into pieces next to it; the oldest of them
# are deleted. There is never more than the limit, whatever happens to the launcher. At the end the pieces are joined to
# the file, with a line that says how much is left out between them.
class RunLog:
    """A log that is written. `name` is that of the open file `descriptor` in the open directory `within`.

    `limit` is the number of bytes that it may take, 0 for no limit.
    """

    def __init__(self, descriptor: int, within: int, name: str, limit: int) -> None:
        self.descriptor = descriptor
        self.size = 0
        """The bytes that it was given."""
        self._within = within
        self._name = name
        self._limit = limit
        self._tail: LogTail | None = None

    def append(self, content: bytes) -> None:
        """Appends to its end. Raises OSError."""
        rest = memoryview(content)
        self.size += len(rest)
        if self._tail is None and self._limit and self.size > self._limit // 2:
            head = self._limit // 2
            room = head - (self.size - len(rest))
            write_all(self.descriptor, rest[:room])
            rest = rest[room:]
            self._tail = LogTail(self._within, self._name, head, self._limit - head)
        if self._tail is not None:
            self._tail.append(rest)
        else:
            write_all(self.descriptor, rest)

    def close(self) -> int:
        """Completes it; returns how many bytes it leaves out. Raises OSError if its pieces stay next to it."""
        try:
            return 0 if self._tail is None else self._tail.join(self.descriptor)
        finally:
            os.close(self.descriptor)


SUFFIX = ".tail"
_JOINED = ".joined"
_PIECES = 2
_PIECE_CHUNK = 1 << 20


# They are in the directory `stdout.log.tail`. A piece is called `HEAD-START`: the bytes of the log that come
# before all pieces, and the position in the whole output where this one begins. So a reader knows the order
# and what is left out, even if the launcher was killed.
class LogTail:
    """The pieces next to the log `name` in the open directory `within`: at most `room` bytes. Raises OSError."""

    def __init__(self, within: int, name: str, head: int, room: int) -> None:
        self._within = within
        self._name = name + SUFFIX
        self._head = head
        self._longest = max(1, room // _PIECES)
        self._end = head
        self._pieces: list[tuple[int, int]] = []
        """Where each begins, and its descriptor: what the run does to their names changes nothing."""
        os.mkdir(self._name, 0o700, dir_fd=within)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._directory = os.open(self._name, flags, dir_fd=within)

    def append(self, content: memoryview) -> None:
        """Appends to the end. Raises OSError."""
        while content:
            if not self._pieces or self._end - self._pieces[-1][0] >= self._longest:
                self._begin_piece()
            start, descriptor = self._pieces[-1]
            part = content[: self._longest - (self._end - start)]
            write_all(descriptor, part)
            self._end += len(part)
            content = content[len(part) :]

    def join(self, log: int) -> int:
        """Appends the pieces to `log` and removes them; returns how many bytes are left out. Raises OSError."""
        omitted = self._pieces[0][0] - self._head if self._pieces else 0
        if omitted:
            write_all(log, omission(omitted))
        for _, descriptor in self._pieces:
            offset = 0
            while content := os.pread(descriptor, _PIECE_CHUNK, offset):
                write_all(log, content)
                offset += len(content)
        # From here on the log is complete: the pieces must not be read after it as well.
        try:
            os.rename(self._name, self._name + _JOINED, src_dir_fd=self._within, dst_dir_fd=self._within)
        except FileNotFoundError:
            return omitted  # the run moved it
        for start, descriptor in self._pieces:
            self._remove(start, descriptor)
        os.close(self._directory)
        os.rmdir(self._name + _JOINED, dir_fd=self._within)
        return omitted

    def _begin_piece(self) -> None:
        while len(self._pieces) >= _PIECES:
            self._remove(*self._pieces.pop(0))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._piece(self._end), flags, 0o600, dir_fd=self._directory)
        self._pieces.append((self._end, descriptor))

    def _remove(self, start: int, descriptor: int) -> None:
        os.close(descriptor)
        try:
            os.unlink(self._piece(start), dir_fd=self._directory)
        except FileNotFoundError:
            pass  # the run did it

    def _piece(self, start: int) -> str:
        return f"{self._head}-{start}"


def omission(count: int) -> bytes:
    """The line that replaces what is left out."""
    return b"\nrunward: %d bytes are left out here (log_limit)\n" % count


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
        from runward.daemon.disk import file_systems  # most runs write less

        try:
            space = file_systems.space_of(self._log.descriptor)
        except OSError:
            return  # it is not known, and a write will show
        low_disk = self._low_disk
        if low_disk is None:
            from runward.config.settings import USUAL  # a run without settings pays for this

            low_disk = USUAL.low_disk
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
