"""Where a Codex thread comes from, by its `session_meta`: who made it, with what, and from which other thread."""

from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.foreign_values import whole_text_in

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
