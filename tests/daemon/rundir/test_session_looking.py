"""Looks at foreign sessions, on a real file system: everything once, whatever happens to their files."""

import json
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.daemon.rundir.looking_on import Onlooker, append, lines
from tests.handlers.layouts import claude_code_lines, cline_lines, codex_lines, ctcp_lines, lionagi_lines
from tests.handlers.layouts.tiny import END, Directories, begin, layouts

from runward.daemon.rundir import session_files, session_logs
from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import RACY, Listing
from runward.daemon.rundir.session_files import JUST_WRITTEN, LONGEST_WAIT, MOST_FILES, NOTHING_READ
from runward.daemon.rundir.session_logs import LONGEST_KEPT
from runward.daemon.rundir.session_places import list_places, place_signature
from runward.daemon.rundir.session_reading import Identity, SessionSight, identify, read_session
from runward.handlers.layouts.layout import DirectoryLayout, LogLayout
from runward.handlers.layouts.places import Shape, mixed_shape, shape_of
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.transcript import Told
from runward.handlers.model.files import Unreadable
from runward.handlers.model.sessions import Complaint

LOG = replace(layouts().logs[0], beside=("{name}/agents/*.jsonl",))
(DIRECTORY,) = layouts().directories
COMING_AND_GOING = replace(DIRECTORY, module=Directories(("stream/*.jsonl",)), logs_come_and_go=True)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "project/a.jsonl"
    path.parent.mkdir()
    path.write_bytes(lines(begin(), END))
    return path


@pytest.fixture
def onlooker(tmp_path: Path, log: Path) -> Onlooker:
    return Onlooker(tmp_path, "project/a.jsonl", LOG)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    (path / "inner").mkdir(parents=True)
    (path / "status.json").write_text('{"status": "tiny"}')
    (path / "events.jsonl").write_bytes(lines(begin()))
    return path


def pack(path: Path) -> Path:
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    return packed


def test_a_further_line_is_given_once_and_alone(onlooker: Onlooker, log: Path) -> None:
    first = onlooker.look()
    assert [portion.name for portion in first.portions] == ["a.jsonl"]
    assert (first.anew, first.more, first.obstacles) == (False, False, ())
    append(log, b'{"work":1}\n{"wo')
    (portion,) = onlooker.look().portions
    assert [line.content for line in portion.lines] == [b'{"work":1}']
    unchanged = onlooker.look()
    assert (unchanged.portions, unchanged.bytes_read, unchanged.read) == ((), 0, onlooker.known)
    assert unchanged.changed_at == pytest.approx(log.stat().st_mtime)


def test_a_log_that_grows_byte_by_byte_gives_each_line_when_it_is_whole(
    onlooker: Onlooker, log: Path
) -> None:
    """Which it is before its newline, if it is an object."""
    content = lines(begin()) + b'{"work": 1}\n' * 20 + lines(END) + b"torn"
    log.write_bytes(b"")
    for end in range(1, len(content) + 1):
        append(log, content[end - 1 : end])
        onlooker.look()
        *whole, rest = content[:end].split(b"\n")
        assert onlooker.lines.get("a.jsonl", []) == whole + [rest] * rest.endswith(b"}")


def test_a_torn_last_line_is_a_problem_once_it_is_old_and_until_it_is_whole(
    onlooker: Onlooker, log: Path
) -> None:
    append(log, b'{"wo')
    at = log.stat().st_mtime
    young = onlooker.look(now=at + JUST_WRITTEN / 2)
    assert (young.obstacles, young.unsettled) == ((), True), "it is asked again soon"
    named = (
        Complaint(
            "a.jsonl",
            None,
            "ends in 4 bytes that are not a complete JSON object, without a newline: they are ignored",
            None,
        ),
    )
    old = onlooker.look(now=at + JUST_WRITTEN * 2)
    assert (old.obstacles, old.unsettled, old.read.retry_at) == (named, False, 0)
    unchanged = onlooker.look(now=at + JUST_WRITTEN * 3)
    assert (unchanged.obstacles, unchanged.bytes_read) == (named, 0)
    append(log, b'rk": 1}')
    assert onlooker.look().obstacles == ()
    assert onlooker.lines["a.jsonl"][2:] == [b'{"work": 1}']


