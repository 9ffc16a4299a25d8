"""Rollouts of Codex up to 0.29: a line is a bare record, without a time and without the kind of the record.

The first line describes the thread. What is recorded together comes after a line with the program's state: a prompt,
or a whole reply with its calls and their outputs. That is written once the tools are finished. For Codex itself, a
turn is over when a reply calls no tool. If a thread is resumed, or forked, into a file of its own (0.29), the copied
records come there as one such batch.
"""

import re
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.layouts.codex_names import is_thread
from runward.handlers.layouts.codex_origin import LONGEST_PATH
from runward.handlers.layouts.foreign_values import whole_text_in

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
    found = _CWD.match(text)
    return None if found is None else whole_text_in(found[1] or found[2], LONGEST_PATH)
