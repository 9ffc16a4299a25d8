"""Telling systemd how the daemon is: datagrams to NOTIFY_SOCKET (sd_notify(3))."""

import os
import socket


def notify(*states: str) -> None:
    """Send the states, such as `READY=1`, where somebody asked for them."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto("\n".join(states).encode(), address)
    except OSError:
        # Whoever asked has gone away; the log says the same.
        return
