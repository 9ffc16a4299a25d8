"""The recipients in the settings: who wants to know what, and how each is notified."""

import hashlib
import hmac
import json
import os
import subprocess
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from runward.config.notification import ENDED, OVERDUE, USUAL_AFTER_S, WAITING, Recipient
from runward.config.problem import shortened
from runward.config.template import TemplateError, parse_template
from runward.daemon.configuration.secret_file import SecretUnusable, first_line
from runward.daemon.store.tables.notices import PendingNotice
from runward.handlers.secrets import text_without_secrets

PROGRAM_PATIENCE_S: Final = 10.0
"""Seconds that a program may take to tell somebody."""

_OF_SECRETS: Final = "whsec_"


_BRIEF: Final = 140
"""Characters that title and text have together, where a desktop or a terminal shows them while somebody works."""

_OF_ENDED: Final = tuple(f"session.{status}" for status in ENDED)
_NO_COST: Final = "?"


class NotSent(Exception):
    """It was not delivered; the message says why, without an address or a secret."""


class NoLink(Exception):
    """It is not known now where the recipient could answer; the message says why."""


def no_link(notice: PendingNotice) -> str | None:
    """Nobody can answer anywhere."""
    return None


class SettingsMessenger:
    """Notifies the recipients of the settings in force. Used in threads."""

    def __init__(
        self,
        recipients: Callable[[], Sequence[Recipient]],
        link: Callable[[PendingNotice], str | None] = no_link,
        redact: Callable[[], tuple[str, ...]] = lambda: (),
        cost: Callable[[PendingNotice], str | None] = lambda notice: None,
    ) -> None:
        self._recipients = recipients
        self._link = link
        self._redact = redact
        self._cost = cost

    def recipients(self, kind: str) -> tuple[str, ...]:
        """The names of those who are notified of this kind."""
        return tuple(dict.fromkeys(each.name for each in self._recipients() if each.wants(kind)))

    def patience(self) -> dict[str, float]:
        """The names of those who are notified of what is overdue, and the seconds after which it is."""
        wanting = [each for each in self._recipients() if each.wants(OVERDUE)]
        return {each.name: USUAL_AFTER_S if each.after is None else each.after for each in reversed(wanting)}

    def send(self, notice: PendingNotice) -> str | None:
        """Deliver it. Returns why it was not delivered."""
        recipient = next((each for each in self._recipients() if each.name == notice.recipient), None)
        if recipient is None:
            return "the settings no longer name this recipient"
        try:
            url = self._link(notice)
        except NoLink as error:
            return str(error)
        cost = self._cost(notice) if notice.kind in _OF_ENDED else ""
        return send(recipient, notice, url, self._redact(), cost)


def send(
    recipient: Recipient,
    notice: PendingNotice,
    url: str | None = None,
    redact: tuple[str, ...] = (),
    cost: str | None = "",
) -> str | None:
    """Notify the recipient; `url` is where it can answer. Returns why that failed.

    Texts of a notice may be an agent's, so they leave without what looks like a secret, also by the patterns `redact`.
    `cost` is what the session cost that it is about: None if that is not known, empty if it is about no ended one.
    """
    notice = notice._replace(
        subject=text_without_secrets(notice.subject, redact),
        title=text_without_secrets(notice.title, redact),
        text=text_without_secrets(notice.text, redact),
    )
    if notice.kind in (WAITING, OVERDUE):
        notice = _in_brief(notice)
    elif cost:
        notice = notice._replace(text=f"{notice.text}\ncost: {cost}")
    try:
        match recipient.means:
            case "command":
                _run([_filled(word, notice, url, cost) for word in recipient.command])
            case "desktop":
                # It reads markup, and escapes as C has them.
                body = _as_plain_markup(_with_link(notice, url)).replace("\\", "\\\\")
                _run(["notify-send", "--app-name=runward", "--", notice.title, body])
            case "ntfy":
                _ntfy(recipient, notice, url)
            case "slack":
                shown = notice._replace(
                    title=_as_plain_markup(notice.title), text=_as_plain_markup(notice.text)
                )
                text = f"*{shown.title}*\n{_with_link(shown, url)}"
                _post_json(_address(recipient), {"text": text})
            case "webhook":
                _webhook(recipient, notice, url)
    except NotSent as error:
        return str(error)
    return None


