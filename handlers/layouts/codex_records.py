"""Single records of a Codex rollout, and the names of its files: what is read of them, and what they say.

Most of a rollout's bytes are prompts, outputs and settings that are not needed here. They are checked to be JSON and
skipped, which is several times as fast as building them. The fields that are read may hold anything: their types are
never taken for granted.

In rollouts of Codex up to 0.29 a line is a bare record, without a time and without the kind of the record. The first
line describes the thread. What is recorded together comes after a line with the program's state: a prompt, or a whole
reply with its calls and their outputs. That is written once the tools are finished. For Codex itself, a turn is over
when a reply calls no tool. If a thread is resumed, or forked, into a file of its own (0.29), the copied records come
there as one such batch.
"""

import re
from typing import Final, NamedTuple, Required, TypedDict, cast

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.foreign_values import whole_text_in
from runward.handlers.layouts.transcript_lines import decode

LOCKS: Final = "thread-writer-locks"
"""The directory of Codex's home that holds the lock files of the threads that are being written."""

_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_THREAD: Final = re.compile(_UUID, re.ASCII)
_ROLLOUT: Final = re.compile(
    rf"rollout-\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d-({_UUID})(?:_{_UUID})?\.jsonl(?:\.zst)?", re.ASCII
)


# A rollout keeps its thread's id in its name even if it is moved, archived or compressed. So the name tells which thread
# it belongs to, and its directory doesn't.


def thread_of(name: str) -> str | None:
    """The id of the thread whose rollout has this file name (or path). None for any other file.

    A thread may be continued in a further file, whose name ends in `_` and another id: it is the same thread.
    """
    match = _ROLLOUT.fullmatch(name.rpartition("/")[2])
    return None if match is None else match[1]


def lock_of(thread: str) -> str | None:
    """The lock file that the thread's writer holds, relative to Codex's home. None for what is not a thread's id.

    The file alone proves nothing: a killed writer leaves it behind, and the next start of Codex removes it.
    """
    return f"{LOCKS}/{thread}.lock" if is_thread(thread) else None


def is_thread(value: JsonValue) -> bool:
    """Whether this has the form of Codex's thread ids."""
    return isinstance(value, str) and _THREAD.fullmatch(value) is not None


def made_at(identifier: str | None) -> int | None:
    """When Codex made this id, in Unix milliseconds: its ids are UUIDs of version 7. None for any other id."""
    if (
        identifier is None
        or len(identifier) != 36
        or not _THREAD.fullmatch(identifier)
        or identifier[14] != "7"
    ):
        return None
    return int(identifier[:8] + identifier[9:13], 16)


class _Item(TypedDict, total=False):
    type: object
    id: object
    status: object
    kind: object
    agent_thread_id: object
    content: object


class _Payload(TypedDict, total=False):
    type: object
    id: object
    session_id: object
    timestamp: object
    originator: object
    cli_version: object
    source: object
    thread_source: object
    parent_thread_id: object
    forked_from_id: object
    cwd: object
    thread_id: object
    turn_id: object
    turn_attribution: object
    thread_settings: object
    model: object
    role: object
    content: object
    message: object
    last_agent_message: object
    error: object
    codex_error_info: object
    reason: object
    num_turns: object
    item: _Item
    call_id: object
    name: object
    output: object
    success: object
    exit_code: object
    result: object
    kind: object
    agent_thread_id: object
    new_thread_id: object
    response_id: object
    usage: object
    info: object


class _Record(TypedDict, total=False):
    timestamp: object
    ordinal: object
    type: object
    payload: Required[_Payload]


_DECODER: Final = msgspec.json.Decoder(_Record)


def read_record(line: bytes) -> JsonValue:
    """The record of a line, without the fields that are not needed.

    JSON of another shape, including a bare record, is returned whole. Raises `ValueError` for what is not JSON.
    """
    try:
        return cast("JsonValue", _DECODER.decode(line))  # parsed JSON can't be anything else
    except (ValueError, RecursionError):
        return decode(line)


