"""Files that somebody is saving: they are read when nobody writes to them any more."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.configuration import declaration_check, settings_files
from runward.daemon.configuration.checked_chains import CheckedChain, Reading
from runward.daemon.configuration.declaration_check import DeclarationCheck
from runward.daemon.configuration.declarations import Declarer
from runward.daemon.configuration.settings_files import Look, look_at, wait_until_quiet
from runward.daemon.log import log_into

HALF = "artifacts:\n  expected:\n    - {id: one, path: one.md}\n"
WHOLE = HALF + "    - {id: two, path: two.md}\n"
HALF_PROFILE = "---\nartifact_defaults:\n  expected:\n    - {id: one, path: one.md}\n"
WHOLE_PROFILE = HALF_PROFILE + "    - {id: two, path: two.md}\n---\n"
HALF_CHAIN = "name: c\ntrigger: {event: x}\nsteps:\n  - {skill: p}\n"
WHOLE_CHAIN = HALF_CHAIN + "  - {skill: p}\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for name in ("playbooks", "agents", "chains"):
        (tmp_path / name).mkdir()
    return Settings(
        str(tmp_path / "state"),
        (str(tmp_path / "playbooks"),),
        (str(tmp_path / "agents"),),
        chains=(str(tmp_path / "chains"),),
    )


def _at_each_pause(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]) -> list[float]:
    """Do one of the steps at each pause; returns the pauses so far."""
    paused: list[float] = []

    def pause(seconds: float) -> None:
        if len(paused) < len(steps):
            steps[len(paused)]()
        paused.append(seconds)

    monkeypatch.setattr(time, "sleep", pause)
    return paused


def test_a_file_that_grows_is_waited_for_until_two_looks_see_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    file.write_text("a")
    paused = _at_each_pause(monkeypatch, lambda: file.write_text("ab"), lambda: file.write_text("abc"))
    assert wait_until_quiet(lambda: look_at(str(file)))[str(file)][1] == 3
    assert len(paused) == 3


def test_nothing_is_waited_for_that_did_not_change_lately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    file.write_text("a")
    paused = _at_each_pause(monkeypatch)
    clock = time.time_ns
    for shift in (10**9, -(10**9)):  # a clock that was set back must not make every look wait
        monkeypatch.setattr(time, "time_ns", lambda shift=shift: clock() + shift)
        wait_until_quiet(lambda: look_at(str(file)))
    assert paused == []


def test_a_file_that_never_comes_to_rest_is_waited_for_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, now = tmp_path / "f", 0.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds
        file.write_text(str(now))

    file.write_text("a")
    monkeypatch.setattr(time, "sleep", pause)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    wait_until_quiet(lambda: look_at(str(file)))
    assert now == pytest.approx(1.0)


def test_a_look_that_lasts_long_on_a_busy_machine_is_not_believed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, now, passed = tmp_path / "f", time.time_ns(), 0

    def slow() -> Look:
        nonlocal passed
        found = look_at(str(file))
        file.write_text("longer")
        passed += 10**9
        return found

    file.write_text("a")
    monkeypatch.setattr(time, "time_ns", lambda: now + passed)
    _at_each_pause(monkeypatch)
    assert wait_until_quiet(slow)[str(file)][1] == len("longer")


def _at_each_reading(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do this whenever all chains are read, before each of them is checked."""
    check = Reading.__call__

    def checked(reading: Reading, text: str, path: str) -> Parsed[CheckedChain]:
        do()
        return check(reading, text, path)

    monkeypatch.setattr(Reading, "__call__", checked)


def _chain(event: str) -> str:
    return f"name: c-{event}\ntrigger: {{event: {event}}}\nsteps: [{{skill: p}}]\n"


