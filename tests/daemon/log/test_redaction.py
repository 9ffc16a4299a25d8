"""What looks like a secret isn't logged, and what doesn't is logged as it is."""

import json

import pytest

from runward.daemon.log import render
from runward.handlers.secrets import REDACTED

_LONG = "Abcdef0123456789Abcdef0123456789Abcdef"


@pytest.mark.parametrize(
    "secret",
    [
        f"sk-ant-api03-{_LONG}",
        f"sk-proj-{_LONG}",
        f"ghp_{_LONG}",
        f"github_pat_{_LONG}",
        f"glpat-{_LONG}",
        f"xoxb-{_LONG}",
        "AKIA0123456789ABCDEF",
        f"AIza{_LONG}",
        f"eyJ{_LONG}.{_LONG}.{_LONG}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{_LONG}\n{_LONG}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{_LONG}",
    ],
    ids=lambda secret: secret[:12],
)
def test_a_secret_that_is_known_by_its_looks_is_taken_out_wherever_it_stands(secret: str) -> None:
    error = ValueError(f"refused: {secret}")
    event = {
        "why": f"it said {secret} and left",
        "each": [{"at": secret}],
        secret: 1,
        "error": error,
        "event": "odd",
    }
    line = render(event)
    assert _LONG.encode() not in line
    assert b"0123456789ABCDEF" not in line
    told = json.loads(line)
    assert told["event"] == "odd"
    assert told["why"].startswith(f"it said {REDACTED}")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcdefgh.1234", "abcdefgh"),
        ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("https://ada:open-sesame@example.org/x", "open-sesame"),
        ("password=open-sesame", "open-sesame"),
        ("{'password': 'open-sesame'}", "open-sesame"),
        ('{"api_key": "open-sesame"}', "open-sesame"),
        ("the token: open-sesame, it said", "open-sesame"),
        ("PGPASSWORD=open-sesame psql", "open-sesame"),
    ],
)
def test_a_secret_that_is_announced_is_taken_out(text: str, left: str) -> None:
    line = render({"why": text, "event": "odd"}).decode()
    assert left not in line
    assert REDACTED in line


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "API_KEY",
        "api-key",
        "accessToken",
        "client_secret",
        "Authorization",
        "cookie",
        "private_key",
    ],
)
@pytest.mark.parametrize("value", ["plain", ["plain"], {"any": "plain"}])
def test_what_a_key_calls_a_secret_is_none_of_the_logs_business(key: str, value: object) -> None:
    for event in ({key: value}, {"inner": [{key: value}]}):
        line = render({**event, "event": "odd"})
        assert b"plain" not in line
        assert REDACTED.encode() in line


@pytest.mark.parametrize(
    "event",
    [
        {"why": "update epochs set token = ? where epoch < ?"},
        {"input_tokens": 1200, "token": 7, "secret": None, "cookies": True},
        {
            "session": "native:runs/task-20260102",
            "path": "/srv/secrets/notes",
            "why": "see https://example.org/a@b",
        },
        {"fix": "the basic form of a token is a word"},
        {"key": "native:runs/secretary#1"},
    ],
)
def test_words_that_only_remind_of_a_secret_stay(event: dict[str, object]) -> None:
    assert json.loads(render(event)) == event


@pytest.mark.parametrize(
    "event", [{"argv": ["mysql", "--password", "xyzzy"]}, {"auth": "xyzzy"}, {"inner": {"DB_PASS": "xyzzy"}}]
)
def test_what_only_its_place_calls_a_secret_is_found_in_a_line_without_any_other(
    event: dict[str, object],
) -> None:
    line = render({**event, "event": "odd"})
    assert b"xyzzy" not in line
    assert REDACTED.encode() in line


def test_half_a_character_beside_a_secret_raises_nothing() -> None:
    line = render({"why": "no file /x/\udcff", "said": "password=hunter2-x \udcff", "event": "odd"})
    told = json.loads(line)
    assert told["why"] == "no file /x/\udcff"
    assert told["said"] == f"password={REDACTED} \\udcff"
