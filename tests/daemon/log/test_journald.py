"""Lines in the systemd journal: fields that journalctl finds, sizes that are bounded, a journal that hinders nobody."""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.listening_journald import Journald, decoded

from runward.daemon import log
from runward.daemon.log import (
    IN_JOURNAL,
    LOG,
    MAXIMUM_LINE,
    Journal,
    entry_of,
    is_journal,
    open_log,
    open_sinks,
    render,
)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Journald]:
    found = Journald(tmp_path)
    yield found
    found.socket.close()


def _fields(**event: object) -> dict[str, list[str]]:
    return decoded(entry_of(render(event), "/state"))


def test_an_entry_has_the_fields_by_which_journalctl_finds_it() -> None:
    line = render(
        {
            "session": "native:runs/a",
            "attempt": 2,
            "files": ["x"],
            "event": "odd",
            "level": "warning",
            "ts": "now",
        }
    )
    assert decoded(entry_of(line, "/state")) == {
        "MESSAGE": ['odd  session=native:runs/a attempt=2 files=["x"]'],
        "PRIORITY": ["4"],
        "SYSLOG_IDENTIFIER": ["runward"],
        "RUNWARD_STATE_DIR": ["/state"],
        "RUNWARD_JSON": [line.decode().rstrip()],
        "RUNWARD_SESSION": ["native:runs/a", "runs/a", "a"],
        "RUNWARD_ATTEMPT": ["2"],
        "RUNWARD_EVENT": ["odd"],
    }


def test_another_tools_session_is_found_by_its_id_and_its_key() -> None:
    assert _fields(session="codex:0199-77", event="odd")["RUNWARD_SESSION"] == ["codex:0199-77", "0199-77"]


@pytest.mark.parametrize(
    ("level", "priority"),
    [("debug", "7"), ("info", "6"), ("warning", "4"), ("error", "3"), ("critical", "2"), ("odd", "6")],
)
def test_a_level_is_a_priority_of_syslog(level: str, priority: str) -> None:
    assert _fields(level=level)["PRIORITY"] == [priority]


def test_a_value_of_several_lines_is_one_value_and_the_message_one_line() -> None:
    fields = _fields(why="one\ntwo=2\n\x1b[2J", event="odd")
    assert fields["RUNWARD_WHY"] == ["one\ntwo=2\n\x1b[2J"]
    assert fields["MESSAGE"] == ["odd  why=one\\ntwo=2\\n\\x1b[2J"]


def test_odd_keys_make_fields_that_journald_takes_and_none_that_are_its_own() -> None:
    fields = _fields(
        **{"a key, é": 1, "k" * 100: 2, "state_dir": "/other", "json": "no", "_pid": "7", "": "none"}
    )
    assert fields["RUNWARD_A_KEY___"] == ["1"]
    assert fields["RUNWARD_" + "K" * 56] == ["2"]
    assert fields["RUNWARD_STATE_DIR"] == ["/state"]
    assert len(fields["RUNWARD_JSON"]) == 1
    assert fields["RUNWARD__PID"] == ["7"]


def test_an_entry_fits_into_a_datagram_whatever_is_logged(listening: Journald, tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), str(listening.path))
    event = {f"key{number}": "\x9b\n" * 10_000 for number in range(100)} | {"event": "huge"}
    journal.write([render(event)])
    (entry,) = listening.entries()
    assert entry["RUNWARD_EVENT"] == ["huge"]
    assert len(entry["RUNWARD_JSON"][0]) <= MAXIMUM_LINE
    assert all(
        len(value) <= 4096 for name, values in entry.items() for value in values if name != "RUNWARD_JSON"
    )
    journal.close()


def test_stderr_is_the_journal_where_the_variable_names_its_device_and_inode(tmp_path: Path) -> None:
    with (tmp_path / "stream").open("w") as stream, (tmp_path / "other").open("w") as other:
        status = os.fstat(stream.fileno())
        environment = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert is_journal(stream.fileno(), environment)
        assert not is_journal(other.fileno(), environment), "it was redirected"
        assert not is_journal(stream.fileno(), {})
    assert not is_journal(1 << 20, environment), "it is closed"


class Stream(io.StringIO):
    """A stderr with a descriptor."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor


@pytest.fixture
def stderr(tmp_path: Path) -> Iterator[tuple[Stream, dict[str, str]]]:
    """A stderr that is the journal, and the environment that says so."""
    with (tmp_path / "stream").open("w") as stream:
        status = os.fstat(stream.fileno())
        yield Stream(stream.fileno()), {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}


def test_where_stderr_is_the_journal_lines_go_there_and_into_no_file(
    listening: Journald,
    stderr: tuple[Stream, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "SOCKET", str(listening.path))
    stream, environment = stderr
    sinks = open_sinks(tmp_path, stream, environment)
    open_log(sinks).info("ready", watched=3)
    sinks.add([{"session": "native:runs/a", "event": "session.finished"}])
    ready, finished = listening.entries()
    assert (ready["RUNWARD_EVENT"], ready["RUNWARD_WATCHED"]) == (["ready"], ["3"])
    assert "a" in finished["RUNWARD_SESSION"]
    assert stream.getvalue() == ""
    sinks.close()
    assert not (tmp_path / LOG).exists()
    assert (tmp_path / IN_JOURNAL).stat().st_mode & 0o777 == 0o600


def test_where_no_journald_listens_stderr_and_the_file_get_json(
    stderr: tuple[Stream, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SOCKET", str(tmp_path / "nobody"))
    stream, environment = stderr
    open_log(open_sinks(tmp_path, stream, environment)).info("ready")
    assert json.loads(stream.getvalue())["event"] == "ready"
    assert stream.getvalue() == (tmp_path / LOG).read_text()
    assert not (tmp_path / IN_JOURNAL).exists()


def test_a_journal_that_takes_nothing_holds_nobody_up_and_tells_later_what_it_missed(
    listening: Journald, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    journal = Journal(str(tmp_path), str(listening.path))
    lines = [render({"number": number, "event": "line"}) for number in range(2000)]
    journal.write(lines)  # more than a socket holds that nobody reads: it waits once, and not for each line
    taken = len(listening.entries())
    assert 0 < taken < 2000
    now = 0.5
    journal.write([render({"event": "too early"})])
    assert listening.entries() == []
    now = 1.5
    journal.write([render({"event": "again"}), render({"event": "after"})])
    again, lost, after = listening.entries()
    assert [each["RUNWARD_EVENT"] for each in (again, after)] == [["again"], ["after"]]
    assert (lost["RUNWARD_EVENT"], lost["RUNWARD_LINES"]) == (["log.lines_lost"], [str(2000 - taken + 1)])
    journal.close()


def test_a_journald_that_starts_anew_is_found_again(
    listening: Journald, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    journal = Journal(str(tmp_path), str(listening.path))
    listening.socket.close()
    journal.write([render({"event": "nobody hears"})])
    listening.path.unlink()
    anew = Journald(tmp_path)
    now = 2.0
    journal.write([render({"event": "heard"})])
    assert [each["RUNWARD_EVENT"] for each in anew.entries()] == [["heard"], ["log.lines_lost"]]
    anew.socket.close()
    journal.close()
