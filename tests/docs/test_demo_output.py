"""The output of `make demo` on the first page is what the demo prints, but for times and places."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, Block, page

SHOWN = [block for block in page("README.md").blocks() if "demo" in block.notes]


def _plain(text: str) -> list[str]:
    """The lines without what differs from run to run: times, places, hashes, and whether a look came before the end."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+", "TIME", text)
    text = re.sub(r"\b\d+(\.\d+)?s( ago)?\b|\bnow\b", "DURATION", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)
    text = re.sub(r'"(size|latency_ms)": \d+', r'"\1": COUNT', text)
    text = text.replace('"prev": null', '"prev": "sha256:HASH"')  # whichever session was over first
    text = re.sub(r"/\S*/runs/", "RUNS/", text)
    text = text.replace(", and was over when it was first seen", "")
    return [re.sub(r" +", " ", line.strip()) for line in text.strip().splitlines()]


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_what_the_first_page_shows_is_what_the_demo_prints(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.demo.demo"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert SHOWN
    for block in SHOWN:
        assert _plain(block.text) == _plain(_printed(ended.stdout, block)), block.place


def _printed(output: str, block: Block) -> str:
    _, prompt, rest = output.partition(f"$ {block.notes['demo']}\n")
    assert prompt, f"the demo doesn't show {block.notes['demo']}"
    return re.split(r"\n\n(?:\$ |The journals:|One byte of )", rest, maxsplit=1)[0]
