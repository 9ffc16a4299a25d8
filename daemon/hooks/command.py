"""The command that represents us in an agent's settings: how it is written, and how it is recognised."""

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from runward.daemon.hooks import runward_hook

SCRIPT: Final = os.path.abspath(runward_hook.__file__)
_NAME: Final = "/runward_hook.py"


def words_of(agent: str, state: str) -> list[str]:
    """The command as words: this very interpreter, without site packages and environment, and the script."""
    return [os.path.abspath(sys.executable), "-S", "-E", SCRIPT, agent, "--state", state]


def shell_command(agent: str, state: str) -> str:
    """The command for a shell. It ends with 0 even without the script or the interpreter: 2 would block the agent."""
    return f"{shlex.join(words_of(agent, state))} || :"


def is_ours(words: Sequence[str], agent: str) -> bool:
    """Whether these words are a command of Runward's, of any version and interpreter."""
    return len(words) > 4 and words[3].endswith(_NAME) and words[4] == agent


def is_our_shell_command(command: object, agent: str) -> bool:
    """Whether a shell's command is one of Runward's."""
    if not isinstance(command, str):
        return False
    try:
        return is_ours(shlex.split(command), agent)
    except ValueError:
        return False
