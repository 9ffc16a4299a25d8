"""A store that can't be written, or not by this program: a clear message, its exit code, no traceback."""

import sqlite3
from pathlib import Path

from tests.proof.disks import small_disk
from tests.proof.place import Place
from tests.proof.processes import Forks

TRY_AGAIN = 75
WRONG_VERSION = 78


def _refused(place: Place, code: int = TRY_AGAIN) -> str:
    daemon = place.daemon(unprivileged=True)
    assert daemon.wait() == code, daemon.said()
    said = daemon.said()
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if line.startswith("runward: ")]
    assert str(place.state) in line
    return line


def test_a_state_directory_on_a_read_only_file_system_is_refused(tmp_path: Path, forks: Forks) -> None:
    with small_disk(tmp_path / "state", "4m") as disk:
        place = Place(tmp_path, forks)
        place.finished_run("before")
        assert place.once() == 0
        disk.forbid_writing()
        assert "Read-only file system" in _refused(place)
        assert place.once() == TRY_AGAIN


def test_a_store_that_its_user_may_not_write_is_refused(place: Place) -> None:
    assert place.once() == 0
    for path in place.state.glob("runward.db*"):
        path.chmod(0o400)
    assert "readonly database" in _refused(place)


def test_a_state_directory_that_its_user_may_not_write_is_refused(place: Place) -> None:
    place.state.mkdir()
    place.state.chmod(0o500)
    assert "Permission denied" in _refused(place)


def test_a_store_that_is_no_database_is_refused(place: Place) -> None:
    place.state.mkdir()
    (place.state / "runward.db").write_text("this is not a database, " * 100)
    assert "file is not a database" in _refused(place)


def test_a_store_of_a_newer_version_is_refused(place: Place) -> None:
    assert place.once() == 0
    connection = sqlite3.connect(place.state / "runward.db")
    connection.execute("pragma user_version = 9999")
    connection.close()
    assert "install the newer one" in _refused(place, WRONG_VERSION)
