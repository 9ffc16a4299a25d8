"""Outcomes as cards: each kind as drawn, any other as JSON, and whatever an agent writes."""

import html
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.test_session_pages import INVISIBLE, MARKUP, tags_of

from runward.config.json_value import JsonValue
from runward.daemon.store.tables import artifacts
from runward.daemon.studio import cards

REVIEW: JsonValue = {
    "outcome_kind": "review_verdict",
    "summary": "three things",
    "verdict": "REQUEST_CHANGES",
    "passed": False,
    "round": 2,
    "findings": [
        {
            "severity": "high",
            "category": "scope",
            "description": "Wrong ADR\nadjacent ADRs differ",
            "file": "docs/a.md",
            "line": 12,
            "suggestion": "correct it",
        },
        {"severity": "low", "category": "terms", "description": "Rename it", "required": True},
        {"severity": "info", "category": "scope", "title": "A hint", "description": "Think about it"},
    ],
}
GATE: JsonValue = {
    "outcome_kind": "gate_verdict",
    "summary": "no",
    "gate_passed": False,
    "criteria": [
        {"name": "tests pass", "passed": True},
        {"name": "scope", "passed": False},
        {"name": "lint"},
    ],
    "feedback": "It is not there.",
    "next_action": "Run it again.",
}
CI: JsonValue = {
    "outcome_kind": "ci_result",
    "summary": "mostly",
    "passed": False,
    "checks": [
        {"name": "Backend tests", "passed": True, "count": 119, "total": 119},
        {"name": "Build", "passed": False},
        {"name": "Lint"},
    ],
    "commands": [{"command": "make build", "exit_code": 2, "duration_s": 62}],
    "failure_summary": "the build",
}
FLOW: JsonValue = {
    "outcome_kind": "flow_plan",
    "summary": "on we go",
    "should_continue": True,
    "reason": "the first leg delivered",
    "next_steps": ["implement", "test"],
}
OTHER: JsonValue = {"outcome_kind": "musing", "summary": "a thought", "depth": [1, {"of": "it"}]}
LONG: JsonValue = {"outcome_kind": "musing", "summary": "many thoughts", "all": list(range(40))}


def add(place: Place, name: str, *outcomes: JsonValue) -> None:
    """A finished run that left these outcomes."""
    run = place.add_run(name, started_at="2026-01-02T03:04:05Z", agent="reviewer")
    (run / "artifacts/outcomes").mkdir()
    for number, each in enumerate(outcomes):
        (run / f"artifacts/outcomes/{number}.json").write_text(json.dumps(each))
    place.end_run(name, 0)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("written"))
    place.furnish()
    add(place, "all", REVIEW, GATE, CI, FLOW, OTHER, LONG)
    place.daemon_once()
    return place


@pytest.fixture
def outcomes(written: Place, studio_over: Callable[[Place], Studio]) -> Studio:
    return studio_over(written)


async def card_of(studio: Studio, kind: str, summary: str | None = None) -> str:
    """The one card of this kind."""
    listed = json.loads((await studio.get("/outcomes?format=json")).text)
    (one,) = (each for each in listed if each["kind"] == kind and summary in (None, each["summary"]))
    page = (await studio.get(f"/outcomes/{quote(one['id'])}")).text
    found = re.search(r"<article.*</article>", page, re.DOTALL)
    assert found is not None
    return found[0]


async def test_a_review_says_what_blocks_and_hides_what_does_not(outcomes: Studio) -> None:
    card = await card_of(outcomes, "review_verdict")
    assert '<span class="state failed">REQUEST CHANGES</span>' in card
    assert "reviewer · 10m 00s · round 2" in card
    assert "<span>Major <b>1</b></span><span>Minor <b>1</b></span><span>Info <b>1</b></span>" in card
    assert 'scope <b class="num">2</b> · terms <b class="num">1</b>' in card
    blocking, _, others = card.partition("<details>")
    assert "<b>Wrong ADR</b><div><code>docs/a.md:12</code></div>" in blocking
    assert '<span class="muted">Evidence:</span> adjacent ADRs differ' in blocking
    assert '<span class="muted">Required:</span> correct it' in blocking
    assert "Rename it" in blocking
    assert "<summary>1 suggestion</summary>" in others
    assert "A hint" in others


