"""What lets a page read itself again: a tag of its data, and where it listens."""

import re
import time

import pytest
import time_machine
from tests.daemon.cli.calling import Place
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.test_session_pages import path_of

from runward.daemon.studio import rendering


def once_of(page: str) -> str:
    found = re.search('name="once" value="([^"]+)"', page)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", ["/sessions", "/sessions?format=json", path_of("native:runs/silent")])
async def test_a_page_that_is_the_same_is_not_sent_again(
    filled: Studio, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = (await filled.get(path)).headers["etag"]
    monkeypatch.setattr(rendering, "ago", lambda *_: "a while ago")
    again = await filled.ask("GET", path, {"if-none-match": tag})
    assert (again.status, again.text, again.headers["etag"]) == (304, "", tag)


async def test_a_page_that_has_changed_is_sent(place: Place, studio: Studio) -> None:
    tag = (await studio.get("/sessions")).headers["etag"]
    place.add_run("new", exit_code=0)
    place.daemon_once()
    assert (await studio.ask("GET", "/sessions", {"if-none-match": tag})).status == 200


async def test_each_sending_of_a_page_has_forms_of_its_own(filled: Studio) -> None:
    path = path_of("native:runs/open")
    with time_machine.travel(time.time(), tick=False):  # it says for how long the run has been silent
        first, second = [(await filled.get(path)) for _ in range(2)]
    assert first.headers["etag"] == second.headers["etag"]
    assert once_of(first.text) != once_of(second.text)


async def test_a_session_listens_to_its_own_lane_and_reads_itself_while_it_runs(filled: Studio) -> None:
    running = (await filled.get(path_of("native:runs/open"))).text
    assert 'hx-sse:connect="/events?lane=native%3Aruns/open"' in running
    assert 'hx-trigger="changed from:#live, every 2s"' in running
    over = (await filled.get(path_of("native:runs/plain"))).text
    assert 'hx-trigger="changed from:#live"' in over


async def test_a_list_reads_itself_at_most_once_a_second(filled: Studio) -> None:
    page = (await filled.get("/sessions")).text
    assert 'hx-sse:connect="/events"' in page
    assert 'hx-trigger="changed from:#live throttle:1s"' in page


async def test_a_page_that_only_says_something_does_not_read_itself_again(filled: Studio) -> None:
    page = (await filled.get("/sessions/nobody")).text
    assert "hx-sse:connect" not in page
    assert "hx-get" not in page
