"""The daemon believes a launcher's words only of the launcher itself, as the daemon's user: the kernel says who spoke."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.world import imposter
from tests.daemon.world.imposter import ANOTHER, CHANGED, FOREIGN
from tests.daemon.world.test_reused_launchers import Listening
from tests.daemon.world.test_starting import EPOCH
from tests.waiting import wait_for

from runward.daemon.launch.ticket import has_ticket
from runward.daemon.world import starting
from runward.daemon.world.processes import NotBegun

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
WHO: Final = [ANOTHER, pytest.param(FOREIGN, marks=only_root), pytest.param(CHANGED, marks=only_root)]


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Listening]:
    made = Listening(tmp_path)
    yield made
    made.close()


def let(monkeypatch: pytest.MonkeyPatch, who: str, method: str) -> None:
    """Have `who` say what launchers say by that method."""
    monkeypatch.setattr(starting, "LAUNCHER", (sys.executable, "-P", imposter.__file__, method, who))


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("word", ["ended", "next_order"])
def test_who_is_not_the_launcher_gets_no_order(
    starter: Listening, monkeypatch: pytest.MonkeyPatch, who: str, word: str
) -> None:
    let(monkeypatch, who, word)
    starter.begin("one", "true")
    free = list(starter.listening._free)
    starter.end("one")
    assert starter.listening._free == free
    assert starter.read("one", "exit.json")["cause"] == "exited"


@pytest.mark.parametrize("who", WHO)
def test_who_is_not_the_launcher_announces_no_run(
    starter: Listening, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    let(monkeypatch, who, "announce")
    starter.listening.expect_start(EPOCH)
    order = starter.order("one", "true")
    assert starter.listening.start(order, EPOCH) == NotBegun(starting._NOT_UNDERSTOOD)
    # It goes on alone, by the inbox.
    wait_for((starter.root / "one" / "exit.json").exists, "the end of the run")
    assert has_ticket(starter.state, order.key)
