"""Chains that an earlier daemon checked are not checked again, unless anything that the check depends on changed."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from runward.config.action import Action
from runward.config.chain import Chain, read_chain
from runward.config.problem import Parsed, Problem
from runward.config.settings import Settings
from runward.config.step import Callables
from runward.daemon.configuration import checked_chains, declarations, declared_files
from runward.daemon.configuration.checked_chains import NAME, CheckedChains
from runward.daemon.configuration.declarations import Declarer

LISTENS = "name: listens\ntrigger: {event: asked}\nsteps: [{skill: work}]\n"
SCHEDULED = (
    'name: clock\ntrigger: {schedule: "0 2 * * *", timezone: Europe/Riga}\nsteps: [{action: nothing}]\n'
)
FOLLOWS = "name: follows\ntrigger: {event: file.changed, path: notes/*.md}\nsteps: [{skill: work}]\n"
WRONG = "name: wrong\ntrigger: {event: asked}\nsteps: [{skill: nobody}]\n"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are checked, by name, in order."""
    found: list[str] = []

    def counted(text: str, path: str, given: Callables) -> Parsed[Chain]:
        found.append(Path(path).name)
        return read_chain(text, path, given)

    monkeypatch.setattr(checked_chains, "read_chain", counted)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for directory in ("state", "chains", "playbooks"):
        (tmp_path / directory).mkdir()
    (tmp_path / "playbooks/work.playbook.yaml").write_text("command: [work]\n")
    for name, text in (("a", LISTENS), ("b", SCHEDULED), ("c", FOLLOWS)):
        (tmp_path / f"chains/{name}.yaml").write_text(text)
    return Settings(
        str(tmp_path / "state"),
        (str(tmp_path / "playbooks"),),
        chains=(str(tmp_path / "chains"),),
        actions=(Action("nothing", ("true",)),),
    )


class Said(NamedTuple):
    """What a daemon says of the chains."""

    listening: list[str]
    schedules: dict[str, str]
    paths: tuple[str, ...]
    wrong: list[str]


def said(settings: Settings) -> Said:
    """What a new daemon says."""
    declarer = Declarer(settings, checked=CheckedChains(Path(settings.state_dir)))
    declarer.check()
    listening = [each.name for each in declarer.listening("asked")]
    return Said(listening, dict(declarer.schedules()), tuple(declarer.watched_paths()), declarer.degraded())


def test_a_later_daemon_checks_nothing_and_says_the_same(settings: Settings, parsed: list[str]) -> None:
    first = said(settings)
    assert first.listening == ["listens"]
    assert list(first.schedules) == ["clock"]
    assert len(first.paths) == 1
    assert first.wrong == []
    assert sorted(parsed) == ["a.yaml", "b.yaml", "c.yaml"]
    parsed.clear()
    assert said(settings) == first
    assert parsed == []


def test_only_a_file_that_changed_is_checked_and_what_is_gone_is_forgotten(
    settings: Settings, tmp_path: Path, parsed: list[str]
) -> None:
    said(settings)
    parsed.clear()
    (tmp_path / "chains/b.yaml").write_text(SCHEDULED.replace("0 2", "0 3"))
    (tmp_path / "chains/c.yaml").unlink()
    now = said(settings)
    assert "0 3" in now.schedules["clock"]
    assert now.paths == ()
    assert parsed == ["b.yaml"]
    assert len(CheckedChains(tmp_path / "state")._kept()) == 2


def other_code(settings: Settings, patch: pytest.MonkeyPatch) -> Settings:
    patch.setattr(checked_chains, "_code", lambda: ("another version",))
    return settings


def other_zone(settings: Settings, patch: pytest.MonkeyPatch) -> Settings:
    patch.setattr(declared_files, "machines_zone", lambda: "Asia/Tokyo")
    return settings


def other_playbooks(settings: Settings, patch: pytest.MonkeyPatch) -> Settings:
    Path(settings.playbooks[0], "more.playbook.yaml").write_text("command: [more]\n")
    return settings


def other_actions(settings: Settings, patch: pytest.MonkeyPatch) -> Settings:
    return settings._replace(actions=(*settings.actions, Action("more", ("true",))))


def other_directory(settings: Settings, patch: pytest.MonkeyPatch) -> Settings:
    return settings._replace(files=((f"{settings.state_dir}/runward.toml", 1),))


def broken_memory(settings: Settings, patch: pytest.MonkeyPatch) -> Settings:
    Path(settings.state_dir, NAME).write_bytes(b'{"torn": ["lis')
    return settings


def memory_of_another_shape(settings: Settings, patch: pytest.MonkeyPatch) -> Settings:
    Path(settings.state_dir, NAME).write_bytes(b'{"a": {"name": "b"}}')
    return settings


def no_memory(settings: Settings, patch: pytest.MonkeyPatch) -> Settings:
    Path(settings.state_dir, NAME).unlink()
    return settings


@pytest.mark.parametrize(
    "change",
    [
        other_code,
        other_zone,
        other_playbooks,
        other_actions,
        other_directory,
        broken_memory,
        memory_of_another_shape,
        no_memory,
    ],
)
def test_all_are_checked_again_when_anything_changed_that_the_check_depends_on(
    settings: Settings,
    parsed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Settings, pytest.MonkeyPatch], Settings],
) -> None:
    said(settings)
    parsed.clear()
    said(change(settings, monkeypatch))
    assert sorted(parsed) == ["a.yaml", "b.yaml", "c.yaml"]


def test_a_chain_whose_zone_went_from_the_machine_is_checked_again(
    settings: Settings, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said(settings)
    parsed.clear()
    monkeypatch.setattr(checked_chains, "_is_zone", lambda name: name != "Europe/Riga")
    said(settings)
    assert parsed == ["b.yaml"]


def test_a_wrong_file_is_never_known_and_wrong_for_every_daemon(
    settings: Settings, tmp_path: Path, parsed: list[str]
) -> None:
    (tmp_path / "chains/d.yaml").write_text(WRONG)
    first = said(settings)
    assert "nobody" in first.wrong[0]
    parsed.clear()
    assert said(settings) == first
    assert parsed == ["d.yaml"]


def test_what_is_known_fires_nothing_that_is_refused_when_it_is_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if an earlier daemon was wrong about a file, or somebody wrote what is known."""

    def refuse(text: str, path: str, given: Callables) -> Parsed[Chain]:
        return Parsed(None, (Problem(path, 1, 1, "is refused", None),))

    said(settings)
    monkeypatch.setattr(declarations, "read_chain", refuse)
    monkeypatch.setattr(checked_chains, "read_chain", refuse)
    declarer = Declarer(settings, checked=CheckedChains(Path(settings.state_dir)))
    assert list(declarer.schedules()) == ["clock"]
    assert declarer.scheduled("clock") is None
    assert declarer.listening("asked") == ()
    declarer.check()
    assert len([why for why in declarer.degraded() if "is refused" in why]) == 3, "from then on it is told"
