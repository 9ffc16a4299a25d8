"""`make screenshots`: every page of the Studio in both themes, over what the demo leaves behind, as build/screenshots/*.png.

The picture in README.md is made anew, too.

It needs a Chromium (Debian: `apt-get install chromium`).
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from playwright.sync_api import sync_playwright
from tests.demo.demo import Demo, played
from tests.demo.telling import Telling

OUT: Final = Path("build/screenshots")
FIRST_PAGE: Final = Path("docs/images")
ON_FIRST_PAGE: Final = "session"
"""The page whose upper part README.md shows."""

WIDTH, HEIGHT = 1280, 780
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
SHOWS: Final = (
    '\n[[roots]]\nname = "shows"\npath = "shows"\nlayout = "auto"\nhistory = "live"\nsettle = "100ms"\n'
)


class _WithShows(Demo):
    """The demo, and a root for shows."""

    def prepare(self) -> Path:
        repository = super().prepare()
        (self.place / "shows").mkdir()
        with self.config.open("a") as settings:
            settings.write(SHOWS)
        return repository


def main() -> int:
    """Play the demo, and take the pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("missing: chromium\n    install it with: sudo apt-get install chromium", file=sys.stderr)
        return 1
    demo = _WithShows(Path(tempfile.mkdtemp(prefix="runward-demo-")))
    with played(demo, Telling(demo.place)):
        _add_show(demo)
        _take(demo, chromium)
    shutil.rmtree(demo.place)
    return 0


def _take(demo: Demo, chromium: str) -> None:
    for directory in (OUT, FIRST_PAGE):
        directory.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for theme in THEMES:
            page = browser.new_page(color_scheme=theme, viewport={"width": WIDTH, "height": HEIGHT})
            link = demo.runward("studio", "--print", quiet=True).stdout.strip()
            page.goto(link)
            base = link.partition("/login")[0]
            for name, path in _pages(demo).items():
                page.goto(base + path)
                page.screenshot(path=OUT / f"{name}-{theme}.png", full_page=True)
                print(OUT / f"{name}-{theme}.png", flush=True)
                if name == ON_FIRST_PAGE:
                    page.screenshot(path=FIRST_PAGE / f"studio-{theme}.png")
        browser.close()


def _pages(demo: Demo) -> dict[str, str]:
    """The address of each page, by the name of its picture."""
    sessions = demo.verdicts()
    outcomes = _listed(demo, "artifact", "list")
    runs = _listed(demo, "chain", "runs")
    invocations = _listed(demo, "invocation", "list")
    shared = _listed(demo, "exchange", "artifact", "list")
    principals = _listed(demo, "exchange", "principal", "list")
    silent = quote(str(sessions["silent-reviewer"]["key"]))
    foreign = next(each for each in sessions.values() if each["layout"] == "claude-code")
    return {
        "attention": "/",
        "sessions": "/sessions",
        "session": f"/sessions/{silent}",
        "session-foreign": f"/sessions/{quote(str(foreign['key']))}",
        "file": f"/sessions/{silent}?log=stdout",
        "outcomes": "/outcomes",
        "outcome": f"/outcomes/{outcomes[0]['id']}",
        "chains": "/chains",
        "chain": "/chains/pr-review",
        "chain-run": f"/chain-runs/{runs[0]['chain_run_id']}",
        "invocations": "/invocations",
        "invocation": f"/invocations/{quote(str(invocations[0]['invocation_id']))}",
        "shows": "/shows",
        "show": "/shows/retry-queue",
        "exchange": "/exchange",
        "exchange-artifact": f"/exchange/artifacts/{quote(str(shared[0]['id']))}",
        "exchange-principal": f"/exchange/principals/{quote(str(principals[0]['id']))}",
        "daemon": "/daemon",
        "not-found": "/nowhere",
    }


def _listed(demo: Demo, *words: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(demo.runward(*words, "--json", quiet=True).stdout)
    return found


def _add_show(demo: Demo) -> None:
    """A show of two plays: the first passed its gate, the second was rejected."""
    show = demo.place / "shows" / "retry-queue"
    verdicts = {
        "play-1": {"gate_passed": True, "feedback": "Retries are bounded."},
        "play-2": {
            "gate_passed": False,
            "feedback": "The queue forgets what it retried.",
            "next_action": "Store the tries.",
            "criteria": [
                {"name": "tests pass", "passed": True},
                {"name": "survives a restart", "passed": False},
            ],
        },
    }
    for name, verdict in verdicts.items():
        (show / name).mkdir(parents=True)
        (show / name / "_intent.md").write_text("Retry what failed.\n")
        meta = {"agent": "implementer", "depends_on": [] if name == "play-1" else ["play-1"]}
        (show / name / "_meta.json").write_text(json.dumps(meta))
        (show / name / "_verdict.json").write_text(json.dumps(verdict))
    demo.wait(lambda: len(_listed(demo, "show", "list")) > 0, "the show")


if __name__ == "__main__":
    sys.exit(main())
