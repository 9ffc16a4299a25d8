"""The page of the daemon, what can be done there, and the figures for a collector."""

import html
import json
import re

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.test_changes import waiting
from tests.daemon.studio.test_session_pages import INVISIBLE, MARKUP, tags_of

from runward.config.studio import StudioSettings
from runward.daemon.inbox.requests import load_request
from runward.daemon.inbox.spool import list_inbox
from runward.daemon.studio import daemon_pages
from runward.handlers.model.notices import NoticeRetryRequested
from runward.handlers.model.requests import JobDiscardRequested, JobRetryRequested


@pytest.fixture
def troubled(place: Place) -> Place:
    """A place with a held job and a notice that was given up, whose texts are hostile."""
    place.add_run("one", exit_code=0)
    place.daemon_once()
    place.change_store(
        "update jobs set state = 'held', error = ? where handler = 'sessions/opened'", MARKUP + INVISIBLE
    )
    place.change_store(
        "insert into notices (id, kind, subject, recipient, title, text, created_at, state, tries, next_at, since, error,"
        " settled_at) values ('nt_1', 'session.failed', 'x', 'me', ?, ?, 100.0, 'dead', 5, 200.0, 100.0, ?, 300.0)",
        *[MARKUP + INVISIBLE] * 3,
    )
    return place


def held_job(place: Place) -> int:
    (job,) = place.call("queue", "list", "--state", "held", "--json").objects()
    return int(str(job["id"]))


async def test_the_page_shows_roots_queue_and_notices_and_nothing_of_them_becomes_markup(
    troubled: Place, studio: Studio
) -> None:
    page = (await studio.get("/daemon")).text
    assert "No daemon is running" in page
    assert f"<code>{troubled.runs}</code>" in page
    assert f"job {held_job(troubled)} of native:runs/one" in page
    assert "1 held" in page
    assert "given up" in page
    tags, attributes = tags_of(page)
    assert not {"script", "img", "iframe", "style", "svg"} & set(tags)
    assert not [each for each in attributes if each.startswith("on") or each == "style"]
    assert not [char for char in page if not char.isprintable() and char != "\n"]
    assert page.count("\\u202e") >= 4


async def test_before_the_first_daemon_the_page_says_what_there_is_not(studio: Studio) -> None:
    page = (await studio.get("/daemon")).text
    assert "The queue is empty." in page
    assert "No notice was sent." in page
    assert "<button" not in page


async def test_a_daemon_that_runs_shows_its_health(place: Place, studio: Studio) -> None:
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    with place.daemon():
        page = (await studio.get("/daemon")).text
    assert "<h1>The daemon is running</h1>" in page
    assert "nothing is degraded" in page


async def test_the_page_as_json_is_what_the_commands_print(
    troubled: Place, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", troubled.environment["HOME"])  # where the agents are
    call = troubled.call
    assert json.loads((await studio.get("/daemon?format=json")).text) == {
        "status": call("status", "--json").json(),
        "roots": call("root", "list", "--json").json(),
        "jobs": call("queue", "list", "--json").json(),
        "notices": call("notify", "list", "--json").json(),
    }


async def test_a_held_job_is_tried_again_or_discarded_and_the_page_says_so(
    troubled: Place, studio: Studio
) -> None:
    number = held_job(troubled)
    answer = await studio.send("/daemon", action="retry", job=str(number))
    await studio.send("/daemon", action="discard", job=str(number), reason="its disk is gone")
    requests = [load_request(each) for each in list_inbox(troubled.state)]
    assert {type(each) for each in requests} == {JobRetryRequested, JobDiscardRequested}
    (discarded,) = [each for each in requests if isinstance(each, JobDiscardRequested)]
    assert (discarded.job, discarded.reason) == (number, "its disk is gone")
    assert "not decided yet" in (await studio.get(answer.headers["location"])).text


async def test_a_job_that_is_not_held_any_more_is_refused_in_words(troubled: Place, studio: Studio) -> None:
    number = held_job(troubled)
    await studio.send("/daemon", action="retry", job=str(number))
    troubled.daemon_once()
    again = await studio.send("/daemon", action="discard", job=str(number), reason="x")
    troubled.daemon_once()
    assert "Refused: " in (await studio.get(again.headers["location"])).text


async def test_a_notice_that_was_given_up_is_sent_again(troubled: Place, studio: Studio) -> None:
    answer = await studio.send("/daemon", action="retry-notice", notice="nt_1")
    assert answer.status == 303
    (request,) = [load_request(each) for each in list_inbox(troubled.state)]
    assert isinstance(request, NoticeRetryRequested)
    assert request.notice == "nt_1"


async def test_every_notice_is_on_one_of_the_pages_that_lead_to_each_other(
    place: Place, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_pages, "PAGE", 2)
    place.daemon_once()
    for number, at in enumerate([100.0, 300.0, 200.0, 200.0, 50.0]):
        place.change_store(
            "insert into notices (id, kind, subject, recipient, title, text, created_at, state, tries, next_at, since,"
            " settled_at) values (?1, 'session.failed', 'x', 'me', 't', '', ?2, 'dead', 5, 0, 0, 1000 - ?2)",
            f"nt_{number}",
            at,
        )
    following: str | None = "/daemon"
    parts = []
    while following is not None:
        page = (await studio.get(following)).text
        parts.append(re.findall(r'<li id="notice-(nt_.)"', page))
        link = re.search(r'<a href="([^"#]+)#notices" rel="next">', page)
        following = None if link is None else html.unescape(link[1])
    assert parts == [["nt_1", "nt_2"], ["nt_3", "nt_0"], ["nt_4"]]
    assert "No older notice." in (await studio.get("/daemon?notices_after=1.0,nt_9")).text
    assert (await studio.get("/daemon?notices_after=x")).status == 400


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"action": "retry", "job": "9999"}, 404),
        ({"action": "retry", "job": MARKUP}, 400),
        ({"action": "discard", "job": "9" * 30}, 400),
        ({"action": "retry-notice", "notice": "nt_"}, 404),
    ],
)
async def test_what_does_not_exist_can_not_be_decided_about(
    troubled: Place, studio: Studio, fields: dict[str, str], status: int
) -> None:
    answer = await studio.send("/daemon", **fields)
    assert (answer.status, MARKUP in answer.text, waiting(troubled)) == (status, False, [])


async def test_the_figures_are_those_of_the_command(place: Place, studio: Studio) -> None:
    studio.settings, studio.cookie = StudioSettings(metrics=True), None
    place.add_run("one", exit_code=0)
    place.daemon_once()
    answer = await studio.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.text == place.call("metrics").out
    assert "runward_sessions" in answer.text


async def test_without_the_setting_there_are_no_figures(studio: Studio) -> None:
    assert (await studio.get("/metrics")).status == 404
    studio.cookie = None
    assert (await studio.get("/metrics")).status == 404
    assert (await studio.get("/daemon")).status == 401
