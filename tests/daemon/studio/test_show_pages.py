"""The pages of shows: their plays, what they wait for, what their gates decided, and which texts are in their directories."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.daemon.cli.calling import SETTINGS, Place
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.test_session_pages import INVISIBLE, MARKUP, tags_of

from runward.config.json_value import JsonValue
from runward.daemon.studio import show_pages

ROOT = '[[roots]]\nname = "shows"\npath = "shows"\nlayout = "auto"\nhistory = "live"\nsettle = "100ms"\n'
REJECTED: JsonValue = {
    "gate_passed": False,
    "feedback": "No tests.\nNone at all.",
    "next_action": "Replay it.",
    "criteria": [{"name": "tests pass", "passed": False}],
}


def with_shows(place: Place) -> Place:
    (place.directory / "runward.toml").write_text(SETTINGS + ROOT)
    (place.directory / "shows").mkdir()
    place.daemon_once()
    return place


def add(place: Place, topic: str, name: str, verdict: JsonValue = None, **meta: JsonValue) -> Path:
    """A play, with its verdict if it has one."""
    play = place.directory / "shows" / topic / name
    play.mkdir(parents=True)
    (play / "_intent.md").write_text("Retry what failed.\n")
    (play / "_meta.json").write_text(json.dumps({"agent": "implementer", "model": "m-1", **meta}))
    if verdict is not None:
        (play / "_verdict.json").write_text(json.dumps(verdict))
    return play


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A show of three plays: one passed, one was rejected, one runs. And a show of one play."""
    place = Place(tmp_path_factory.mktemp("played"))
    place.furnish()
    with_shows(place)
    add(place, "retry-queue", "play-1", {"gate_passed": True, "feedback": "token=hunter2hunter2"})
    rejected = add(place, "retry-queue", "play-2", REJECTED, status="over", branch="b", depends_on=["play-1"])
    (rejected / "agent.log").write_text("said\n")
    (rejected / "agent-1").mkdir()
    for other in ("agent-1/notes.log", "credentials.txt"):
        (rejected / other).write_text("root: kept")
    (rejected / "elsewhere.log").symlink_to("/etc/passwd")
    (place.directory / "shows/retry-queue/_show.md").write_text("# Plan\nFirst retry.\n")
    add(place, "retry-queue", "play-3", depends_on=["play-2"])
    place.daemon_once()
    add(place, "other", "only")
    place.daemon_once()
    return place


@pytest.fixture
def shown(played: Place, studio_over: Callable[[Place], Studio]) -> Studio:
    return studio_over(played)


async def test_the_list_says_how_the_plays_of_each_show_stand(shown: Studio) -> None:
    page = (await shown.get("/shows")).text
    row = page[page.index(">retry-queue</a>") :]
    assert "3 plays" in row
    assert '<span class="state running">1 running</span>' in row
    assert '<span class="state passed">1 passed</span> <span class="state failed">1 failed</span>' in row
    assert page.index(">other</a>") < page.index(">retry-queue</a>"), "the newest is first"


async def test_a_show_has_its_plays_with_what_they_wait_for_the_cards_of_their_gates_and_its_plan(
    shown: Studio,
) -> None:
    page = (await shown.get("/shows/retry-queue")).text
    rows = re.findall(r"<tr id=.play-[^>]*>.*?</tr>", page, re.DOTALL)
    assert len(rows) == 3
    assert '<span class="state passed">passed</span>' in rows[0]
    assert '<span class="state failed">failed</span>' in rows[1]
    assert ">play-1</a>" in rows[1].partition("m-1")[2]
    assert '<span class="state pending">not yet</span>' in rows[2]
    assert page.count('<article class="panel card" aria-label="Gate verdict">') == 2
    assert "<b>No tests.\nNone at all.</b>" in page
    assert "Replay it." in page
    assert "First retry." in page


async def test_a_play_has_its_gate_its_facts_and_the_texts_in_its_directory(shown: Studio) -> None:
    page = (await shown.get("/shows/retry-queue?play=play-2")).text
    assert "Gate verdict: REJECT" in page
    assert "<dt>Says of itself</dt><dd>over</dd>" in page
    assert "&#34;branch&#34;: &#34;b&#34;" in page
    files = page.partition('<h2 id="files">')[2]
    named = re.findall(r"<code>([^<]+)</code>", files)
    assert named == ["_intent.md", "_meta.json", "_verdict.json", "agent.log"], "no links, no directories"


async def test_the_texts_of_a_play_open_and_nothing_else_does(shown: Studio) -> None:
    play = "/shows/retry-queue?play=play-2"
    page = (await shown.get(play)).text
    found = re.findall(r'<li><a href="([^"]+)">', page)
    links = [html.unescape(each) for each in found if "file=" in each]
    assert len(links) == 4
    assert "said\n</pre>" in (await shown.get(links[-1])).text
    download = await shown.get(f"{links[-1]}&download=1")
    assert (download.text, download.headers["content-type"]) == ("said\n", "application/octet-stream")
    for name in (
        "elsewhere.log",
        "../play-1/_intent.md",
        "agent-1",
        "/etc/passwd",
        "agent-1/notes.log",
        "credentials.txt",
        "..",
        "no.log",
    ):
        answer = await shown.get(f"{play}&file={quote(name)}")
        assert (answer.status, "root:" in answer.text) == (404, False), name


