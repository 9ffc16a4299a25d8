"""Codex CLI's rollouts: one JSON-lines file per thread, `sessions/YYYY/MM/DD/rollout-<local time>-<thread>.jsonl`.

A thread is resumed into the same file. The file does not say who holds the thread's lock, and so whether its process
is alive: `codex_names` tells where that lock is.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.codex_bare import kind_of
from runward.handlers.layouts.codex_names import thread_of
from runward.handlers.layouts.codex_records import read_record
from runward.handlers.layouts.codex_rollout import Rollout
from runward.handlers.layouts.kept_state import KeepsState
from runward.handlers.layouts.transcript import Counts, LogLine, Resumed, Told, Usage
from runward.handlers.layouts.transcript_lines import MOST_GLUED, Unreadable, records
from runward.handlers.model.sessions import Document

LAYOUT: Final = "codex"

_RECORD: Final = b'{"timestamp":"'
"""How Codex begins each record: after a failed write its full copy may follow the torn one in the same line."""

_KINDS: Final = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_MOST_HEAD_LINES: Final = 20


class CodexScanner(KeepsState[Rollout]):
    """Follows a rollout; see `TranscriptScanner`."""

    def start(self, name: str) -> Rollout:
        """The thread's id is taken from the file's name if it is there, so that a torn first line loses no identity."""
        return Rollout(thread=thread_of(name))

    def feed(
        self, state: Rollout, file: str, lines: Sequence[LogLine]
    ) -> tuple[Rollout, tuple[Resumed, ...]]:
        """Take in further lines. A numbered record that is written twice in a row counts once."""
        rollout = state.copy()
        unreadable = Unreadable(state.unreadable, state.complaints)
        resumed: list[Resumed] = []
        rollout.take(_read(file, lines, unreadable), resumed)
        rollout.unreadable, rollout.complaints = unreadable.count, tuple(unreadable.complaints)
        return rollout, tuple(resumed)

    def see(self, state: Rollout, documents: Sequence[Document]) -> Rollout:
        """A rollout has no further documents."""
        return state

    def tell(self, state: Rollout) -> Told:
        """What the rollout amounts to."""
        origin, turns, calls, tokens = state.origin, state.turns, state.calls, state.tokens
        began = turns.started_at
        if turns.attempt == 1:
            began = state.made_at
        return Told(
            session_id=state.thread,
            parent_session_id=origin.parent if origin is not None else None,
            is_subagent=origin is not None and origin.is_subagent,
            attempt=turns.attempt if state.events else 0,
            turn="open" if turns.asked else turns.turn,
            close=None if turns.asked else turns.close,
            headless=state.headless,
            waiting=turns.turn == "open" and calls.question is not None,
            started_at=began,
            moved_at=parse_time(state.stamp),
            model=state.model,
            version=origin.version if origin is not None else None,
            cwd=state.cwd,
            prompt=state.prompt,
            counts=Counts(state.events, calls.calls, calls.errors, calls.subagents),
            usage=Usage(tokens.input_tokens, tokens.output_tokens) if tokens.replies else None,
            unreadable=state.unreadable,
            complaints=state.complaints,
            turns=turns.begun,
        )


SCANNER: Final = CodexScanner(Rollout)


def recognises_log(name: str, head: bytes) -> bool:
    """Whether a log that begins so (decompressed, with whole lines or not) is a rollout.

    Its records decide. A name like a rollout's is not enough, and another name does no harm.
    """
    lines = head.split(b"\n", _MOST_HEAD_LINES)
    whole = [LogLine(number, line) for number, line in enumerate(lines[:-1], 1)]
    last = LogLine(len(lines), lines[-1], is_cut=True)
    return any(_is_record(record) for record in records(name, [*whole, last], Unreadable(0, ())))


def _is_record(record: JsonValue) -> bool:
    if not isinstance(record, dict):
        return False
    if "payload" not in record and "type" not in record:
        return kind_of(record) is not None
    return (
        record.get("type") in _KINDS
        and isinstance(record.get("timestamp"), str)
        and isinstance(record.get("payload"), dict)
    )


def _read(file: str, lines: Sequence[LogLine], unreadable: Unreadable) -> Iterator[JsonValue]:
    """The records of the lines, in order."""
    read = read_record
    for line in lines:
        if not line.is_cut:
            try:
                record = read(line.content)
            except ValueError:
                pass
            else:
                yield record
                continue
        torn = Unreadable(0, ())
        yield from records(file, apart(line), torn)
        if torn.count:
            unreadable.add(file, line.number, torn.complaints[0].message)


def apart(line: LogLine) -> list[LogLine]:
    """An unreadable line, split where a further record begins in it."""
    if line.is_cut or line.content.find(_RECORD, 1) < 0:
        return [line]
    first, *further = line.content.split(_RECORD, MOST_GLUED)
    parts = [first, *(_RECORD + part for part in further)]
    return [LogLine(line.number, part) for part in parts if part.strip(b"\0 \t\r")]
