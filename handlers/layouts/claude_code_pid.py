"""Claude Code's pid files, `sessions/<pid>.json`: which process runs a session now, and what it is doing.

One is written when the program starts and removed when it ends, unless it ends by SIGKILL. It is removed before the
last lines of the transcript are written, and the next start removes what a kill left: code that needs the process
remembers it. Whether it is alive is for the daemon to find out: by pid and start time.
"""

import re
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.plain_data import LATEST
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.claude_code_meanings import is_headless

_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_LONGEST_TEXT: Final = 4096


class PidFile(NamedTuple):
    """What a pid file says. `start_ticks` is the process's start time as /proc/<pid>/stat has it, in clock ticks.

    `status` is `busy`, `idle` or `waiting` (then `waiting_for` says for what: `permission prompt`) if a person runs
    the session, and None if a program does. `entrypoint` tells the two apart, `kind` does not: it is
    `interactive` for both. `started_at` is in Unix seconds.
    """

    pid: int
    session_id: str
    start_ticks: int | None
    status: str | None
    waiting_for: str | None
    kind: str | None
    entrypoint: str | None
    headless: bool | None
    cwd: str | None
    version: str | None
    started_at: float | None


def read_pid_file(content: bytes) -> PidFile | None:
    """What a pid file with this content says. None if it is torn or half written, or not a pid file.

    It is overwritten in place, so a reader may see it empty, cut, or with the end of what was there before. A later
    look finds it whole.
    """
    value = read_json(content)
    if isinstance(value, NotJson) or not isinstance(value, dict):
        return None
    pid, session_id = value.get("pid"), _text(value.get("sessionId"))
    if isinstance(pid, bool) or not isinstance(pid, int) or not 0 < pid < 2**31 or session_id is None:
        return None
    entrypoint = _text(value.get("entrypoint"))
    return PidFile(
        pid=pid,
        session_id=session_id,
        start_ticks=_ticks(value.get("procStart")),
        status=_text(value.get("status")),
        waiting_for=_text(value.get("waitingFor")),
        kind=_text(value.get("kind")),
        entrypoint=entrypoint,
        headless=is_headless(entrypoint),
        cwd=_text(value.get("cwd")),
        version=_text(value.get("version")),
        started_at=_seconds(value.get("startedAt")),
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT else None


def _ticks(value: JsonValue) -> int | None:
    return int(value) if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value) else None


def _seconds(value: JsonValue) -> float | None:
    """Milliseconds since 1970 in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000 if 0 <= value <= LATEST * 1000 else None