def test_a_packed_log_with_a_torn_last_line_stays_a_problem(onlooker: Onlooker, log: Path) -> None:
    append(log, b"\0" * 100)
    at = pack(log).stat().st_mtime
    assert onlooker.look(now=at).obstacles == ()
    for after in (JUST_WRITTEN * 2, JUST_WRITTEN * 3):
        (named,) = onlooker.look(now=at + after).obstacles
        assert "100 NUL bytes" in named.message


pieces = st.lists(st.sampled_from([b"\n", b"a", b"bc\n", b"\0\0", b"long" * 20, b"\n\n"]), max_size=8)


@given(st.lists(st.tuples(pieces, st.integers(1, 200), st.booleans()), max_size=10))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_portioning_gives_what_reading_at_once_gives(
    tmp_path: Path, steps: list[tuple[list[bytes], int, bool]]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"")
    onlooker = Onlooker(tmp_path, "a.jsonl", LOG)
    for content, most_bytes, just_now in steps:
        append(path, b"".join(content))
        onlooker.look(most_bytes=most_bytes, now=time.time() if just_now else None)
    assert not onlooker.all(most_bytes=50).anew
    assert onlooker.lines.get("a.jsonl", []) == path.read_bytes().split(b"\n")[:-1]


@given(pieces, pieces, st.integers(0, 100), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_log_that_was_cut_or_written_anew_is_read_from_its_beginning(
    tmp_path: Path, before: list[bytes], after: list[bytes], cut: int, packed: bool
) -> None:
    path, other = tmp_path / "a.jsonl", tmp_path / "a.jsonl.zst"
    if packed:
        path, other = other, path
    other.unlink(missing_ok=True)

    def write(content: bytes) -> None:
        path.write_bytes(zstandard.compress(content) if packed else content)

    write(b"".join(before))
    onlooker = Onlooker(tmp_path, "a.jsonl", LOG)
    onlooker.all()
    changed = (b"".join(before) + b"".join(after))[cut:]
    # A packed log is written once: one that has as many packed bytes as before is taken for that.
    assume(not packed or len(zstandard.compress(changed)) != path.stat().st_size)
    write(changed)
    sight = onlooker.all()
    whole = changed.split(b"\n")[:-1]
    if sight.anew or cut == 0:
        assert onlooker.lines.get("a.jsonl", []) == whole
    else:  # what can't be told from growth, by the bytes before the place: nothing is given twice
        assert len(onlooker.lines.get("a.jsonl", [])) <= len(b"".join(before).split(b"\n")) + len(whole)


def test_a_truncated_log_says_that_nothing_holds_any_more(onlooker: Onlooker, log: Path) -> None:
    onlooker.look()
    log.write_bytes(lines(begin()))
    assert onlooker.look().anew
    assert len(onlooker.lines["a.jsonl"]) == 1
    assert not onlooker.look().anew


def test_a_log_of_the_same_length_that_changed_is_read_anew(onlooker: Onlooker, log: Path) -> None:
    onlooker.look()
    log.write_bytes(lines(begin(), END)[:-4] + b" }}\n")
    assert onlooker.look().anew


def test_a_session_that_was_moved_is_read_on(onlooker: Onlooker, log: Path, tmp_path: Path) -> None:
    onlooker.look()
    (tmp_path / "archive/2026").mkdir(parents=True)
    moved = log.rename(tmp_path / "archive/2026/b.jsonl")
    assert onlooker.answer() == Gone()
    onlooker.place = "archive/2026/b.jsonl"
    assert onlooker.look().portions == ()
    append(moved, b"{}\n")
    sight = onlooker.answer()
    assert isinstance(sight, SessionSight)
    assert not sight.anew
    assert [(each.name, [line.number for line in each.lines]) for each in sight.portions] == [
        ("b.jsonl", [3])
    ]


def test_a_log_that_is_packed_meanwhile_stays_at_its_place_and_is_read_anew(
    onlooker: Onlooker, log: Path
) -> None:
    content = [b'{"work":%d}' % number for number in range(5000)]
    log.write_bytes(b"\n".join(content) + b"\n")
    plain = onlooker.look()
    assert plain.signature[0] == log.stat().st_ino
    packed = zstandard.compress(log.read_bytes())
    beside = log.with_name("a.jsonl.zst")
    beside.write_bytes(packed[:20])
    assert onlooker.look().portions == (), "the plain one counts while it is there"
    beside.write_bytes(packed)
    log.unlink()
    sight = onlooker.all(most_bytes=1000)
    assert (sight.anew, sight.signature[0]) == (True, beside.stat().st_ino)
    assert onlooker.lines == {"a.jsonl": content}
    assert onlooker.look().bytes_read == 0


def test_a_large_packed_log_is_not_unpacked_again_for_every_few_lines(onlooker: Onlooker, log: Path) -> None:
    log.write_bytes(b'{"work":1}\n' * 400_000)
    pack(log)
    looks = 0
    while onlooker.look(most_bytes=64 << 10).more:
        looks += 1
    assert len(onlooker.lines["a.jsonl"]) == 400_000
    assert looks < 20


def test_what_vanished_is_gone_while_the_root_is_there(onlooker: Onlooker, log: Path, tmp_path: Path) -> None:
    onlooker.look()
    log.unlink()
    assert onlooker.answer() == Gone()
    log.parent.rmdir()
    assert onlooker.answer() == Gone()
    log.parent.symlink_to("/")
    assert onlooker.answer() == Gone(), "a link below the root leads to nothing"
    onlooker.root = tmp_path / "unmounted"
    assert isinstance(onlooker.answer(), Unreadable)


def test_a_link_below_the_root_is_not_followed_and_the_roots_own_is(
    onlooker: Onlooker, log: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").symlink_to(log.parent)
    (log.parent / "b.jsonl").symlink_to(log)
    assert Onlooker(tmp_path, "other/a.jsonl", LOG).answer() == Gone()
    sight = Onlooker(tmp_path, "project/b.jsonl", LOG).look()
    assert sight.obstacles == (Complaint("b.jsonl", None, "is not a regular file", None),)
    assert Onlooker(tmp_path / "other", "a.jsonl", LOG).look().portions


def test_nothing_blocks_on_a_pipe_and_it_is_not_tried_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    onlooker = Onlooker(tmp_path, "a.jsonl", LOG)
    first, second = onlooker.look(), onlooker.look()
    assert first.obstacles == (Complaint("a.jsonl", None, "is not a regular file", None),)
    assert second.obstacles == first.obstacles
    assert second.read.failures == 1
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")
    waiting = onlooker.look()
    assert waiting.portions == (), "it isn't time to try again"
    sight = onlooker.look(now=waiting.read.retry_at)
    assert (len(sight.portions), sight.obstacles, sight.read.failures) == (1, (), 0)


@pytest.mark.parametrize("most_bytes", [1, 1000, 4 << 20])
def test_a_line_longer_than_what_may_be_read_is_given_whole(
    onlooker: Onlooker, log: Path, most_bytes: int
) -> None:
    log.write_bytes(b"x" * 3_000_000 + b"\nend\n")
    onlooker.all(most_bytes=most_bytes)
    assert [len(line) for line in onlooker.lines["a.jsonl"]] == [3_000_000, 3]


def test_a_line_over_the_limit_is_cut_and_the_rest_is_passed_over(onlooker: Onlooker, log: Path) -> None:
    with log.open("wb") as file:
        file.write(b"x" * (LONGEST_KEPT + 5_000_000))
    (portion,) = onlooker.look(most_bytes=1000).portions
    assert (len(portion.lines[0].content), portion.lines[0].is_cut) == (LONGEST_KEPT, True)
    append(log, b"\nend\n")
    onlooker.all(most_bytes=1 << 20)
    assert onlooker.lines["a.jsonl"][1:] == [b"end"]


def test_a_look_reads_about_as_much_as_it_may(onlooker: Onlooker, log: Path) -> None:
    log.write_bytes(b"line\n" * 100_000)
    sight = onlooker.look(most_bytes=1000)
    assert (sight.more, sight.bytes_read, len(sight.portions[0].lines)) == (True, 1000, 200)


def test_a_terabyte_of_nothing_is_passed_over(onlooker: Onlooker, log: Path) -> None:
    onlooker.look()
    os.truncate(log, 1 << 40)
    append(log, b"\nend\n")
    sight = onlooker.all()
    assert not sight.anew
    assert onlooker.lines["a.jsonl"][-1] == b"end"


def test_a_log_that_changed_just_now_is_looked_at_again_though_nothing_seems_to_have_changed(
    onlooker: Onlooker, log: Path
) -> None:
    at = log.stat().st_mtime
    assert onlooker.look(now=at).unsettled
    content = lines(begin(), END)[:-4] + b" }}\n"
    log.write_bytes(content)
    os.utime(log, (at, at))
    again = onlooker.look(now=at + RACY * 2)
    assert (again.anew, again.unsettled) == (True, False)
    assert onlooker.lines["a.jsonl"] == content.split(b"\n")[:-1]


def test_the_logs_beside_a_log_are_given_line_by_line_and_each_once(onlooker: Onlooker, log: Path) -> None:
    agents = log.parent / "a/agents"
    agents.mkdir(parents=True)
    for name in ("1.jsonl", "2.jsonl", "3.txt"):
        (agents / name).write_bytes(lines({"work": True}) * 10_000)
    (agents / "4.jsonl").write_bytes(b'{"wor')
    onlooker.all(most_bytes=20_000)
    assert sorted(onlooker.lines) == ["a.jsonl", "a/agents/1.jsonl", "a/agents/2.jsonl"]
    assert len(onlooker.lines["a/agents/1.jsonl"]) == 10_000
    append(agents / "1.jsonl", lines({"work": True}))
    append(agents / "4.jsonl", b'k": 1}\n')
    assert [each.name for each in onlooker.look().portions] == ["a/agents/1.jsonl", "a/agents/4.jsonl"]
    (agents / "5.jsonl").write_bytes(lines({"work": True}))
    assert [each.name for each in onlooker.look().portions] == ["a/agents/5.jsonl"]
    assert onlooker.look().bytes_read == 0


def test_logs_in_directories_of_any_name_are_found_unless_a_link_leads_there(tmp_path: Path) -> None:
    onlooker = Onlooker(tmp_path, "a.jsonl", replace(LOG, beside=("{name}/flows/*/*.jsonl",)))
    (tmp_path / "a.jsonl").write_bytes(lines(begin()))
    for name in ("w1", "w[2", "deeper/w3"):
        (tmp_path / "a/flows" / name).mkdir(parents=True)
        (tmp_path / "a/flows" / name / "1.jsonl").write_bytes(b"{}\n")
    (tmp_path / "a/flows/file").write_bytes(b"{}\n")
    (tmp_path / "a/flows/link").symlink_to(tmp_path / "a/flows/w1")
    found = ["a.jsonl", "a/flows/w1/1.jsonl", "a/flows/w[2/1.jsonl"]
    sight = onlooker.look()
    assert ([each.name for each in sight.portions], sight.obstacles) == (found, ())
    append(tmp_path / "a/flows/w1/1.jsonl", b"{}\n")
    assert [each.name for each in onlooker.look().portions] == [found[1]]


def test_a_session_that_was_renamed_keeps_its_place_in_the_logs_beside(onlooker: Onlooker, log: Path) -> None:
    agents = log.parent / "a/agents"
    agents.mkdir(parents=True)
    (agents / "1.jsonl").write_bytes(b"{}\n")
    onlooker.look()
    log.rename(log.with_name("b.jsonl"))
    (log.parent / "a").rename(log.parent / "b")
    append(log.parent / "b/agents/1.jsonl", b'{"more": 1}\n')
    onlooker.place = onlooker.place.replace("a.jsonl", "b.jsonl")
    sight = onlooker.answer()
    assert isinstance(sight, SessionSight)
    assert [(each.name, len(each.lines)) for each in sight.portions] == [("b/agents/1.jsonl", 1)]


def test_what_was_given_of_the_logs_beside_is_given_again_when_the_log_is_read_anew(
    onlooker: Onlooker, log: Path
) -> None:
    (log.parent / "a/agents").mkdir(parents=True)
    (log.parent / "a/agents/1.jsonl").write_bytes(b"{}\n")
    onlooker.look()
    log.write_bytes(b"{}\n")
    assert [each.name for each in onlooker.look().portions] == ["a.jsonl", "a/agents/1.jsonl"]


def test_the_logs_beside_a_log_are_counted_up_to_a_bound(
    onlooker: Onlooker, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_files, "MOST_FILES", 3)
    (log.parent / "a/agents").mkdir(parents=True)
    for number in range(5):
        (log.parent / f"a/agents/{number}.jsonl").write_bytes(b"{}\n")
    onlooker.look()
    (log.parent / "a/agents/9.jsonl").write_bytes(b"{}\n")
    onlooker.look()
    assert len(onlooker.lines) == 4
    assert MOST_FILES * 15 < 64 << 10, "what is stored stays small"


def test_of_a_directory_the_documents_come_before_the_logs_and_only_what_differs(
    tmp_path: Path, run: Path
) -> None:
    (run / "inner/x.json").write_text("{}")
    onlooker = Onlooker(tmp_path, "run", DIRECTORY)
    first = onlooker.look()
    assert [each.name for each in first.documents] == ["status.json", "inner/x.json"]
    assert [each.name for each in first.portions] == ["events.jsonl"]
    assert onlooker.look().bytes_read == 0
    (run / "inner/x.json").write_text('{"a": 1}')
    (run / "inner/y.json").write_text("{}")
    append(run / "events.jsonl", b"{}\n")
    sight = onlooker.look()
    assert [each.name for each in sight.documents] == ["inner/x.json", "inner/y.json"]
    assert [len(each.lines) for each in sight.portions] == [1]
    assert sight.changed_at == pytest.approx(max(each.stat().st_mtime for each in run.rglob("*.json*")))


def test_a_document_that_was_taken_away_is_given_when_it_is_back(tmp_path: Path, run: Path) -> None:
    onlooker = Onlooker(tmp_path, "run", DIRECTORY)
    onlooker.look()
    away = (run / "status.json").rename(tmp_path / "away")
    assert onlooker.look().documents == ()
    away.rename(run / "status.json")
    assert [each.name for each in onlooker.look().documents] == ["status.json"]


def test_when_one_log_is_anew_all_of_the_directory_is(tmp_path: Path, run: Path) -> None:
    onlooker = Onlooker(
        tmp_path, "run", replace(DIRECTORY, module=Directories(("events.jsonl", "more.jsonl")))
    )
    (run / "more.jsonl").write_bytes(b"1\n2\n")
    onlooker.look()
    (run / "more.jsonl").write_bytes(b"3\n")
    sight = onlooker.look()
    assert (sight.anew, [each.name for each in sight.documents]) == (True, ["status.json"])
    assert [each.name for each in sight.portions] == ["events.jsonl", "more.jsonl"]


def test_logs_that_come_and_go_make_nothing_anew(tmp_path: Path, run: Path) -> None:
    (run / "stream").mkdir()
    onlooker = Onlooker(tmp_path, "run", COMING_AND_GOING)
    for content in (b"1\n2\n", b"3\n", b"4\n5\n6\n"):
        (run / "stream/b.jsonl").write_bytes(content)
        assert not onlooker.look().anew
        assert onlooker.lines["stream/b.jsonl"] == content.split()
    (run / "stream/b.jsonl").unlink()
    assert onlooker.look().read.logs == ()


def test_a_document_that_is_being_written_is_withheld_until_it_is_whole_or_old(
    tmp_path: Path, run: Path
) -> None:
    onlooker = Onlooker(tmp_path, "run", DIRECTORY)
    onlooker.look()
    (run / "inner/x.json").write_text('{"status": "do')
    at = (run / "inner/x.json").stat().st_mtime
    early = onlooker.look(now=at + JUST_WRITTEN / 2)
    assert (early.documents, early.unsettled) == ((), True)
    later = onlooker.look(now=at + JUST_WRITTEN + 0.1)
    assert [each.content for each in later.documents] == [b'{"status": "do']
    assert not later.unsettled
    (run / "inner/x.json").write_text('{"status": "done"}')
    at = (run / "inner/x.json").stat().st_mtime
    assert [each.content for each in onlooker.look(now=at + 1).documents] == [b'{"status": "done"}']


def test_many_documents_are_read_in_several_looks_and_the_logs_after_them(tmp_path: Path, run: Path) -> None:
    for number in range(20):
        (run / f"inner/{number}.json").write_text(json.dumps("x" * 900))
    onlooker = Onlooker(tmp_path, "run", DIRECTORY)
    first = onlooker.look(most_bytes=4000)
    assert (first.more, first.portions) == (True, ())
    assert first.bytes_read < 6000
    onlooker.all(most_bytes=4000)
    assert [len(each) for each in onlooker.documents.values()] == [1] * 21
    assert len(onlooker.lines["events.jsonl"]) == 1


def test_a_packed_log_that_breaks_is_backed_off_while_it_changes(onlooker: Onlooker, log: Path) -> None:
    packed, start = pack(log), 1e9
    content = b"{}\n" * 50_000

    def spoil(size: int) -> None:
        packed.write_bytes(zstandard.compress(content) + b"x" * size)

    spoil(10)
    sight = onlooker.look(now=start)
    assert [each.message.partition(":")[0] for each in sight.obstacles] == ["can't be unpacked"]
    given = onlooker.lines["a.jsonl"]
    assert set(given) == {b"{}"}, "what there is of it is given"
    assert (sight.read.failures, sight.read.retry_at) == (1, start + 2)
    assert onlooker.look(now=start + 100).read == sight.read, "it didn't change"
    now, waits = start + 2, []
    for size in range(11, 25):
        spoil(size)
        now = onlooker.look(now=now).read.retry_at
        waiting = onlooker.look(now=now - 0.1)
        assert (waiting.bytes_read, len(waiting.obstacles)) == (0, 1)
        waits.append(now)
    steps = [after - before for before, after in zip([start + 2, *waits], waits, strict=False)]
    assert steps[:4] == [4, 8, 16, 32]
    assert steps[-1] == LONGEST_WAIT
    assert len(given) == len(onlooker.lines["a.jsonl"])
    packed.write_bytes(zstandard.compress(content + b"[]\n"))
    sight = onlooker.look(now=now)
    assert (sight.obstacles, sight.read.failures, sight.read.retry_at) == ((), 0, 0.0)
    assert onlooker.lines == {"a.jsonl": [*([b"{}"] * 50_000), b"[]"]}


def test_a_packed_log_that_unpacks_without_end_is_given_up(
    onlooker: Onlooker, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_logs, "MOST_UNPACKED", 3_000_000)
    log.write_bytes(b"x" * 30_000_000)
    pack(log)
    sight = onlooker.all()
    assert "unpacks to more than" in sight.obstacles[0].message
    assert onlooker.look().bytes_read == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_tried_again_though_it_did_not_change(onlooker: Onlooker, log: Path) -> None:
    log.chmod(0)
    sight = onlooker.look(now=1e9)
    assert [each.message for each in sight.obstacles] == ["can't be read: Permission denied"]
    log.chmod(0o600)
    assert onlooker.look(now=1e9 + 1).portions == ()
    assert len(onlooker.look(now=1e9 + 2).portions) == 1


def test_what_the_system_refuses_is_tried_again_though_it_did_not_change(
    onlooker: Onlooker, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(within: int, name: str) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(session_files, "open_regular", broken)
        sight = onlooker.look(now=1e9)
        assert [each.message for each in sight.obstacles] == ["can't be read: Input/output error"]
        assert len(onlooker.look(now=1e9 + 1).obstacles) == 1
    assert onlooker.look(now=1e9 + 1.9).portions == ()
    assert len(onlooker.look(now=1e9 + 2).portions) == 1
    assert onlooker.known.failures == 0


def test_a_document_that_cannot_be_read_keeps_back_nothing_else(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(within: int, name: str, known: object, most: int) -> None:
        raise OSError(5, "Input/output error")

    onlooker = Onlooker(tmp_path, "run", DIRECTORY)
    with monkeypatch.context() as patched:
        patched.setattr(session_files, "document_at", broken)
        sight = onlooker.look(now=1e9)
        assert [each.name for each in sight.portions] == ["events.jsonl"]
        assert (sight.read.failures, sight.read.retry_at) == (1, 1e9 + 2)
        assert onlooker.look(now=1e9 + 1).read.failures == 1, "it isn't time yet"
        assert onlooker.look(now=1e9 + 2).read.failures == 2
    assert [each.name for each in onlooker.look().documents] == ["status.json"]
    assert onlooker.known.failures == 0


def test_a_document_that_is_too_large_or_no_file_says_so_once(tmp_path: Path, run: Path) -> None:
    (run / "inner/large.json").write_bytes(b"x" * (9 << 20))
    (run / "inner/link.json").symlink_to("/etc/passwd")
    onlooker = Onlooker(tmp_path, "run", DIRECTORY)
    problems = {each.name: each.problem for each in onlooker.look().documents}
    assert problems["inner/large.json"] == "is larger than 8388608 bytes"
    assert problems["inner/link.json"] == "is not a regular file"
    assert onlooker.look().documents == ()


@pytest.mark.parametrize(
    "shape", [shape_of(LAYOUTS.named("cline")), mixed_shape(LAYOUTS)], ids=["cline", "auto"]
)
def test_a_document_with_the_name_of_its_directory_is_found_and_its_rewriting_noticed(
    tmp_path: Path, shape: Shape
) -> None:
    layout, place, log = LAYOUTS.named("cline"), cline_lines.SESSION, cline_lines.Log().prompt()
    directory = tmp_path / place
    directory.mkdir()
    for document in log.documents():
        (directory / document.name).write_bytes(document.content)
    sub_agent = "agent_1.messages.json"
    (directory / sub_agent).write_bytes(log.messages().content)
    listed = list_places(str(tmp_path), shape)
    assert isinstance(listed, Listing)
    before = listed.directories[place]
    assert before == place_signature(str(tmp_path), place, shape)
    assert shape.place_of(f"{place}/{place}.messages.json") == place
    assert shape.place_of(f"{place}/{sub_agent}") == place
    identity = identify(str(tmp_path), place, LAYOUTS)
    assert isinstance(identity, Identity)
    assert (identity.layout, identity.session_id) == (layout, place)
    onlooker = Onlooker(tmp_path, place, layout)
    looked = [each.name for each in onlooker.look().documents]
    assert looked == [f"{place}.json", f"{place}.messages.json", sub_agent]
    (directory / f"{place}.messages.json").write_bytes(log.say().messages().content)
    assert place_signature(str(tmp_path), place, shape) != before
    assert [each.name for each in onlooker.look().documents] == [f"{place}.messages.json"]


def test_a_directory_inside_that_is_a_link_is_not_followed(tmp_path: Path, run: Path) -> None:
    (run / "inner").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/status.json").write_text("{}")
    (run / "inner").symlink_to(tmp_path / "elsewhere")
    sight = Onlooker(tmp_path, "run", DIRECTORY).look()
    assert [each.name for each in sight.documents] == ["status.json"]
    assert sight.obstacles == ()


def test_a_look_tells_the_signature_by_which_a_place_is_listed(
    tmp_path: Path, onlooker: Onlooker, run: Path
) -> None:
    for layout, place in ((LOG, "project/a.jsonl"), (DIRECTORY, "run")):
        shape = shape_of(layout)
        sight = Onlooker(tmp_path, place, layout).look()
        listing = list_places(str(tmp_path), shape)
        assert not isinstance(listing, Unreadable | Gone)
        assert sight.signature == place_signature(str(tmp_path), place, shape) == listing.directories[place]


def test_what_looks_give_amounts_to_what_is_told_by_reading_at_once(
    log: Path, tmp_path: Path, run: Path
) -> None:
    assert told_in_portions(tmp_path, "project/a.jsonl", LOG, 10).counts.events == 2
    assert told_in_portions(tmp_path, "run", DIRECTORY, 10).attempt == 1


@pytest.mark.parametrize("most_bytes", [1, 300, 4 << 20])
def test_the_real_layouts_are_told_in_portions_what_they_are_told_at_once(
    tmp_path: Path, most_bytes: int
) -> None:
    session = claude_code_lines.SESSION
    agents = tmp_path / f"{session}/subagents"
    agents.mkdir(parents=True)
    (tmp_path / f"{session}.jsonl").write_bytes(claude_code_lines.headless_run().content())
    for name in ("agent-1.jsonl", "agent-2.jsonl"):
        (agents / name).write_bytes(claude_code_lines.subagent_file().content())
    rollout = b"".join(line.content + b"\n" for line in codex_lines.resumed().lines())
    (tmp_path / codex_lines.NAME).write_bytes(rollout)
    (tmp_path / "ctcp").mkdir()
    (tmp_path / "ctcp/RUN.json").write_text(json.dumps(ctcp_lines.run_json("pass")))
    (tmp_path / "ctcp/events.jsonl").write_bytes(b"\n".join(ctcp_lines.passed_run()) + b"\n")
    (tmp_path / "lionagi/branches").mkdir(parents=True)
    (tmp_path / "lionagi/stream").mkdir()
    (tmp_path / "lionagi/run.json").write_text(json.dumps(lionagi_lines.run_json()))
    own = lionagi_lines.branch(lionagi_lines.OWN, [lionagi_lines.instruction(), lionagi_lines.response()])
    (tmp_path / f"lionagi/branches/{lionagi_lines.OWN}.json").write_text(json.dumps(own))
    buffer = tmp_path / f"lionagi/stream/{lionagi_lines.OWN}.buffer.jsonl"
    buffer.write_bytes(b"\n".join(lionagi_lines.stream()) + b"\n")
    claude, codex, ctcp, lionagi = map(LAYOUTS.named, ("claude-code", "codex", "ctcp", "lionagi"))
    told = [
        told_in_portions(tmp_path, f"{session}.jsonl", claude, most_bytes),
        told_in_portions(tmp_path, codex_lines.NAME, codex, most_bytes),
        told_in_portions(tmp_path, "ctcp", ctcp, most_bytes),
        told_in_portions(tmp_path, "lionagi", lionagi, most_bytes),
    ]
    assert [each.turn for each in told] == ["closed", "closed", "closed", "open"]
    assert [each.counts.subagents for each in told] == [2, 0, 0, 0]
    assert min(each.counts.events for each in told) > 1


def told_in_portions(root: Path, place: str, layout: LogLayout | DirectoryLayout, most_bytes: int) -> Told:
    """What a session's scanner tells when it is fed by looks; the same as when it is fed at once."""
    looking, scan, more = Onlooker(root, place, layout), layout.start(place.rpartition("/")[2]), True
    while more:
        sight = looking.look(most_bytes=most_bytes)
        scan = layout.load(scan.dump()).see(sight.documents)
        for portion in sight.portions:
            scan, _ = scan.feed(portion.name, portion.lines)
        more = sight.more
    told = scan.tell()
    assert told == read_session(layout, str(root / place)).told
    return told


def test_an_unchanged_session_costs_less_than_a_tenth_of_a_millisecond(onlooker: Onlooker) -> None:
    onlooker.look()
    onlooker.layout = LAYOUTS.logs[0]
    onlooker.look()
    taken = []
    for _ in range(200):
        before = time.process_time_ns()
        onlooker.answer()
        taken.append(time.process_time_ns() - before)
    assert sorted(taken)[20] < 100_000


_MEASURE = """\
    import sys, time
    from runward.daemon.rundir.session_reading import look_at_session
    from runward.daemon.rundir.session_files import NOTHING_READ
    from runward.handlers.layouts.layout import DirectoryLayout, LogLayout
    from runward.handlers.layouts.registry import LAYOUTS
    directory, name = sys.argv[1].rsplit("/", 1)
    known, lines, more = NOTHING_READ, 0, True
    def look():
        return look_at_session(directory, name, LAYOUTS.logs[0], known, 4 << 20, time.time() + 1000)
    while more:
        sight = look()
        known, more = sight.read, sight.more
        lines += sum(len(each.lines) for each in sight.portions)
        del sight
    taken = []
    for _ in range(100):
        with open(sys.argv[1], "ab") as file:
            file.write(b"x" * 500 + b"\\n")
        before = time.process_time()
        sight = look()
        taken.append(time.process_time() - before)
        assert len(sight.portions[0].lines) == 1
        known = sight.read
    (peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(lines, int(peak.split()[1]) // 1024, int(sorted(taken)[50] * 1e6))
"""


@pytest.mark.prove
@pytest.mark.parametrize("packed", [False, True])
def test_a_gigabyte_is_read_in_less_than_100_mb_and_a_further_line_in_a_millisecond(
    tmp_path: Path, packed: bool
) -> None:
    path, block = tmp_path / "a.jsonl", (b"x" * 499 + b"\n") * 2000
    count = 2_000_000 if not packed else 400_000
    if packed:
        with (
            path.with_name("a.jsonl.zst").open("wb") as file,
            zstandard.ZstdCompressor().stream_writer(file) as to,
        ):
            for _ in range(count // 2000):
                to.write(block)
    else:
        with path.open("wb") as file:
            for _ in range(count // 2000):
                file.write(block)
    program = textwrap.dedent(_MEASURE)
    if packed:
        program = program.replace("range(100)", "()").replace("sorted(taken)[50]", "0")
    said = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=True)
    lines_read, memory, microseconds = map(int, said.stdout.split())
    assert lines_read == count
    assert memory < (100 if not packed else 150)
    assert microseconds < 1000


def test_nothing_read_is_where_reading_begins(onlooker: Onlooker) -> None:
    assert onlooker.known == NOTHING_READ
    assert onlooker.look().read != NOTHING_READ
