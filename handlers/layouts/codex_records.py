"""Reading the line of a Codex rollout: only the fields that matter are turned into values.

Most of a rollout's bytes are prompts, outputs and settings that are not needed here. They are checked to be JSON and
skipped, which is several times as fast as building them. The fields that are read may hold anything: their types are
never taken for granted.
"""

from typing import Final, Required, TypedDict, cast

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.layouts.transcript_lines import decode


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