async def test_a_gate_shows_its_criteria_why_it_rejects_and_what_to_do(outcomes: Studio) -> None:
    card = await card_of(outcomes, "gate_verdict")
    assert "Gate verdict: REJECT" in card
    for word, name in (("passed", "tests pass"), ("failed", "scope"), ("not decided", "lint")):
        assert f'<span class="hidden">{word}:</span></span>{name}</li>' in card
    assert "<b>It is not there.</b>" in card
    assert "Run it again." in card


async def test_a_ci_result_has_a_row_for_each_check(outcomes: Studio) -> None:
    card = " ".join((await card_of(outcomes, "ci_result")).split())
    assert "CI result: FAILED" in card
    assert '<dt>Backend tests</dt><dd><span class="state passed">119 / 119</span>' in card
    assert '<dt>Build</dt><dd><span class="state failed">failed</span>' in card
    assert '<dt>Lint</dt><dd><span class="state skipped">not run</span>' in card
    assert '<code>make build</code></dt><dd>1m 02s <span class="state failed">exit code 2</span>' in card


async def test_a_flow_plan_says_whether_it_goes_on(outcomes: Studio) -> None:
    card = await card_of(outcomes, "flow_plan")
    assert "Flow plan: CONTINUE" in card
    assert "the first leg delivered" in card
    assert "implement, test" in card


async def test_any_other_kind_is_shown_as_json_which_is_folded_when_it_is_long(outcomes: Studio) -> None:
    short = await card_of(outcomes, "musing", "a thought")
    assert "<details open>" in short
    assert "&#34;of&#34;: &#34;it&#34;" in short
    assert "<details><summary>Show as JSON</summary>" in await card_of(outcomes, "musing", "many thoughts")


async def test_a_session_shows_the_cards_of_its_outcomes(outcomes: Studio) -> None:
    page = (await outcomes.get("/sessions/native:runs/all")).text
    assert page.count('<article class="panel card') == 6


async def test_all_failed_reviews_of_this_week_are_a_link(outcomes: Studio) -> None:
    page = (await outcomes.get("/outcomes")).text
    assert '<a href="/outcomes?kind=review_verdict&amp;passed=false&amp;since=7d"' in page
    found = json.loads(
        (await outcomes.get("/outcomes?kind=review_verdict&passed=false&since=7d&format=json")).text
    )
    assert [each["kind"] for each in found] == ["review_verdict"]


async def test_a_review_that_does_not_say_whether_it_passed_is_among_those_that_are_not_decided(
    place: Place, studio: Studio
) -> None:
    add(place, "unsaid", {"outcome_kind": "review_verdict", "summary": "no", "verdict": "REQUEST_CHANGES"})
    place.daemon_once()
    page = (await studio.get("/outcomes?kind=review_verdict&passed=false&since=7d")).text
    assert "No outcome matches." in page
    assert '<a href="/outcomes?passed=null">not decided</a>' in page
    page = (await studio.get("/outcomes?passed=null")).text
    assert '<span class="state none">none</span></td>\n<td class="main">' in page
    assert ">review_verdict</a>" in page


async def test_a_page_as_json_is_what_the_command_prints(outcomes: Studio) -> None:
    listed = json.loads((await outcomes.get("/outcomes?format=json")).text)
    assert listed == outcomes.place.call("artifact", "list", "--json").json()
    for each in listed:
        shown = json.loads((await outcomes.get(f"/outcomes/{quote(each['id'])}?format=json")).text)
        assert shown == outcomes.place.call("artifact", "show", each["id"], "--json").json()


@pytest.mark.parametrize(
    ("address", "named"), [("?kid=x", "kid"), ("?passed=maybe", "maybe"), ("?since=soon", "soon")]
)
async def test_a_filter_that_cannot_be_is_named(outcomes: Studio, address: str, named: str) -> None:
    answer = await outcomes.get(f"/outcomes{address}")
    assert (answer.status, named in answer.text) == (400, True)


