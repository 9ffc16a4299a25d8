"""`runward top` in a real tmux, as people have it open all day."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.daemon.cli.everyday import Everyday
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux here")


@pytest.fixture
def tmux(everyday: Everyday, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """A server of its own, with a shell in a window of 80 x 24."""
    environment = everyday.environment | {"LANG": "C.UTF-8", "TMUX_TMPDIR": str(tmp_path)}

    def call(*arguments: str) -> str:
        command = ["tmux", "-f", os.devnull, "-L", "runward-test", *arguments]
        called = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=True
        )
        return called.stdout

    call(
        "new-session",
        "-d",
        "-x",
        "80",
        "-y",
        "24",
        "-c",
        str(everyday.directory),
        "env 'PS1=prompt> ' /bin/sh",
    )
    yield call
    call("kill-server")


def test_it_is_drawn_resized_and_gone(everyday: Everyday, tmux: Callable[..., str]) -> None:
    def shows(text: str) -> None:
        wait_for(lambda: text in tmux("capture-pane", "-p"), text)

    shows("prompt>")
    tmux("send-keys", f"stty -g; {shlex.join(everyday.argv('top'))}; stty -g; echo over", "Enter")
    shows("keys  q")
    page = tmux("capture-pane", "-p").split("\n")
    assert len(page[:-1]) == 24
    assert page[0].startswith("Runward  not running")
    assert page[3].startswith("> ! waiting")
    tmux("send-keys", "Down")
    wait_for(lambda: tmux("capture-pane", "-p").split("\n")[4].startswith("> ! waiting"), "the next row")
    tmux("resize-window", "-x", "120", "-y", "40")
    shows("DIRECTORY")
    tmux("send-keys", "q")
    shows("\nover\n")
    wide = tmux("capture-pane", "-p", "-J")
    assert "keys  q" not in wide, "the page is gone"
    modes = [line.strip() for line in wide.split("\n") if line.count(":") > 20 and "stty" not in line]
    assert len(modes) == 2
    assert len(set(modes)) == 1
