"""Clients that are slow, huge or broken: each has an end, and others are served meanwhile."""

import socket
import time
from contextlib import ExitStack

import pytest
from tests.daemon.web.serving import Served, answer_of, everything, request, signature

from runward.daemon.web import server

OPENED = {"action": "opened", "pull_request": {"number": 7}}
BODY = b'{"action": "opened"}'


def is_well(served: Served) -> bool:
    return served.deliver(OPENED, delivery="well").status == 202


def chunked(body: bytes, size: int, **headers: str) -> bytes:
    told = {
        "x-hub-signature-256": signature(body),
        "x-github-event": "push",
        "x-github-delivery": "d",
        "transfer-encoding": "chunked",
    }
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    said = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces)
    return request("POST", "/webhooks/github", told | headers) + said + b"0\r\n\r\n"


def test_a_body_in_chunks_is_read_as_any_other(served: Served) -> None:
    assert served.call(chunked(BODY, 3)).status == 202


def test_a_body_in_chunks_is_too_long_as_any_other(served: Served) -> None:
    assert served.call(chunked(b"x" * (6 << 20), 1 << 16)).status == 413
    assert is_well(served)


def test_a_body_in_very_many_chunks_is_ended_before_it_costs_much(served: Served) -> None:
    began = time.process_time()
    assert served.call(chunked(b"x" * 300_000, 1)).status == 400
    assert time.process_time() - began < 5.0
    assert is_well(served)


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"POST /webhooks/github HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST /webhooks/github HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /webhooks/github HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n",
        b"POST /webhooks/github HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * (64 << 10) + b"\r\n\r\n",
        b"GET /" + b"y" * (64 << 10) + b" HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nna\x00me: y\r\n\r\n",
    ],
    ids=lambda said: said[:60].decode("latin-1").replace("\r\n", " ").replace("\x00", "NUL"),
)
def test_what_is_no_request_ends_with_400(served: Served, said: bytes) -> None:
    assert served.call(said).status == 400
    assert is_well(served)


def test_a_body_that_never_comes_whole_is_no_delivery(served: Served) -> None:
    with served.connect() as connection:
        head = request("POST", "/webhooks/github", {"content-length": "1000"})
        connection.sendall(head + b"{")
        connection.shutdown(socket.SHUT_WR)
        everything(connection)
    assert served.events() == []
    assert is_well(served)


def test_each_connection_carries_one_request(served: Served) -> None:
    one = request("GET", "/x", {})
    with served.connect() as connection:
        connection.sendall(one * 100)
        said = everything(connection)
    assert said.count(b"HTTP/1.1 404") == 1
    assert answer_of(said).headers["connection"] == "close"


def slow_clients(served: Served) -> list[bytes]:
    """What clients say at first that then say a byte now and then."""
    delivery = request("POST", "/webhooks/github", {"content-length": "100000"})
    return [b"", b"G", b"GET / HTTP/1.1\r\nhost: a\r\nx: ", delivery, delivery + b"{"]


def test_slow_clients_have_an_end_and_hold_up_nobody(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTION_S", 1.0)
    with ExitStack() as stack:
        slow = [stack.enter_context(served.connect()) for _ in slow_clients(served)]
        for connection, said in zip(slow, slow_clients(served), strict=True):
            connection.sendall(said)
        assert is_well(served)
        ended = [everything(connection) for connection in slow]
    assert all(said == b"" or answer_of(said).status == 408 for said in ended)
    assert is_well(served)


def test_a_client_that_says_a_byte_now_and_then_has_an_end_too(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTION_S", 0.5)
    with served.connect() as connection:
        began = time.monotonic()
        while time.monotonic() - began < 30.0 and not _is_ended(connection):
            time.sleep(0.02)
    assert time.monotonic() - began < 10.0


def _is_ended(connection: socket.socket) -> bool:
    """Whether not even another byte can be said."""
    try:
        connection.sendall(b"x")
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def test_too_many_clients_are_turned_away_and_the_next_ones_are_served(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS", 5)
    with ExitStack() as stack:
        held = [stack.enter_context(served.connect()) for _ in range(5)]
        for connection in held:
            connection.sendall(b"GET ")
        with served.connect() as another:
            assert everything(another) == b""
    assert is_well(served)


def test_many_large_bodies_at_once_wait_for_each_other(served: Served) -> None:
    body = b'{"a": "' + b"x" * (1 << 20) + b'"}'
    told = {
        "x-hub-signature-256": signature(body),
        "x-github-event": "push",
        "x-github-delivery": "d",
        "content-length": str(len(body)),
    }
    with ExitStack() as stack:
        half = [stack.enter_context(served.connect()) for _ in range(8)]
        for connection in half:
            connection.sendall(request("POST", "/webhooks/github", told) + body[: 100 << 10])
        assert is_well(served), "small ones do not wait"
        for connection in half:
            connection.sendall(body[100 << 10 :])
        assert [answer_of(everything(connection)).status for connection in half] == [202] * 8
    assert served.deliver(body, "push").status == 202
