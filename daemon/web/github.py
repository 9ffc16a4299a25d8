"""`POST /webhooks/github`: deliveries of GitHub, each durable before it is answered."""

import hashlib
import hmac
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from runward.config.json_value import JsonValue
from runward.daemon.configuration.secret_file import SecretUnusable, secret_of
from runward.daemon.inbox.spool import RequestTooLong, leave_request, occurrence_request
from runward.daemon.log import Log
from runward.daemon.web.server import BodyReader, BodyTooLong, Refusals
from runward.handlers.foreign_json import NotJson, read_json


class Occurrence(NamedTuple):
    """An event's name and its fields."""

    name: str
    fields: dict[str, JsonValue]


def occurrence_of(kind: str, payload: dict[str, JsonValue]) -> Occurrence | None:
    """The event of a delivery of this kind (`X-GitHub-Event`); None for the many that we do not use.

    A field that the payload does not have is null.
    """
    match kind, payload.get("action"):
        case "pull_request", "opened" | "reopened" | "synchronize" | "ready_for_review" as action:
            return Occurrence(f"pr.{action}", _pull_request(payload))
        case "pull_request", "closed" if _at(payload, "pull_request", "merged") is True:
            return Occurrence("pr.merged", _pull_request(payload))
        case "issues", "opened":
            return Occurrence("issue.created", _issue(payload))
        case _:
            return None


def _pull_request(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    name = "pull_request"
    return {
        "pr_number": _at(payload, name, "number"),
        "base": _at(payload, name, "base", "ref"),
        "head": _at(payload, name, "head", "ref"),
        "base_sha": _at(payload, name, "base", "sha"),
        "head_sha": _at(payload, name, "head", "sha"),
        "head_repository": _at(payload, name, "head", "repo", "full_name"),
        "fork": _is_from_fork(payload),
        "draft": _at(payload, name, "draft"),
        "title": _at(payload, name, "title"),
        "author": _at(payload, name, "user", "login"),
        "url": _at(payload, name, "html_url"),
        "repository": _at(payload, "repository", "full_name"),
    }


def _is_from_fork(payload: dict[str, JsonValue]) -> bool | None:
    """Whether the head is in another repository than the base. A head without a repository was in a fork that is gone."""
    head, base = (_at(payload, "pull_request", side) for side in ("head", "base"))
    if not isinstance(head, dict) or "repo" not in head:
        return None
    if head["repo"] is None:
        return True
    name, own = _at(head, "repo", "full_name"), _at(base, "repo", "full_name")
    if own is None:
        own = _at(payload, "repository", "full_name")
    return None if name is None or own is None else name != own


def _issue(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    labels = _at(payload, "issue", "labels")
    names = [_at(each, "name") for each in labels] if isinstance(labels, list) else []
    return {
        "issue_number": _at(payload, "issue", "number"),
        "title": _at(payload, "issue", "title"),
        "author": _at(payload, "issue", "user", "login"),
        "url": _at(payload, "issue", "html_url"),
        "repository": _at(payload, "repository", "full_name"),
        "labels": [name for name in names if isinstance(name, str)],
    }


def _at(value: JsonValue, *keys: str) -> JsonValue:
    """The value under these keys, one inside the other."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


MOST: Final = 5 << 20
"""Bytes of a delivery's body."""

THREADS: Final = 4
"""Deliveries that are checked and kept at the same time."""

_SIGNATURE: Final = re.compile(r"sha256=([0-9a-f]{64})")
_ANSWERED: Final = "webhook.answered"
_DELIVERY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class _Answer(NamedTuple):
    status: int
    text: str


_NO_SECRET: Final = _Answer(404, "no secret is set: [webhooks.github] of the settings names its file")


class GithubWebhook:
    """Checks deliveries and puts their events into the inbox, as `event emit` does.

    `secret_file` is called for each delivery: a new secret counts at once.
    """

    def __init__(
        self,
        state: Path,
        secret_file: Callable[[], str | None],
        bodies: BodyReader,
        log: Log,
    ) -> None:
        self._state = state
        self._secret_file = secret_file
        self._bodies = bodies
        self._log = log
        self._refusals = Refusals(log, _ANSWERED)
        self._threads = anyio.CapacityLimiter(THREADS)
        self._trouble: str | None = None

    def degraded(self) -> list[str]:
        """What keeps deliveries from being taken, for `status`."""
        return [] if self._trouble is None else [f"webhooks.github: {self._trouble}"]

    async def endpoint(self, request: Request) -> Response:
        """Answer a delivery."""
        kind = request.headers.get("x-github-event", "")
        delivery = request.headers.get("x-github-delivery", "")
        try:
            body = await self._bodies.read(request, MOST)
        except BodyTooLong:
            long = _Answer(413, f"the body has more than {MOST} bytes")
            answer = long if self._secret_file() is not None else _NO_SECRET
        else:
            signature = request.headers.get("x-hub-signature-256", "")
            answer = await anyio.to_thread.run_sync(
                self._take, body, signature, kind, delivery, limiter=self._threads
            )
        self._say(answer, kind[:128], delivery[:128])
        return PlainTextResponse(f"{answer.text}\n", answer.status)

    def _say(self, answer: _Answer, kind: str, delivery: str) -> None:
        words = {"status": answer.status, "what": answer.text, "delivery": delivery, "kind": kind}
        if answer.status == 202:
            self._log.info(_ANSWERED, **words)
        else:
            self._refusals.say(**words)

    def _take(self, body: bytes, signature: str, kind: str, delivery: str) -> _Answer:
        path = self._secret_file()
        if path is None:
            return _NO_SECRET
        try:
            secret = secret_of(path)
        except SecretUnusable as error:
            self._trouble = str(error)
            return _Answer(503, "the file of the secret can't be used; `runward status` says why")
        self._trouble = None
        match = _SIGNATURE.fullmatch(signature)
        # Over the bytes as they came, before anything reads them: only GitHub's bodies get as far as the JSON parser.
        right = hmac.new(secret, body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(right, match[1] if match else "") or match is None:
            return _Answer(401, "the signature (X-Hub-Signature-256) is missing or wrong")
        return self._keep(body, kind, delivery)

    def _keep(self, body: bytes, kind: str, delivery: str) -> _Answer:
        """Put the event of a signed delivery into the inbox."""
        payload = read_json(body)
        if isinstance(payload, NotJson):
            fix = "set the webhook's content type to application/json"
            return _Answer(400, f"the body can't be read: {payload.message}; {fix}")
        if not isinstance(payload, dict):
            return _Answer(400, "the body is not a JSON object")
        if not kind:
            return _Answer(400, "the header X-GitHub-Event is missing")
        if _DELIVERY.fullmatch(delivery) is None:
            return _Answer(400, "the header X-GitHub-Delivery is missing or not an id")
        occurrence = occurrence_of(kind, payload)
        if occurrence is None:
            return _Answer(202, "accepted: no event follows from it")
        try:
            # The delivery's id is the event's: GitHub repeats deliveries, and each must count once.
            leave_request(self._state, occurrence_request(occurrence.name, delivery, occurrence.fields))
        except RequestTooLong:
            return _Answer(400, "the fields are too long for an event (1 MiB)")
        except OSError as error:
            self._trouble = f"a delivery can't be stored: {error.strerror}"
            self._log.error("webhook.not_kept", delivery=delivery, why=error.strerror)
            return _Answer(503, "it can't be stored now: deliver it again later")
        return _Answer(202, f"accepted: {occurrence.name}")
