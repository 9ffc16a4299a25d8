"""Runs commands of `runward` in forks of a process that has imported everything, which costs most of a second a start.

A fork is a real process that runs the real command to its end. What a start costs and imports is not seen here:
tests/daemon/cli/test_start_up.py sees to that. `server.py SOCKET` says `ready` when it listens, and ends, with what it
runs, when its standard input ends.
"""

import array
import ctypes
import fcntl
import gc
import os
import selectors
import signal
import socket
import sys
import termios
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tests.preloaded import ending, everything  # noqa: F401 - to have it imported is all
from tests.preloaded.reaching import note_if_asked

import runward.daemon.cli

PARENT_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

LONGEST: Final = 1 << 20
LIBC: Final = ctypes.CDLL(None)


@dataclass(frozen=True)
class Request:
    """A command as its client handed it over. The descriptors are stdin, stdout, stderr and the directory.

    Without a group, 0, it has a session of its own, on the terminal that is its stdin.
    """

    group: int
    arguments: list[str]
    environment: list[str]
    descriptors: tuple[int, int, int, int]


class Server:
    """The parent of all forks."""

    def __init__(self, path: str) -> None:
        self._watched = selectors.DefaultSelector()
        self._clients: dict[int, socket.socket] = {}
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(path)
        self._listening.listen(64)
        self._ended, ended = os.pipe()
        os.set_blocking(ended, False)
        signal.set_wakeup_fd(ended, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._own = (self._listening.fileno(), self._ended, ended)
        for descriptor in (0, self._listening.fileno(), self._ended):
            self._watched.register(descriptor, selectors.EVENT_READ)

    def serve(self) -> Request | None:
        """Take requests until standard input ends; in a fork, returns the request that it is to carry out."""
        while True:
            for key, _ in self._watched.select():
                if key.fd == 0:
                    for pid in self._clients:
                        os.kill(pid, signal.SIGKILL)
                    return None
                if key.fd == self._ended:
                    os.read(self._ended, 4096)
                    self._tell_ends()
                elif key.fd == self._listening.fileno():
                    request = self._take()
                    if request is not None:
                        return request
                elif key.data in self._clients:
                    self._pass_on(key.data)

    def _take(self) -> Request | None:
        client, _ = self._listening.accept()
        content, rights, _, _ = client.recvmsg(LONGEST, socket.CMSG_SPACE(4 * 4))
        if not content:
            client.close()
            return None
        descriptors = array.array("i", b"".join(data for _, _, data in rights))
        group, count, *words = map(os.fsdecode, content.split(b"\0"))
        pid = os.fork()
        if pid == 0:
            self._leave(client)
            stdin, stdout, stderr, place = descriptors
            return Request(
                int(group), words[: int(count)], words[int(count) :], (stdin, stdout, stderr, place)
            )
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(OSError):  # a client that is gone is seen below
            client.send(b"%d" % pid)
        self._clients[pid] = client
        self._watched.register(client, selectors.EVENT_READ, pid)
        return None

    def _leave(self, client: socket.socket) -> None:
        """In a fork: none of this is the command's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._watched.close()
        for each in (client, self._listening, *self._clients.values()):
            each.close()
        for descriptor in self._own[1:]:
            os.close(descriptor)

    def _pass_on(self, pid: int) -> None:
        """A client has got a signal, or is gone."""
        said = self._clients[pid].recv(16)
        os.kill(pid, int(said) if said else signal.SIGKILL)
        if not said:
            self._watched.unregister(self._clients[pid])

    def _tell_ends(self) -> None:
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            client = self._clients.pop(pid)
            try:
                client.send(b"%d" % os.waitstatus_to_exitcode(status))
                self._watched.unregister(client)
            except (OSError, KeyError):
                pass  # the client is gone
            client.close()


def carry_out(request: Request) -> None:
    """Become the command that is asked for."""
    LIBC.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    *streams, place = request.descriptors
    if request.group:
        os.setpgid(0, request.group)
    else:
        os.setsid()
        fcntl.ioctl(request.descriptors[0], termios.TIOCSCTTY, 0)
    os.fchdir(place)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in request.descriptors:
        os.close(descriptor)
    # Made anew, because they remember whether they can seek.
    sys.stdin = os.fdopen(0, "r", errors=sys.stdin.errors, closefd=False)
    sys.stdout = os.fdopen(1, "w", errors=sys.stdout.errors, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors=sys.stderr.errors, closefd=False)
    os.environ.clear()
    os.environ.update(
        {name: value for name, _, value in (each.partition("=") for each in request.environment)}
    )
    time.tzset()
    note_if_asked()
    sys.argv = ["runward", *request.arguments]
    ending.to_its_end(runward.daemon.cli.main)


if __name__ == "__main__":
    server = Server(sys.argv[1])
    gc.freeze()
    os.write(1, b"ready\n")
    asked = server.serve()
    if asked is not None:
        carry_out(asked)
