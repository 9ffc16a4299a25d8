"""A real browser over a real daemon that serves the Studio. Whatever the browser complains about fails the test."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.conftest import place

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

__all__ = ["place"]

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
WIDE: Final = 1280
PHONE: Final = 390
HEIGHT: Final = 900


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """Chromium, without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((found for each in NAMES if (found := shutil.which(each))), None)
    if path is None:
        pytest.skip("there is no chromium: `apt-get install chromium`")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield browser
        browser.close()


@dataclass
class Person:
    """Somebody in front of the Studio of a place."""

    place: Place
    chromium: "Browser"
    complaints: list[str] = field(default_factory=list)
    contexts: "list[BrowserContext]" = field(default_factory=list)
    base: str = ""

    def logged_in(self, width: int = WIDE, *, has_script: bool = True) -> "Page":
        """A browser that followed the login link."""
        context = self.chromium.new_context(
            viewport={"width": width, "height": HEIGHT},
            java_script_enabled=has_script,
        )
        self.contexts.append(context)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text} {page.url}"))
        page.on("pageerror", lambda error: self.complaints.append(f"{error} {page.url}"))
        link = self.place.call("studio", "--print").out.strip()
        self.base = link.partition("/login")[0]
        page.goto(link)
        return page

    def open(self, page: "Page", path: str) -> None:
        """Open a page, and wait until it is live, if it can be."""
        page.goto(self.base + path)
        if page.evaluate("typeof htmx") != "undefined":
            page.get_by_role("status").get_by_text("live", exact=True).wait_for()


@pytest.fixture
def person(served: Place, chromium: "Browser") -> Iterator[Person]:
    """A person, whose browser must not have complained in the end."""
    made = Person(served, chromium)
    yield made
    for each in made.contexts:
        each.close()
    assert made.complaints == []


@pytest.fixture
def served(place: Place) -> Iterator[Place]:
    """A place with a daemon that serves the Studio."""
    serve_studio(place)
    with place.daemon():
        yield place


def serve_studio(place: Place) -> None:
    """Have the daemon of this place serve the Studio, always on the same port."""
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write("[studio]\n")


@pytest.fixture
def person_of_place(place: Place, chromium: "Browser") -> Iterator[Person]:
    """A person at a place whose daemon the test starts and stops itself."""
    serve_studio(place)
    made = Person(place, chromium)
    yield made
    for each in made.contexts:
        each.close()
    assert made.complaints == []
