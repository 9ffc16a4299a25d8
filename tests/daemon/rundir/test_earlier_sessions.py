"""Sessions that opencode kept in files before it had a database aren't read, and that is said."""

import json
from pathlib import Path

import pytest
from tests.handlers.layouts.opencode_rows import SESSION, Sessions, made

from runward.config.root import Root
from runward.daemon.rundir import earlier_sessions as earlier_sessions_module
from runward.daemon.rundir.earlier_sessions import earlier_session, earlier_sessions
from runward.daemon.rundir.explaining import explain
from runward.daemon.rundir.run_directories import Listing
from runward.daemon.rundir.session_places import Obstacle, list_places, sessions_under
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.watch.rounds import Scanned, settle
from runward.handlers.layouts.layout import LogLayout
from runward.handlers.layouts.opencode import OPENCODE_DATABASE
from runward.handlers.layouts.places import shape_of
from runward.handlers.layouts.registry import LAYOUTS

LAYOUT = LAYOUTS.named("opencode")
EARLIER = OPENCODE_DATABASE.earlier
assert EARLIER is not None
assert isinstance(LAYOUT, LogLayout)
SAID = "sessions of version 1.1.53 in files of their own, which Runward doesn't read: since version 1.2"


def kept(home: Path, place: str = "storage/session/global", content: str | None = None) -> Path:
    """A session as versions before 1.2 kept it."""
    path = home / place / "ses_e02e8fbc2ffe9fcoHvuhxXaiyU.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"id": path.stem, "version": "1.1.53"}) if content is None else content)
    return path


def listed(home: Path) -> Listing:
    found = list_places(str(home), shape_of(LAYOUT))
    assert isinstance(found, Listing)
    return found


@pytest.mark.parametrize("place", ["storage/session/global", "project/home-dev-app/storage/session/info"])
def test_a_home_that_has_only_such_sessions_is_a_problem_with_their_version(
    tmp_path: Path, place: str
) -> None:
    path = kept(tmp_path, place)
    first = place.split("/", maxsplit=1)[0]
    (problem,) = listed(tmp_path).problems
    assert problem.startswith(f"{first} has {SAID}")
    (obstacle,) = sessions_under(str(tmp_path), LAYOUTS)
    assert isinstance(obstacle, Obstacle)
    assert (obstacle.path, obstacle.message[: len(SAID) + 4]) == (f"{tmp_path}/{first}", f"has {SAID}")
    (of_file,) = sessions_under(str(path), LAYOUTS)
    assert of_file == Obstacle(str(path), obstacle.message)
    reasons = {each.layout: each.reason for each in explain(str(path), LAYOUTS, with_native=False).considered}
    assert reasons["opencode"] == f"it {obstacle.message}"
    assert "version" not in reasons["kilo"]


def test_the_daemon_says_it_of_the_root(tmp_path: Path) -> None:
    kept(tmp_path)
    root = WatchedRoot(Root(name="opencode", path=str(tmp_path), layout="opencode"))
    told = settle(Scanned(root, listed(tmp_path), (), 0.0, ()))
    assert told is not None
    assert SAID in told
    assert root.problem == told


@pytest.mark.parametrize("has_it", [True, False])
def test_sessions_that_the_database_took_over_are_no_problem(tmp_path: Path, has_it: bool) -> None:
    path = kept(tmp_path)
    database = made(tmp_path / "opencode.db")
    session = path.stem if has_it else SESSION
    Sessions(database).session(session).prompt().say()
    database.close()
    found = listed(tmp_path)
    assert list(found.directories) == [f"opencode.db/{session}"]
    assert len(found.problems) == (not has_it)
    obstacles = [each for each in sessions_under(str(tmp_path), LAYOUTS) if isinstance(each, Obstacle)]
    assert len(obstacles) == (not has_it)


def test_a_home_without_such_sessions_is_none(tmp_path: Path) -> None:
    (tmp_path / "storage/session_diff").mkdir(parents=True)
    (tmp_path / "storage/session/global").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    kept(tmp_path / "elsewhere")
    (tmp_path / "project").symlink_to(tmp_path / "elsewhere")
    assert listed(tmp_path).problems == ()
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "storage").symlink_to(tmp_path / "elsewhere/storage")
    assert listed(linked).problems == ()


def test_no_more_entries_are_looked_at_than_a_home_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path)
    monkeypatch.setattr(earlier_sessions_module, "MOST_ENTRIES", 2)
    assert listed(tmp_path).problems == (), "there are three: two directories, and the session in them"
    monkeypatch.setattr(earlier_sessions_module, "MOST_ENTRIES", 3)
    assert len(listed(tmp_path).problems) == 1


@pytest.mark.parametrize("content", ["", "[", "[1]", '{"version": 7}', '{"version": null}'])
def test_a_session_that_names_no_version_is_one_all_the_same(tmp_path: Path, content: str) -> None:
    path = kept(tmp_path, content=content)
    assert EARLIER is not None
    said = earlier_session(str(path), EARLIER)
    assert said is not None
    assert said.startswith("has sessions of a version that it doesn't name in files")
    assert earlier_sessions(str(tmp_path), ["storage"], EARLIER, ()) == ("storage", said)