@pytest.mark.parametrize("filters", ["", "kind=musing", "session=native:runs/all", "since=1d"])
async def test_pages_of_older_outcomes_have_each_outcome_once(
    outcomes: Studio, monkeypatch: pytest.MonkeyPatch, filters: str
) -> None:
    whole = json.loads((await outcomes.get(f"/outcomes?{filters}&format=json")).text)
    monkeypatch.setattr(cards, "PAGE", 1)
    address, listed = f"/outcomes?{filters}", []
    while address:
        listed += json.loads((await outcomes.get(f"{address}&format=json")).text)
        older = re.search(r'<a href="([^"]+)" rel="next">older</a>', (await outcomes.get(address)).text)
        address = html.unescape(older[1]) if older is not None else ""
    assert sorted(each["id"] for each in listed) == sorted(each["id"] for each in whole)
    assert len(listed) == len(whole) > 1


async def test_a_search_that_was_long_enough_offers_to_go_on(
    outcomes: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "MOST_READ", 2)
    address, found, searches = "/outcomes?passed=false", 0, 0
    while address:
        page = (await outcomes.get(address)).text
        found += page.count('class="state failed"')
        older = re.search(r'<a href="([^"]+)" rel="next">search older</a>', page)
        searches += older is not None
        address = html.unescape(older[1]) if older is not None else ""
    assert (found, searches) == (3, 3)


async def test_the_filters_in_force_are_named_and_each_can_be_dropped(outcomes: Studio) -> None:
    page = (await outcomes.get("/outcomes?kind=ci_result&session=native:runs/all")).text
    assert 'kind <b>ci_result</b> (<a href="/outcomes?session=native%3Aruns%2Fall">' in page
    assert 'session <b>native:runs/all</b> (<a href="/outcomes?kind=ci_result">' in page
    none = (await outcomes.get("/outcomes?kind=nothing")).text
    assert 'No outcome matches. <a href="/outcomes">Show all</a>' in none


class Added(NamedTuple):
    """An entry point of another package."""

    name: str
    value: str
    template: str | None

    def load(self) -> str:
        if self.template is None:
            raise ModuleNotFoundError("No module named 'weather'")
        return self.template


@pytest.fixture
def add_card(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Have another package bring the card for `musing` that is in this file, or one that can't be loaded."""

    def add_it(template: str | None) -> None:
        monkeypatch.setattr(cards, "_added", lambda: {"musing": Added("musing", "weather:CARD", template)})

    return add_it


async def test_the_card_of_the_documentation_shows_a_kind_of_another_package(
    outcomes: Studio, tmp_path: Path, add_card: Callable[[str | None], None]
) -> None:
    documented = re.search(
        r"And `musing.html`:\n\n```text\n(.*?)```", Path("docs/studio.md").read_text(), re.DOTALL
    )
    assert documented is not None
    (tmp_path / "musing.html").write_text(documented[1])
    add_card(str(tmp_path / "musing.html"))
    card = await card_of(outcomes, "musing", "a thought")
    assert '<h3>Musing</h3><span class="muted">reviewer</span>' in card
    assert "<p>a thought</p>" in card
    assert "<li>1</li>" in card


async def test_a_card_of_another_package_that_fails_leaves_the_json_and_says_so(
    outcomes: Studio, tmp_path: Path, add_card: Callable[[str | None], None]
) -> None:
    (tmp_path / "broken.html").write_text("{{ content.missing.field }}")
    for template, why in (
        (None, "weather:CARD: ModuleNotFoundError: No module named"),
        (str(tmp_path / "nowhere.html"), "FileNotFoundError"),
        (str(tmp_path / "broken.html"), "UndefinedError"),
    ):
        add_card(template)
        card = await card_of(outcomes, "musing", "a thought")
        assert why in card
        assert "&#34;of&#34;: &#34;it&#34;" in card


async def test_an_outcome_with_a_file_leads_to_it(place: Place, studio: Studio) -> None:
    run = place.add_run("filed")
    (run / "artifacts/thoughts.txt").write_text("so many\n")
    (run / "outcome.json").write_text(
        '{"outcome_kind": "musing", "summary": "long", "file_path": "thoughts.txt"}'
    )
    place.end_run("filed", 0)
    place.daemon_once()
    (one,) = json.loads((await studio.get("/outcomes?format=json")).text)
    page = (await studio.get(f"/outcomes/{quote(one['id'])}")).text
    link = re.search(r'<a href="([^"]+)">thoughts.txt</a>', page)
    assert link is not None
    assert "so many" in (await studio.get(html.unescape(link[1]))).text


async def test_a_reviewer_is_the_agent_of_the_session_or_else_its_playbook(
    place: Place, studio: Studio
) -> None:
    run = place.add_run("played", playbook="careful-review")
    (run / "outcome.json").write_text(
        json.dumps({**REVIEW, "round": 1} if isinstance(REVIEW, dict) else None)
    )
    place.end_run("played", 0)
    place.daemon_once()
    card = await card_of(studio, "review_verdict")
    assert re.search(r'<span class="muted">careful-review · \S+ \d\ds</span>', card)


async def test_headings_skip_no_level(outcomes: Studio) -> None:
    listed = json.loads((await outcomes.get("/outcomes?format=json")).text)
    for path in ("/outcomes", *(f"/outcomes/{quote(each['id'])}" for each in listed)):
        levels = [
            int(tag[1]) for tag in tags_of((await outcomes.get(path)).text)[0] if tag in ("h1", "h2", "h3")
        ]
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(levels)), path