LONGEST_NAME: Final = 200
LONGEST_PATH: Final = 4096

_WORKERS: Final = ("subagent", "guardian_review", "memory_consolidation")
_MAKERS_OF_BOTH: Final = ("codex_cli_rs",)
"""Originators that mean the terminal program and, up to 0.39, also `codex exec`."""


class Origin(NamedTuple):
    """What a thread says about itself when it is made.

    `parent` is the thread that it was forked from or that it works for. `headless` is None if both kinds of
    program describe themselves this way.
    """

    thread: str | None
    parent: str | None
    is_subagent: bool
    headless: bool | None
    made_at: float | None
    version: str | None
    cwd: str | None


def read_origin(payload: dict[str, JsonValue]) -> Origin:
    """What the payload of a `session_meta` says."""
    source = payload.get("source")
    return Origin(
        thread=thread_in(payload),
        parent=name_in(payload.get("parent_thread_id"))
        or _spawner(source)
        or name_in(payload.get("forked_from_id")),
        is_subagent=_is_worker(source) or payload.get("thread_source") in _WORKERS,
        headless=_is_headless(source, payload.get("originator")),
        made_at=parse_time(payload.get("timestamp")),
        version=name_in(payload.get("cli_version")),
        cwd=whole_text_in(payload.get("cwd"), LONGEST_PATH),
    )


def thread_in(payload: dict[str, JsonValue]) -> str | None:
    """The id of the thread that the payload of a `session_meta` describes."""
    return name_in(payload.get("id")) or name_in(payload.get("session_id"))


def name_in(value: JsonValue) -> str | None:
    """A short text, or None."""
    return whole_text_in(value, LONGEST_NAME)


def _is_headless(source: JsonValue, originator: JsonValue) -> bool | None:
    if isinstance(source, str):
        return source == "exec"
    if originator == "codex_exec":
        return True
    return None if originator is None or originator in _MAKERS_OF_BOTH else False


def _is_worker(source: JsonValue) -> bool:
    if isinstance(source, dict):
        return not source.keys().isdisjoint(("subagent", "subAgent", "internal"))
    return isinstance(source, str) and source.startswith("subagent")


def _spawner(source: JsonValue) -> str | None:
    """The thread that ordered this one, as the source of a sub-agent names it."""
    subagent = source.get("subagent") if isinstance(source, dict) else None
    spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    return name_in(spawn.get("parent_thread_id")) if isinstance(spawn, dict) else None


META: Final = "session_meta"
STATE: Final = "state"

_ASIDES: Final = ("<environment_context>", "<user_instructions>")
"""How the messages begin that Codex itself sends to the model in the person's name."""

_MARKED: Final = ("<", "# AGENTS.md instructions")

_CWD: Final = re.compile(r"<environment_context>\s*(?:<cwd>(.*)</cwd>|Current working directory: (.*))")


def kind_of(record: dict[str, JsonValue]) -> JsonValue:
    """What kind of record this is: an item of the conversation says so, the two others are recognised by their
    fields."""
    kind = record.get("type")
    if kind is not None:
        return None if kind in (META, STATE) else kind
    if record.get("record_type") == STATE:
        return STATE
    return META if "instructions" in record and is_thread(record.get("id")) else None


def is_aside(text: str) -> bool:
    """Whether this message to the model is Codex's own and not a prompt."""
    return text.startswith(_ASIDES)


def is_typed(text: str | None) -> bool:
    """Whether this message to the model looks like one that a person typed: Codex marks its own with one of these."""
    return bool(text) and not str(text).startswith(_MARKED)


def cwd_in(text: str) -> str | None:
    """The working directory, if a message tells the model about its surroundings (since 0.23)."""
    match = _CWD.match(text)
    return None if match is None else whole_text_in(match[1] or match[2], LONGEST_PATH)
