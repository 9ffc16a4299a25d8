"""Which `Host` and `Origin` a request may name: a page of another site must not reach us through a browser."""

import pytest

from runward.daemon.web.server import is_own_host, is_own_origin

URL = "https://runward.example/at"


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1:8460", True),
        ("10.0.0.7", True),
        ("[::1]:8460", True),
        ("localhost", True),
        ("LocalHost:1", True),
        ("runward.example", True),
        ("runward.example.:443", True),
        ("evil.example", False),
        ("runward.example.evil", False),
        ("localhost.evil", False),
        ("127.0.0.1.evil", False),
        ("127.0.0.1@evil.example", False),
        ("evil@127.0.0.1", False),
        ("127.0.0.1:port", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_hosts(host: str, is_own: bool) -> None:
    assert is_own_host(host, URL) == is_own


def test_without_a_url_no_name_is_our_own() -> None:
    assert not is_own_host("runward.example", None)


@pytest.mark.parametrize(
    ("origin", "is_own"),
    [
        ("http://127.0.0.1:8460", True),
        ("https://127.0.0.1:8460", True),
        ("https://runward.example", True),
        ("http://runward.example", False),
        ("http://127.0.0.1:3000", False),
        ("http://203.0.113.5", False),
        ("http://127.0.0.1:8460.evil", False),
        ("null", False),
        ("", False),
    ],
)
def test_origins(origin: str, is_own: bool) -> None:
    assert is_own_origin(origin, "127.0.0.1:8460", URL) == is_own
