"""The inbox as a directory: put a request durably, list what waits, clear what was recorded.

A request is durable when `put` returns, whether the daemon is up or down. The file's owner is its author. Commands look
into it, so nothing heavy is imported here.
"""

import os
import stat
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runward.config.json_value import JsonValue, is_text
from runward.daemon.disk.durable import write_durably, write_whole_file
from runward.daemon.store.ownership import prepare
from runward.daemon.users import name_of

if TYPE_CHECKING:
    from runward.handlers.model.chains import EventOccurred
    from runward.handlers.model.events import Request


@dataclass(frozen=True, slots=True)
class InboxFile:
    """One request in the inbox: its name without the ending, who owns the file, and its bytes.

    `is_ours`: it belongs to the daemon's own user or to root; others may ask for nothing.
    """

    name: str
    owner: str
    content: bytes
    is_ours: bool = True


INBOX: Final = "inbox"
REJECTED: Final = "rejected"
SUFFIX: Final = ".json"
MAXIMUM_REQUEST: Final = 1 << 20
MOST_AT_ONCE: Final = 512
"""Files that are read in one look: more than a batch, so that it is known that some wait, and no more memory."""
BYTES_OF_A_BATCH: Final = 4 << 20
"""Bytes of the files of one batch, from which on the others wait for the next: reading them takes the interpreter."""


def put(state: Path, name: str, content: bytes, *, is_kept_elsewhere: bool = False) -> None:
    """Put a request into the inbox under `name` (a uuid); raises `OSError`.

    If who puts it keeps it elsewhere, and puts it again if it is not there, it need not wait for the directory: after a power cut,
    the file is whole or not there.
    """
    inbox = state / INBOX
    inbox.mkdir(mode=0o700, exist_ok=True)
    write = write_whole_file if is_kept_elsewhere else write_durably
    try:
        write(inbox, name + SUFFIX, content)
    except OSError as error:
        error.filename, error.filename2 = (
            str(inbox),
            None,
        )  # otherwise it would be a temporary name without its directory
        raise


class RequestTooLong(Exception):
    """A request is larger than the daemon reads."""

    def __init__(self) -> None:
        super().__init__("this is too long: a request has at most 1 MiB")


def leave_request(
    state: Path, request: "Request", *, before_any_daemon: bool = False, is_kept_elsewhere: bool = False
) -> str:
    """Put a request into the inbox; returns its name. Raises `RequestTooLong` and `OSError`.

    With `before_any_daemon` the state directory is made if there is none; `put` says when something `is_kept_elsewhere`.
    """
    content = dump_request(request)
    # The daemon would reject the file, and the one who asked would wait for an answer in vain.
    if len(content) > MAXIMUM_REQUEST:
        raise RequestTooLong
    if before_any_daemon:
        prepare(state)
    put(state, request.request, content, is_kept_elsewhere=is_kept_elsewhere)
    return request.request


def request_of(name: str, identifier: str) -> str:
    """The name of an event from outside: the same for the same name and id, so that a second one is recognised."""
    import hashlib  # other requests do without it

    # The line end can't be in a name, so no two pairs give the same text.
    known = f"{name}\n{identifier}".encode(errors="replace")
    return str(uuid.UUID(hashlib.sha256(known).hexdigest()[:32]))


def occurrence_request(
    name: str, identifier: str, fields: Mapping[str, JsonValue], by_run: str | None = None
) -> "EventOccurred":
    """The request that tells an event from outside."""
    from runward.handlers.model.chains import EventOccurred  # other requests do without it

    request = request_of(name, identifier)
    return EventOccurred(request, time.time(), name, identifier, dict(fields), by_run=by_run)


def list_inbox(state: Path) -> tuple[InboxFile, ...]:
    """The oldest files waiting in the inbox, more than one batch. Anything that is not a request file is left alone."""
    files: list[InboxFile] = []
    inbox, total = state / INBOX, 0
    for name in _by_age(inbox):
        if len(files) == MOST_AT_ONCE or total > 2 * BYTES_OF_A_BATCH:
            break
        try:
            # A link could lead anywhere, and a FIFO would block the daemon.
            descriptor = os.open(inbox / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue  # a link, or removed: not a request in either case
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                continue
            # One byte more than allowed shows that it is too large, without reading it whole.
            content = os.read(descriptor, MAXIMUM_REQUEST + 1)
        finally:
            os.close(descriptor)
        # The owner of the file is its author. Nothing in the file can change that.
        is_ours = status.st_uid in (os.geteuid(), 0)
        total += len(content)
        files.append(InboxFile(name.removesuffix(SUFFIX), name_of(status.st_uid), content, is_ours))
    return tuple(files)


def first_batch(files: Sequence[InboxFile], most: int) -> Sequence[InboxFile]:
    """The first files, at most `most` and at most a batch by their bytes; one at least."""
    total = 0
    for count, file in enumerate(files[:most]):
        total += len(file.content)
        if total > BYTES_OF_A_BATCH:
            return files[: max(1, count)]
    return files[:most]


def _by_age(inbox: Path) -> list[str]:
    """The names that may be requests, oldest first."""
    try:
        names = os.listdir(inbox)
    except FileNotFoundError:
        return []
    aged: list[tuple[int, str]] = []
    for name in names:
        if name.startswith(".") or not name.endswith(SUFFIX) or not is_text(name):
            continue
        try:
            # By time, since names are random: what was asked first is taken up first.
            aged.append((os.stat(inbox / name, follow_symlinks=False).st_mtime_ns, name))
        except OSError:
            continue  # removed meanwhile
    return [name for _, name in sorted(aged)]


def clear(state: Path, name: str, rejected: bool) -> None:
    """Remove a request: its event is recorded, or it is not a request and kept aside."""
    path = state / INBOX / (name + SUFFIX)
    if rejected:
        aside = state / REJECTED
        aside.mkdir(mode=0o700, exist_ok=True)
        # Kept, because somebody wonders why nothing came of it; `status` counts these files.
        path.replace(aside / path.name)
    else:
        path.unlink(missing_ok=True)


def dump_request(request: "Request") -> bytes:
    """The bytes of a request's file."""
    from runward.handlers.model.stored import as_json  # most commands only look into the inbox

    head = as_json({"type": request.type, "version": request.version})
    return f'{head[:-1]},"payload":{as_json(request)}}}\n'.encode()
