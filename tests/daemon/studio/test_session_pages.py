"""The pages of sessions: what they show, for whom there is nothing, and for runs that are hostile."""

import html
import json
import re
import time
from html.parser import HTMLParser
from urllib.parse import quote, unquote

import pytest
import time_machine
from tests.daemon.cli.calling import Place
from tests.daemon.studio.conftest import Studio

from runward.config.json_value import JsonValue
from runward.daemon.store import reading
from runward.daemon.studio import session_pages

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>"
INVISIBLE = "safe\u202egnp.exe\u200b\x1b[31m"


class _Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def tags_of(page: str) -> tuple[list[str], list[str]]:
    """The tags of a page, and the names of all attributes."""
    found = _Tags()
    found.feed(page)
    return found.tags, [name for name, _ in found.attributes]


def path_of(key: str) -> str:
    return f"/sessions/{quote(key)}"


def the_line_with(text: str, page: str) -> str:
    return next(line for line in page.splitlines() if text in line)


async def test_the_list_shows_verdicts_and_reasons_and_never_the_exit_code(filled: Studio) -> None:
    page = (await filled.get("/sessions")).text
    assert page.count('<span class="state completed">completed</span>') == 3
    assert page.count('<span class="state failed">failed</span>') == 2
    assert "were not delivered: review (review.md): empty" in page
    assert "exit code" not in page.lower()


async def test_the_list_has_a_chip_for_a_missing_optional_artifact(filled: Studio) -> None:
    page = (await filled.get("/sessions")).text
    rows = {re.findall(r"runs/(\w+)", row)[0]: row for row in page.split("<tr ") if "runs/" in row}
    chip = '<span class="chip yellow">notes missing</span>'
    assert {name for name, row in rows.items() if chip in row} == {"careless", "silent", "crashed"}


async def test_a_status_in_the_address_chooses_and_is_marked(filled: Studio) -> None:
    page = (await filled.get("/sessions?status=failed")).text
    assert "silent" in page
    assert "careless" not in page
    assert '<a href="/sessions?status=failed" aria-current="true">failed</a>' in page
    assert "plain" not in page


@pytest.mark.parametrize(
    ("address", "named"),
    [("?color=red", "color"), ("?status=great", "great"), ("?after=x,y", "after"), ("?since=soon", "soon")],
    ids=["filter", "status", "place", "time"],
)
async def test_an_unknown_filter_is_named(filled: Studio, address: str, named: str) -> None:
    answer = await filled.get(f"/sessions{address}")
    assert (answer.status, named in answer.text) == (400, True)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
