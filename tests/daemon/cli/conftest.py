"""Places that a real daemon has recorded runs in."""

from pathlib import Path

import pytest
from tests.daemon.cli.calling import CONTRACT, Place
from tests.daemon.cli.everyday import Everyday, make


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A furnished place in which no daemon has run yet; a test may do with it what it likes."""
    made = Place(tmp_path)
    made.furnish()
    return made


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place with one recorded run of each kind, for tests that only read.

    `silent` exited with 0 without its review, `crashed` with 3 (its notes missing), `careless` left only
    its optional notes out, `open` still runs, `broken` is a directory whose run.json is not JSON.
    """
    made = Place(tmp_path_factory.mktemp("recorded"))
    made.furnish()
    delivered = {"review.md": "fine", "report.md": "y" * 1300, "notes.md": "n"}
    made.add_run("delivered", exit_code=0, contract=CONTRACT, files=delivered)
    made.add_run("careless", exit_code=0, contract=CONTRACT, files={"review.md": "r", "report.md": "r"})
    made.add_run("silent", exit_code=0, contract=CONTRACT, files={"review.md": "", "report.md": "r"})
    made.add_run("crashed", exit_code=3, contract=CONTRACT, files={"review.md": "r", "report.md": "r"})
    made.add_run("plain", exit_code=0, started_at="2026-03-02T03:04:05Z", finished_at="2026-03-02T03:04:06Z")
    made.add_run("open", started_at="2026-02-02T03:04:05Z", playbook="plain")
    (made.runs / "broken").mkdir()
    (made.runs / "broken/run.json").write_text('{"schema":')
    made.daemon_once()
    return made


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place with one recorded run, `stuck`, to be copied and bent."""
    made = Place(tmp_path_factory.mktemp("ended"))
    made.furnish()
    made.add_run("stuck", exit_code=0)
    made.daemon_once()
    return made


@pytest.fixture(scope="session")
def everyday(tmp_path_factory: pytest.TempPathFactory) -> Everyday:
    """A day's work, for tests that only read."""
    return make(tmp_path_factory.mktemp("everyday"))
