"""The files of a play that are kept with it: where they lie, and that nothing leads elsewhere."""

from pathlib import Path

import pytest

from runward.daemon.rundir.play_files import play_files
from runward.handlers.model.files import Unreadable
from runward.handlers.model.sessions import Document
from runward.handlers.model.shows import PlayFiles


@pytest.fixture
def play(tmp_path: Path) -> Path:
    (tmp_path / "show/play").mkdir(parents=True)
    return tmp_path / "show/play"


def read(play: Path) -> PlayFiles:
    found = play_files(str(play))
    assert isinstance(found, PlayFiles), found
    return found


def told(document: Document | None) -> tuple[bytes, str | None]:
    assert document is not None
    return document.content, document.problem


def test_a_play_has_its_data_in_its_directory_and_its_plan_in_that_of_its_show(play: Path) -> None:
    assert read(play) == (None, None)
    (play / "_meta.json").write_text("{}")
    (play.parent / "_show.md").write_text("# Plan")
    (play / "_show.md").write_text("not this one")
    found = read(play)
    assert (told(found.meta), told(found.plan)) == ((b"{}", None), (b"# Plan", None))


def test_no_link_is_followed_and_nothing_that_is_too_large_is_read(play: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (play / "_meta.json").symlink_to(tmp_path / "secret")
    (play.parent / "_show.md").write_bytes(b"x" * ((1 << 20) + 1))
    found = read(play)
    assert told(found.meta) == (b"", "is not a regular file")
    assert told(found.plan) == (b"", f"is larger than {1 << 20} bytes")


@pytest.mark.parametrize("leads_away", [True, False])
def test_a_play_that_is_not_there_any_more_or_is_a_link_cannot_be_read(play: Path, leads_away: bool) -> None:
    play.rmdir()
    if leads_away:
        play.symlink_to("/etc")
    assert isinstance(play_files(str(play)), Unreadable)
