"""`runward session verify`: the verdict again, later, without a daemon: the same, or exactly what changed or went since."""

import hashlib
import json
import os
import pty
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.daemon.cli.calling import CONTRACT, Place, Recorded, Result
from tests.waiting import PATIENCE_S

from runward.config.json_value import JsonValue
from runward.daemon.cli.session import verify as session_record
from runward.daemon.cli.session import verify as session_verify
from runward.daemon.rundir.journal_reading import Compared, compare
from runward.daemon.rundir.journals import StandingLines
from runward.daemon.rundir.opening import Gone
from runward.handlers.model.files import Unreadable

FILES = {"review.md": "fine\n", "report.md": "done\n"}


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    place = Place(tmp_path_factory.mktemp("judged"))
    place.furnish()
    place.add_run("r", exit_code=0, contract=CONTRACT, files=FILES)
    place.daemon_once()
    return Recorded(place)


@pytest.fixture
def judged(recorded_once: Recorded) -> Place:
    """A place with the run `r`, judged and hashed: its review and report are there, its optional notes aren't."""
    return recorded_once.anew()


def artifacts(place: Place) -> Path:
    return place.runs / "r" / "artifacts"


def verified(place: Place, code: int) -> dict[str, JsonValue]:
    said = place.call("session", "verify", "r", "--json")
    assert (said.code, said.err) == (code, "")
    return said.object()


def record(said: Result) -> tuple[list[dict[str, JsonValue]], JsonValue]:
    """The journals, and the event that doesn't hold."""
    found = said.object()["record"]
    assert isinstance(found, dict)
    assert list(found) == ["journals", "broken_event"]
    journals = found["journals"]
    assert isinstance(journals, list)
    return [each for each in journals if isinstance(each, dict)], found["broken_event"]


def journals(place: Place) -> dict[str, tuple[list[JsonValue], JsonValue]]:
    """The states of the lines of each journal that don't stand as they were written, and its problem."""
    said = place.call("session", "verify", "r", "--json")
    found = {}
    for each in record(said)[0]:
        altered = each["altered"]
        assert isinstance(altered, list)
        found[str(each["name"])] = (
            [line["state"] for line in altered if isinstance(line, dict)],
            each["problem"],
        )
    return found


def test_a_journal_that_was_changed_cut_or_removed_is_told(judged: Place) -> None:
    events = judged.runs / "r" / "events.jsonl"
    assert journals(judged) == {"events.jsonl": ([], None)}
    written = events.read_bytes()
    events.write_bytes(written.replace(b"session_started", b"session_stopped"))
    assert journals(judged)["events.jsonl"] == (["changed"], None)
    said = judged.call("session", "verify", "r")
    assert said.code == 1
    assert "the line at 0 is changed" in said.out
    events.write_bytes(written[:-5])
    assert journals(judged) == {"events.jsonl": (["torn"], None)}
    events.unlink()
    assert journals(judged) == {"events.jsonl": (["gone"] * 5, None)}
    events.write_bytes(written + b"{}\n")
    assert journals(judged)["events.jsonl"] == ([], None), "others may go on writing"


def test_a_session_without_contract_has_its_journals_verified(place: Place) -> None:
    place.add_run("r", exit_code=0)
    place.daemon_once()
    assert place.call("session", "verify", "r").code == 0
    (place.runs / "r" / "events.jsonl").unlink()
    said = place.call("session", "verify", "r")
    assert said.code == 1
    assert "events.jsonl" in said.out


def test_a_journal_that_cannot_be_read_is_neither_gone_nor_as_it_was(place: Place) -> None:
    place.add_run("r", exit_code=0)
    place.daemon_once()
    place.runs.rename(place.directory / "away")
    said = place.call("session", "verify", "r")
    assert said.code == 75
    assert "events.jsonl  3 lines  not known  can't be read: its root is missing" in said.out
    assert "a journal can't be read, so it was not checked; try again" in said.err


