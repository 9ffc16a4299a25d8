"""`make demo` shows three screens in at most 60 lines, and the first page shows lines of them, but for times and ids."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.daemon.cli.drawn import draw, widest
from tests.daemon.cli.everyday import Everyday
from tests.docs.pages import ROOT, Block, page

SHOWN = [block for block in page("README.md").blocks() if "demo" in block.notes]
MOST_LINES, MOST_COLUMNS = 60, 80
FIRST_SCREEN = 24
_SCREENS = (
    (), ("status",), ("session", "list"), ("session", "list", "--failed"), ("usage",), ("usage", "--by", "model"),
    ("usage", "--by", "project"), ("chain", "runs"), ("chain", "list"), ("chain", "approvals"), ("root", "list"),
    ("why", "chain:pr-review"), ("--help",),
)  # fmt: skip
"""Those that need no id."""


def _plain(text: str) -> list[str]:
    """The lines without what differs from run to run: times, places, ids."""
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"\b\d+(\.\d+)?[smh]\b|\bnow\b", "DURATION", text)
    text = re.sub(r"\bcr_[0-9a-f]{12}\b", "RUN", text)
    text = re.sub(r"\S*…$", "…", text, flags=re.MULTILINE)
    text = re.sub(r"-C \S+/repository\s+log", "-C REPOSITORY log", text)
    return [re.sub(r" +", " ", line.strip()) for line in text.strip().splitlines()]


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_the_demo_is_short_and_the_first_page_shows_what_it_prints() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.demo.demo"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": "/tmp", "DEMO": ""},  # a short path, as a person has it: lines name it
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    kept = Path(re.findall(r"^Kept in (\S+)", ended.stdout, re.MULTILINE)[0])
    _expect_short_screens(kept)
    shutil.rmtree(kept)
    lines = ended.stdout.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= MOST_COLUMNS
    assert [line.partition(":")[0] for line in lines[-2:]] == ["Next", "Studio"]
    assert SHOWN
    for block in SHOWN:
        prompt, *lines = _plain(block.text)
        assert prompt == f"$ {block.notes['demo']}"
        rest = iter(_plain(_printed(ended.stdout, block)))
        assert [line for line in lines if line not in rest] == [], block.place


def _expect_short_screens(kept: Path) -> None:
    """Each screen of what the demo leaves behind fits a terminal of 80 columns and 24 rows."""
    place = Everyday(kept)
    place.environment |= {"RUNWARD_CONFIG": str(kept / "runward.toml"), "RUNWARD_PAGER": ""}
    place.now = time.time()
    sessions = [str(each["key"]) for each in place.call("session", "list", "--json").objects()]
    runs = [str(each["chain_run_id"]) for each in place.call("chain", "runs", "--json").objects()]
    assert (len(sessions), len(runs)) >= (11, 3)
    screens = [
        *_SCREENS,
        *((*command, key) for key in sessions for command in (("why",), ("session", "show"))),
        *(("why", f"chain:{run}") for run in runs),
    ]
    drawn = {" ".join(command): draw(place, (80, 24), *command) for command in screens}
    assert {command: len(each.lines) for command, each in drawn.items() if len(each.lines) > 24} == {}
    assert {command: widest(each) for command, each in drawn.items() if widest(each) > 80} == {}


def _printed(output: str, block: Block) -> str:
    _, prompt, rest = output.partition(f"$ {block.notes['demo']}\n")
    assert prompt, f"the demo doesn't show {block.notes['demo']}"
    return re.split(r"\n\n(?:\$ |Kept in )", rest, maxsplit=1)[0]


def test_the_first_screen_says_what_it_is_for_whom_what_it_prints_and_how_to_begin() -> None:
    first = "\n".join(page("README.md").visible().splitlines()[:FIRST_SCREEN])
    for told in ("daemon for Linux", "Claude Code", "Needs you", "uv tool install", "runward init"):
        assert told in first
    assert len(page("README.md").text.splitlines()) <= 150
    code = [line for block in page("README.md").blocks() for line in block.text.splitlines()]
    assert max(map(len, code)) <= MOST_COLUMNS
