"""Requests as bytes: what commands put into the inbox, and how the daemon reads it."""

from typing import Final

from msgspec.structs import replace
from pydantic_core import to_json

from runward.config.json_value import JsonValue
from runward.daemon.inbox.hook_notes import HOOK, load_note
from runward.daemon.inbox.launches import LAUNCH, load_launch
from runward.daemon.ports.inbox import InboxFile
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.model.events import Event, Request, UnknownEvent, dump_payload, impossible
from runward.handlers.registry import REQUESTS, load_payload

_REQUESTS: Final = {each.type for each in REQUESTS}


def dump_request(request: Request) -> bytes:
    """The bytes of a request's file."""
    head = to_json({"type": request.type, "version": request.version}).decode()
    return f'{head[:-1]},"payload":{dump_payload(request)}}}\n'.encode()


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
        event = load_payload(kind, version, to_json(_named(payload, file.name)))
    except UnknownEvent as error:
        return str(error)
    assert isinstance(event, Request)
    fault = impossible(event)
    if fault is not None:
        return fault
    return replace(event, said_by=file.owner)


def _named(payload: JsonValue, name: str) -> JsonValue:
    """The payload under the key that its file's name gives it, whatever the payload says."""
    return {**payload, "request": name} if isinstance(payload, dict) else payload