async def test_an_outcome_that_does_not_exist_has_a_page_that_says_so(outcomes: Studio) -> None:
    answer = await outcomes.get("/outcomes/nothing")
    assert (answer.status, "There is no outcome nothing." in answer.text) == (404, True)


async def test_before_the_first_outcome_the_list_says_where_they_come_from(studio: Studio) -> None:
    assert "A run leaves one in <code>outcomes/</code>" in (await studio.get("/outcomes")).text


def _hostile(value: JsonValue) -> JsonValue:
    """The same with every text replaced by a hostile one, as far as the kind permits it."""
    if isinstance(value, dict):
        kept = ("outcome_kind", "verdict", "severity")
        return {key: each if key in kept else _hostile(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_hostile(each) for each in value]
    return f"{MARKUP}{INVISIBLE}" if isinstance(value, str) else value


async def test_nothing_in_an_outcome_becomes_markup_or_stays_invisible(place: Place, studio: Studio) -> None:
    odd: JsonValue = {"outcome_kind": "musing", MARKUP: INVISIBLE, "summary": MARKUP}
    told = [_hostile(each) for each in (REVIEW, GATE, CI, FLOW, OTHER)]
    for each in told:
        if isinstance(each, dict) and isinstance(each.get("findings"), list):
            for finding in each["findings"] if isinstance(each["findings"], list) else []:
                if isinstance(finding, dict):
                    finding.pop("file", None)
    add(place, "hostile", *told, odd)
    place.daemon_once()
    listed = json.loads((await studio.get("/outcomes?format=json")).text)
    assert len(listed) == 6
    assert [each["file_problem"] for each in listed if each["content"] is None] == []
    for path in (
        "/outcomes",
        "/sessions/native:runs/hostile",
        *(f"/outcomes/{quote(each['id'])}" for each in listed),
    ):
        page = (await studio.get(path)).text
        tags, attributes = tags_of(page)
        assert not {"script", "img", "iframe", "style", "svg"} & set(tags)
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert not [char for char in page if not char.isprintable() and char != "\n"]


async def test_a_list_is_short_and_a_card_is_bounded_whatever_an_outcome_says(
    place: Place, studio: Studio
) -> None:
    deep: JsonValue = json.loads("[" * 30 + "]" * 30)
    add(
        place,
        "long",
        {"outcome_kind": "musing", "summary": "x" * 100_000, "deep": deep, "wide": [[0]] * 20_000},
    )
    place.daemon_once()
    (one,) = json.loads((await studio.get("/outcomes?format=json")).text)
    assert len((await studio.get("/outcomes")).text) < 10_000
    assert len((await studio.get(f"/outcomes/{quote(one['id'])}")).text) < 300_000


async def test_what_looks_like_a_secret_is_not_shown(place: Place, studio: Studio) -> None:
    add(
        place,
        "leaky",
        {"outcome_kind": "musing", "summary": "password=hunter2hunter2", "token": "abcdefgh1234"},
    )
    place.daemon_once()
    (one,) = json.loads((await studio.get("/outcomes?format=json")).text)
    for path in ("/outcomes", f"/outcomes/{quote(one['id'])}"):
        page = (await studio.get(path)).text
        assert "hunter2hunter2" not in page
        assert "abcdefgh1234" not in page
