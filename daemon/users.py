"""The names of the machine's users, and whose a file is."""

import os
import pwd
import shlex
import stat
from pathlib import Path
from typing import Final

_ACL: Final = "system.posix_acl_access"


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


def others_may_write(path: Path, status: os.stat_result) -> bool:
    """Whether anybody but its owner, and root, may write to this file.

    Many systems give each user a group of their own, and a umask of 002: no other user is in that group.
    """
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False
    # With an access control list, these bits speak of all users and groups that the list names.
    return _has_acl(path) or not _is_own_group(status.st_uid, status.st_gid)


def _has_acl(path: Path) -> bool:
    try:
        os.getxattr(path, _ACL)
    except OSError:
        return False
    return True


def _is_own_group(uid: int, gid: int) -> bool:
    """Whether nobody but this user is in the group."""
    import grp  # few files are group-writable, and commands do without it

    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    # By the usual name, too: not every directory of users names all members of a group.
    if user.pw_gid != gid or user.pw_name != group.gr_name or set(group.gr_mem) - {user.pw_name}:
        return False
    return all(each.pw_uid == uid for each in pwd.getpwall() if each.pw_gid == gid)
