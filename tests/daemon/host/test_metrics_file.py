"""The file for a collector of metrics, which a daemon has replaced: it is whole, and whatever goes wrong with it is shown."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.conftest import place
from tests.waiting import PATIENCE_S, wait_for

__all__ = ["place"]


@pytest.fixture
def file(place: Place) -> Path:
    path = place.directory / "collected/runward.prom"
    path.parent.mkdir()
    configure(place, "collected/runward.prom")
    return path


def configure(place: Place, path: str | None) -> None:
    table = "" if path is None else f'[metrics]\ntextfile = "{path}"\n'
    settings = place.directory / "runward.toml"
    settings.with_suffix(".new").write_text(f'state_dir = "state"\n{table}')
    settings.with_suffix(".new").rename(settings)


def says(file: Path, line: str) -> Callable[[], bool]:
    return lambda: file.exists() and f"\n{line}\n" in file.read_text()


def trouble(place: Place) -> list[str]:
    degraded = place.call("status", "--json").object()["degraded"]
    assert isinstance(degraded, list)
    return [str(each) for each in degraded if str(each).startswith("metrics.textfile")]


def test_the_file_says_that_the_daemon_runs_and_that_it_ended(place: Place, file: Path) -> None:
    with place.daemon():
        wait_for(says(file, "runward_up 1"), "the file")
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
        assert os.listdir(file.parent) == [file.name]
    assert says(file, "runward_up 0")()
    assert os.listdir(file.parent) == [file.name]


def test_a_killed_daemon_is_not_said_to_run(place: Place, file: Path) -> None:
    with place.daemon() as daemon:
        wait_for(says(file, "runward_up 1"), "the file")
        daemon.kill()
        wait_for(says(file, "runward_up 0"), "the last file")


def test_a_path_that_can_not_be_written_is_shown_and_the_daemon_judges_on(place: Place, file: Path) -> None:
    file.mkdir()
    with place.daemon():
        wait_for(lambda: trouble(place), "the trouble")
        assert str(file) in trouble(place)[0]
        place.add_run("one", exit_code=0)
        assert place.call("session", "wait", "one").code == 0
        assert place.call("status").code == 0


def test_a_file_that_is_no_longer_wanted_is_removed(place: Place, file: Path) -> None:
    with place.daemon() as daemon:
        wait_for(says(file, "runward_up 1"), "the file")
        configure(place, "collected/other.prom")
        daemon.send_signal(signal.SIGHUP)
        other = file.with_name("other.prom")
        wait_for(says(other, "runward_up 1"), "the other file")
        assert os.listdir(file.parent) == [other.name]
        configure(place, None)
        daemon.send_signal(signal.SIGHUP)
        wait_for(lambda: not os.listdir(file.parent), "an empty directory")
    assert not os.listdir(file.parent)


def test_it_is_replaced_again_and_again_and_what_is_wrong_is_said_once(place: Place, file: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom runward.daemon.host import metrics_file\n"
        "metrics_file.PERIOD_S = 0.05\nmetrics_file.main(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    place.daemon_once()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(place.state), str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=place.environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"\n"
        seen = file.stat().st_ino, file.stat().st_mtime_ns
        wait_for(lambda: (file.stat().st_ino, file.stat().st_mtime_ns) != seen, "the next file")
        file.parent.rename(file.parent.with_name("away"))
        assert str(file).encode() in process.stdout.readline()
        file.parent.with_name("away").rename(file.parent)
        assert process.stdout.readline() == b"\n"
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(PATIENCE_S) == 0
    assert says(file, "runward_up 0")()
