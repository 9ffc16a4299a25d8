"""A change of the settings files while the daemon runs: when it is read, and when it is not yet."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import anyio
import pytest

from runward.config.problem import Parsed, Problem
from runward.config.settings import Settings
from runward.config.settings_layers import read_settings
from runward.daemon.configuration.declarations import Declarer
from runward.daemon.configuration.settings_files import Look, SettingsFiles
from runward.daemon.host import service
from runward.daemon.host.metrics_file import MetricsFile
from runward.daemon.host.service import Fleet, Obedience
from runward.daemon.host.supervisor import SettingsNotTaken, Supervisor
from runward.daemon.log import log_into
from runward.daemon.store.store import Store
from runward.daemon.watch.notifications import Inotify
from runward.daemon.web.child_server import StudioSocket

QUIET: Look = {"a": (1,)}


class Written(SettingsFiles):
    """Files that look like this, one look after another; the last look stays."""

    def __init__(self, looks: list[Look], settings: Parsed[Settings]) -> None:
        self.first_look = QUIET
        self.looks = looks
        self.settings = settings
        self.readings = 0

    def look(self) -> Look:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def read(self) -> Parsed[Settings]:
        self.readings += 1
        return self.settings


class Daemon:
    """What settings are brought into force in: it takes them, after refusing them this many times."""

    def __init__(self, settings: Settings, refusals: int = 0, why: str = "the disk is full") -> None:
        self.begun = anyio.Event()
        self.begun.set()
        self.state_dir = settings.state_dir
        self.settings_report = SimpleNamespace(refused=())
        self.told: list[tuple[str, ...]] = []
        self.store_fixes: list[str | None] = []
        self.taken: list[Settings] = []
        self._refusals, self._why = refusals, why

    async def reload(self, settings: Settings, is_asked: bool) -> None:
        if self._refusals:
            self._refusals -= 1
            raise SettingsNotTaken(self._why)
        self.taken.append(settings)

    def note_refusal(self, problems: list[str], store_fix: str | None) -> None:
        self.settings_report = SimpleNamespace(refused=tuple(problems))
        self.told.append(tuple(problems))
        self.store_fixes.append(store_fix)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(service, "LOOK_PERIOD", 0.001)
    found = read_settings((), {}, home="/h", working_directory="/w").value
    assert found is not None
    return found


async def _obey(daemon: Daemon, settings: Settings, files: Written, looks: int) -> list[dict[str, object]]:
    """Have the daemon look this often after it has seen the last of the given looks; returns what it logs."""
    left = looks

    def counted(look: Look) -> Iterator[Look]:
        nonlocal left
        while left:
            left -= len(files.looks) == 1
            yield look
        over.set()
        while True:
            yield look

    over = anyio.Event()
    looked = files.look
    endless = counted(files.looks[-1])

    def look() -> Look:
        found = looked()
        if len(files.looks) == 1:
            anyio.from_thread.run_sync(next, endless)
        return found

    files.look = look  # type: ignore[method-assign]  # it is this test's own
    inotify = Inotify(Path("/nowhere"), 1, 1, 0.5, 1.0)
    lines: list[dict[str, object]] = []
    log = log_into(lines.append)
    studio = StudioSocket(Path("/nowhere"), lambda: settings, log)
    file = MetricsFile(Path("/nowhere"), lambda: settings, log)
    fleet = Fleet(Path("/nowhere"), lambda: settings, cast("Store", None), log)
    obedience = Obedience(
        cast("Supervisor", daemon), Declarer(settings), None, studio, file, fleet, inotify, log, files
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(obedience.run)
        await over.wait()
        tasks.cancel_scope.cancel()
    return lines


def _look(number: int) -> Look:
    return {"a": (number,)}


async def test_a_file_that_is_being_saved_is_not_read_before_two_looks_agree(settings: Settings) -> None:
    files, daemon = Written([_look(2), _look(3), _look(4)], Parsed(settings)), Daemon(settings)
    await _obey(daemon, settings, files, 4)
    assert (files.readings, len(daemon.taken)) == (1, 1)


async def test_what_changed_while_it_was_read_is_not_applied(settings: Settings) -> None:
    files, daemon = Written([_look(2), _look(2), _look(3)], Parsed(settings)), Daemon(settings)
    await _obey(daemon, settings, files, 4)
    assert (files.readings, len(daemon.taken)) == (2, 1)


async def test_files_that_stay_as_they_are_are_read_no_more(settings: Settings) -> None:
    files, daemon = Written([QUIET], Parsed(settings)), Daemon(settings)
    await _obey(daemon, settings, files, 4)
    assert files.readings == 0


async def test_settings_that_the_store_could_not_take_are_tried_again_and_told_once(
    settings: Settings,
) -> None:
    files, daemon = Written([_look(2)], Parsed(settings)), Daemon(settings, refusals=3)
    await _obey(daemon, settings, files, 12)
    assert daemon.told == [("the store can't be written: the disk is full",)]
    assert daemon.store_fixes == ["free space or repair the disk"]
    assert len(daemon.taken) == 1


async def test_settings_that_a_locked_store_could_not_take_are_not_blamed_on_the_disk(
    settings: Settings,
) -> None:
    files, daemon = Written([_look(2)], Parsed(settings)), Daemon(settings, 1, "database is locked")
    lines = await _obey(daemon, settings, files, 12)
    (refused,) = (line for line in lines if line["event"] == "settings.refused")
    fix = "end the program that holds runward.db (fuser runward.db names it)"
    assert daemon.store_fixes == [fix]
    assert refused["fix"] == f"{fix}: the daemon tries again; until then the old settings stay in force"


async def test_invalid_settings_are_refused_once_and_read_again_only_after_a_change(
    settings: Settings,
) -> None:
    wrong = Problem("/c/runward.toml", 1, 1, "is wrong", "correct it")
    files, daemon = Written([_look(2)], Parsed(None, (wrong,))), Daemon(settings)
    await _obey(daemon, settings, files, 6)
    assert (files.readings, daemon.taken) == (1, [])
    assert daemon.told == [(wrong.render(),)]