def refuse_events(directory: str, name: str, lines: Sequence[StandingLines]) -> Compared | Gone | Unreadable:
    """The comparison on a disk that refuses `events.jsonl`: no permission would keep root from it."""
    return Unreadable("Input/output error") if name == "events.jsonl" else compare(directory, name, lines)


def test_what_cannot_be_read_hides_nothing_that_changed(
    judged: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_record, "compare_content", refuse_events)
    said = judged.call("session", "verify", "r", "--json")
    assert (said.code, said.object()["same"]) == (75, None)
    text = judged.call("session", "verify", "r")
    assert (text.code, text.out.splitlines()[0]) == (
        75,
        "Session r: as at the verdict as far as it can be read (2026-01-02 03:14:05 UTC)",
    )
    (judged.runs / "r" / "artifacts" / "review.md").unlink()
    assert verified(judged, 1)["same"] is False
    assert journals(judged)["events.jsonl"] == ([], "can't be read: Input/output error")


@pytest.mark.parametrize("contract", [CONTRACT, None])
def test_an_event_that_was_changed_in_the_store_is_told(place: Place, contract: JsonValue) -> None:
    place.add_run("r", exit_code=0, contract=contract, files=FILES)
    place.daemon_once()
    assert record(place.call("session", "verify", "r", "--json"))[1] is None
    place.change_store("drop trigger events_are_facts")
    key = "native:runs/r#1/ended"
    place.change_store("update events set recorded_at = recorded_at + 1 where key = ?", key)
    said = place.call("session", "verify", "r", "--json")
    found = record(said)[1]
    assert said.code == 1
    assert isinstance(found, dict)
    assert (list(found), found["key"]) == (["seq", "key", "why"], key)
    text = place.call("session", "verify", "r")
    assert text.code == 1
    assert f"  EVENT  {key}  number {found['seq']}  not as recorded  its hash is " in text.out


def states(place: Place) -> dict[str, tuple[JsonValue, JsonValue]]:
    """The state of each artifact by id, and what is different."""
    said = place.call("session", "verify", "r", "--json")
    return {str(each["id"]): (each["state"], each["changed"]) for each in said.items("artifacts")}


