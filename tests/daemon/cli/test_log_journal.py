"""`runward log` where the daemon logs to the systemd journal: the same lines, chosen and followed by journalctl."""

import json
import sys
from pathlib import Path

import pytest
from tests.daemon.cli import fake_journalctl
from tests.daemon.cli.calling import Place, Recorded
from tests.daemon.listening_journald import decoded
from tests.waiting import PATIENCE_S

from runward.daemon.log import IN_JOURNAL, entry_of, render

_LINES: list[dict[str, object]] = [
    {"event": "ready", "watched": 3, "level": "info", "ts": "2026-01-02T00:00:00Z"},
    {
        "session": "native:runs/plain",
        "event": "session.finished",
        "level": "info",
        "ts": "2026-01-03T00:00:00Z",
    },
    {"lane": "native:runs/plain", "event": "job.held", "level": "error", "ts": "2026-01-04T00:00:00Z"},
    {
        "session": "native:runs/other",
        "event": "journal.gone",
        "level": "warning",
        "ts": "2026-01-05T00:00:00Z",
    },
    {"why": "\x1b[2J", "event": "journal.delayed", "level": "warning", "ts": "2026-01-06T00:00:00Z"},
]


class Journalling:
    """A place whose daemon logged to the journal."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.journal = place.directory / "journal.entries"
        self._count = 0
        (place.state / IN_JOURNAL).touch()
        (place.state / "log/runward.jsonl").unlink()
        programs = place.directory / "bin"
        programs.mkdir()
        program = programs / "journalctl"
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{fake_journalctl.__file__}' \"$@\"\n")
        program.chmod(0o755)
        place.environment["PATH"] = f"{programs}:{place.environment['PATH']}"
        place.environment["FAKE_JOURNAL"] = str(self.journal)
        self.journal.touch()

    def log(self, *lines: dict[str, object], state: Path | None = None) -> None:
        """What the daemon of a state directory said."""
        for line in lines:
            self.put(decoded(entry_of(render(line), str(state or self.place.state))))

    def put(self, entry: dict[str, list[str]]) -> None:
        """An entry of anybody's, a day after the last one."""
        self._count += 1
        at = 1767225600 + self._count * 86400  # from 2026-01-01 on
        entry |= {"__CURSOR": [str(self._count)], "__REALTIME_TIMESTAMP": [f"{at}000000"]}
        with self.journal.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def events(self, *options: str) -> list[object]:
        return [line["event"] for line in self.place.call("log", "--json", *options).objects()]


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    place = Place(tmp_path_factory.mktemp("journalling"))
    place.furnish()
    place.add_run("plain", exit_code=0)
    place.daemon_once()
    return Recorded(place)


@pytest.fixture
def journalling(recorded_once: Recorded) -> Journalling:
    """Lines of this daemon among those of others."""
    found = Journalling(recorded_once.anew())
    found.log(*_LINES)
    found.log({"event": "another.daemon", "level": "error"}, state=found.place.directory / "elsewhere")
    found.put({"SYSLOG_IDENTIFIER": ["sudo"], "MESSAGE": ["no line of ours"], "PRIORITY": ["3"]})
    return found


def test_the_lines_are_the_same_as_in_a_file(journalling: Journalling) -> None:
    assert journalling.place.call("log", "--json").objects() == _LINES


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--level", "warning"), ["job.held", "journal.gone", "journal.delayed"]),
        (("--session", "pl"), ["session.finished", "job.held"]),
        (("--session", "pl", "--level", "error"), ["job.held"]),
        (("--since", "2026-01-05T00:00:00Z"), ["journal.gone", "journal.delayed"]),
        (("-n", "1"), ["journal.delayed"]),
        (("--limit", "0"), []),
        (("--event", "journal.*"), ["journal.gone", "journal.delayed"]),
        (("--event", "journal.*", "--event", "ready", "-n", "2"), ["journal.gone", "journal.delayed"]),
        (("--event", "ready", "-n", "2"), ["ready"]),
        (("--event", "Ready"), []),
    ],
)
def test_options_choose_lines(
    journalling: Journalling, options: tuple[str, ...], expected: list[str]
) -> None:
    assert journalling.events(*options) == expected


def test_nothing_in_it_steers_a_terminal(journalling: Journalling) -> None:
    shown = journalling.place.call("log", "-n", "1").out
    assert shown == "2026-01-06 00:00:00 UTC  warning  journal.delayed  why=\\x1b[2J\n"


def test_lines_of_files_and_journal_are_told_in_the_order_of_their_times(journalling: Journalling) -> None:
    by_hand = [{"event": f"by.hand.{day}", "ts": f"2026-01-{day}T12:00:00Z"} for day in ("01", "03", "09")]
    (journalling.place.state / "log/runward.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in by_hand)
    )
    ours = [str(line["event"]) for line in _LINES]
    assert journalling.events() == ["by.hand.01", *ours[:2], "by.hand.03", *ours[2:], "by.hand.09"]


def test_what_calls_itself_ours_and_holds_no_line_is_left_out(journalling: Journalling) -> None:
    state = str(journalling.place.state)
    for line in ([], ["no JSON"], ["[1]"], ["null"]):
        entry = {"SYSLOG_IDENTIFIER": ["runward"], "RUNWARD_STATE_DIR": [state], "PRIORITY": ["3"]}
        journalling.put({**entry, **({"RUNWARD_JSON": line} if line else {})})
    assert len(journalling.events()) == len(_LINES)


def test_where_journalctl_refuses_it_is_told_why(journalling: Journalling) -> None:
    journalling.journal.with_name("journal.entries.refuses").write_text("no permission")
    told = journalling.place.call("log")
    assert (told.code, told.err) == (75, "runward: journalctl: no permission\n")
    assert journalling.place.call("log", "-f").code == 75


def test_where_there_is_no_journalctl_it_is_told(journalling: Journalling) -> None:
    told = journalling.place.call("log", PATH="/nowhere")
    assert told.code == 3
    assert "journalctl is not installed" in told.err


def test_followed_it_goes_on_with_what_comes_to_the_journal_or_to_a_file(journalling: Journalling) -> None:
    following = journalling.place.start("log", "-f", "--json", "-n", "1", "--level", "warning")
    assert following.stdout is not None
    try:
        assert json.loads(following.stdout.readline())["event"] == "journal.delayed"
        journalling.log({"event": "passed.over", "level": "info"}, {"event": "came", "level": "warning"})
        assert json.loads(following.stdout.readline())["event"] == "came"
        (journalling.place.state / "log/runward.jsonl").write_text('{"event": "by.hand", "level": "error"}\n')
        assert json.loads(following.stdout.readline())["event"] == "by.hand"
        journalling.log({"event": "again", "level": "error"})
        assert json.loads(following.stdout.readline())["event"] == "again"
    finally:
        following.kill()
        following.communicate(timeout=PATIENCE_S)
