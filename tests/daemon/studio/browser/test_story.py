"""What a person does with the Studio, from a run that arrives to the step that follows a decision."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from tests.daemon.cli.calling import CONTRACT, Place
from tests.daemon.studio.browser.conftest import PHONE, WIDE, Person
from tests.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ACTIONS = """
[actions.merge]
command = ["sh", "-c", "echo merged"]
[actions.deploy]
command = ["sh", "-c", "echo deploying; until [ -e DIRECTORY/over ]; do sleep 0.1; done"]
"""
CHAIN = """\
name: release
trigger: {event: pr.opened}
steps:
  - {id: merge, action: merge, requires_approval: true}
  - {id: deploy, action: deploy}
"""
VERDICT = {
    "outcome_kind": "review_verdict",
    "summary": "One number is wrong.",
    "verdict": "REQUEST_CHANGES",
    "passed": False,
    "findings": [{"severity": "high", "category": "scope", "description": "Wrong ADR number"}],
}
TABS = 120
"""More presses of Tab than any page has places for it."""


@pytest.fixture
def place(place: Place) -> Iterator[Place]:
    """A place with a chain whose first step waits for a person, and whose second one goes on until the test is over."""
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write(ACTIONS.replace("DIRECTORY", str(place.directory)))
    (place.directory / "release.yaml").write_text(CHAIN)
    assert place.call("chain", "define", "release.yaml").code == 0
    assert place.call("event", "emit", "pr.opened", "pr=7").code == 0
    yield place
    (place.directory / "over").touch()


def by_pointer(page: "Page", target: "Locator") -> None:
    with page.expect_navigation():
        target.click()


def by_keyboard(page: "Page", target: "Locator") -> None:
    reach(page, target)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def reach(page: "Page", target: "Locator") -> None:
    """Press Tab until that has the focus."""
    target.wait_for()
    for _ in range(TABS):
        page.keyboard.press("Tab")
        if target.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"no Tab leads to {target}")


def see(page: "Page", has_script: bool, what: "Locator") -> None:
    """Wait until that is there: by itself, or without a script when the page is loaded again."""
    if has_script:
        what.first.wait_for()
        return

    def is_there() -> bool:
        page.reload()
        return bool(what.count())

    wait_for(is_there, str(what))


@pytest.mark.prove
@pytest.mark.parametrize(
    ("width", "has_script", "choose"),
    [(WIDE, True, by_keyboard), (PHONE, True, by_pointer), (PHONE, False, by_keyboard)],
    ids=["by keyboard", "on a phone", "on a phone by keyboard without a script"],
)
def test_a_person_sees_what_failed_and_decides(
    person: Person, served: Place, width: int, has_script: bool, choose: "Callable[[Page, Locator], None]"
) -> None:
    page = person.logged_in(width, has_script=has_script)
    link, main = page.get_by_role, page.locator("main")

    # A run arrives, and fails although it exited with 0.
    person.open(page, "/sessions")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run = served.add_run("gate-1", contract=CONTRACT, files={"report.md": "r"}, started_at=now)
    see(page, has_script, main.get_by_role("link", name="gate-1"))
    (run / "artifacts/outcomes").mkdir()
    (run / "artifacts/outcomes/review.json").write_text(json.dumps(VERDICT))
    served.end_run("gate-1", 0, now)
    see(page, has_script, main.locator("tr", has_text="gate-1").get_by_text("failed", exact=True))

    # What is missing, and the evidence for it.
    choose(page, main.get_by_role("link", name="gate-1"))
    page.get_by_role("heading", name="Expected artifacts").wait_for()
    assert main.locator(".banner").get_by_text("exited with 0").count() == 1
    entry = main.locator(".expected li", has_text="review.md")
    assert entry.get_by_text("REQUIRED").count() == 1
    choose(page, entry.get_by_role("link", name="MISSING"))
    assert page.url.endswith("#evidence-review")
    assert main.locator("#evidence-review").is_visible()

    # The verdict of the review.
    see(page, has_script, main.get_by_role("article", name="Review verdict"))
    card = main.get_by_role("article", name="Review verdict")
    assert "REQUEST CHANGES" in card.inner_text()
    assert "Wrong ADR number" in card.inner_text()

    # A step that waits.
    choose(page, link("link", name="Attention"))
    see(page, has_script, main.get_by_role("link", name="Review and decide"))
    choose(page, main.get_by_role("link", name="Review and decide").first)
    page.get_by_role("heading", name="Steps").wait_for()
    note = main.get_by_label("Note")
    reach(page, note)
    page.keyboard.type("Looks fine")
    choose(page, main.get_by_role("button", name="Approve", exact=True))
    see(page, has_script, main.get_by_text("Done", exact=False))
    see(page, has_script, main.locator(".steps li", has_text="deploy").get_by_text("running", exact=True))
    assert "Looks fine" in main.locator(".steps li", has_text="merge").first.inner_text()

    # All failed reviews of this week.
    choose(page, link("link", name="Outcomes"))
    choose(page, main.get_by_role("link", name="failed reviews of this week"))
    see(page, has_script, main.get_by_text("One number is wrong."))
    assert main.locator("tbody tr").count() == 1
