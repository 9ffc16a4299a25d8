"""What a daemon tells the process that started it: the other end of NOTIFY_SOCKET."""

import select
import socket
import time
from uuid import uuid4

from tests.waiting import PATIENCE_S


class NotifySocket:
    """A socket as systemd offers one; `address` goes into NOTIFY_SOCKET."""

    def __init__(self) -> None:
        self.address = f"@runward-test-{uuid4().hex}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + self.address[1:])

    def waiting(self) -> list[dict[str, str]]:
        """The notifications that have arrived and nobody took yet."""
        found = []
        while (each := self._next(0)) is not None:
            found.append(each)
        return found

    def until(self, state: str) -> list[dict[str, str]]:
        """All notifications up to the first one with this state, such as `READY`."""
        found: list[dict[str, str]] = []
        give_up = time.monotonic() + PATIENCE_S
        while not (found and state in found[-1]):
            each = self._next(give_up - time.monotonic())
            assert each is not None, f"no {state} among {found}"
            found.append(each)
        return found

    def _next(self, patience_s: float) -> dict[str, str] | None:
        if not select.select([self._socket], [], [], max(0.0, patience_s))[0]:
            return None
        datagram = self._socket.recv(65536)
        assert len(datagram) <= 4096, "systemd ignores the whole datagram"
        lines = datagram.decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def close(self) -> None:
        self._socket.close()