@pytest.mark.parametrize("when", ["while the daemon looks", "while it reads"])
def test_a_chain_that_comes_beside_another_one_is_not_missed(
    when: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def come() -> None:
        (tmp_path / "chains/y.yaml").write_text(_chain("y"))

    (tmp_path / "playbooks/p.playbook.yaml").write_text("command: ['true']\n")
    (tmp_path / "chains/x.yaml").write_text(_chain("x"))
    if when == "while it reads":
        _at_each_reading(monkeypatch, come)
    _at_each_pause(monkeypatch, *[come] * (when == "while the daemon looks"))
    declarer = Declarer(settings)
    assert [len(declarer.listening(event)) for event in ("x", "y")] == [1, 1]


def test_a_file_that_changes_twice_within_a_tick_of_the_clock_is_read_again(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, tick = tmp_path / "chains/c.yaml", time.time_ns()

    def signature(path: str) -> tuple[int, ...]:
        """Only what a test can set."""
        status = os.stat(path)
        return (status.st_size, status.st_mtime_ns)

    def write(event: str) -> None:
        file.write_text(_chain(event))
        os.utime(file, ns=(tick, tick))

    def heard() -> list[str]:
        return [event for event in ("x", "y") if declarer.listening(event)]

    monkeypatch.setattr(settings_files, "_signature", signature)
    monkeypatch.setattr(settings_files, "_LONGEST_S", 0)  # as if other files had changed for a second
    (tmp_path / "playbooks/p.playbook.yaml").write_text("command: ['true']\n")
    declarer = Declarer(settings)
    write("x")
    assert heard() == ["x"]
    write("y")
    assert heard() == ["y"]
    monkeypatch.setattr(time, "time_ns", lambda: tick + 10**9)
    assert heard() == ["y"]
    readings: list[str] = []
    _at_each_reading(monkeypatch, lambda: readings.append("again"))
    assert heard() == ["y"]
    assert readings == [], "the tick is over, so what was read stays known"


def test_no_playbook_profile_or_chain_is_used_half_written(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    playbook = tmp_path / "playbooks/p.playbook.yaml"
    profile, chain = tmp_path / "agents/a.md", tmp_path / "chains/c.yaml"
    declarer = Declarer(settings)
    playbook.write_text(HALF)
    _at_each_pause(monkeypatch, lambda: playbook.write_text(WHOLE))
    assert [each.id for each in declarer("p", None).playbook or ()] == ["one", "two"]
    profile.write_text(HALF_PROFILE)
    _at_each_pause(monkeypatch, lambda: profile.write_text(WHOLE_PROFILE))
    assert [each.id for each in declarer(None, "a").agent or ()] == ["one", "two"]
    chain.write_text(HALF_CHAIN)
    _at_each_pause(monkeypatch, lambda: chain.write_text(WHOLE_CHAIN))
    (found,) = declarer.listening("x")
    assert len(found.steps) == 2
    chain.write_text("name: c\n")
    _at_each_pause(monkeypatch, lambda: chain.write_text(HALF_CHAIN))
    declarer.check()
    assert declarer.degraded() == []
    assert [len(each.steps) for each in declarer.listening("x")] == [1]


async def test_a_change_of_a_playbook_profile_or_chain_is_told_in_the_log(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declaration_check, "PERIOD", 0.001)
    files = [
        tmp_path / "playbooks/p.playbook.yaml",
        tmp_path / "agents/a/a.md",
        tmp_path / "chains/c.yaml",
        tmp_path / "chains/.c.yaml.swp",
    ]
    (tmp_path / "agents/a").mkdir()
    for file, text in zip(files, (WHOLE, WHOLE_PROFILE, WHOLE_CHAIN, "x"), strict=True):
        file.write_text(text)
    lines: list[dict[str, object]] = []
    async with anyio.create_task_group() as tasks:
        declarer = Declarer(settings)
        checked = declarer.check
        times = 0

        def check() -> None:
            nonlocal times
            checked()
            times += 1
            if times == 2:
                for file in files:
                    file.write_text(file.read_text() + "\n")
            if times == 4:
                anyio.from_thread.run_sync(tasks.cancel_scope.cancel)

        declarer.check = check  # type: ignore[method-assign]  # it is this test's own
        tasks.start_soon(DeclarationCheck(declarer, log_into(lines.append)).run)
    (line,) = [each for each in lines if each["event"] == "declaration.changed"]
    assert line["files"] == sorted(map(str, files[:3]))
