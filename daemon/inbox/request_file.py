"""A request as the bytes of its file. It imports little, because commands start with it; the daemon reads in `requests.py`."""

from runward.handlers.model.events import Request
from runward.handlers.model.stored import as_json


def dump_request(request: Request) -> bytes:
    """The bytes of a request's file."""
    head = as_json({"type": request.type, "version": request.version})
    return f'{head[:-1]},"payload":{as_json(request)}}}\n'.encode()
