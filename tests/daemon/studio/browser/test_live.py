"""Pages that change while somebody looks at them, in a real browser."""

import json
import re
from datetime import UTC, datetime

import pytest
from tests.daemon.cli.calling import CONTRACT, Place
from tests.daemon.studio.browser.conftest import Person
from tests.waiting import wait_for

pytestmark = pytest.mark.prove


def test_runs_arrive_and_what_a_person_does_meanwhile_stays(person: Person, served: Place) -> None:
    for number in range(30):
        served.add_run(f"before-{number}", exit_code=0)
    page = person.logged_in()
    person.open(page, "/sessions")
    page.get_by_role("link", name="before-29").wait_for()
    page.get_by_label("Search").fill("half a w")
    page.get_by_role("link", name="before-20").focus()
    page.evaluate("window.scrollTo(0, 300); window.wasHere = true")
    served.add_run("fresh", exit_code=0, started_at="2026-01-02T04:04:05Z")
    page.get_by_role("link", name="fresh").wait_for()
    assert page.get_by_label("Search").input_value() == "half a w"
    assert page.evaluate("document.activeElement.textContent") == "before-20"
    assert page.evaluate("window.wasHere && window.scrollY") >= 300


def test_a_running_session_is_followed_to_its_verdict(person: Person, served: Place) -> None:
    served.add_run("run", contract=CONTRACT, files={"report.md": "r"})
    page = person.logged_in()
    wait_for(lambda: served.call("session", "list", "--json").objects(), "the run")
    person.open(page, "/sessions/native:runs/run")
    page.locator(".banner.running").wait_for()
    served.end_run("run", 0)
    page.locator(".banner.failed").wait_for()
    assert page.get_by_text("MISSING", exact=True).count() or page.get_by_text("NOT DELIVERED").count()
    # It no longer asks every two seconds.
    assert page.locator("main").get_attribute("hx-trigger") == "changed from:#live"


def test_what_a_person_opened_stays_open(person: Person, served: Place) -> None:
    run = served.add_run("run", contract=CONTRACT)
    (run / "artifacts/outcomes").mkdir()
    outcome = {"outcome_kind": "musing", "summary": "long", "thoughts": list(range(40))}
    (run / "artifacts/outcomes/a.json").write_text(json.dumps(outcome))
    page = person.logged_in()
    wait_for(lambda: served.call("session", "list", "--json").objects(), "the run")
    served.end_run("run", 0, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    person.open(page, "/sessions/native:runs/run")
    details = page.locator("article details").first
    details.locator("summary").click()
    assert details.get_attribute("open") is not None
    page.get_by_role("button", name="Seen").wait_for()
    assert served.call("session", "seen", "native:runs/run").code == 0
    page.get_by_role("button", name="Seen").wait_for(state="detached")
    assert details.get_attribute("open") is not None


def test_a_tab_that_nobody_sees_lets_go_of_the_stream_and_catches_up(person: Person, served: Place) -> None:
    page = person.logged_in()
    person.open(page, "/sessions")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.isAway, configurable: true});"
        "window.isAway = true; document.dispatchEvent(new Event('visibilitychange'))"
    )
    served.add_run("fresh", exit_code=0)
    wait_for(lambda: served.call("session", "list", "--json").objects(), "the run")
    assert page.get_by_role("link", name="fresh").count() == 0
    page.evaluate("window.isAway = false; document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_role("link", name="fresh").wait_for()
    page.get_by_role("status").get_by_text("live", exact=True).wait_for()


def test_after_a_restart_of_the_daemon_a_page_catches_up_by_itself(
    place: Place, person_of_place: Person
) -> None:
    person = person_of_place
    with place.daemon():
        place.add_run("before", exit_code=0)
        page = person.logged_in()
        person.open(page, "/sessions")
        page.get_by_role("link", name="before").wait_for()
    page.get_by_role("status").get_by_text("reconnecting", exact=True).wait_for()
    place.add_run("meanwhile", exit_code=0)
    with place.daemon():
        page.get_by_role("link", name="meanwhile").wait_for()
        page.get_by_role("status").get_by_text("live", exact=True).wait_for()
        page.close()
    refused = re.compile(
        "ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE|Failed to fetch|network error|ERR_CONNECTION_RESET"
    )
    assert [each for each in person.complaints if not refused.search(each)] == []
    person.complaints.clear()


def test_a_button_never_becomes_that_of_another_run(person: Person, served: Place) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for each in ("first", "second"):
        served.add_run(each, exit_code=3, finished_at=now)
    page = person.logged_in()
    person.open(page, "/")
    page.get_by_role("button", name="Seen first").wait_for()
    page.get_by_role("button", name="Seen second").wait_for()
    buttons = {
        each: page.get_by_role("button", name=f"Seen {each}").element_handle() for each in ("first", "second")
    }
    request = buttons["first"].evaluate("each => each.form.elements.once.value")
    assert served.call("session", "seen", "native:runs/second").code == 0
    page.get_by_role("button", name="Seen second").wait_for(state="detached")
    # Both halves of a double click ask for the same, also if the page is updated in between.
    assert buttons["first"].evaluate("each => each.form.elements.once.value") == request
    assert not buttons["second"].evaluate("each => each.isConnected")
    assert buttons["first"].evaluate("each => each.isConnected && each.textContent") == "Seen first"
    assert served.call("session", "seen", "native:runs/first").code == 0
    page.get_by_role("button", name="Seen first").wait_for(state="detached")