async def test_a_play_whose_directory_is_gone_is_still_shown(place: Place, studio: Studio) -> None:
    with_shows(place)
    play = add(place, "gone", "one", {"gate_passed": True, "feedback": "good"})
    place.daemon_once()
    play.rename(place.directory / "elsewhere")
    page = (await studio.get("/shows/gone?play=one")).text
    assert "The play's directory can't be read: No such file or directory." in page
    assert "Gate verdict: PASSED" in page


async def test_a_topic_of_several_shows_offers_each(place: Place, studio: Studio) -> None:
    with_shows(place)
    (place.directory / "more").mkdir()
    settings = place.directory / "runward.toml"
    more = ROOT.replace('name = "shows"', 'name = "more"').replace('path = "shows"', 'path = "more"')
    settings.write_text(settings.read_text() + more)
    place.daemon_once()
    add(place, "same", "here")
    other = place.directory / "more/same/there"
    other.mkdir(parents=True)
    (other / "_intent.md").write_text("x")
    (other / "_meta.json").write_text("{}")
    place.daemon_once()
    page = (await studio.get("/shows/same")).text
    assert "Several shows have this topic." in page
    links = [html.unescape(each) for each in re.findall(r'<td class="main"><a href="([^"]+)"', page)]
    assert len(links) == 2
    plays = [json.loads((await studio.get(f"{each}&format=json")).text)["plays"] for each in links]
    assert sorted(each["name"] for (each,) in plays) == ["here", "there"]


async def test_pages_of_lists_have_each_row_once(shown: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show_pages, "PAGE", 1)
    for address, name in (("/shows", "topic"), ("/shows/retry-queue", "name")):
        following: str | None = address
        names = []
        while following is not None:
            found = json.loads(
                (await shown.get(f"{following}{'&' if '?' in following else '?'}format=json")).text
            )
            (row,) = found["plays"] if name == "name" else found
            names.append(row[name])
            link = re.search(r'<a href="([^"]+)" rel="next">', (await shown.get(following)).text)
            following = None if link is None else html.unescape(link[1])
        assert names == (["play-1", "play-2", "play-3"] if name == "name" else ["other", "retry-queue"])


async def test_a_page_as_json_is_what_the_command_prints(shown: Studio) -> None:
    call = shown.place.call
    assert json.loads((await shown.get("/shows?format=json")).text) == call("show", "list", "--json").json()
    whole = call("show", "show", "retry-queue", "--json")
    assert json.loads((await shown.get("/shows/retry-queue?format=json")).text) == whole.json()
    (_, play, _) = whole.items("plays")
    assert json.loads((await shown.get("/shows/retry-queue?play=play-2&format=json")).text) == play


async def test_what_looks_like_a_secret_is_shown_neither_by_the_command_nor_on_a_page(shown: Studio) -> None:
    for text in (
        (await shown.get("/shows/retry-queue")).text,
        (await shown.get("/shows/retry-queue?play=play-1")).text,
        shown.place.call("show", "show", "retry-queue").out,
        shown.place.call("show", "show", "retry-queue", "--json").out,
    ):
        assert "hunter2hunter2" not in text


@pytest.mark.parametrize(
    ("path", "status", "named"),
    [
        ("/shows?kid=x", 400, "kid"),
        ("/shows?after=x,y", 400, "after"),
        ("/shows/nothing", 404, "There is no show nothing."),
        ("/shows/retry-queue?path=/nowhere", 404, "in /nowhere"),
        ("/shows/retry-queue?play=nothing", 404, "There is no play nothing"),
    ],
)
async def test_what_there_is_not_is_named(shown: Studio, path: str, status: int, named: str) -> None:
    answer = await shown.get(path)
    assert (answer.status, named in answer.text) == (status, True)


async def test_before_the_first_show_the_list_says_where_they_come_from(studio: Studio) -> None:
    page = (await studio.get("/shows")).text
    assert '<code>layout = "show"</code>' in page
    assert '<a href="/shows"' not in page, "it is in the menu only when there is one"


async def test_nothing_that_a_play_says_becomes_markup_or_stays_invisible(
    place: Place, studio: Studio
) -> None:
    with_shows(place)
    bad = f"{MARKUP}{INVISIBLE}"
    name = bad.replace("/", "")
    play = add(
        place, name, name, {"gate_passed": False, "feedback": bad, "criteria": [{"name": bad, "passed": None}]},
        agent=bad, model=bad, status=bad, depends_on=[bad], **{bad: bad},
    )  # fmt: skip
    (play / f"{name}.log").write_text(bad)
    (play.parent / "_show.md").write_text(bad)
    place.daemon_once()
    (show,) = json.loads((await studio.get("/shows?format=json")).text)
    address = f"/shows/{quote(show['topic'])}"
    play_page = f"{address}?play={quote(name)}"
    for path in ("/shows", address, play_page, f"{play_page}&file={quote(name)}.log"):
        answer = await studio.get(path)
        assert answer.status == 200
        tags, attributes = tags_of(answer.text)
        assert not {"script", "img", "iframe", "style", "svg"} & set(tags)
        assert not [each for each in attributes if each.startswith("on") or each == "style"]
        assert not [char for char in answer.text if not char.isprintable() and char != "\n"]
        assert "\\u202e" in answer.text
