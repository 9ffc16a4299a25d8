"""Stands for a command that the server runs: `client.py SOCKET ARGUMENTS…`. It starts in a hundredth of a second.

It hands over its arguments, environment, directory and streams, passes signals on, and ends as the command does. Where it
is killed, the command is.
"""

import _signal  # type: ignore[import-not-found] # the modules around these two take longer to import than all else
import _socket
import os
import sys

PASSED_ON = (
    _signal.SIGHUP,
    _signal.SIGINT,
    _signal.SIGQUIT,
    _signal.SIGTERM,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
)
SCM_RIGHTS = _socket.SCM_RIGHTS


def ask(
    socket: str,
    group: int,
    arguments: "list[bytes]",
    environment: "list[bytes]",
    directory: str,
    streams: "tuple[int, int, int]",
) -> "tuple[_socket.socket, int]":
    """Have the server run a command in this group of processes; a connection that tells its end, and its number.

    With 0 for the group, it begins a session of its own, on the terminal that is its stdin.
    """
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    server.connect(socket)
    words = [b"%d" % group, b"%d" % len(arguments), *arguments, *environment]
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    rights = b"".join(number.to_bytes(4, sys.byteorder) for number in (*streams, place))
    server.sendmsg([b"\0".join(words)], [(_socket.SOL_SOCKET, SCM_RIGHTS, rights)])
    os.close(place)
    return server, int(server.recv(16))


def main() -> None:
    """Have the server run the command, and wait for its end."""
    arguments = [os.fsencode(each) for each in sys.argv[2:]]
    environment = [name + b"=" + value for name, value in os.environb.items()]
    server, _ = ask(sys.argv[1], os.getpgrp(), arguments, environment, ".", (0, 1, 2))
    for number in PASSED_ON:
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            _signal.signal(number, lambda number, _: server.send(b"%d" % number))
    code = int(server.recv(16))
    if code < 0:
        _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
