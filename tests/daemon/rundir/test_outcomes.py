"""The files of a run that hold outcomes: where they are looked for, in which order, and what is left out."""

import os
from pathlib import Path

import pytest

from runward.daemon.rundir import outcomes
from runward.daemon.rundir.outcomes import outcomes_digest, outcomes_in
from runward.handlers.model.files import Unreadable
from runward.handlers.model.outcomes import BeingRead
from runward.handlers.outcomes.reading import LARGEST


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run/artifacts").mkdir(parents=True)
    return tmp_path / "run"


def put(path: Path, at: int, content: str = "{}") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, ns=(at, at))


def found(run: Path) -> list[tuple[str, bytes | None]]:
    files = outcomes_in(str(run), str(run / "artifacts"))
    assert not isinstance(files, Unreadable | BeingRead), files
    return [(each.path, each.content) for each in files]


def test_outcomes_are_read_from_both_places_in_the_order_of_their_times(run: Path) -> None:
    put(run / "outcome.json", 5, "5")
    put(run / "artifacts/outcome.json", 9, "9")
    put(run / "outcomes/b.xml", 7, "7")
    put(run / "artifacts/outcomes/a.sarif", 7, "8")
    put(run / "outcomes/a.txt", 1)
    put(run / "outcomes/.hidden.json", 1)
    assert found(run) == [
        ("outcome.json", b"5"),
        ("outcomes/a.sarif", b"8"),
        ("outcomes/b.xml", b"7"),
        ("outcome.json", b"9"),
    ]


def test_a_run_without_any_has_none(run: Path) -> None:
    assert found(run) == []
    assert found(run / "gone") == []
    assert outcomes_in("/" + "a" * 300, "/" + "b/" * 3000) == ()


def test_links_pipes_and_what_is_too_large_are_not_read(run: Path, tmp_path: Path) -> None:
    put(tmp_path / "secret.json", 1, "secret")
    (run / "outcome.json").symlink_to(tmp_path / "secret.json")
    os.mkfifo(run / "artifacts/outcome.json")
    put(run / "outcomes/large.json", 1, "x" * (LARGEST + 1))
    (tmp_path / "elsewhere").mkdir()
    put(tmp_path / "elsewhere/a.json", 1, "elsewhere")
    (run / "artifacts/outcomes").symlink_to(tmp_path / "elsewhere")
    assert found(run) == [("outcomes/large.json", None)]


def test_two_hundred_files_and_eight_mebibytes_are_read_of_a_run(run: Path) -> None:
    for number in range(250):
        put(run / f"outcomes/{number:03}.json", number)
    assert len(found(run)) == outcomes.MOST_FILES
    for number in range(40):
        put(run / f"artifacts/outcomes/{number:03}.json", number, "x" * LARGEST)
    for number in range(250):
        (run / f"outcomes/{number:03}.json").unlink()
    contents = [content for _, content in found(run)]
    assert sum(len(each or b"") for each in contents) == outcomes.MOST_BYTES
    assert contents.count(None) == 8


def test_another_state_of_the_files_has_another_digest_and_nothing_else_has(run: Path) -> None:
    put(run / "notes.md", 1)
    put(run / "artifacts/notes.json", 1)
    assert outcomes_digest(str(run)) is None
    seen = set()
    for path, at in (
        ("outcome.json", 5),
        ("outcome.json", 6),
        ("artifacts/outcomes/a.xml", 5),
        ("outcomes/b.json", 5),
    ):
        put(run / path, at)
        seen.add(outcomes_digest(str(run)))
    assert len(seen - {None}) == 4
    before = outcomes_digest(str(run))
    put(run / "artifacts/notes.json", 9)
    put(run / "outcomes/a.txt", 9)
    assert outcomes_digest(str(run)) == before


def test_links_have_no_digest_of_what_they_lead_to(run: Path, tmp_path: Path) -> None:
    put(tmp_path / "elsewhere/outcome.json", 5)
    os.rmdir(run / "artifacts")
    (run / "artifacts").symlink_to(tmp_path / "elsewhere")
    assert outcomes_digest(str(run)) is None
    (run / "outcomes").symlink_to(tmp_path / "elsewhere")
    assert outcomes_digest(str(run)) is None
