"""A process tree that does all it can to outlive its end; started as `python evil_tree.py stay|exit`.

Everybody in it ignores what can be ignored: a child in its group, a child in a session of its own, a daemon that
forked twice, and a chain that forks a new session every 15 ms and leaves the old one. With `stay` the main
process stays, with `exit` it ends as soon as the others stand.
"""

import os
import signal
import sys
import time


def _ignore_everything() -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _sleep_for_ever() -> None:
    while True:
        time.sleep(100)


def _chain() -> None:
    while True:
        time.sleep(0.015)
        if os.fork():
            os._exit(0)
        os.setsid()


def _child(*steps: str) -> None:
    if os.fork():
        return
    for step in steps:
        if step == "setsid":
            os.setsid()
        elif os.fork():
            os._exit(0)
    (_chain if steps[-1:] == ("chain",) else _sleep_for_ever)()


def main() -> None:
    """Builds the tree, then says so on stdout."""
    _ignore_everything()
    _child()
    _child("setsid")
    _child("fork", "setsid", "fork")
    if os.fork() == 0:
        os.setsid()
        _chain()
    print("standing", flush=True)
    if sys.argv[1:] == ["stay"]:
        _sleep_for_ever()


main()
