"""What is in the inbox, as bytes: requests of commands, notes of agents' hooks, launches, and events from outside."""

import json
import re
from base64 import b64decode
from typing import Final

from msgspec.structs import replace

from runward.config.json_value import JsonValue, stored_json
from runward.daemon.inbox.launches import LAUNCH, load_launch
from runward.daemon.inbox.spool import InboxFile
from runward.daemon.store.batch import Rows
from runward.daemon.store.tables import starts
from runward.handlers.contracts.snapshots import snapshot_from_run
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.foreign_values import seconds_in, text_in
from runward.handlers.layouts.hooks import HOOKS, HookSaid, whole
from runward.handlers.model.events import Event, Request, UnknownEvent, impossible
from runward.handlers.model.sessions import HookSpoke, RunLaunched
from runward.handlers.registry import REQUESTS, load_payload

_REQUESTS: Final = {each.type for each in REQUESTS}


def load_request(file: InboxFile) -> Event | str | None:
    """The event of a file, attributed to the file's owner, or why it is invalid; None if no event follows."""
    if not file.is_ours:
        return f"belongs to {file.owner}, who may not make requests to this daemon"
    value = read_json(file.content)
    if isinstance(value, NotJson):
        return value.message
    if not isinstance(value, dict):
        return "does not contain a JSON object"
    if HOOK in value:
        return load_note(file, value)
    if LAUNCH in value:
        return load_launch(value)
    kind, version, payload = value.get("type"), value.get("version"), value.get("payload")
    if not isinstance(kind, str) or kind not in _REQUESTS or not isinstance(version, int):
        return f"asks for {kind!r}, which is not a request"
    try:
        event = load_payload(kind, version, stored_json(_named(payload, file.name)))
    except UnknownEvent as error:
        return str(error)
    assert isinstance(event, Request)
    fault = impossible(event)
    if fault is not None:
        return fault
    return replace(event, said_by=file.owner)


def _named(payload: JsonValue, name: str) -> JsonValue:
    """The payload under the key that its file's name gives it, whatever the payload says."""
    # The name is the event's key. If the payload chose it, a file could pass for a request that was recorded before.
    return {**payload, "request": name} if isinstance(payload, dict) else payload


HOOK: Final = "hook"
"""The key that distinguishes a note, which an agent's hook put there (`runward.daemon.hooks.runward_hook`), from a request."""

_MOST_ANCESTORS: Final = 16
_MACHINE: Final = re.compile(r"[0-9A-Za-z]{32}")
_BOOT: Final = re.compile(r"[0-9a-f-]{1,64}")


def load_note(file: InboxFile, note: dict[str, JsonValue]) -> HookSpoke | str | None:
    """The report of a hook, attributed to the file's owner, or why it can't be used; None if it concerns no session."""
    agent, at = note.get(HOOK), seconds_in(note.get("at"))
    read = HOOKS.get(agent) if isinstance(agent, str) else None
    if read is None or not isinstance(agent, str):
        return "is not a note of any agent's hook"
    if note.get("version") != 1 or at is None:
        return f"is a note of {agent}'s hook in a form that isn't known"
    payload = _payload(note.get("payload"))
    if payload is None:
        return f"does not contain a payload of {agent}'s hook"
    reported = read(payload)
    if not isinstance(reported, HookSaid):
        return reported
    boot, launcher = note.get("boot_id"), text_in(note.get("launcher_session"))
    knows_boot = isinstance(boot, str) and _BOOT.fullmatch(boot) is not None
    # Without the boot, these numbers could be those of any processes.
    ancestors = _ancestors(note.get("ancestors")) if knows_boot else ()
    return HookSpoke(
        request=file.name,
        at=at,
        layout=agent,
        session_id=reported.session_id,
        kind=reported.kind,
        cwd=reported.cwd,
        transcript_path=reported.transcript_path,
        prompt=reported.prompt,
        source=reported.source,
        boot_id=str(boot) if knows_boot else "",
        # An agent that calls its hook without a shell stands where the others have theirs, too.
        ancestors=(*ancestors[:1], *ancestors) if reported.is_direct else ancestors,
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
    processes = []
    for each in value[:_MOST_ANCESTORS] if isinstance(value, list) else []:
        match each:
            # To Python, JSON's true is the number 1.
            case [bool(), _] | [_, bool()]:
                return ()
            case [int() as pid, int() as ticks] if 0 < pid < 1 << 31 and 0 <= ticks < 1 << 63:
                processes.append((pid, ticks))
            case _:
                return ()
    return tuple(processes)


def kept_with(event: Event | None) -> tuple[Rows, ...]:
    """The rows that are stored with a request, in addition to its event."""
    return (_row(event),) if isinstance(event, RunLaunched) else ()


def _row(event: RunLaunched) -> Rows:
    contract = snapshot_from_run(event.contract).text
    launcher = (*event.launcher, event.ticket) if event.ticket else event.launcher
    named = stored_json(launcher).decode(), stored_json(event.process).decode()
    row = (event.launch, event.session_key, event.at, event.seal, contract)
    return Rows(starts.INSERT_LAUNCH, [(*row, event.timeout, event.grace, *named, event.cgroup)])
