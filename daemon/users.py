"""The names of the machine's users."""

import os
import pwd
import shlex


def is_known(uid: int) -> bool:
    """Whether a user has this number."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def as_root(command: str) -> str:
    """The command line that runs this as root."""
    return command if os.geteuid() == 0 else f"sudo {command}"


def run_as(user: str, state: str, words: str) -> str:
    """The command line that runs `runward WORDS` as this user, over this state directory."""
    return f"sudo -u {shlex.quote(user)} RUNWARD_STATE_DIR={shlex.quote(state)} runward {words}"


def name_of(uid: int) -> str:
    """The name of the user with this number: the number itself if there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
