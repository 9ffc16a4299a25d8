"""How the demo ends: on a terminal with a link that logs in, and with Ctrl-C."""

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from tests.docs.pages import ROOT
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.prove

ENDING = """
import sys
from pathlib import Path
from tests.demo import studio
from tests.demo.demo import Demo
from tests.demo.telling import Telling

demo = Demo(Path(sys.argv[1]))
telling = Telling(demo.place)
demo.prepare()
daemon = demo.start_daemon()
studio.say_where(demo, telling)
demo.stop_daemon(daemon)
telling.say("ended")
"""


_LINK = rb"Studio: http://([0-9a-f]{8}\.localhost):(\d+)(/login\?code=[0-9a-f]+)\r\n"


def start(place: Path, terminal: int | None, **environment: str) -> subprocess.Popen[bytes]:
    place.mkdir()
    at = subprocess.PIPE if terminal is None else terminal
    given = {key: value for key, value in os.environ.items() if key != "CI"}
    return subprocess.Popen(
        [sys.executable, "-c", ENDING, str(place)],
        cwd=ROOT,
        env={**given, **environment},
        stdin=terminal if terminal is not None else subprocess.DEVNULL,
        stdout=at,
        start_new_session=True,
    )


def test_on_a_terminal_the_demo_ends_with_a_link_that_logs_in_until_ctrl_c(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    demo = start(tmp_path / "place", theirs)
    os.close(theirs)
    shown = b""
    while (link := re.search(_LINK, shown)) is None:
        shown += os.read(ours, 4096)
    host, port, path = (each.decode() for each in link.groups())
    address = f"http://127.0.0.1:{port}{path}"
    answer = httpx2.get(address, headers={"host": f"{host}:{port}"}, timeout=PATIENCE_S)
    assert (answer.status_code, "runward_studio" in answer.headers["set-cookie"]) == (303, True)
    os.killpg(demo.pid, signal.SIGINT)
    while b"ended" not in shown:
        shown += os.read(ours, 4096)
    assert demo.wait() == 0
    os.close(ours)


def test_in_a_pipe_and_in_ci_it_just_ends(tmp_path: Path) -> None:
    piped = start(tmp_path / "piped", None)
    ours, theirs = pty.openpty()
    in_ci = start(tmp_path / "ci", theirs, CI="true")
    os.close(theirs)
    assert re.search(rb"(?s)^Next: .*\nStudio: .*\nended\n$", piped.communicate()[0])
    shown = b""
    while b"ended" not in shown:
        shown += os.read(ours, 4096)
    assert b"http:" not in shown, "nobody is there who could follow a link"
    assert in_ci.wait() == 0
    os.close(ours)
