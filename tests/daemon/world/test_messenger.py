"""How each recipient is told, by real programs and real services on this machine."""

import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.waiting import wait_for

from runward.config.notification import Means, Recipient
from runward.daemon.store.tables.notices import PendingNotice
from runward.daemon.world import messenger
from runward.daemon.world.messenger import NoLink, SettingsMessenger, send

NOTICE = PendingNotice(
    "nt_1",
    "chain.failed",
    "cr_1",
    "x",
    "release failed",
    "why: -- 'it' $(did)",
    1_800_000_000.0,
    0,
    0.0,
    0.0,
)

KILLED = """
import os, random, signal, sys, threading, time
from runward.daemon.world import messenger

chance = random.Random(0)

def end(after):
    time.sleep(after)
    os.kill(os.getpid(), signal.SIGKILL)

for _ in range(30):
    after = chance.uniform(0.0, 0.01)
    pid = os.fork()
    if pid == 0:
        threading.Thread(target=end, args=(after,), daemon=True).start()
        messenger._run(["sleep", sys.argv[1]])
    os.waitpid(pid, 0)
"""
"""Starts a program in one process after the other, each of which is killed within its first 10 ms."""


class Received(NamedTuple):
    """What a service was sent."""

    path: str
    headers: dict[str, str]
    body: bytes


