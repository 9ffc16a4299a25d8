"""`runward backup`: what people and scripts see of it."""

import os
from pathlib import Path

from tests.daemon.cli.calling import Place

from runward.daemon.backup import examine


def test_a_store_is_copied_while_its_daemon_runs(place: Place) -> None:
    place.add_run("one", exit_code=0)
    place.daemon_once()
    with place.daemon():
        result = place.call("backup", "copy.db", "--json")
    assert result.code == 0, result.err
    found = examine(place.directory / "copy.db")
    told = result.json()
    assert isinstance(told, dict)
    assert told == {
        "file": str(place.directory / "copy.db"),
        "size": found.size,
        "version": found.version,
        "epoch": 2,
        "sessions": 1,
        "events": found.head.seq,
        "head": found.head.hash,
        "last_event_at": told["last_event_at"],
        "duration_s": told["duration_s"],
    }


def test_people_are_told_what_was_copied_and_that_it_lies_beside_the_store(place: Place) -> None:
    place.daemon_once()
    result = place.call("backup", "state/copy.db")
    assert result.code == 0
    assert "state/copy.db: 0 sessions, 0 events up to -" in result.out
    assert "it is on the same disk as the store" in result.err


def test_what_exists_is_refused_without_force(place: Place) -> None:
    place.daemon_once()
    (place.directory / "copy.db").write_text("dear")
    result = place.call("backup", "copy.db")
    assert (result.code, (place.directory / "copy.db").read_text()) == (2, "dear")
    assert "--force" in result.err
    assert place.call("backup", "copy.db", "--force").code == 0
    assert examine(place.directory / "copy.db").epoch == 1


def test_a_directory_is_no_file_to_copy_to_with_or_without_force(ended: Place, tmp_path: Path) -> None:
    place = ended.copy_to(tmp_path)
    for words in ((), ("--force",)):
        refused = place.call("backup", *words, "playbooks")
        assert refused.code == 2
        assert "'playbooks' is a directory" in refused.err


def test_an_empty_path_is_not_the_current_directory(ended: Place) -> None:
    for words in (["backup", ""], ["restore", ""], ["inspect", ""], ["contract", "verify", "--root", ""]):
        refused = ended.call(*words)
        assert refused.code == 2
        assert "an empty path names nothing" in refused.err


def test_the_store_itself_is_never_replaced(place: Place) -> None:
    place.daemon_once()
    (place.directory / "alias").symlink_to(place.state)
    before = (place.state / "runward.db").read_bytes()
    for name in ("state/runward.db", "alias/runward.db", "state/runward.db-wal"):
        result = place.call("backup", name, "--force")
        assert result.code == 2, name
        assert "the store itself" in result.err
    assert (place.state / "runward.db").read_bytes() == before


def test_without_a_store_or_a_directory_to_write_to_it_says_so(place: Place) -> None:
    assert place.call("backup", "copy.db").code == 3
    place.daemon_once()
    result = place.call("backup", "nowhere/copy.db")
    assert (result.code, "make its directory" in result.err) == (3, True)


def test_a_newer_store_is_refused_with_the_fix(place: Place) -> None:
    place.daemon_once()
    place.change_store("pragma user_version = 9999")
    result = place.call("backup", "copy.db")
    assert result.code == 78
    assert "install that one" in result.err
    assert not Path(place.directory, "copy.db").exists()
    assert [name for name in os.listdir(place.directory) if "copy" in name] == []
