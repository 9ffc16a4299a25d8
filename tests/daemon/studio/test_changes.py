"""What a person asks for with a form: done once or not at all, and the page says which."""

import re
import uuid
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place, Recorded
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.test_attention_pages import before_now
from tests.daemon.studio.test_session_pages import path_of

from runward.config.studio import StudioSettings
from runward.daemon.inbox.spool import INBOX, REJECTED

MARKUP = "<script>"
ONCE = "5a0c1f5e-7c1d-4d53-9d6e-0d8f6a4b7c11"


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A place with a session that failed, which nobody has seen."""
    place = Place(tmp_path_factory.mktemp("crashed"))
    place.furnish()
    place.add_run("crashed", exit_code=3, finished_at=before_now(0))
    place.daemon_once()
    return Recorded(place)


@pytest.fixture
def place(crashed: Recorded) -> Place:
    """That place as it was then, for each test."""
    return crashed.anew()


@pytest.fixture
def failed(place: Place) -> str:
    """The page of its session."""
    return path_of("native:runs/crashed")


def waiting(place: Place) -> list[Path]:
    return sorted((place.state / INBOX).glob("*.json")) if (place.state / INBOX).exists() else []


async def test_the_page_says_that_a_request_waits_and_later_what_came_of_it(
    place: Place, studio: Studio, failed: str
) -> None:
    assert "<button>Seen</button>" in (await studio.get(failed)).text
    answer = await studio.send(failed, action="seen")
    assert answer.status == 303
    back = answer.headers["location"]
    assert back.startswith(f"{failed}?request=")
    page = (await studio.get(back)).text
    assert "It is stored, and not decided yet." in page
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in page
    place.daemon_once()
    page = (await studio.get(back)).text
    assert "Done" in page
    assert "refresh" not in page
    assert "<button>Seen</button>" not in page


async def test_only_a_failure_that_attention_shows_can_be_seen(
    place: Place, studio: Studio, failed: str
) -> None:
    assert "crashed" in (await studio.get("/")).text
    assert "<button>Seen</button>" in (await studio.get(failed)).text
    place.change_store("update sessions set finished_at = finished_at - 90000")
    assert "crashed" not in (await studio.get("/")).text
    assert "<button>Seen</button>" not in (await studio.get(failed)).text


async def test_a_form_that_is_sent_twice_makes_one_request_and_a_reload_none(
    place: Place, studio: Studio, failed: str
) -> None:
    first = await studio.send(failed, once=ONCE, action="seen")
    second = await studio.send(failed, once=ONCE, action="seen")
    assert (first.status, first.headers["location"]) == (second.status, second.headers["location"])
    assert len(waiting(place)) == 1
    await studio.get(first.headers["location"])
    assert len(waiting(place)) == 1


async def test_a_form_that_is_sent_again_after_it_was_decided_changes_nothing_and_says_so(
    place: Place, studio: Studio, failed: str
) -> None:
    await studio.send(failed, once=ONCE, action="seen")
    place.daemon_once()
    again = await studio.send(failed, once=ONCE, action="seen")
    place.daemon_once()
    assert "Done" in (await studio.get(again.headers["location"])).text
    other = await studio.send(failed, action="seen")
    place.daemon_once()
    assert "had been done before" in (await studio.get(other.headers["location"])).text


async def test_every_rendering_of_a_form_is_a_request_of_its_own(studio: Studio, failed: str) -> None:
    names = {re.search('name="once" value="([^"]*)"', (await studio.get(failed)).text) for _ in range(2)}
    assert len({None if each is None else each[1] for each in names}) == 2


async def test_the_page_says_that_a_request_can_not_be_read(
    place: Place, studio: Studio, failed: str
) -> None:
    (place.state / REJECTED).mkdir(mode=0o700, exist_ok=True)
    (place.state / REJECTED / f"{ONCE}.json").write_text("{")
    page = (await studio.get(f"{failed}?request={ONCE}")).text
    assert "the file is in rejected/" in page


@pytest.mark.parametrize("name", ["../../runward", "x", "%2e%2e%2fa", MARKUP])
async def test_only_the_name_of_a_request_can_be_asked_about(studio: Studio, failed: str, name: str) -> None:
    answer = await studio.get(f"{failed}?request={name}")
    assert (answer.status, "names no request" in answer.text, MARKUP in answer.text) == (400, True, False)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "The form lacks the field action"),
        ({"action": "burn"}, "action can be: "),
        ({"action": "seen", "once": "x"}, "The form lacks the field once"),
    ],
)
async def test_a_form_that_lacks_something_is_refused_and_nothing_is_stored(
    place: Place, studio: Studio, failed: str, fields: dict[str, str], says: str
) -> None:
    answer = await studio.send(failed, **fields)
    assert (answer.status, says in answer.text, waiting(place)) == (400, True, [])


async def test_forms_have_a_size_and_a_number_of_fields(place: Place, studio: Studio, failed: str) -> None:
    here = {"sec-fetch-site": "same-origin"}
    assert (await studio.send(failed, action="seen", note="x" * (64 << 10))).status == 413
    assert (await studio.ask("POST", failed, here, body=b"a=1&" * 100)).status == 400
    assert (await studio.ask("POST", failed, here, body=b"\xff\xfe=1")).status == 400
    assert waiting(place) == []


async def test_a_form_of_another_site_or_of_nowhere_changes_nothing(
    place: Place, studio: Studio, failed: str
) -> None:
    body = f"once={uuid.uuid4()}&action=seen".encode()
    elsewhere: list[dict[str, str]] = [
        {},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://evil.example"},
    ]
    for headers in elsewhere:
        answer = await studio.ask("POST", failed, headers, body=body)
        assert (answer.status, waiting(place)) == (403, [])


async def test_a_studio_that_only_shows_has_no_form_and_takes_none(
    place: Place, studio: Studio, failed: str
) -> None:
    studio.settings = StudioSettings(read_only=True)
    page = (await studio.get(failed)).text
    assert "<form method" not in page
    answer = await studio.send(failed, action="seen")
    assert (answer.status, "only shows" in answer.text, waiting(place)) == (403, True, [])


async def test_an_inbox_that_takes_nothing_is_named_and_nothing_is_promised(
    place: Place, studio: Studio, failed: str
) -> None:
    if (place.state / INBOX).exists():
        (place.state / INBOX).rmdir()
    (place.state / INBOX).write_text("")
    answer = await studio.send(failed, action="seen")
    assert answer.status == 503
    assert "The request can&#39;t be stored" in answer.text


async def test_a_page_that_changes_nothing_takes_no_form(studio: Studio, failed: str) -> None:
    assert (await studio.send("/sessions", action="seen")).status == 405


async def test_a_running_session_can_be_cancelled_with_a_reason(place: Place, studio: Studio) -> None:
    place.add_run("open")
    place.daemon_once()
    path = path_of("native:runs/open")
    assert '<button class="danger">Cancel the run</button>' in (await studio.get(path)).text
    answer = await studio.send(path, action="cancel", attempt="1", reason=f"the wrong branch {MARKUP}")
    assert answer.status == 303
    assert len(waiting(place)) == 1
    place.daemon_once()
    told = place.call("why", "native:runs/open").out
    assert f"asked to cancel attempt 1: the wrong branch {MARKUP}" in told
    assert MARKUP not in (await studio.get(answer.headers["location"])).text.replace("<script src", "")


async def test_a_form_means_the_attempt_that_its_page_showed(
    place: Place, studio: Studio, failed: str
) -> None:
    page = (await studio.get(failed)).text
    assert '<input type="hidden" name="attempt" value="1"><button>Seen</button>' in page
    await studio.send(failed, action="seen", attempt="7")
    (asked,) = waiting(place)
    assert '"attempt":7' in asked.read_text().replace(" ", "")
    assert (await studio.send(failed, action="seen", attempt="x")).status == 400


async def test_a_session_that_is_over_or_of_another_tool_has_no_button_to_cancel(
    studio: Studio, failed: str
) -> None:
    assert "Cancel the run" not in (await studio.get(failed)).text
