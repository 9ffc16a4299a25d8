"""The recipients of the settings: who wants to know what, and how each is told."""

import hashlib
import hmac
import json
import os
import subprocess
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from runward.config.notification import Recipient
from runward.config.template import TemplateError, parse_template
from runward.daemon.notices.http import NotPosted, post
from runward.daemon.store.tables.notices import PendingNotice

PROGRAM_PATIENCE_S: Final = 10.0
"""Seconds that a program may take to tell somebody."""

_LONGEST_FILE: Final = 4096
_OF_SECRETS: Final = "whsec_"


class NotSent(Exception):
    """It was not delivered; the message says why, without an address or a secret."""


class SettingsMessenger:
    """Tells the recipients of the settings in force. Used in threads."""

    def __init__(self, recipients: Callable[[], Sequence[Recipient]]) -> None:
        self._recipients = recipients

    def recipients(self, kind: str) -> tuple[str, ...]:
        """The names of those who are told of this kind."""
        return tuple(dict.fromkeys(each.name for each in self._recipients() if each.wants(kind)))

    def send(self, notice: PendingNotice) -> str | None:
        """Deliver it. Returns why it was not delivered."""
        recipient = next((each for each in self._recipients() if each.name == notice.recipient), None)
        if recipient is None:
            return "the settings name this recipient no more"
        return send(recipient, notice)


def send(recipient: Recipient, notice: PendingNotice) -> str | None:
    """Tell the recipient. Returns why it was not told."""
    try:
        match recipient.means:
            case "command":
                _run([_filled(word, notice) for word in recipient.command])
            case "desktop":
                _run(["notify-send", "--app-name=runward", "--", notice.title, notice.text])
            case "ntfy":
                _ntfy(recipient, notice)
            case "slack":
                text = f"*{notice.title}*\n{notice.text}"
                _post_json(_address(recipient), {"text": text}, {})
            case "webhook":
                _webhook(recipient, notice)
    except NotSent as error:
        return str(error)
    return None


def _filled(word: str, notice: PendingNotice) -> str:
    try:
        return parse_template(word).fill(
            {
                "title": notice.title,
                "text": notice.text,
                "kind": notice.kind,
                "subject": notice.subject,
                "id": notice.id,
                "url": "",
            }
        )
    except TemplateError as error:
        raise NotSent(str(error)) from error


def _run(argv: list[str]) -> None:
    """Run the program, which has `PROGRAM_PATIENCE_S`."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [each.replace("\0", "") for each in argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise NotSent(f"{argv[0]} can't be started: {error.strerror}") from error
        try:
            code = process.wait(PROGRAM_PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            raise NotSent(f"{argv[0]} took longer than {PROGRAM_PATIENCE_S:g} s") from None
        if code != 0:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - 500))
            said = errors.read().decode(errors="replace").strip().splitlines()
            raise NotSent(f"{argv[0]} exited with {code}{f': {said[-1]}' if said else ''}")


def _ntfy(recipient: Recipient, notice: PendingNotice) -> None:
    """As ntfy's documentation says: JSON with the topic, posted to the server's root."""
    server, _, topic = _address(recipient).rstrip("/").rpartition("/")
    _post_json(f"{server}/", {"topic": topic, "title": notice.title, "message": notice.text}, {})


def _webhook(recipient: Recipient, notice: PendingNotice) -> None:
    """As the Standard Webhooks specification says: id, time and signature in headers, the time in the body, too."""
    data = {
        "id": notice.id,
        "subject": notice.subject,
        "title": notice.title,
        "text": notice.text,
    }
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(notice.created_at))
    body = json.dumps({"type": notice.kind, "timestamp": at, "data": data}, ensure_ascii=False).encode()
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
        raise NotSent("its file does not hold an address that begins with http:// or https://")
    return address


def _first_line(path: str) -> str:
    """The first line of a file that only its owner may read. Raises `NotSent`."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise NotSent(f"others may read {path}: chmod 600 {path}")
            text = file.read(_LONGEST_FILE).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise NotSent(f"{path} can't be read: {getattr(error, 'strerror', 'it is not UTF-8')}") from error
    return text.partition("\n")[0].strip()


def _post_json(address: str, value: Mapping[str, str], headers: Mapping[str, str]) -> None:
    _post(address, json.dumps(value, ensure_ascii=False).encode(), headers)


def _post(address: str, body: bytes, headers: Mapping[str, str]) -> None:
    try:
        post(address, body, {"content-type": "application/json", **headers})
    except NotPosted as error:
        raise NotSent(str(error)) from error
