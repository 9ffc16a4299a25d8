"""Every page, in both themes, on a desk and on a phone: axe-core finds nothing, and nothing scrolls sideways.

The pages are found as a person finds them: by the links from the lists. A route of the application that was not visited
fails the test.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.studio.browser.conftest import HEIGHT, PHONE, WIDE, Person
from tests.daemon.studio.crowded import LISTS, UNLINKED, WRONG, crowded, kind_of, unvisited

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["crowded"]

_OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]
"""The rules of axe-core whose answer depends on colours."""


@pytest.fixture
def visitor(crowded: Place, chromium: "Browser") -> Iterator[Person]:
    """A person at this place."""
    yield from at(crowded, chromium)


def at(place: Place, chromium: "Browser") -> Iterator[Person]:
    """A person. The browser reports each page that says what is wrong, which `faults` knows; all else is a fault."""
    made = Person(place, chromium)
    yield made
    for each in made.contexts:
        each.close()
    assert [each for each in made.complaints if "responded with a status of 40" not in each] == []


def links(page: "Page", base: str) -> list[str]:
    """Where the page leads, without downloads."""
    found: list[str] = page.evaluate("[...document.querySelectorAll('main a')].map(each => each.href)")
    addresses = [each.removeprefix(base).partition("#")[0] for each in found if each.startswith(base)]
    return [each for each in addresses if "download=" not in each and "format=json" not in each]


def faults(person: Person, page: "Page", path: str) -> Iterator[str]:
    """What is wrong with a page, in words."""
    answer = page.goto(person.base + path)
    assert answer is not None
    if (answer.status == 200) == (path in WRONG):
        yield f"{path}: {answer.status}"
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    page.evaluate(axe.axe_script)
    # A width changes nothing but the layout of what the daemon sent, and a theme nothing but colours.
    for width in (PHONE, WIDE):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        where = f"{path}, {width} pixels wide"
        beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if beyond > 0:
            yield f"{where}: {beyond} pixels too wide"
        page.emulate_media(color_scheme="light")
        yield from violations(page, where, {})
        page.emulate_media(color_scheme="dark")
        yield from violations(page, f"{where}, in dark", {"runOnly": {"type": "rule", "values": _OF_COLOURS}})


def violations(page: "Page", where: str, options: dict[str, object]) -> Iterator[str]:
    """What axe-core, which is in the page, finds on it, in words."""
    found = page.evaluate("options => axe.run(options)", {"resultTypes": ["violations"], **options})
    for each in found["violations"]:
        nodes = [node["html"][:160] for node in each["nodes"][:3]]
        yield f"{where}: {each['id']}: {each['help']}: {json.dumps(nodes)}"


@pytest.mark.prove
@pytest.mark.longest
@pytest.mark.timeout(600)  # ninety pages, each examined four times: a busy machine takes minutes
def test_no_page_has_a_fault_that_axe_finds_or_scrolls_sideways(visitor: Person) -> None:
    page = visitor.logged_in()
    waiting = [*LISTS, *UNLINKED, *WRONG]
    known = {kind_of(each) for each in waiting}
    visited: list[str] = []
    found: list[str] = []
    while waiting:
        path = waiting.pop(0)
        found += faults(visitor, page, path)
        visited.append(path)
        for link in links(page, visitor.base):
            if kind_of(link) not in known:
                known.add(kind_of(link))
                waiting.append(link)
    assert unvisited(visited) == []
    assert found == []


@pytest.mark.prove
def test_no_page_that_has_nothing_to_show_yet_has_a_fault_either(person: Person) -> None:
    page = person.logged_in()
    assert [each for path in LISTS for each in faults(person, page, path)] == []
