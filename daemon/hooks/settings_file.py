"""An agent's settings file and our command in it: read as it is, edited, and replaced whole, durably, with its mode and its owner."""

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.document import Lines
from runward.config.problem import Problem
from runward.daemon.disk.durable import sync_directory
from runward.daemon.hooks import runward_hook
from runward.handlers.model.files import signature_of

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


class Edited(NamedTuple):
    """The text as it should be; None where there should be no file."""

    text: str | None


class Refused(Exception):
    """The text is broken, or has a shape that can't be edited: it is left alone."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.render())
        self.problem = problem


def refused(name: str, text: str, offset: int, message: str, fix: str) -> Refused:
    """The refusal of a text because of what is at `offset`."""
    return Refused(Problem(name, *Lines(text).place(offset), message, fix))


MAXIMUM_FILE: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The file as it was read. `path` is its location after all links; `text` is None if there is none."""

    path: str
    text: str | None
    status: os.stat_result | None

    def replace(self, text: str | None, temporary: str | None = None, levels: int = 1) -> None:
        """Replace what was read with `text`, or remove the file. Raises `Refused` and `OSError`.

        `temporary` is the path that the new file has at first, in the same directory, for who has to find what a crash left.
        With the file go as many `levels` of directories as are empty then.
        """
        if text is None:
            self.remove()
            _remove_if_empty(os.path.dirname(self.path), levels)
            return
        directory = os.path.dirname(self.path)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        temporary = temporary or f"{directory}/.{os.path.basename(self.path)}.{os.urandom(6).hex()}.tmp"
        try:
            self._write(temporary, text.encode())
            # As late as possible: the agent may have written its settings since they were read.
            self._unchanged()
            os.rename(temporary, self.path)
        except BaseException:
            if os.path.lexists(temporary):
                os.unlink(temporary)
            raise
        sync_directory(directory)

    def remove(self) -> None:
        """Remove the file alone. Raises `Refused` and `OSError`."""
        self._unchanged()  # somebody's new settings must not go with ours
        os.unlink(self.path)
        sync_directory(os.path.dirname(self.path))

    def _write(self, path: str, content: bytes) -> None:
        # A new file that is renamed over the old one: a crash leaves one of both, whole.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            if self.status is not None:
                made = os.fstat(file.fileno())
                if (made.st_uid, made.st_gid) != (self.status.st_uid, self.status.st_gid):
                    # Root may edit another user's file, which must stay that user's.
                    os.fchown(file.fileno(), self.status.st_uid, self.status.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(self.status.st_mode))
            os.fsync(file.fileno())

    def _unchanged(self) -> None:
        """Raises `Refused` if somebody else wrote the file since it was read."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            now = None
        if _signature(now) != _signature(self.status):
            raise Refused(Problem(self.path, None, None, "was changed meanwhile", "try again"))


def read_settings_file(path: str) -> SettingsFile:
    """The file at `path`, or at the end of its links. Raises `Refused`, and `OSError` if it can't be read."""
    # The file at the end of the links is the one that is replaced. A rename over a link would take the link away, and
    # the settings out of the repository that people keep such files in.
    path = os.path.realpath(path)
    try:
        # Without waiting: a FIFO may have no writer. O_NONBLOCK changes nothing for a regular file.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Refused(Problem(path, None, None, "is not a regular file", "take it away"))
            content = file.read(MAXIMUM_FILE + 1)
    except FileNotFoundError:
        return SettingsFile(path, None, None)
    except IsADirectoryError:
        raise Refused(Problem(path, None, None, "is a directory", "take it away")) from None
    if len(content) > MAXIMUM_FILE:
        message = f"is larger than {MAXIMUM_FILE >> 20} MiB"
        raise Refused(Problem(path, None, None, message, "make it smaller"))
    try:
        return SettingsFile(path, content.decode(), status)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Refused(Problem(path, line, None, "is not UTF-8", "save it as UTF-8")) from error


def _signature(status: os.stat_result | None) -> tuple[int, ...] | None:
    return None if status is None else signature_of(status)


def _remove_if_empty(directory: str, levels: int) -> None:
    """Remove an agent's directories if they are empty: the file that we had made was all that was in them."""
    if levels and not os.path.islink(directory) and not os.listdir(directory):
        os.rmdir(directory)
        _remove_if_empty(os.path.dirname(directory), levels - 1)