class Service:
    """A service that answers with `code`, and remembers what it was sent."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.code = 200
        self.received: list[Received] = []


@contextmanager
def serving() -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            service.received.append(Received(self.path, headers, body))
            self.send_response(service.code)
            if service.code == 302:
                self.send_header("location", f"{service.address}/elsewhere")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = Service(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(name="service")
def running() -> Iterator[Service]:
    with serving() as found:
        yield found


def _reached(key: str, address: str) -> Recipient:
    """A recipient whose address is under this key."""
    keys: dict[str, Any] = {key: address}
    return Recipient(("*",), **keys)


def test_a_program_gets_the_words_as_they_are(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = ("sh", "-c", 'printf "%s|" "$@" > "$0"', str(told), "{{ with.title }}", "to: {{ with.text }}")
    assert send(Recipient(("*",), command=command), NOTICE) is None
    assert told.read_text() == f"{NOTICE.title}|to: {NOTICE.text}|"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("sh", "-c", "echo no >&2; exit 3"), "sh exited with 3: no"),
        (("/no/such/program",), "/no/such/program can't be started: No such file or directory"),
        (("echo", "{{ with.unknown }}"), "unknown"),
    ],
)
def test_a_program_that_fails_did_not_tell_anybody(command: tuple[str, ...], why: str) -> None:
    assert why in str(send(Recipient(("*",), command=command), NOTICE))


def test_a_program_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messenger, "PROGRAM_PATIENCE_S", 0.3)
    told = tmp_path / "told"
    command = ("sh", "-c", f"(sleep 60; echo late > {told}) & wait")
    assert "took longer than 0.3 s" in str(send(Recipient(("*",), command=command), NOTICE))
    assert not told.exists()


def test_a_program_ends_if_the_daemon_is_killed_even_before_it_began() -> None:
    longest = f"600.{os.getpid()}"
    subprocess.run([sys.executable, "-c", KILLED, longest], check=True)
    wait_for(lambda: not _sleepers(longest), "none of the programs is left")


def _sleepers(longest: str) -> list[str]:
    words = f"sleep\0{longest}\0".encode()
    return [each.parent.name for each in Path("/proc").glob("[0-9]*/cmdline") if _content(each) == words]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_slack_gets_a_text(service: Service) -> None:
    assert send(Recipient(("*",), slack=f"{service.address}/services/T"), NOTICE) is None
    ((path, headers, body),) = service.received
    assert (path, headers["content-type"]) == ("/services/T", "application/json")
    assert json.loads(body) == {"text": f"*{NOTICE.title}*\n{NOTICE.text}"}


def test_no_recipient_gets_a_secret(service: Service) -> None:
    notice = NOTICE._replace(title="failed: DB_PASS=abc", text="the token ghp_" + "a1B2" * 9)
    for means in ("slack", "ntfy", "webhook"):
        assert send(_reached(means, f"{service.address}/topic"), notice) is None
    for _, _, body in service.received:
        assert b"abc" not in body
        assert b"a1B2" not in body
        assert body.count(b"[redacted]") == 2


def test_what_the_operator_calls_a_secret_leaves_in_no_notice(service: Service) -> None:
    recipient = Recipient(("*",), slack=f"{service.address}/services/T")
    told = SettingsMessenger(lambda: (recipient,), redact=lambda: (r"\bACME-\d+",))
    assert told.send(NOTICE._replace(recipient=recipient.name, text="use ACME-123")) is None
    ((_, _, body),) = service.received
    assert json.loads(body)["text"].endswith("use [redacted]")


def test_nobody_is_mentioned_in_slack(service: Service) -> None:
    notice = NOTICE._replace(text="<!channel> & <https://x|y>")
    assert send(Recipient(("*",), slack=f"{service.address}/services/T"), notice, "https://here/") is None
    ((_, _, body),) = service.received
    said = "&lt;!channel&gt; &amp; &lt;https://x|y&gt;\nhttps://here/"
    assert json.loads(body) == {"text": f"*{NOTICE.title}*\n{said}"}


@pytest.mark.parametrize(
    ("kind", "cost", "said", "variable"),
    [
        ("session.failed", "$0.0053", "why\ncost: $0.0053", "$0.0053"),
        ("session.completed", "?", "why\ncost: ?", "?"),
        ("session.failed", None, "why", "?"),
        ("chain.failed", "$1.00", "why", ""),
        ("session.waiting", "$1.00", "why", ""),
    ],
)
def test_a_notice_of_an_ended_session_says_what_it_cost(
    tmp_path: Path, kind: str, cost: str | None, said: str, variable: str
) -> None:
    told = tmp_path / "told"
    command = ("sh", "-c", 'printf "%s|%s" "$1" "$2" > "$0"', str(told), "{{ with.text }}", "{{ with.cost }}")
    recipient = Recipient(("*",), command=command)
    messenger = SettingsMessenger(lambda: (recipient,), cost=lambda notice: cost)
    notice = NOTICE._replace(kind=kind, text="why", recipient=recipient.name)
    assert messenger.send(notice) is None
    assert told.read_text() == f"{said}|{variable}"


def test_the_desktop_reads_no_markup_and_no_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[str]] = []
    monkeypatch.setattr(messenger, "_run", sent.append)
    notice = NOTICE._replace(text=r"<a href='x'>y</a> \033]9;z")
    assert send(Recipient(("*",), desktop=True), notice) is None
    ((*_, separator, title, shown),) = sent
    assert (separator, title) == ("--", notice.title)
    assert shown == r"&lt;a href='x'&gt;y&lt;/a&gt; \\033]9;z"


def test_a_receiver_that_is_named_twice_is_told_after_the_first_time() -> None:
    recipients = (
        Recipient(("attention.*",), desktop=True, after=60.0),
        Recipient(("*",), desktop=True),
        Recipient(("*",), command=("true",)),
        Recipient(("session.*",), command=("false",)),
    )
    told = SettingsMessenger(lambda: recipients)
    assert told.patience() == {recipients[0].name: 60.0, recipients[2].name: 3600.0}


def test_ntfy_gets_the_topic_and_the_title(service: Service) -> None:
    assert send(Recipient(("*",), ntfy=f"{service.address}/topic"), NOTICE) is None
    ((path, _, body),) = service.received
    assert path == "/"
    assert json.loads(body) == {"topic": "topic", "title": NOTICE.title, "message": NOTICE.text}


def test_a_webhook_is_signed_as_standard_webhooks_says(service: Service, tmp_path: Path) -> None:
    key = b"a key of some length"
    secret = tmp_path / "secret"
    secret.write_text(f"whsec_{b64encode(key).decode()}\n")
    secret.chmod(0o600)
    recipient = Recipient(("*",), webhook=service.address, secret_file=str(secret))
    assert send(recipient, NOTICE) is None
    ((_, headers, body),) = service.received
    assert headers["webhook-id"] == NOTICE.id
    signed = f"{NOTICE.id}.{headers['webhook-timestamp']}.".encode() + body
    expected = b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert json.loads(body)["type"] == "chain.failed"


URL = "https://runward.example/approvals/ap_1?signature=f"


def test_a_link_is_told_by_every_means(service: Service, tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = ("sh", "-c", 'printf "%s" "$1" > "$0"', str(told), "{{ with.url }}")
    assert send(Recipient(("*",), command=command), NOTICE, URL) is None
    assert told.read_text() == URL
    for means in ("slack", "ntfy", "webhook"):
        assert send(_reached(means, f"{service.address}/topic"), NOTICE, URL) is None
    slack, ntfy, webhook = (json.loads(body) for _, _, body in service.received)
    assert slack["text"].endswith(f"{NOTICE.text}\n{URL}")
    assert (ntfy["message"], ntfy["click"]) == (f"{NOTICE.text}\n{URL}", URL)
    assert (webhook["data"]["text"], webhook["data"]["url"]) == (NOTICE.text, URL)


def test_a_notice_whose_link_is_not_known_now_is_tried_again() -> None:
    def unknown(notice: PendingNotice) -> str | None:
        raise NoLink("the store is busy")

    recipients = (Recipient(("chain.*",), command=("true",)),)
    told = SettingsMessenger(lambda: recipients, unknown)
    (name,) = told.recipients("chain.failed")
    assert told.send(NOTICE._replace(recipient=name)) == "the store is busy"


@pytest.mark.parametrize("means", ["slack", "ntfy", "webhook"])
def test_an_address_is_read_from_a_file_that_only_its_owner_may_read(
    service: Service, tmp_path: Path, means: Means
) -> None:
    file = tmp_path / "address"
    file.write_text(f"{service.address}/secret-part\nsecond line\n")
    file.chmod(0o644)
    recipient = _reached(f"{means}_file", str(file))
    assert send(recipient, NOTICE) == f"others may read {file}: chmod 600 {file}"
    file.chmod(0o600)
    assert send(recipient, NOTICE) is None
    assert len(service.received) == 1


@pytest.mark.parametrize("code", [302, 404, 500])
def test_a_service_that_refuses_did_not_tell_anybody_and_nothing_is_sent_elsewhere(
    service: Service, code: int
) -> None:
    service.code = code
    recipient = Recipient(("*",), slack=f"{service.address}/secret")
    assert send(recipient, NOTICE) == f"the service answered {code}"
    assert len(service.received) == 1


def test_no_problem_names_an_address() -> None:
    with serving() as gone:
        address = f"{gone.address}/secret"
    why = send(Recipient(("*",), slack=address), NOTICE)
    assert why == "the service can't be reached: Connection refused"


def test_a_recipient_that_the_settings_name_no_more_is_not_told() -> None:
    recipients = (Recipient(("chain.*",), command=("true",)),)
    told = SettingsMessenger(lambda: recipients)
    (name,) = told.recipients("chain.failed")
    assert told.recipients("session.failed") == ()
    assert told.send(NOTICE._replace(recipient=name)) is None
    assert told.send(NOTICE) == "the settings no longer name this recipient"