async def test_pages_of_older_sessions_have_each_session_once(
    filled: Studio, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(session_pages, "PAGE", size)
    address, listed = "/sessions", []
    while True:
        page = (await filled.get(address)).text
        listed += re.findall(r'<td class="main"><a href="/sessions/([^"]+)"', page)
        found = re.search(r'<a href="([^"]+)" rel="next">older</a>', page)
        if found is None:
            break
        address = html.unescape(found[1])
    whole = filled.place.call("session", "list", "--json", "--limit", "0").objects()
    assert [unquote(each) for each in listed] == [each["key"] for each in whole]


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("wanted", ["failed=true", "search=L", "cwd=/nowhere"])
async def test_a_search_for_sessions_looks_at_some_and_offers_to_go_on(
    filled: Studio, monkeypatch: pytest.MonkeyPatch, size: int, most: int, wanted: str
) -> None:
    whole = json.loads((await filled.get(f"/sessions?{wanted}&format=json")).text)
    monkeypatch.setattr(session_pages, "PAGE", size)
    monkeypatch.setattr(reading, "MOST_SEARCHED", most)
    address, listed, searches = f"/sessions?{wanted}", [], 0
    while True:
        page = (await filled.get(address)).text
        listed += re.findall(r'<td class="main"><a href="/sessions/([^"]+)"', page)
        found = re.search(r'<a href="([^"]+)" rel="next">(search )?older</a>', page)
        if found is None:
            break
        if "No session matches" in page:
            assert "No session matches among those that were searched so far." in page
        searches += bool(found[2])
        address = html.unescape(found[1])
    assert [unquote(each) for each in listed] == [each["key"] for each in whole]
    assert searches or size == 1  # else a part may end sooner than its search


async def test_sessions_since_then_and_of_a_directory(filled: Studio) -> None:
    assert json.loads((await filled.get("/sessions?since=1h&format=json")).text) == []
    assert "No session matches." in (await filled.get("/sessions?cwd=/nowhere")).text


async def test_a_page_as_json_is_what_the_command_prints_at_that_moment(filled: Studio) -> None:
    with time_machine.travel(time.time(), tick=False):
        listed = json.loads((await filled.get("/sessions?format=json")).text)
        assert listed == filled.place.call("session", "list", "--json").json()
        for each in listed:
            shown = json.loads((await filled.get(f"{path_of(each['key'])}?format=json")).text)
            assert shown["session"] == filled.place.call("session", "show", each["key"], "--json").json()
            assert shown["why"] == filled.place.call("why", each["key"], "--json").json()
            verified = filled.place.call("receipt", "verify", each["key"], "--json")
            assert shown["receipt"] == (None if verified.code == 3 else verified.json())


async def test_a_run_that_exited_with_0_and_failed_shows_what_is_missing(filled: Studio) -> None:
    page = (await filled.get(path_of("native:runs/silent"))).text
    assert "The command exited with 0, but did not deliver what its contract requires." in page
    review = the_line_with("<b>review</b>", page)
    assert "REQUIRED" in review
    assert "<code>review.md</code>" in review
    assert '<a href="#evidence-review"><span class="state missing">NOT DELIVERED</span></a>' in review
    evidence = the_line_with('id="evidence-review"', page)
    assert "expected artifact <b>review</b> (<code>review.md</code>): empty" in evidence
    assert '<span class="chip yellow">MISSING</span>' in the_line_with("<b>notes</b>", page)
    assert "OK (1 B)" in the_line_with("<b>report</b>", page)
    assert "declared by agent profile" in page


async def test_a_session_without_a_contract_has_no_such_section(filled: Studio) -> None:
    assert "Expected artifacts" not in (await filled.get(path_of("native:runs/plain"))).text


async def test_a_session_that_failed_for_another_reason_shows_both(filled: Studio) -> None:
    page = (await filled.get(path_of("native:runs/crashed"))).text
    assert "it failed, although all required artifacts are there" in page


async def test_a_session_that_does_not_exist_has_a_page_that_says_so(filled: Studio) -> None:
    answer = await filled.get("/sessions/native:runs/nobody")
    assert (answer.status, "There is no session native:runs/nobody." in answer.text) == (404, True)


async def test_before_the_first_run_the_list_says_what_to_do(studio: Studio) -> None:
    assert "<code>runward run -- COMMAND</code>" in (await studio.get("/sessions")).text


async def test_a_store_that_cannot_be_read_is_said_with_its_reason(studio: Studio) -> None:
    (studio.state / "runward.db").write_bytes(b"not a database" * 1000)
    answer = await studio.get("/sessions")
    assert (answer.status, "runward.db" in answer.text) == (503, True)


@pytest.fixture
def hostile(place: Place) -> str:
    """A run that says markup and invisible characters wherever it can; its key."""
    entry: JsonValue = {
        "id": "review",
        "path": "review.md",
        "required": True,
        "description": MARKUP + INVISIBLE,
        "source": "playbook",
    }
    place.add_run(
        "run",
        exit_code=0,
        contract={"expected": [entry]},
        command=[MARKUP, INVISIBLE],
        cwd=f"/{MARKUP}{INVISIBLE}",
        agent=MARKUP,
        playbook=INVISIBLE,
    )
    name = f"{MARKUP.replace('/', '')}{INVISIBLE}"
    outcomes = place.runs / "run/artifacts/outcomes"
    outcomes.mkdir()
    wrong = {"outcome_kind": "review_verdict", "verdict": MARKUP, "findings": [{MARKUP: INVISIBLE}]}
    (outcomes / f"{name}.json").write_text(json.dumps(wrong))
    valid = {"outcome_kind": "note", "summary": MARKUP + INVISIBLE, MARKUP: [INVISIBLE, MARKUP]}
    (outcomes / "note.json").write_text(json.dumps(valid))
    place.add_run(name, exit_code=0)
    place.daemon_once()
    return "native:runs/run"


async def test_nothing_that_a_run_says_becomes_markup_or_stays_invisible(
    studio: Studio, hostile: str
) -> None:
    listed = json.loads((await studio.get("/sessions?format=json")).text)
    assert len(listed) == 2
    for path in (
        "/sessions",
        *(path_of(each["key"]) for each in listed),
        "/sessions/" + quote(MARKUP + INVISIBLE),
    ):
        page = (await studio.get(path)).text
        found = _Tags()
        found.feed(page)
        assert not {"script", "img", "iframe", "style", "svg"} & set(found.tags)
        assert not [name for name, _ in found.attributes if name.startswith("on") or name == "style"]
        assert not [char for char in page if not char.isprintable() and char != "\n"]
    page = (await studio.get(path_of(hostile))).text
    assert "\\u202e" in page
    assert "Invalid outcome" in page
    assert "<h3>" in page


@pytest.mark.parametrize("search", [MARKUP, INVISIBLE, '"><script>'])
async def test_nothing_in_the_address_becomes_markup(filled: Studio, search: str) -> None:
    page = (await filled.get(f"/sessions?search={quote(search)}")).text
    found = _Tags()
    found.feed(page)
    assert "script" not in found.tags
    assert "img" not in found.tags


async def test_what_looks_like_a_secret_is_not_shown(place: Place, studio: Studio) -> None:
    place.add_run("leaky", exit_code=0, command=["curl", "-H", "Authorization: Bearer abcdefgh12345678"])
    place.daemon_once()
    page = (await studio.get(path_of("native:runs/leaky"))).text
    assert "abcdefgh12345678" not in page
    assert "[redacted]" in page


async def test_a_run_that_no_daemon_has_judged_yet_has_a_page_that_says_so(
    place: Place, studio: Studio
) -> None:
    place.daemon_once()
    place.add_run("fresh", exit_code=0)
    answer = await studio.get(path_of("native:runs/fresh"))
    assert (answer.status, "Not judged yet" in answer.text) == (200, True)
    assert "it is not judged yet: no daemon is running" in answer.text
    (shown,) = json.loads((await studio.get("/sessions?format=json")).text)
    assert shown["key"] == "native:runs/fresh"
    for query in ("log=stdout", "part=journal", "part=receipt", "file=x"):
        assert (await studio.get(f"{path_of('native:runs/fresh')}?{query}")).status == 404