def _in_brief(notice: PendingNotice) -> PendingNotice:
    """Cut only now: of a secret that was cut before, a part could remain."""
    title = shortened(notice.title, _BRIEF)
    return notice._replace(title=title, text=shortened(notice.text, _BRIEF - len(title)))


def _filled(word: str, notice: PendingNotice, url: str | None, cost: str | None) -> str:
    try:
        return parse_template(word).fill(
            {
                "title": notice.title,
                "text": notice.text,
                "kind": notice.kind,
                "subject": notice.subject,
                "id": notice.id,
                "url": url or "",
                "cost": _NO_COST if cost is None else cost,
            }
        )
    except TemplateError as error:
        raise NotSent(str(error)) from error


def _as_plain_markup(text: str) -> str:
    """As the documentation of Slack and the desktop's specification say: `<!channel>` would notify everybody, `<a>` be a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _with_link(notice: PendingNotice, url: str | None) -> str:
    return notice.text if url is None else f"{notice.text}\n{url}"


def _run(argv: list[str]) -> None:
    """Run the program, which has `PROGRAM_PATIENCE_S`."""
    from runward.daemon.processes.kernel import end_with_parent  # imports ctypes, which few daemons need

    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [each.replace("\0", "") for each in argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                # Nobody would end it if the daemon were killed.
                preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509  # two system calls, and no lock
            )
        except OSError as error:
            raise NotSent(f"{argv[0]} can't be started: {error.strerror}") from error
        try:
            code = process.wait(PROGRAM_PATIENCE_S)
        except subprocess.TimeoutExpired:
            # With everything that it started: a notice may not leave programs behind.
            os.killpg(process.pid, 9)
            process.wait()
            raise NotSent(f"{argv[0]} took longer than {PROGRAM_PATIENCE_S:g} s") from None
        if code != 0:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - 500))
            complaint = errors.read().decode(errors="replace").strip().splitlines()
            raise NotSent(f"{argv[0]} exited with {code}{f': {complaint[-1]}' if complaint else ''}")


def _ntfy(recipient: Recipient, notice: PendingNotice, url: str | None) -> None:
    """As ntfy's documentation says: JSON with the topic, posted to the server's root."""
    server, _, topic = _address(recipient).rstrip("/").rpartition("/")
    click = {} if url is None else {"click": url}
    message = {"topic": topic, "title": notice.title, "message": _with_link(notice, url), **click}
    _post_json(f"{server}/", message)


def _webhook(recipient: Recipient, notice: PendingNotice, url: str | None) -> None:
    """As the Standard Webhooks specification says: id, time and signature in headers, the time in the body, too."""
    data = {
        "id": notice.id,
        "subject": notice.subject,
        "title": notice.title,
        "text": notice.text,
        **({} if url is None else {"url": url}),
    }
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(notice.created_at))
    body = json.dumps({"type": notice.kind, "timestamp": at, "data": data}, ensure_ascii=False).encode()
    # The time is part of what is signed, so that a recorded delivery can't be sent again later.
    sent_at = str(int(time.time()))
    headers = {"webhook-id": notice.id, "webhook-timestamp": sent_at}
    if recipient.secret_file is not None:
        key = _key(_first_line(recipient.secret_file))
        signed = hmac.new(key, f"{notice.id}.{sent_at}.".encode() + body, hashlib.sha256).digest()
        headers["webhook-signature"] = f"v1,{b64encode(signed).decode()}"
    _post(_address(recipient), body, headers)


def _key(secret: str) -> bytes:
    try:
        return b64decode(secret.removeprefix(_OF_SECRETS), validate=True)
    except ValueError as error:
        raise NotSent(f"the secret is not {_OF_SECRETS} and base64") from error


def _address(recipient: Recipient) -> str:
    address = recipient.address or _first_line(str(recipient.address_file))
    if not address.startswith(("http://", "https://")):
        raise NotSent("its file does not contain an address that starts with http:// or https://")
    return address


def _first_line(path: str) -> str:
    try:
        return first_line(path)
    except SecretUnusable as error:
        raise NotSent(str(error)) from error


def _post_json(address: str, value: Mapping[str, str]) -> None:
    _post(address, json.dumps(value, ensure_ascii=False).encode(), {})


def _post(address: str, body: bytes, headers: Mapping[str, str]) -> None:
    from runward.daemon.world.posting import NotPosted, post  # imports an HTTP client, which few notices need

    try:
        post(address, body, {"content-type": "application/json", **headers})
    except NotPosted as error:
        raise NotSent(str(error)) from error
