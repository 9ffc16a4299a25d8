"""A launcher that lets somebody else say one of its words to the daemon: `imposter.py METHOD WHO STATE EPOCH`."""

import os
import sys
from typing import Final

from runward.daemon.launch import detached
from runward.daemon.launch.channel import DaemonSpokenTo

NOBODY: Final = 65534
ANOTHER, FOREIGN, CHANGED = "another process", "a process of another user", "itself, as another user"
"""Who says it. The first two hold the launcher's descriptor, the last has the launcher's number."""


def main() -> None:
    method, who = sys.argv[1:3]
    del sys.argv[1:3]
    say = getattr(DaemonSpokenTo, method)

    def let_it_say(channel: DaemonSpokenTo, *arguments: object) -> object:
        if who == CHANGED:
            os.setresuid(NOBODY, 0, 0)  # the kernel names the real user
            try:
                return say(channel, *arguments)
            finally:
                os.setresuid(0, 0, 0)
        speaker = os.fork()
        if speaker == 0:
            if who == FOREIGN:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            # What waits for an answer ends with the daemon's end of the channel.
            os._exit(0 if say(channel, *arguments) else 1)
        # Nothing else keeps the launcher from its next order: it believes that it said that itself.
        return os.waitpid(speaker, 0)[1] == 0 or None

    setattr(DaemonSpokenTo, method, let_it_say)
    detached.main()


if __name__ == "__main__":
    main()
