"""What looks like a secret, and what doesn't: documented ways to write one, gitleaks' corpus, hostile and ordinary text."""

import json
import time
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.handlers.secrets import REDACTED, RULES, names_secret, text_without_secrets

_CORPUS = json.loads((Path(__file__).parent / "gitleaks_corpus.json").read_text())["found"]
_PAIRS = [
    ("AWS_SECRET_ACCESS_KEY={}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("ACCESS_KEY={}", "open-Sesame7"),
    ("PRIVATE_KEY={}", "open-Sesame7"),
    ("SIGNING_KEY={}", "open-Sesame7"),
    ("SECRET_KEY_BASE={}", "open-Sesame7"),
    ("AccountName=x;AccountKey={}==;", "open-Sesame7"),
    ("credentials: {}", "open-Sesame7"),
    ("password={}", "abc"),
    ("password: {}", "x1"),
    ('password = "{}"', "two words"),
    ("PASSWORD='{}' run", "zzz"),
    ("PASSWORD={}", 'a"b'),
    ("password={}", "ab&cd=ef"),
    ("https://x.org/?access_token={}", "ab&cd"),
    ('{{"args": "{{\\"password\\": \\"{}\\"}}"}}', "open-Sesame7"),
    ('{{\\\\\\"token\\\\\\": \\\\\\"{}\\\\\\"}}', "open-Sesame7"),
    ("Authorization: token {}", "abcdef0123"),
    ('Authorization: Digest username="m", response="{}"', "6629fae49393a053"),
    ("Authorization: ApiKey {}", "open-Sesame7"),
    ("Proxy-Authorization: Basic {}", "dXNlcjpwYXNz"),
    ("curl -H 'Authorization: {}' https://x.org", "open-Sesame7"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n-----END PGP PRIVATE KEY BLOCK-----", "lQOYBF"),
    ("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{}", "P2/56wAAA"),
    ("postgres://u:{}@h/db", "pa/ss"),
    ("https://u:{}@h", "p@ss"),
    ("redis://:{}@h:6379/0", "p/w@x"),
    ("mysql --password {} -h x", "hunter2"),
    ("tool --token {}", "open-Sesame7"),
    ("tool --db-password={}", "open-Sesame7"),
    ("tool --token --password {}", "open-Sesame7"),
    ("curl -u bob:{} https://x.org", "open-Sesame7"),
    ("curl --user 'bob:{}' https://x.org", "open-Sesame7"),
    ("machine x.org login bob password {}", "open-Sesame7"),
    ("Cookie: sid={}; b=c", "open-Sesame7"),
    ("Set-Cookie: a=1; sid={}", "open-Sesame7"),
    ("DB_PASS={}", "abc"),
    ("dbPass: {}", "abc"),
    ("MYSQL_PWD={}", "open-Sesame7"),
    ("GITHUB_PAT={}", "open-Sesame7"),
    ("github_pat: {}", "open-Sesame7"),
    ("ORG_PAT={}", "open-Sesame7"),
    ('privateKeyPem: "{}"', "open-Sesame7"),
    ("x-api-key: {}", "open-Sesame7"),
    ("client_secret={}&x=1", "open-Sesame7"),
    ("password => '{}'", "open-Sesame7"),
    ('password := "{}"', "open-Sesame7"),
    ("config['password'] = '{}'", "open-Sesame7"),
    ('if (db_pass !== "{}") {{', "open-Sesame7"),
    ('std::string password("{}");', "open-Sesame7"),
    ('password "{}";', "open-Sesame7"),
    ("passphrase={}", "open-Sesame7"),
    ("TOKEN={}", "abc"),
    ("PASSWORD_2={}", "abc"),
    ("DB_PASSWORD_1: {}", "abc"),
    ("API_KEY_2={}", "abc"),
    ("auth_token: {}", "abc"),
    ("PWD=/srv;PASSWORD={}", "abc"),
    ("token = str\npassword={}", "abc"),
    ("password password={}", "abc"),
    ("http://localhost:80/,redis://u:{}@x", "abc"),
    ("PASS_TO_PASS=password={}", "abc"),
]


@pytest.mark.parametrize(("text", "secret"), _PAIRS)
def test_each_documented_way_to_write_a_secret_is_found(text: str, secret: str) -> None:
    shown = text_without_secrets(text.format(secret))
    assert secret not in shown
    assert REDACTED in shown


@pytest.mark.parametrize("rule", _CORPUS)
def test_what_gitleaks_finds_is_found(rule: str) -> None:
    for text in cast("list[str]", _CORPUS[rule]):
        assert REDACTED in text_without_secrets(text), text


@pytest.mark.parametrize(
    "text",
    [
        "the basic form of a token is a word, and basic authentication is old",
        "unexpected token: '}'",
        "SyntaxError: unexpected token: foo",
        "def login(token: str, password: str | None = None) -> bool",
        "update epochs set token = ? where epoch < ?",
        "input_tokens=1200 max_tokens: 100000 token: 7",
        "PWD=/home/ada/work OLDPWD=/home/ada",
        "export API_KEY=$API_KEY",
        "psql --password <password>",
        "docker run -u 1000:1000 image",
        "npm install http://localhost:4873/@scope/name",
        "see https://example.org/a@b and https://url:8000 @something",
        "bypass = 1; compass: north; a monkey, a keyboard and a path: /srv/secrets/notes",
        "`PASS` or `FAIL`, 'pass'; 3 passed",
        "PASS_TO_PASS: tests/test_a.py::test_b",
        "commit b58d3f102cf3a2c84cb7f923d05c25c9b1aed84b",
        "sha256:0f343b0931126a20f133d67c2b018a3b0f343b0931126a20f133d67c2b018a3b",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert text_without_secrets(text) == text


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "DB_PASS",
        "dbPass",
        "GITHUB_PAT",
        "privateKeyPem",
        "AWS_SECRET_ACCESS_KEY",
        "SECRET_KEY_BASE",
        "auth",
        "signing-key",
        "PASSWORD_2",
        "api-key-1",
    ],
)
def test_a_key_may_name_a_secret(key: str) -> None:
    assert names_secret(key, "x")
    assert not names_secret(key, 7)


@pytest.mark.parametrize(
    "key", ["key", "max_tokens", "author", "bypass", "primary_key", "tokenizer", "session_key"]
)
def test_a_key_may_only_remind_of_one(key: str) -> None:
    assert not names_secret(key, "x")


def test_a_list_of_tests_that_are_to_pass_is_no_secret() -> None:
    assert not names_secret("PASS_TO_PASS", ["tests/test_a.py::test_b"])


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_key_of_a_service_is_found_wherever_it_is(before: str, after: str) -> None:
    assert "AbCdEf0123" not in text_without_secrets(f"{before} ghp_{'AbCdEf0123' * 4} {after}")


@pytest.mark.parametrize(
    "piece",
    [
        " ".join(keyword for rule in RULES for keyword in rule.keywords),
        "password=a ",
        'password="',
        'token:\\"a\\',
        "://a:b",
        "://a:b@ ",
        "-----BEGIN PRIVATE KEY-----",
        "a_",
        "--a-",
        "curl -u a",
        "login x password",
        "password'\\",
    ],
    ids=lambda piece: piece[:12],
)
def test_the_time_is_linear_in_the_text_whatever_it_is(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        begun = time.process_time()
        text_without_secrets(text)
        return time.process_time() - begun

    seconds(1000)
    assert seconds(320_000) < 16 * max(min(seconds(80_000), seconds(80_000)), 0.005)
