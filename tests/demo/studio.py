"""The end of the demo on a terminal: a step that waits for a person, and a link to the pages that show all this."""

import os
import subprocess
import sys
import time
from typing import Final, Protocol

SETTINGS: Final = "\n[studio]\n"


class Demonstration(Protocol):
    """What the demo offers: the `runward` command, over a daemon that serves the Studio."""

    def runward(self, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]: ...


def has_a_reader() -> bool:
    """Whether somebody sits in front of it: not in a pipe, and not in CI."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI")


def show(demo: Demonstration) -> None:
    """Print the login link, and return at Ctrl-C."""
    print("\nSee all this in a browser, and approve the merge that waits there. The link logs in, once:\n")
    print(demo.runward("studio", "--print", quiet=True).stdout.strip())
    print("\nCtrl-C ends it.", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print()
