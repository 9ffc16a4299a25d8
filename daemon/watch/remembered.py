"""What is remembered of a foreign session between two looks, as it is stored."""

from typing import Final, NamedTuple

from runward.daemon.rundir.session_files import NOTHING_READ, FilesRead, brought_up
from runward.daemon.store.remembered_fields import (
    ABOUT,
    CWD,
    PROMPT,
    REMEMBERED,
    WAITING,
    WAITING_ASKS,
    WAITING_SINCE,
)
from runward.handlers.layouts.foreign_values import LONGEST_PATH
from runward.handlers.layouts.transcript import Told
from runward.handlers.model.sessions import Complaint
from runward.handlers.model.stored import Stored, as_json
from runward.handlers.secrets import text_without_secrets
from runward.handlers.sessions.follow import NEVER_FOLLOWED, Followed
from runward.handlers.sessions.standing import Activity

LONGEST_PROMPT: Final = 200
_LONGEST_NAME: Final = 128


class About(NamedTuple):
    """Where a session works, its first prompt, its model, and the tokens that it used.

    The prompt is shortened to one line, and anything in it that looks like a secret is removed. Commands read
    these fields.
    """

    cwd: str | None
    prompt: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None


def about(report: Told) -> About:
    """What a session's files say about it."""
    usage = report.usage
    return About(
        None if report.cwd is None else report.cwd[:LONGEST_PATH],
        None if report.prompt is None else _shortened(report.prompt),
        None if report.model is None else report.model[:_LONGEST_NAME],
        None if usage is None else usage.input_tokens,
        None if usage is None else usage.output_tokens,
    )


class Waiting(NamedTuple):
    """Since when an agent waits for a person (Unix seconds), after how many calls, and what it asks, if it says so."""

    since: float
    calls: int
    asks: str | None


def waiting(before: Waiting | None, report: Told, asks: str | None, now: float) -> Waiting:
    """The wait of an agent that waits now. If it worked since the last look, although nobody saw it, it is another one."""
    # Results of calls may still come while a person is waited for. Further calls don't: the model makes them.
    calls = report.counts.tool_calls
    since = now if before is None or before.calls != calls else before.since
    return Waiting(since, calls, None if asks is None else _shortened(asks))


def _shortened(prompt: str) -> str:
    line = " ".join(text_without_secrets(prompt).split())
    return line if len(line) <= LONGEST_PROMPT else f"{line[: LONGEST_PROMPT - 1]}…"


STATE_VERSION: Final = 1


class Remembered(NamedTuple):
    """Where its files are read (a root and a place in it), what followed from them, and how far they were read.

    `scan` is the state of its layout's scanner; it is None before anything was read. `problems` are those of its files.
    `launcher` is the key of the launcher's session that it was started in, if that is known, and `is_asked` says that
    its process was asked for it. `about` is what commands show of it: they read single fields (`remembered_fields.py`).
    `looks` numbers those that counted replies, since its files were last read from their beginning. `waiting` is there while
    its agent waits for a person.
    """

    root: str
    place: str
    followed: Followed = NEVER_FOLLOWED
    read: FilesRead = NOTHING_READ
    scan: str | None = None
    activity: Activity | None = None
    problems: tuple[Complaint, ...] = ()
    launcher: str | None = None
    is_asked: bool = False
    version: int = STATE_VERSION
    about: About | None = None
    looks: int = 0
    waiting: Waiting | None = None


assert {name: f"$[{Remembered._fields.index(name)}]" for name in REMEMBERED} == REMEMBERED
assert tuple(f"{ABOUT}[{About._fields.index(name)}]" for name in ("cwd", "prompt")) == (CWD, PROMPT)
assert tuple(f"{WAITING}[{Waiting._fields.index(name)}]" for name in ("since", "asks")) == (
    WAITING_SINCE,
    WAITING_ASKS,
)

_STORED: Final = Stored(Remembered)


def dump_remembered(remembered: Remembered) -> str:
    """What is remembered, as JSON text for the store."""
    return as_json(remembered)


def read_remembered(text: str) -> Remembered | None:
    """What was stored; None if it can no longer be read; the session is then read again."""
    try:
        return load_remembered(text)
    except ValueError:
        return None


def load_remembered(text: str) -> Remembered:
    """What was stored. Raises `ValueError` for what this program never wrote."""
    remembered = _STORED.load(text)
    return remembered._replace(read=brought_up(remembered.read))
