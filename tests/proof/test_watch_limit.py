"""Over more directories than may be watched: it is said, scans stand in, and nothing is lost.

The limit is a real one: a user namespace has its own, and anyone who makes it may lower that.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.proof.place import Place
from tests.waiting import wait_for

LIMIT: Final = Path("/proc/sys/user/max_inotify_watches")

PROGRAM: Final = """\
import sys
from pathlib import Path
Path(sys.argv[1]).write_text(sys.argv[2])
# first
sys.argv = ["runward", "daemon"]
from runward.daemon.cli import main
main()
"""


WATCH_OTHERS: Final = """\
import ctypes, os
libc = ctypes.CDLL(None)
descriptor = libc.inotify_init()
for each in os.listdir({others!r}):
    assert libc.inotify_add_watch(descriptor, os.fsencode(os.path.join({others!r}, each)), 0x100) >= 0
"""


@contextmanager
def _limited(place: Place, watches: int, first: str = "") -> Iterator[None]:
    """A daemon in a user namespace in which no more than so many directories can be watched, ended with 0 afterwards.

    `first` is done in its process before it begins.
    """
    program = PROGRAM.replace("# first", first)
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        sys.executable,
        "-c",
        program,
        str(LIMIT),
        str(watches),
    ]
    environment = {
        "HOME": str(place.directory),
        "PATH": os.environ["PATH"],
        "RUNWARD_CONFIG": str(place.settings),
    }
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as daemon:
        try:
            wait_for(lambda: place.log("ready") or daemon.poll() is not None, "a daemon that is ready")
            yield
            daemon.terminate()
            assert daemon.wait(60) == 0
        finally:
            daemon.kill()


@pytest.fixture(scope="module", autouse=True)
def _limits_can_be_had() -> None:
    try:
        subprocess.run(
            ["unshare", "--user", "--map-root-user", "sh", "-c", f"echo 100 > {LIMIT}"],
            check=True,
            capture_output=True,
            timeout=60,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no user namespace with a limit of its own can be had here")


def _coverage(place: Place) -> dict[str, object]:
    coverage = place.status().get("coverage")
    return coverage if isinstance(coverage, dict) else {}


def _told(place: Place) -> str:
    return json.dumps(place.status().get("degraded"))


def test_a_root_of_more_directories_than_may_be_watched_is_scanned_and_told_of(place: Place) -> None:
    place.set_up(further="watch.limit_share = 1.0")
    for number in range(40):
        place.finished_run(f"before-{number}")
    going = place.start_run("going", [("report.md", True)])
    with _limited(place, 60):
        place.wait_ended(40)
        wait_for(lambda: _coverage(place).get("flat") == 1, "a root that is watched flat")
        wait_for(lambda: "watched flat" in _told(place), "a word about it")
        assert "more directories than the 59 that may be watched" in _told(place)
        assert "sysctl -w user.max_inotify_watches=8192" in _told(place)
        place.finished_run("new")
        (going / "artifacts" / "report.md").write_text("done\n")
        place.finish_run(going)
        place.wait_ended(42)
    assert set(place.statuses().values()) == {"completed"}


def test_a_limit_that_others_use_up_is_noticed_though_the_watcher_says_nothing(place: Place) -> None:
    # 100 are allowed and 82 are needed, but another program of this user has 50: the last ones get no watch, silently.
    place.set_up(further="watch.limit_share = 1.0")
    for number in range(40):
        place.start_run(f"run-{number}")
    others = place.directory / "others"
    for number in range(50):
        (others / str(number)).mkdir(parents=True)
    with _limited(place, 100, WATCH_OTHERS.format(others=str(others))):
        wait_for(lambda: _coverage(place).get("flat") == 1, "a root that is watched flat")
        wait_for(lambda: "can watch at most 100 directories" in _told(place), "a word about it")
        for number in range(40):
            place.finish_run(place.runs / f"run-{number}")
        place.wait_ended(40)


def test_without_any_watch_all_is_found_all_the_same(place: Place) -> None:
    with _limited(place, 0):
        wait_for(lambda: place.log("watch.failed"), "a word in the log")
        wait_for(lambda: "watched flat" in _told(place), "a word about it")
        run = place.finished_run("new")
        place.wait_ended(1)
        place.put_request({"type": "ScanRequested", "version": 1, "payload": {"at": 2.0}})
        wait_for(lambda: not list((place.state / "inbox").iterdir()), "a request that is taken")
        assert run.exists()
