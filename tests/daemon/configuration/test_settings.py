"""Settings that nobody named are obeyed only where they are this user's own, or root's."""

import os
import time
from pathlib import Path

import pytest
from tests.daemon.disk.test_state_rights import STRANGER, give_away

from runward.config.settings import Settings
from runward.daemon.configuration import settings_files
from runward.daemon.configuration.settings import changed_files, load_settings
from runward.daemon.configuration.settings_files import SettingsFiles


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A settings file in the working directory that names a state directory of its own."""
    path = tmp_path / "work/runward.toml"
    path.parent.mkdir()
    path.write_text("state_dir = 'mine'\n")
    return path


def loaded(directory: Path, config: str | None = None, **environment: str) -> Settings | str:
    """The settings in a directory, or what is wrong with them."""
    parsed = load_settings(config, {"HOME": str(directory.parent), **environment}, str(directory))
    return parsed.value or "; ".join(problem.render() for problem in parsed.errors)


def is_obeyed(told: Settings | str, file: Path) -> bool:
    return isinstance(told, Settings) and told.state_dir == str(file.parent / "mine")


def test_a_file_of_ones_own_in_the_working_directory_is_obeyed(file: Path) -> None:
    file.chmod(0o664)  # as under the umask 002 of users with a group of their own
    assert is_obeyed(loaded(file.parent), file)


def test_another_users_file_is_refused_unless_it_is_named(file: Path) -> None:
    give_away(file)
    told = loaded(file.parent)
    assert isinstance(told, str)
    assert told.startswith(f"{file}: belongs to {STRANGER}: settings that you did not name")
    assert "--config FILE" in told
    assert is_obeyed(loaded(file.parent, "runward.toml"), file)
    assert is_obeyed(loaded(file.parent, RUNWARD_CONFIG=str(file)), file)


def test_so_is_one_that_another_users_link_leads_to(file: Path) -> None:
    file.rename(file.with_name("elsewhere.toml"))
    file.symlink_to("elsewhere.toml")
    assert is_obeyed(loaded(file.parent), file)
    try:
        os.lchown(file, STRANGER, -1)
    except PermissionError:
        pytest.skip("only root may give a link away")
    assert f"belongs to {STRANGER}" in str(loaded(file.parent))


def test_a_file_that_replaces_ones_own_while_it_is_read_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = file.with_name("other.toml")
    other.write_text("state_dir = 'theirs'\n")
    give_away(other)
    really_open = os.open

    def exchanged_before(path: str, flags: int) -> int:
        if path == str(file) and other.exists():
            other.replace(file)
        return really_open(path, flags)

    monkeypatch.setattr(os, "open", exchanged_before)
    assert f"belongs to {STRANGER}" in str(loaded(file.parent))


def test_a_directory_in_place_of_the_file_is_refused_and_not_held_open(file: Path) -> None:
    file.unlink()
    file.mkdir()
    before = os.listdir("/proc/self/fd")
    assert f"{file}: can't be read: Is a directory" in str(loaded(file.parent))
    assert os.listdir("/proc/self/fd") == before


def test_another_users_drop_in_is_refused(file: Path) -> None:
    drop_in = file.parent / "runward.toml.d/evil.toml"
    drop_in.parent.mkdir()
    drop_in.write_text("batch = 1\n")
    give_away(drop_in)
    assert str(loaded(file.parent)).startswith(f"{drop_in}: belongs to {STRANGER}")


def test_what_every_user_may_write_is_refused(file: Path) -> None:
    file.chmod(0o666)
    assert f"chmod o-w {file}" in str(loaded(file.parent))
    assert is_obeyed(loaded(file.parent, str(file)), file)


def test_another_users_settings_in_a_home_are_refused_too(tmp_path: Path) -> None:
    file = tmp_path / ".config/runward/runward.toml"
    file.parent.mkdir(parents=True)
    file.write_text("batch = 1\n")
    (tmp_path / "work").mkdir()
    give_away(file)
    assert f"{file}: belongs to {STRANGER}" in str(loaded(tmp_path / "work"))


def _looks(home: Path, **environment: str) -> SettingsFiles:
    return SettingsFiles(None, {"HOME": str(home), **environment})


def test_a_look_sees_every_file_that_would_decide_about_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    (tmp_path / "here").mkdir()
    (tmp_path / ".config/runward").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    files = _looks(tmp_path)
    user, here = tmp_path / ".config/runward/runward.toml", tmp_path / "here/runward.toml"
    drop_in = Path(f"{here}.d/more.toml")
    drop_in.parent.mkdir()

    def linked() -> None:
        here.unlink()
        here.symlink_to(user)

    seen = [files.first_look]
    for change in (
        lambda: user.write_text("batch = 7\n"),
        lambda: here.write_text("batch = 8\n"),
        lambda: here.chmod(0o666),
        lambda: drop_in.write_text("batch = 9\n"),
        lambda: drop_in.unlink(),
        linked,
        lambda: (tmp_path / ".claude").mkdir(),
        lambda: here.unlink(),
    ):
        assert files.look() == seen[-1], "nothing changed"
        change()
        assert files.look() != seen[-1]
        seen.append(files.look())


def test_settings_that_change_again_while_a_look_sees_them_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "runward.toml"
    new = iter(["batch = 77\n"])
    monkeypatch.setattr(time, "sleep", lambda seconds: [file.write_text(text) for text in new])
    file.write_text("batch = 7\n")
    files = SettingsFiles(str(file), {"HOME": str(tmp_path)})
    assert files.first_look[str(file)][1] == len("batch = 77\n")


def test_settings_that_change_all_the_time_are_like_none_that_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_files, "_LONGEST_S", 0)
    file = tmp_path / "runward.toml"
    file.write_text("batch = 7\n")
    files = SettingsFiles(str(file), {"HOME": str(tmp_path)})
    assert files.look() != files.first_look


def test_a_session_that_begins_in_an_agents_home_changes_no_settings(tmp_path: Path) -> None:
    (tmp_path / ".claude/projects").mkdir(parents=True)
    files = _looks(tmp_path)
    (tmp_path / ".claude/projects/-w-app").mkdir()
    (tmp_path / ".claude/projects/-w-app/s.jsonl").write_text("{}\n")
    assert files.look() == files.first_look


def test_the_places_that_come_first_and_have_no_file_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, here = {"HOME": str(tmp_path)}, tmp_path / "runward.toml"
    loaded = load_settings(None, environment, str(tmp_path)).value
    assert loaded is not None
    assert loaded.absent[:2] == (str(here), f"{tmp_path}/.config/runward/runward.toml")
    assert changed_files(loaded.files, loaded.absent) == []
    here.write_text("batch = 7\n")
    assert changed_files(loaded.files, loaded.absent) == [str(here)]
    loaded = load_settings(None, environment, str(tmp_path)).value
    assert loaded is not None
    assert loaded.absent == ()
