"""A layout of the tests' own, with as little in it as the protocol allows: one key a record says what happened.

`begin` (with `id`, `headless`, `at`), `end` (`ok` or `error`), `of` (a sub-agent's log), `work`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.call_readers import CallLayout, CallReader, LinesBeside
from runward.handlers.layouts.layout import DirectoryLayout, Layouts, LogLayout
from runward.handlers.layouts.transcript import Close, Counts, Heads, KeepsState, LogLine, Resumed, Said, Told
from runward.handlers.model.sessions import Complaint, Document


class Tiny(NamedTuple):
    """What was told so far."""

    told: Told = Told()


class TinyScanner(KeepsState[Tiny]):
    def start(self, name: str) -> Tiny:
        return Tiny(Told(session_id=name.removesuffix(".jsonl")))

    def feed(self, state: Tiny, file: str, lines: Sequence[LogLine]) -> tuple[Tiny, tuple[Resumed, ...]]:
        told = state.told
        for line in lines:
            value = read_json(line.content)
            if line.is_cut or isinstance(value, NotJson) or not isinstance(value, dict):
                complaint = Complaint(file, line.number, "no record", None)
                complaints = (*told.complaints, complaint)[:2]
                told = told._replace(unreadable=told.unreadable + 1, complaints=complaints)
            else:
                told = _take(told, value)
        return Tiny(told), ()

    def see(self, state: Tiny, documents: Sequence[Document]) -> Tiny:
        told = state.told
        for document in documents:
            if document.problem is not None:
                told = told._replace(complaints=(Complaint(document.name, None, document.problem, None),))
                continue
            value = read_json(document.content)
            if isinstance(value, dict) and value.get("status") == "done":
                told = _take(told, {"end": "ok", "at": 20.0})._replace(declared=True)
        return Tiny(told)

    def tell(self, state: Tiny) -> Told:
        return state.told


def _take(told: Told, record: dict[str, JsonValue]) -> Told:
    at = record.get("at")
    moved = float(at) if isinstance(at, int | float) else told.moved_at
    told = told._replace(counts=Counts(told.counts.events + 1), moved_at=moved)
    if "begin" in record:
        named, headless, attempt = record.get("id"), record.get("headless"), record.get("attempt")
        return told._replace(
            attempt=attempt if isinstance(attempt, int) else 1,
            turn="open",
            started_at=moved,
            session_id=named if isinstance(named, str) else told.session_id,
            headless=headless if isinstance(headless, bool) else None,
            is_subagent="of" in record,
        )
    if "end" in record:
        good = record["end"] == "ok"
        close = Close(
            "completed" if good else "failed",
            "run.completed.ok" if good else "run.failed.exception",
            "so it said",
            moved,
        )
        return told._replace(turn="closed", close=close)
    return told


def _no_calls(name: str, beside: LinesBeside) -> CallReader:
    raise AssertionError(f"no call of {name} is read")


class _Logs:
    SHOWN_BY = "a record that begins"
    SCANNER = TinyScanner(Tiny)
    CALLS = CallLayout(_no_calls)

    def __init__(self, name: str) -> None:
        self.LAYOUT = name

    def recognises_log(self, name: str, head: bytes) -> bool:
        return name.endswith(".jsonl") and head.startswith(b'{"begin"')

    def final_message(self, newest_first: Iterable[bytes]) -> str | None:
        return None

    def message_in(self, line: bytes) -> Said | None:
        return None


class Directories:
    LAYOUT = "ctcp"
    SHOWN_BY = "a tiny status"
    SCANNER = TinyScanner(Tiny)
    CALLS = CallLayout(_no_calls)
    MARKERS = ("status.json", "inner/status.json")
    DOCUMENTS = ("status.json", "inner/*.json")

    def __init__(self, logs: tuple[str, ...] = ("events.jsonl",)) -> None:
        self.LOGS = logs

    def recognises_directory(self, names: frozenset[str], heads: Heads) -> bool:
        return b"tiny" in heads.get("status.json", b"")


def layouts(log_name: str = "claude-code") -> Layouts:
    """The tiny layout as one of logs, under a name whose processes are looked for, and as one of directories."""
    return Layouts(
        (
            LogLayout(
                module=_Logs(log_name),
                usual_place=re.compile(r"/known-[^/]*\.jsonl$"),
                names_process=True,
            ),
        ),
        (DirectoryLayout(module=Directories(), goes_by_id=False),),
    )


def begin(**further: JsonValue) -> dict[str, JsonValue]:
    return {"begin": True, "at": 10.0, "headless": True, **further}


END: dict[str, JsonValue] = {"end": "ok", "at": 15.0}
ERROR: dict[str, JsonValue] = {"end": "error", "at": 15.0}
