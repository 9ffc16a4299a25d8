"""Every page, in both themes, on a desk and on a phone: axe-core finds nothing, and nothing scrolls sideways."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.daemon.cli.calling import CONTRACT, Place
from tests.daemon.studio.browser.conftest import PHONE, WIDE, Person
from tests.daemon.studio.test_outcome_pages import CI, FLOW, GATE, OTHER, REVIEW, add
from tests.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHAIN = """\
name: release
trigger: {any_of: [{event: pr.opened}, {schedule: "0 2 * * *"}]}
steps:
  - {id: merge, action: merge, requires_approval: true}
"""
ACTION = '[actions.merge]\ncommand = ["sh", "-c", "echo merged"]\n'
LONG = "a" * 300
"""A word that nothing breaks."""

PAGES = (
    *("/", "/sessions", "/sessions?status=failed&search=x", "/sessions/nowhere", "/outcomes", "/chains"),
    *("/chains/release", "/invocations", "/shows", "/exchange", "/daemon", "/sessions?no=filter"),
    *("/sessions/native:runs/all", "/sessions/native:runs/open", f"/sessions/native:runs/{LONG[:200]}"),
    "/sessions/native:runs/all?part=journal",
)


@pytest.fixture
def place(place: Place) -> Place:
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write(ACTION)
    (place.directory / "release.yaml").write_text(CHAIN)
    assert place.call("chain", "define", "release.yaml").code == 0
    assert place.call("event", "emit", "pr.opened", "pr=7").code == 0
    add(place, "all", REVIEW, GATE, CI, FLOW, OTHER)
    place.add_run("open", contract=CONTRACT)
    place.add_run(LONG[:200], exit_code=0, contract=CONTRACT, command=["echo", LONG], cwd=f"/{LONG}")
    return place


def linked(page: "Page", person: Person, before: str, after: str) -> Iterator[str]:
    """The first page of a kind that another page links to."""
    person.open(page, before)
    found = page.locator(f"main a[href^='{after}']").first
    if found.count():
        yield str(found.get_attribute("href"))


@pytest.mark.prove
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, WIDE])
def test_no_page_has_a_fault_that_axe_finds_or_scrolls_sideways(
    person: Person, served: Place, theme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    wait_for(lambda: served.call("chain", "approvals", "--json").objects(), "the approval")
    wait_for(lambda: len(served.call("session", "list", "--json").objects()) == 3, "the runs")
    page = person.logged_in(width, theme=theme)
    further = [
        *linked(page, person, "/outcomes", "/outcomes/"),
        *linked(page, person, "/chains", "/chain-runs/"),
        *linked(page, person, "/invocations", "/invocations/"),
    ]
    assert len(further) >= 2
    faults = []
    for path in (*PAGES, *further):
        page.goto(person.base + path)
        beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if beyond > 0:
            faults.append(f"{path}: {beyond} pixels too wide")
        for each in axe.run(page).response["violations"]:
            nodes = [node["html"][:160] for node in each["nodes"][:3]]
            faults.append(f"{path}: {each['id']}: {each['help']}: {json.dumps(nodes)}")
    statuses = ("404", "400")  # the browser reports the pages that say what is wrong
    person.complaints[:] = [
        each for each in person.complaints if not any(status in each for status in statuses)
    ]
    assert faults == []
