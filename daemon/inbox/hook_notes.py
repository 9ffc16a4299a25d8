"""The notes that agents' hooks put into the inbox (see `runward.daemon.hooks.runward_hook`), read as events."""

import json
import re
from base64 import b64decode
from typing import Final

from runward.config.json_value import JsonValue
from runward.daemon.ports.inbox import InboxFile
from runward.handlers.layouts.foreign_values import seconds_in, text_in
from runward.handlers.layouts.hooks import READERS, HookSaid, whole
from runward.handlers.model.sessions import HookSpoke

HOOK: Final = "hook"
"""The key that distinguishes a note from a request."""

_MOST_ANCESTORS: Final = 16
_MACHINE: Final = re.compile(r"[0-9A-Za-z]{32}")
_BOOT: Final = re.compile(r"[0-9a-f-]{1,64}")


def load_note(file: InboxFile, note: dict[str, JsonValue]) -> HookSpoke | str | None:
    """The report of a hook, attributed to the file's owner, or why it can't be used; None if it concerns no session."""
    agent, at = note.get(HOOK), seconds_in(note.get("at"))
    read = READERS.get(agent) if isinstance(agent, str) else None
    if read is None or not isinstance(agent, str):
        return "is not a note of any agent's hook"
    if note.get("version") != 1 or at is None:
        return f"is a note of {agent}'s hook in a form that isn't known"
    payload = _payload(note.get("payload"))
    if payload is None:
        return f"does not contain a payload of {agent}'s hook"
    said = read(payload)
    if not isinstance(said, HookSaid):
        return said
    boot, launcher = note.get("boot_id"), text_in(note.get("launcher_session"))
    knows_boot = isinstance(boot, str) and _BOOT.fullmatch(boot) is not None
    return HookSpoke(
        file.name,
        at,
        agent,
        said.session_id,
        said.kind,
        said.cwd,
        said.transcript_path,
        said.prompt,
        said.source,
        boot_id=str(boot) if knows_boot else "",
        ancestors=_ancestors(note.get("ancestors")) if knows_boot else (),
        launcher_session=None if launcher is None else whole(launcher),
        said_by=file.owner,
        machine=_machine(note.get("machine")),
        namespace=_namespace(note.get("namespace")),
    )


def _machine(value: JsonValue) -> str:
    return value if isinstance(value, str) and _MACHINE.fullmatch(value) else ""


def _namespace(value: JsonValue) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value < 1 << 63 else None


def _payload(text: JsonValue) -> dict[str, JsonValue] | None:
    """The object that a hook was given. Only its top-level fields are used, so the rest may have any form."""
    if not isinstance(text, str):
        return None
    try:
        value: JsonValue = json.loads(b64decode(text, validate=True).decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _ancestors(value: JsonValue) -> tuple[tuple[int, int], ...]:
    """The processes that a hook ran under; empty if one of them is impossible."""
    found = []
    for each in value[:_MOST_ANCESTORS] if isinstance(value, list) else []:
        match each:
            case [bool(), _] | [_, bool()]:
                return ()
            case [int() as pid, int() as ticks] if 0 < pid < 1 << 31 and 0 <= ticks < 1 << 63:
                found.append((pid, ticks))
            case _:
                return ()
    return tuple(found)
