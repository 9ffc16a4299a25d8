"""Tasks of a Claude Code session that run in the background: which records say that one began, or is over.

A headless session waits for them if its version reports their end (since 2.1). Each end is reported to the model,
which then continues. Earlier versions ended them with the session, and recorded nothing about it.
"""

import re
from typing import Final, NamedTuple

import msgspec

from runward.handlers.layouts.claude_code_records import NOT_DECODED
from runward.handlers.layouts.claude_code_state import LONGEST_ID

TASKS_KEPT: Final = 64
"""Tasks that are remembered at a time. If a session has more, the oldest are not waited for."""

NOTIFICATION: Final = "<task-notification>"
"""The beginning of a text that tells the model about a task's end."""

_ID: Final = re.compile(r"<task-id>([^<]{1,128})</task-id>")
_STATUS: Final = re.compile(r"<status>([^<]{1,40})</status>")
_BEGINNING: Final = 300
"""Bytes at the beginning of a result in which it says that its task runs in the background."""

_TOLD: Final = b"utput is being written to"
"""What the result of a background command says in versions that report the command's end."""

_OVER: Final = ("completed", "failed", "killed", "stopped")


class _Task(msgspec.Struct, frozen=True, gc=False):
    task_id: str | None = None
    status: str | None = None


class _Result(msgspec.Struct, frozen=True, gc=False):
    background: str | None = msgspec.field(default=None, name="backgroundTaskId")
    agent: str | None = msgspec.field(default=None, name="agentId")
    status: str | None = None
    task_id: str | None = None
    task: _Task | None = None


_decode: Final = msgspec.json.Decoder(_Result).decode


class Change(NamedTuple):
    """A task that began or is over."""

    task: str
    is_over: bool


def may_begin_task(said: msgspec.Raw) -> bool:
    """Whether a tool's result, as the model gets it, is worth a closer look."""
    beginning = bytes(memoryview(said)[:_BEGINNING])
    return b"ackground" in beginning or b"Async agent" in beginning  # runs for every result, so no generator


def change_by_result(result: msgspec.Raw, said: msgspec.Raw) -> Change | None:
    """What a tool's result says about a background task; `said` is the same in the form that the model gets."""
    try:
        read = _decode(result)
    except NOT_DECODED:
        return None
    if read.background:
        return Change(read.background[:LONGEST_ID], False) if _TOLD in bytes(said) else None
    if read.agent and read.status == "async_launched":
        return Change(read.agent[:LONGEST_ID], False)
    if read.task_id:
        return Change(read.task_id[:LONGEST_ID], True)
    if read.task is not None and read.task.task_id and read.task.status in _OVER:
        return Change(read.task.task_id[:LONGEST_ID], True)
    return None


class Notification(NamedTuple):
    """What the model is told about a task. Nothing more is reported about one that was `ended` with the session."""

    task: str
    was_ended: bool


def notification(text: str) -> Notification | None:
    """What a text says about a task's end, if anything."""
    if not text.startswith(NOTIFICATION) or (named := _ID.search(text)) is None:
        return None
    status = _STATUS.search(text)
    return Notification(named[1], status is not None and status[1] == "killed")
