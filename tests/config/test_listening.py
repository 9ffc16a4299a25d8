"""`[http]` and `[webhooks]`: where the daemon listens, and whose deliveries it takes."""

import pytest
from tests.config.test_settings import complaints, good

from runward.config.listening import Http, SocketPath, TcpAddress, address_of
from runward.config.settings import settings_from_json, settings_to_json

BOTH = """
[http]
listen = ["127.0.0.1:0", "unix:run/http.sock"]
url = "https://runward.example/at/"

[webhooks.github]
secret_file = "github.secret"
"""


def test_without_the_tables_nothing_listens() -> None:
    settings = good("batch = 3")
    assert (settings.http, settings.github_secret_file) == (None, None)


def test_paths_are_absolute_and_the_url_has_no_slash_at_its_end() -> None:
    settings = good(BOTH)
    assert settings.http == Http(
        ("127.0.0.1:0", "unix:/etc/runward/run/http.sock"), "https://runward.example/at"
    )
    assert settings.github_secret_file == "/etc/runward/github.secret"


def test_one_address_is_a_list_of_one_and_a_url_alone_listens_at_the_default() -> None:
    assert good('[http]\nlisten = "[::1]:8460"').http == Http(("[::1]:8460",))
    assert good("[http]\nmcp = true").http == Http(("127.0.0.1:8460",), mcp=True)
    assert good('[http]\nurl = "https://a.example"').http == Http(("127.0.0.1:8460",), "https://a.example")


@pytest.mark.parametrize("text", [BOTH, '[http]\nlisten = "127.0.0.1:1"', "batch = 3"])
def test_they_survive_the_way_through_json(text: str) -> None:
    settings = good(text)
    again = settings_from_json(settings_to_json(settings))
    assert again is not None
    assert (again.http, again.github_secret_file) == (settings.http, settings.github_secret_file)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8460", TcpAddress("127.0.0.1", 8460)),
        ("0.0.0.0:0", TcpAddress("0.0.0.0", 0)),
        ("[::1]:80", TcpAddress("::1", 80)),
        ("unix:/run/x.sock", SocketPath("/run/x.sock")),
        ("unix:", None),
        ("8460", None),
        ("127.0.0.1", None),
        ("localhost:80", None),
        ("::1:80", None),
        ("[127.0.0.1]:80", None),
        ("127.0.0.1:65536", None),
        ("127.0.0.256:80", None),
        ("127.0.0.1:-1", None),
    ],
)
def test_addresses(text: str, address: object) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[http]\nlisten = "localhost:80"', "is not an address to listen on"),
        ("[http]\nlisten = 8460", "must be an address or a list of them"),
        ("[http]\nlisten = []", "must have 1 to 8 addresses"),
        ("[http]\n", "is empty"),
        ('[http]\nmcp = "yes"', "must be true or false"),
        ('[http]\nurl = "runward.example"', "is not an address that links can begin with"),
        ('[http]\nurl = "https://a/?x"', "is not an address that links can begin with"),
        (f'[http]\nlisten = "unix:/{"x" * 107}"', "may have 107 bytes"),
        ('[webhooks.github]\nsecret = "s"', "secret"),
        ("[webhooks.github]\n", "has no 'secret_file'"),
        ('[webhooks.gitlab]\nsecret_file = "s"', "gitlab"),
    ],
)
def test_what_is_wrong_is_said(text: str, complaint: str) -> None:
    assert any(complaint in each for each in complaints(text))
