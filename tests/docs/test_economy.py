"""The economy in one file, on the page for people who write agents: it prints what the page says."""

from pathlib import Path

import pytest
from tests.docs.pages import pages
from tests.docs.scratch import Home

from runward.config.exchange import Executor
from runward.daemon.sandbox.workers import Job, execute

BESIDE_A_DAEMON = """
runward daemon --quiet &
trap "kill %1; wait %1" EXIT
until runward status > /dev/null 2>&1; do sleep 0.1; done
"""


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_it_prints_what_the_page_says(tmp_path: Path) -> None:
    tried = execute(Job("def run(): return 1", ()), Executor())
    if tried.code == "not_configured":
        pytest.skip(f"this machine can't run code: {tried.error}")
    (page,) = (each for each in pages() if each.name == "docs/exchange.md")
    blocks = page.blocks()
    (at,) = (number for number, block in enumerate(blocks) if "economy.py" in block.text)
    assert blocks[at + 1].language == "text"
    ended = Home(tmp_path).run(BESIDE_A_DAEMON + blocks[at].text, 200.0)
    assert (ended.returncode, ended.stdout) == (0, blocks[at + 1].text), ended.stderr
