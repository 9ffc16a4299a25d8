"""What a scanner makes of a log, and what another, simpler reading of the same lines allows it to tell.

The other reading asks only what each line by itself says to somebody who knows the agent: that it works (`open`),
or how a turn ended. It is a check of what the scanners tell, not a second scanner: it keeps no state.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from runward.config.json_value import JsonValue
from runward.handlers.layouts.transcript import LogLine, Resumed, Told, TranscriptScanner
from runward.handlers.model.sessions import Status

Word: TypeAlias = Literal["open"] | Status
Record: TypeAlias = Mapping[str, JsonValue]
State = TypeVar("State")


class Heard(NamedTuple):
    """What a scanner tells of a log that it was fed, and the stretches that it found to begin on the way."""

    told: Told
    resumed: tuple[Resumed, ...]


class Reading(NamedTuple):
    """How one agent's logs are read: by its scanner, at once or as they grow, and by what each line says by itself.

    A log's name and content go in.
    """

    hear: Callable[[str, bytes], Heard]
    follow: Callable[[str, bytes], Iterator[Heard]]
    recognises: Callable[[str, bytes], bool]
    word: Callable[[Record], Word | None]


def heard_by(scanner: TranscriptScanner[State], name: str, content: bytes) -> Heard:
    """Feed a log's whole lines to a scanner, at once."""
    state, resumed = scanner.feed(scanner.start(name), name, lines_of(content))
    return Heard(scanner.tell(state), resumed)


def followed_by(scanner: TranscriptScanner[State], name: str, content: bytes) -> Iterator[Heard]:
    """What a scanner tells after each whole line, its state dumped and loaded in between."""
    state = scanner.start(name)
    for line in lines_of(content):
        state, resumed = scanner.feed(scanner.load(scanner.dump(state)), name, [line])
        yield Heard(scanner.tell(state), resumed)


def lines_of(content: bytes) -> list[LogLine]:
    """The whole lines of a log."""
    return [LogLine(number, line) for number, line in enumerate(content.split(b"\n")[:-1], 1)]


def prefixes(content: bytes) -> Iterator[bytes]:
    """The log as it was after each of its lines, the whole one last."""
    lines = content.splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        yield b"".join(lines[:count])


def last_word(reading: Reading, content: bytes) -> Word | None:
    """What the last line that says anything says."""
    words = (reading.word(json.loads(line)) for line in content.splitlines())
    return next((word for word in reversed(list(words)) if word), None)


def word_of_claude_code(record: Record) -> Word | None:
    """Claude Code's: an error in the model's place, a reason to stop, a person's interruption, its own limit."""
    match record:
        case {"isSidechain": True}:
            return None
        case {"isApiErrorMessage": True} | {"attachment": {"type": "max_turns_reached"}}:
            return "failed"
        case {"type": "assistant", "message": {"stop_reason": "end_turn"}}:
            return "completed"
        case {"type": "user", "message": {"content": [{"text": str(text)}]}} if text.startswith(
            "[Request int"
        ):
            return "aborted"
        case {"type": "user" | "assistant"} | {"operation": "enqueue"}:
            return "open"
        case _:
            return None


def word_of_codex(record: Record) -> Word | None:
    """Codex's, since it has events for a turn's start and end."""
    match record:
        case {"payload": {"type": "task_started"}}:
            return "open"
        case {"payload": {"type": "task_complete", "error": dict()}}:
            return "failed"
        case {"payload": {"type": "task_complete"}}:
            return "completed"
        case {"payload": {"type": "turn_aborted"}}:
            return "aborted"
        case _:
            return None


def word_of_codex_without_errors(record: Record) -> Word | None:
    """Codex's, before it wrote down errors: a turn that ended without a last message was refused."""
    match record:
        case {"payload": {"type": "task_complete", "last_agent_message": None}}:
            return "failed"
        case _:
            return word_of_codex(record)


def word_of_old_codex(record: Record) -> Word | None:
    """Codex's, before: nothing but the messages themselves."""
    match record:
        case {"payload": {"type": "user_message" | "function_call"}}:
            return "open"
        case {"payload": {"type": "message", "role": "assistant"}}:
            return "completed"
        case {"payload": {"type": "turn_aborted"}}:
            return "aborted"
        case _:
            return None
