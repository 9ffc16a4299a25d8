"""The end of the demo: the next command, and on a terminal a link to the pages that show all this, until Ctrl-C."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Protocol

SETTINGS: Final = "\n[studio]\n"


class Demonstration(Protocol):
    """What the demo offers: the `runward` command, over a daemon that serves the Studio."""

    config: Path

    def runward(self, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]: ...


class Telling(Protocol):
    """Where the demo speaks to a person."""

    def has_a_reader(self) -> bool: ...

    def say(self, text: str = "") -> None: ...


def say_where(demo: Demonstration, telling: Telling) -> None:
    """Say what to do next. On a terminal with a link that logs in once, and then serve until Ctrl-C."""
    runward = os.path.relpath(Path(sys.executable).with_name("runward"))
    if not telling.has_a_reader():
        telling.say(f"Next: {runward} daemon --config {demo.config}")
        telling.say(f"Studio: {runward} studio, with the same --config")
        return
    telling.say("It keeps serving until Ctrl-C. Approve the merge there, or in `runward top`.")
    telling.say(f"Next: {runward} top --config {demo.config}")
    telling.say(f"Studio: {demo.runward('studio', '--print', quiet=True).stdout.strip()}")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        telling.say()