def again(path: Path, content: str) -> None:
    """Write a file anew and leave it the time that it had."""
    before = path.stat()
    path.write_text(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_where_nothing_changed_it_is_the_same_verdict(judged: Place) -> None:
    said = verified(judged, 0)
    assert list(said) == [
        "session_id",
        "key",
        "attempt",
        "status",
        "same",
        "verification",
        "delivery",
        "artifacts",
        "record",
    ]
    assert (said["session_id"], said["key"], said["attempt"], said["status"]) == (
        "r",
        "native:runs/r",
        1,
        "completed",
    )
    assert said["same"] is True
    assert said["delivery"] == {"then": "passed", "now": "passed"}
    verification = said["verification"]
    assert isinstance(verification, dict)
    then, now = verification["then"], verification["now"]
    assert isinstance(then, dict)
    assert isinstance(now, dict)
    assert {**then, "checked_at": 0} == {**now, "checked_at": 0}
    assert list(now) == ["status", "checked_at", "missing_required", "missing_optional", "produced"]
    text = judged.call("session", "verify", "r")
    assert text.code == 0
    assert text.out.splitlines() == [
        "Session r: the same as at the verdict (2026-01-02 03:14:05 UTC)",
        "Verified now: warning",
        "",
        "  REQUIRED  review  review.md  same     5 B, content compared",
        "  REQUIRED  report  report.md  same     5 B, content compared",
        "  OPTIONAL  notes   notes.md   missing",
        "  JOURNAL  events.jsonl  5 lines  as written",
    ]


def test_each_artifact_says_what_it_was_then_and_is_now(judged: Place) -> None:
    review = judged.call("session", "verify", "r", "--json").items("artifacts")[0]
    look = review["then"]
    assert review == {
        "id": "review",
        "path": "review.md",
        "required": True,
        "state": "same",
        "changed": [],
        "then": look,
        "now": look,
    }
    assert isinstance(look, dict)
    assert (look["size"], look["sha256"]) == (5, hashlib.sha256(b"fine\n").hexdigest())
    assert str(look["modified_at"]).endswith("Z")


def remove(place: Place) -> None:
    (artifacts(place) / "review.md").unlink()


def empty(place: Place) -> None:
    (artifacts(place) / "review.md").write_text("")


def lengthen(place: Place) -> None:
    again(artifacts(place) / "review.md", "fine, and more\n")


def forge(place: Place) -> None:
    again(artifacts(place) / "review.md", "FINE\n")


def touch(place: Place) -> None:
    os.utime(artifacts(place) / "review.md", (5, 5))


def lead_outside(place: Place) -> None:
    remove(place)
    (artifacts(place) / "review.md").symlink_to("/etc/hostname")


def make_a_fifo(place: Place) -> None:
    remove(place)
    os.mkfifo(artifacts(place) / "review.md")


@pytest.mark.parametrize(
    ("change", "state", "differences", "delivery"),
    [
        (remove, "gone", [], "partial"),
        (empty, "empty", [], "invalid"),
        (lead_outside, "outside", [], "invalid"),
        (make_a_fifo, "not_regular", [], "invalid"),
        (lengthen, "changed", ["size", "sha256"], "passed"),
        (forge, "changed", ["sha256"], "passed"),
        (touch, "changed", ["modified"], "passed"),
    ],
)
def test_exactly_what_changed_or_went_since_is_named(
    judged: Place, change: Callable[[Place], None], state: str, differences: list[str], delivery: str
) -> None:
    change(judged)
    said = verified(judged, 1)
    assert said["same"] is False
    assert said["delivery"] == {"then": "passed", "now": delivery}
    assert states(judged) == {
        "review": (state, differences),
        "report": ("same", []),
        "notes": ("missing", []),
    }
    assert judged.call("session", "verify", "r").out.startswith("Session r: not as at the verdict")


def test_what_was_missing_and_came_later_is_new(judged: Place) -> None:
    (artifacts(judged) / "notes.md").write_text("late\n")
    verified(judged, 1)
    assert states(judged)["notes"] == ("new", [])
    assert "Verified now: passed, it was warning" in judged.call("session", "verify", "r").out


def test_with_its_directory_everything_is_gone(judged: Place) -> None:
    artifacts(judged).rename(judged.runs / "elsewhere")
    said = verified(judged, 1)
    assert said["delivery"] == {"then": "passed", "now": "missing"}
    assert states(judged) == {"review": ("gone", []), "report": ("gone", []), "notes": ("missing", [])}


def test_a_failed_verdict_that_is_still_the_same_is_as_it_was(place: Place) -> None:
    place.add_run("r", exit_code=0, contract=CONTRACT, files={"report.md": "done\n"})
    place.daemon_once()
    assert verified(place, 0)["delivery"] == {"then": "partial", "now": "partial"}
    (artifacts(place) / "review.md").write_text("at last\n")
    assert verified(place, 1)["delivery"] == {"then": "partial", "now": "passed"}


def test_what_is_different_is_told_in_words(judged: Place) -> None:
    lengthen(judged)
    os.utime(artifacts(judged) / "report.md", (5, 5))
    review, report = judged.call("session", "verify", "r").out.splitlines()[3:5]
    assert "size 5 B -> 15 B, sha256 " in review
    assert "-> 1970-01-01 00:00:05 UTC, the content is the same" in report


@pytest.mark.parametrize("without", ["a hash of it", "any record of it", "a hash of what was verified"])
def test_without_a_hash_of_what_was_verified_size_and_time_are_compared(judged: Place, without: str) -> None:
    judged.change_store("drop trigger files_are_facts")
    judged.change_store("update files set problem = 'changed'")
    if without != "a hash of what was verified":
        judged.change_store("delete from files")
    if without == "any record of it":
        judged.change_store("drop trigger attempts_end_once")
        judged.change_store("update attempts set produced = null")
    forge(judged)
    verified(judged, 0)
    assert "5 B, size and time compared" in judged.call("session", "verify", "r").out
    lengthen(judged)
    verified(judged, 1)
    assert states(judged)["review"] == ("changed", ["size"])


def test_a_session_without_a_contract_has_nothing_to_verify(recorded: Place) -> None:
    said = recorded.call("session", "verify", "plain")
    assert said.code == 0
    assert said.out.startswith("session plain has no contract: there is nothing to verify\n")
    told = recorded.call("session", "verify", "plain", "--json").object()
    assert (told["same"], told["artifacts"]) == (None, [])
    assert told["verification"] == {"then": None, "now": None}


def test_a_session_that_is_still_running_has_no_verdict_yet(place: Place) -> None:
    place.add_run("r", contract=CONTRACT)
    place.daemon_once()
    said = place.call("session", "verify", "r", "--json")
    assert (said.code, said.object()["same"], said.object()["status"]) == (1, None, "running")
    assert "session r is still running: there is no verdict to compare with yet" in said.err


def test_a_session_that_nobody_knows_is_not_found(recorded: Place) -> None:
    said = recorded.call("session", "verify", "nobody")
    assert (said.code, said.out) == (3, "")


def test_a_root_that_is_away_says_nothing_about_its_runs(judged: Place) -> None:
    judged.runs.rename(judged.directory / "away")
    said = judged.call("session", "verify", "r")
    assert (said.code, said.out) == (75, "")
    assert "can't be read: No such file or directory; try again" in said.err


def test_it_works_beside_a_daemon_and_changes_nothing(judged: Place) -> None:
    def whole() -> list[tuple[object, ...]]:
        return judged.rows("select * from files") + judged.rows("select * from attempts")

    before = whole()
    with judged.daemon():
        assert judged.call("session", "verify", "r").code == 0
        remove(judged)
        assert judged.call("session", "verify", "r").code == 1
    assert whole() == before


def test_the_name_of_a_hostile_file_can_do_nothing_to_a_terminal(place: Place) -> None:
    hostile: JsonValue = {"expected": [{"id": "a", "path": "\x1bc.md"}]}
    place.add_run("r", exit_code=0, contract=hostile, files={"\x1bc.md": "x"})
    place.daemon_once()
    said = place.call("session", "verify", "r")
    assert said.code == 0
    assert "\\x1bc.md" in said.out
    assert "\x1bc" not in said.out


def on_a_terminal(place: Place, *arguments: str) -> tuple[Result, str]:
    """The command with a terminal for its stderr, and what that showed."""
    ours, theirs = pty.openpty()
    code = f"from runward.daemon.cli.session import verify; verify._LONG = 1; {ENTRY}"
    argv = [*place.argv()[:2], code, *arguments]
    process = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        cwd=place.directory,
        env=place.environment | {"TERM": "xterm"},
        timeout=PATIENCE_S,
        check=False,
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # the terminal is closed, as it says on Linux
    os.close(ours)
    return Result(process.returncode, process.stdout, ""), shown.decode()


ENTRY = "from runward.daemon.cli import main; main()"


def test_long_hashing_shows_its_progress_on_a_terminal_only(
    judged: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, shown = on_a_terminal(judged, "session", "verify", "r", "--json")
    assert said.code == 0
    assert json.loads(said.out)["same"] is True
    assert "hashing" in shown
    assert "100%" in shown
    monkeypatch.setattr(session_verify, "_LONG", 1)
    assert judged.call("session", "verify", "r").err == ""
