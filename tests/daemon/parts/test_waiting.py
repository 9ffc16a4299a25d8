"""Who is told that something waits for a person: once for each wait, in time, whatever becomes of the daemon."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon
from tests.daemon.watch.test_following import AGENT, KEY, Home
from tests.handlers.layouts.claude_code_lines import SESSION

from runward.config.notification import OVERDUE, WAITING, Recipient
from runward.daemon import faults
from runward.daemon.parts.waiting import AGENT_WAITS_S
from runward.daemon.store.tables.notices import PendingNotice
from runward.daemon.world import messenger
from runward.daemon.world.messenger import SettingsMessenger
from runward.handlers.sessions.over import Writer, WriterStatus

HOUR = 3600.0


@dataclass
class Told:
    """Somebody who wants to know these kinds, and what they were told."""

    kinds: tuple[str, ...] = (WAITING,)
    after: float = HOUR
    heard: list[PendingNotice] = field(default_factory=list)

    def recipients(self, kind: str) -> tuple[str, ...]:
        return ("me",) if kind in self.kinds else ()

    def patience(self) -> dict[str, float]:
        return dict.fromkeys(self.recipients(OVERDUE), self.after)

    def send(self, notice: PendingNotice) -> str | None:
        self.heard.append(notice)
        return None


class Desk(Home):
    """An agent with a person before it, who wants to be told."""

    def __init__(self, base: Path, told: Told | None = None) -> None:
        super().__init__(base, entrypoint="cli")
        self.messenger = self.told = told or Told()
        self.transcript.prompt("fix it")
        self.transcript.call("Bash", command="rm -r build")
        self.write()

    async def says(self, running: Daemon, status: WriterStatus, asks: str | None = None) -> None:
        """The agent says this of itself, and the daemon sees it."""
        self.processes.writing[SESSION] = Writer("alive", status, AGENT, asks=asks)
        await running.settle()

    async def passes(self, running: Daemon, seconds: float) -> None:
        """Time goes by, and who is due to be told is told."""
        self.clock.move(seconds)
        await running.settle()
        await running.supervisor.assembly.notices.drain()

    @property
    def heard(self) -> list[tuple[str, str]]:
        return [(each.kind, each.subject) for each in self.told.heard]


ONCE = [(WAITING, KEY)]


async def test_somebody_is_told_once_when_an_agent_has_waited_long_enough(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.open() as running:
        await desk.says(running, "waiting", "permission prompt")
        await desk.passes(running, AGENT_WAITS_S - 0.1)
        assert desk.heard == []
        await desk.passes(running, 0.1)
        assert desk.heard == ONCE
        for _ in range(3):
            await desk.passes(running, HOUR)
    async with desk.open() as running:
        await desk.passes(running, HOUR)
    assert desk.heard == ONCE
    (notice,) = desk.told.heard
    assert (notice.title, notice.text) == ("app: claude-code waits for you", "permission prompt: fix it")


async def test_the_daemon_wakes_at_the_moment_at_which_it_is_due(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.open() as running:
        notices = running.supervisor.assembly.notices
        await desk.passes(running, 0.0)
        longest = notices.pause()
        assert longest is not None
        assert longest < AGENT_WAITS_S, (
            "an agent that begins to wait is found before it has waited long enough"
        )
        await desk.says(running, "waiting")
        await desk.passes(running, AGENT_WAITS_S - 2.0)
        assert notices.pause() == pytest.approx(2.0)
        await desk.passes(running, 2.0)
        assert (desk.heard, notices.pause()) == (ONCE, longest)


async def test_nobody_is_told_of_a_wait_that_is_over(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.open() as running:
        await desk.says(running, "waiting")
        await desk.passes(running, AGENT_WAITS_S / 2)
        await desk.says(running, "busy")
        await desk.passes(running, AGENT_WAITS_S)
        await desk.says(running, "waiting")
        await desk.passes(running, AGENT_WAITS_S / 2)
        assert desk.heard == []


async def test_an_agent_that_worked_in_between_is_told_of_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.open() as running:
        for _ in range(2):
            await desk.says(running, "waiting")
            await desk.passes(running, AGENT_WAITS_S)
            await desk.says(running, "busy")
            await desk.passes(running, 1.0)
    assert desk.heard == ONCE * 2


async def test_work_that_no_daemon_saw_is_seen_by_its_calls(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.open() as running:
        await desk.says(running, "waiting")
        await desk.passes(running, AGENT_WAITS_S)
    desk.transcript.result("toolu_1")
    desk.write()
    async with desk.open() as running:
        await desk.passes(running, AGENT_WAITS_S)
        assert desk.heard == ONCE, "an answer to a call may come while a person is waited for"
    desk.transcript.call("Bash", command="rm -r dist")
    desk.write()
    async with desk.open() as running:
        await desk.passes(running, 0.0)
        assert desk.heard == ONCE
        await desk.passes(running, AGENT_WAITS_S)
    assert desk.heard == ONCE * 2


class Killed(BaseException):
    """The daemon is gone."""


@pytest.fixture
def points() -> Iterator[list[str]]:
    """The points that are passed."""
    passed: list[str] = []
    faults.install(passed.append)
    yield passed
    faults.install(lambda name: None)


async def test_a_daemon_that_is_killed_at_any_point_has_its_successor_tell_it_once(
    tmp_path: Path, points: list[str]
) -> None:
    desk = Desk(tmp_path / "undisturbed")
    async with desk.open() as running:
        await desk.says(running, "waiting")
        points.clear()
        await desk.passes(running, AGENT_WAITS_S)
    passed = list(points)
    assert {"commit.notice.before", "commit.notice.after", "notice.before", "notice.after"} <= set(passed)
    for number in range(len(passed)):
        desk = Desk(tmp_path / str(number))
        left = number

        def strike(name: str) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise Killed(name)

        async with desk.open() as running:
            await desk.says(running, "waiting")
            faults.install(strike)
            with pytest.raises((Killed, BaseExceptionGroup)):
                await desk.passes(running, AGENT_WAITS_S)
            faults.install(lambda name: None)
        heard = len(desk.told.heard)
        async with desk.open() as running:
            is_marked = ("delivered",) in await running.rows("select state from notices")
            await desk.passes(running, 1.0)
        async with desk.open() as running:
            await desk.passes(running, 1.0)
            assert await running.rows("select kind, state from notices") == [(WAITING, "delivered")]
        # Whether it was delivered is not known if the daemon died before it marked that: then it is told under the same id.
        assert len(desk.told.heard) == heard + (not is_marked), passed[number]
        assert len({each.id for each in desk.told.heard}) == 1


async def test_what_nobody_has_seen_to_is_overdue_after_as_long_as_each_recipient_says(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path, Told((OVERDUE,)))
    async with desk.open() as running:
        run = running.root / "failed"
        run.mkdir()
        at = "2026-09-21T14:13:20Z"  # the clock's
        (run / "run.json").write_text(json.dumps({"schema": "runward-run-v1", "started_at": at}))
        (run / "exit.json").write_text(json.dumps({"exit_code": 3, "finished_at": at}))
        await desk.says(running, "waiting", "permission prompt")
        await desk.passes(running, HOUR - 1.0)
        assert desk.heard == []
        await desk.passes(running, 2.0)
        assert sorted(desk.heard) == [(OVERDUE, KEY), (OVERDUE, "native:runs/failed")]
        await desk.passes(running, HOUR)
        assert len(desk.heard) == 2
    told = {each.subject: (each.title, each.text) for each in desk.told.heard}
    assert told[KEY] == ("After 1h: app: claude-code waits for you", "permission prompt: fix it")
    assert told["native:runs/failed"] == (
        "After 1h: failed failed, and nobody has seen it",
        "exited with 3",
    )


async def test_a_failure_that_was_seen_and_an_agent_that_goes_on_are_not_overdue(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Told((OVERDUE,)))
    async with desk.open() as running:
        await desk.says(running, "waiting")
        await desk.passes(running, HOUR / 2)
        await desk.says(running, "busy")
        await desk.passes(running, HOUR)
    assert desk.heard == []


async def test_nothing_that_an_agent_wrote_is_more_than_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "a\x1b]9;owned\x07\nb \u202egnp\u2066.exe\x9d52;c;eA==\x9c <b>c</b>\r" + "long " * 400
    desk = Desk(tmp_path)
    desk.transcript.lines.clear()
    desk.transcript.prompt(hostile)
    desk.place.unlink()
    desk.write()
    async with desk.open() as running:
        await desk.says(running, "waiting", hostile)
        await desk.passes(running, AGENT_WAITS_S)
    (notice,) = desk.told.heard
    sent: list[list[str]] = []
    monkeypatch.setattr(messenger, "_run", sent.append)
    command = Recipient((WAITING,), command=("tell", "{{ with.title }}", "{{ with.text }}"))
    desktop = Recipient((WAITING,), desktop=True)
    for recipient in (command, desktop):
        told = SettingsMessenger(lambda recipient=recipient: (recipient,))  # type: ignore[misc] # the loop's value
        assert told.send(notice._replace(recipient=recipient.name)) is None
    for *_, title, text in sent:
        assert (title.isprintable(), text.isprintable()) == (True, True)
        assert text.startswith("a]9;owned b gnp.exe52;c;eA== ")
    assert len(sent[0][-2]) + len(sent[0][-1]) == 140
    assert "<b>" in sent[0][-1]
    assert "&lt;b&gt;" in sent[1][-1]
