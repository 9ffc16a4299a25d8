"""Whether the process that writes a foreign session is alive, as far as the tool's own files name it."""

from collections.abc import Callable, Mapping
from typing import Final

from runward.daemon.rundir import pid_files, writer_locks
from runward.handlers.layouts import claude_code, codex
from runward.handlers.layouts.claude_code_pid import PidFile
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.sessions.over import Writer

NOBODY_KNOWS: Final = Writer("unknown")


class Writers:
    """The writers of sessions. Claude Code's pid files are read once for each of its directories, and then cached."""

    def __init__(self) -> None:
        self._pid_files: dict[str, Mapping[str, tuple[PidFile, ...]]] = {}
        self._named: dict[str, frozenset[RecordedProcess]] = {}
        """The processes that the pid files of each directory name."""

    def writer(self, layout: str, path: str, session_id: str) -> Writer:
        """What is known about the writer of the session whose log is at `path`."""
        ask = _ASK.get(layout)
        return NOBODY_KNOWS if ask is None else ask(self, path, session_id)

    def _of_claude_code(self, path: str, session_id: str) -> Writer:
        config = pid_files.config_directory(path)
        if config is None:
            return NOBODY_KNOWS
        if config not in self._pid_files:
            self._pid_files[config] = found = pid_files.pid_files(config)
            self._named[config] = pid_files.named_by(each for files in found.values() for each in files)
        if session_id not in self._pid_files[config]:
            return Writer("unknown", elsewhere=self._named[config])
        return pid_files.writer_of(self._pid_files[config][session_id], config)

    def _of_codex(self, path: str, session_id: str) -> Writer:
        home = writer_locks.home_directory(path)
        return NOBODY_KNOWS if home is None else writer_locks.writer_of(home, session_id)


def says_so(process: RecordedProcess, layout: str, path: str) -> bool:
    """Whether the process itself shows that it takes part in the session.

    A lock proves that, because its holder took it. A pid file doesn't, because anybody may write one.
    """
    if layout != claude_code.LAYOUT:
        return True
    config = pid_files.config_directory(path)
    return config is not None and pid_files.is_claude_code(process, config)


_ASK: Final[Mapping[str, Callable[[Writers, str, str], Writer]]] = {
    claude_code.LAYOUT: Writers._of_claude_code,
    codex.LAYOUT: Writers._of_codex,
}
