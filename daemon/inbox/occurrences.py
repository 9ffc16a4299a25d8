"""Events that happened outside, put into the inbox: by `event emit`, and by services that call the daemon."""

import hashlib
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from runward.config.json_value import JsonValue
from runward.daemon.inbox.requests import dump_request
from runward.daemon.inbox.spool import MAXIMUM_REQUEST, put
from runward.handlers.model.chains import EventOccurred


class FieldsTooLong(Exception):
    """The fields of an event do not fit into a request."""


def request_of(name: str, identifier: str) -> str:
    """The request's name: the same for the same name and id, so that a second one is recognised."""
    known = f"{name}\n{identifier}".encode(errors="replace")
    return str(uuid.UUID(hashlib.sha256(known).hexdigest()[:32]))


def put_occurrence(
    state: Path, name: str, identifier: str, fields: Mapping[str, JsonValue], by_run: str | None = None
) -> str:
    """Put it into the inbox, durably; returns the request's name. Raises `FieldsTooLong` and `OSError`."""
    request = request_of(name, identifier)
    event = EventOccurred(request, time.time(), name, identifier, dict(fields), by_run=by_run)
    content = dump_request(event)
    if len(content) > MAXIMUM_REQUEST:
        raise FieldsTooLong
    put(state, request, content)
    return request
