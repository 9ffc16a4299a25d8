"""From where a request may come: hosts, origins, and what every answer says."""

import time

import httpx2
import pytest
from starlette.datastructures import Headers
from tests.daemon.in_process import SILENT
from tests.daemon.studio.conftest import Studio

from runward.config.studio import StudioSettings
from runward.daemon.disk.credentials import new_code, new_cookie, own_name, studio_key
from runward.daemon.studio import session_pages
from runward.daemon.studio.app import studio_app
from runward.daemon.studio.guard import COOKIE, HEADERS, host_of, is_from_here
from runward.daemon.studio.program import _Reported

OWN = "a1b2c3d4.localhost"


@pytest.mark.parametrize(
    ("header", "may_log_in"),
    [
        (f"{OWN}:8461", True),
        (OWN.upper(), True),
        ("studio.example", True),
        ("studio.example:443", True),
        ("localhost:8461", False),
        ("127.0.0.1:8461", False),
        ("[::1]:8461", False),
        ("evil.example", None),
        ("b1b2c3d4.localhost", None),
        (f"{OWN}.evil.example", None),
        ("192.168.1.7:8461", None),
        ("", None),
        ("user@localhost", None),
        ("localhost:port", None),
        ("[::1", None),
    ],
)
def test_only_our_own_names_are_answered_and_only_two_may_have_a_cookie(
    header: str, may_log_in: bool | None
) -> None:
    found = host_of(header, OWN, "https://studio.example")
    assert (None if found is None else found.may_log_in) == may_log_in


@pytest.mark.parametrize(
    ("headers", "is_ours"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site", "origin": f"http://{OWN}:1"}, False),
        ({"origin": f"http://{OWN}:1"}, True),
        ({"origin": f"http://{OWN}:2"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({}, False),
    ],
)
def test_a_change_must_come_from_a_page_of_the_studio(headers: dict[str, str], is_ours: bool) -> None:
    assert is_from_here(Headers({"host": f"{OWN}:1", **headers}), None) == is_ours


async def test_every_answer_says_what_a_browser_may_do_with_it(studio: Studio) -> None:
    for path in ("/sessions", "/nowhere", "/login?code=x", "/healthz", "/sessions?x=1"):
        answer = await studio.get(path)
        assert HEADERS.items() <= answer.headers.items()
        assert answer.headers["cache-control"] == "no-store"
    evil = await studio.get("/sessions", host="evil.example")
    assert (evil.status, HEADERS.items() <= evil.headers.items()) == (421, True)


async def test_the_page_of_a_bug_says_it_too(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_pages, "newest_sessions", None)
    answer = await studio.get("/sessions")
    assert (answer.status, "a bug in Runward" in answer.text) == (500, True)
    assert HEADERS.items() <= answer.headers.items()


async def test_a_key_that_others_may_read_lets_nobody_in_and_says_so(studio: Studio) -> None:
    name = own_name(studio_key(studio.state))
    (studio.state / "studio.key").chmod(0o644)
    answer = await studio.get("/sessions", host=name)
    assert (answer.status, "others may read or change" in answer.text) == (503, True)
    assert HEADERS.items() <= answer.headers.items()


async def test_before_the_daemon_has_reported_its_settings_a_page_says_that_it_starts(studio: Studio) -> None:
    reported = _Reported(studio.state)
    app = studio_app(studio.state, reported, SILENT)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app), base_url="http://studio"
    ) as client:
        answer = await client.get("/sessions")
    assert (answer.status_code, "the daemon is starting" in answer.text) == (503, True)


async def test_without_a_login_only_the_login_the_files_and_the_sign_of_life_are_there(
    studio: Studio,
) -> None:
    studio.cookie = None
    for path in ("/", "/sessions", "/sessions/native:runs/x", "/nowhere"):
        answer = await studio.get(path)
        assert (answer.status, "runward studio" in answer.text) == (401, True)
    assert (await studio.get("/healthz")).text == "ok\n"


async def test_a_login_link_logs_in_once(studio: Studio) -> None:
    studio.cookie = None
    path = f"/login?code={new_code(studio.state)}"
    first = await studio.get(path)
    assert (first.status, first.headers["location"]) == (303, "/")
    name, _, value = first.headers["set-cookie"].partition(";")[0].partition("=")
    assert name == COOKIE
    assert "HttpOnly; SameSite=Lax; Path=/" in first.headers["set-cookie"]
    studio.cookie = value
    assert (await studio.get("/sessions")).status == 200
    second = await studio.get(path)
    assert (second.status, "runward studio" in second.text, "set-cookie" in second.headers) == (
        403,
        True,
        False,
    )


async def test_a_loopback_address_never_gets_a_cookie_and_its_code_stays_valid(studio: Studio) -> None:
    code = new_code(studio.state)
    refused = await studio.get(f"/login?code={code}", host="127.0.0.1:8461")
    assert (refused.status, "set-cookie" in refused.headers) == (403, False)
    assert (await studio.get("/sessions", host="127.0.0.1:8461")).status == 401
    assert (await studio.get(f"/login?code={code}")).status == 303


async def test_behind_https_the_cookie_is_for_https_alone(studio: Studio) -> None:
    studio.settings = StudioSettings(url="https://studio.example")
    answer = await studio.get(f"/login?code={new_code(studio.state)}", host="studio.example")
    assert answer.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize("forged", ["other host", "other key", "expired", "nonsense"])
async def test_a_cookie_that_was_not_made_for_this_studio_is_refused(studio: Studio, forged: str) -> None:
    key, now = studio_key(studio.state), time.time()
    studio.cookie = {
        "other host": new_cookie(key, "studio.example", now),
        "other key": new_cookie(bytes(32), own_name(key), now),
        "expired": new_cookie(key, own_name(key), now - 31 * 86_400),
        "nonsense": "x",
    }[forged]
    assert (await studio.get("/sessions")).status == 401


async def test_a_form_of_another_site_changes_nothing(studio: Studio) -> None:
    for headers in ({"sec-fetch-site": "same-site"}, {"sec-fetch-site": "cross-site"}, {}):
        answer = await studio.ask("POST", "/sessions", headers)
        assert (answer.status, "nothing was changed" in answer.text) == (403, True)


async def test_a_studio_that_only_shows_refuses_every_change(studio: Studio) -> None:
    studio.settings = StudioSettings(read_only=True)
    answer = await studio.ask("POST", "/sessions", {"sec-fetch-site": "same-origin"})
    assert (answer.status, "studio.read_only" in answer.text) == (403, True)


async def test_an_address_without_a_page_says_so_and_where_to_go(studio: Studio) -> None:
    absent = await studio.get("/nowhere")
    assert (absent.status, "There is no page at this address." in absent.text) == (404, True)
    assert "Open / for what needs you" in absent.text
    unchanged = await studio.ask("POST", "/healthz", {"sec-fetch-site": "same-origin"})
    assert (unchanged.status, "nothing was changed" in unchanged.text) == (405, True)
