"""`runward restore --moved`: a record whose directories were moved is the same record."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_chain import over
from tests.daemon.cli.test_chain_approvals import fire, furnished, waits
from tests.handlers.layouts import codex_lines
from tests.handlers.layouts.claude_code_lines import Transcript, good_turn
from tests.waiting import PATIENCE_S, wait_for

from runward.config.json_value import JsonValue

ENDED: Final = "5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b01"
OPEN: Final = "5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b02"
ROOTS: Final = "".join(
    f'[[roots]]\nname = "{name}"\npath = "{path}"\nlayout = "{layout}"\nhistory = "live"\nsettle = "100ms"\n'
    for name, path, layout in (("claude", "claude", "claude-code"), ("codex", "codex", "codex"))
)
REPORT: Final[JsonValue] = {
    "expected": [{"id": "report", "path": "report.md", "required": True, "source": "playbook"}]
}

TOLD: Final = {
    "events.payload",
    "decisions.known",
    "decisions.summary",
    "journal_lines.content",
    "packed.document",
    "chain_runs.definition",
    "chain_runs.trigger_event",
    "approvals.shown",
    "invocations.node_metadata",
    "artifacts.content",
    "receipts.facts",
    "cursors.state",
}
"""What says how it was: facts, definitions, and what a transcript says of where its agent worked."""


class Lived(Place):
    """A place in which runs, agents and a chain have worked. One run and one transcript go on."""

    def live(self) -> None:
        self.furnish()
        with (self.directory / "runward.toml").open("a") as settings:
            settings.write(f'[[roots]]\nname = "runs"\npath = "state/runs"\n{ROOTS}')
        (self.directory / "codex").mkdir()
        (self.directory / "claude").mkdir()
        furnished(self, "{}")
        self.daemon_once()
        self.add_run("one", exit_code=0, contract=REPORT, files={"report.md": "it is done"})
        self.add_run("two", exit_code=0, contract=REPORT)
        self.add_run("going-on", contract=REPORT)
        self.transcript(ENDED, is_over=True)
        self.transcript(OPEN, is_over=False)
        log = (
            codex_lines.Log().meta().start(1).prompt("look", 1).context(1).say().tokens(3000, 70).complete(1)
        )
        rollout = self.directory / f"codex/2026/11/21/{codex_lines.NAME}"
        rollout.parent.mkdir(parents=True)
        rollout.write_bytes(b"".join(codex_lines.write(each) + b"\n" for each in log.records))
        with self.daemon():
            fire(self)
            assert self.call("chain", "approve", str(waits(self)["approval_id"])).code == 0
            wait_for(lambda: over(self, 1), "the end of the chain run")
            launched = self.start("run", "--playbook", "review", "--", "true")
            launched.communicate(timeout=PATIENCE_S)
            assert launched.returncode == 1
            wait_for(lambda: self.statuses().get(ENDED) == "completed", "the end of the transcript")
        self.daemon_once()

    def transcript(self, session: str, *, is_over: bool) -> None:
        written = Transcript(session)
        if is_over:
            good_turn(written)
            written.last_prompt()
        else:
            written.prompt("make a file")
            written.text("I will run a command.", stop="tool_use")
        path = self.directory / f"claude/-home-app/{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(written.content())

    def end_what_goes_on(self) -> None:
        """The open transcript and the open run end where they are now."""
        whole = Transcript(OPEN)
        whole.prompt("make a file")
        whole.text("I will run a command.", stop="tool_use")
        before = len(whole.content())
        whole.text("Done.")
        whole.last_prompt()
        with (self.directory / f"claude/-home-app/{OPEN}.jsonl").open("ab") as file:
            file.write(whole.content()[before:])
        (self.runs / "going-on/artifacts/report.md").write_text("at last")
        self.end_run("going-on", 0)

    def statuses(self) -> dict[str, JsonValue]:
        listed = self.call("session", "list", "--json", "--limit", "100").objects()
        return {str(each["session_id"]): each["status"] for each in listed}

    def used(self) -> JsonValue:
        return self.call("usage", "--since", "2026-01-01", "--until", "2028-01-01", "--json").object()[
            "total"
        ]

    def events(self) -> list[tuple[object, ...]]:
        return self.rows("select key from events order by seq")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    made = Lived(tmp_path_factory.mktemp("kept") / "ann")
    made.directory.mkdir()
    made.live()
    assert made.call("backup", str(made.directory.parent / "copy.db")).code == 0
    return made


@pytest.fixture(params=["renamed", "copied"])
def moved(request: pytest.FixtureRequest, kept: Lived) -> Iterator[Lived]:
    """The place at another path: the same files, or copies of them as on another machine. Nothing is at the old path."""
    target = kept.directory.with_name("bea")
    away = kept.directory.with_name("away")
    shutil.copytree(kept.directory, away, symlinks=True)
    kept.directory.rename(target)
    if request.param == "copied":
        shutil.copytree(target, target.with_name("copy"), symlinks=True)
        shutil.rmtree(target)
        target.with_name("copy").rename(target)
    yield Lived(target)
    shutil.rmtree(target)
    away.rename(kept.directory)


def restore(place: Lived, *options: str) -> tuple[int, str, str]:
    done = place.call("restore", str(place.directory.with_name("copy.db")), *options)
    return done.code, done.out, done.err


def of(place: Place) -> str:
    return f"{place.directory.with_name('ann')}={place.directory}"


def test_a_moved_record_is_refused_with_the_command_that_moves_it(moved: Lived) -> None:
    before = (moved.state / "runward.db").read_bytes()
    code, _, err = restore(moved)
    assert code == 1
    assert f"runward restore {moved.directory.with_name('copy.db')} --moved {of(moved)}" in " ".join(
        err.split()
    )
    assert (moved.state / "runward.db").read_bytes() == before
    code, out, err = restore(moved, "--moved", of(moved), "--dry-run")
    assert (code, "would be moved: " in out) == (0, True), err


def test_after_a_move_all_is_known_nothing_is_new_and_what_went_on_ends_once(
    moved: Lived, kept: Lived
) -> None:
    old = str(kept.directory)
    store = sqlite3.connect(moved.state / "runward.db")
    sessions = store.execute("select key, session_id, status, attempt from sessions order by key").fetchall()
    events = store.execute("select key from events order by seq").fetchall()
    store.close()

    code, out, err = restore(moved, "--moved", of(moved), "--json")
    assert code == 0, err
    assert json.loads(out)["moves"] == [{"old": old, "new": str(moved.directory)}]
    used = moved.used()
    transcripts = sorted((moved.directory / "claude").rglob("*.jsonl"))
    read_of = (
        "select state ->> '$[3][0][0][1][1]' from cursors where session_key glob 'claude-code:*' order by key"
    )
    assert moved.rows(read_of) == [(each.stat().st_ino,) for each in transcripts]
    moved.daemon_once()

    assert moved.rows("select key, session_id, status, attempt from sessions order by key") == sessions
    (record,) = moved.rows("select key from events where type = 'RecordMoved'")
    assert moved.events() == [*events, record]
    assert moved.used() == used
    assert remaining(moved, old) == {}
    assert moved.call("receipt", "chain").code == 0
    for key, _, status, _ in sessions:
        assert moved.call("why", str(key)).code == 0
        if status != "running":
            verified = moved.call("session", "verify", str(key))
            assert verified.code == 0, verified.out
    for name in ("one", ENDED):
        told = moved.call("receipt", "verify", name)
        assert told.code == 0, told.out
        shown = moved.call("session", "show", name, "--json").object()
        assert str(shown["path"]).startswith(str(moved.directory))

    moved.end_what_goes_on()
    with moved.daemon():
        assert moved.call("status").code == 0
        wait_for(lambda: "running" not in moved.statuses().values(), "the ends")
    ends = "select count(*) from events where type = 'AttemptEnded' and lane = ?"
    for key, session, _, _ in sessions:
        assert moved.rows(ends.replace("?", f"'{key}'")) == [(1,)], session
    assert moved.statuses()["going-on"] == "completed"
    assert moved.statuses()[OPEN] == "completed"
    assert len(moved.statuses()) == len(sessions)


def remaining(place: Place, old: str) -> dict[str, str]:
    """Where the store still has a path of before the move, apart from what says how it was."""
    found: dict[str, str] = {}
    for (table,) in place.rows("select name from sqlite_schema where type = 'table'"):
        for name, kind in place.rows(f"select name, type from pragma_table_info('{table}')"):
            column = f"{table}.{name}"
            if kind in ("TEXT", "BLOB") and column not in TOLD:
                rows = place.rows(f'select "{name}" from "{table}" where instr("{name}", \'{old}\')')
                if rows:
                    found[column] = str(rows[0][0])
    return found


def test_as_is_takes_a_record_whose_roots_are_gone(kept: Lived, tmp_path: Path) -> None:
    shutil.copytree(kept.directory, tmp_path / "copy", symlinks=True)
    try:
        shutil.rmtree(kept.directory / "codex")
        refused = kept.call("restore", str(kept.directory.with_name("copy.db")), "--dry-run")
        assert (refused.code, "--as-is" in refused.err) == (1, True)
        taken = kept.call("restore", str(kept.directory.with_name("copy.db")), "--as-is", "--dry-run")
        assert taken.code == 0, taken.err
    finally:
        shutil.rmtree(kept.directory)
        shutil.copytree(tmp_path / "copy", kept.directory, symlinks=True)


def test_a_wrong_pair_is_wrong_usage(kept: Lived) -> None:
    refused = kept.call("restore", str(kept.directory.with_name("copy.db")), "--moved", "/home/ann")
    assert (refused.code, "write OLD=NEW" in refused.err) == (2, True)


KILLED: Final = """
import os, signal, sqlite3, sys
from runward.daemon.cli import backup
from runward.daemon.cli.entry import call

left = 0

def strike():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

class Connection(sqlite3.Connection):
    def execute(self, *words):
        strike()
        return super().execute(*words)

connect, rename, fsync = sqlite3.connect, os.rename, os.fsync
sqlite3.connect = lambda *words, **more: connect(*words, **{"factory": Connection, **more})
def renamed(*words, **more):
    strike()
    rename(*words, **more)
    strike()
os.rename = renamed
for line in sys.stdin:
    left = int(line)
    pid = os.fork()
    if pid == 0:
        code = call(sys.argv[1:])
        sys.stdout.flush()
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    print("ended", os.waitstatus_to_exitcode(status), flush=True)
"""
"""For each line it plays the command in a fork of its own, which is killed at so many points: it starts only once."""


def killed_at(playing: subprocess.Popen[str], at: int) -> tuple[int, str]:
    """How the command ended that was to be killed at this point, and what it said."""
    assert playing.stdin is not None
    assert playing.stdout is not None
    playing.stdin.write(f"{at}\n")
    playing.stdin.flush()
    said: list[str] = []
    for line in playing.stdout:
        if line.startswith("ended "):
            return int(line.split()[1]), "".join(said)
        said.append(line)
    raise AssertionError("".join(said))


def test_a_move_that_is_killed_leaves_the_old_store_or_the_whole_new_one(moved: Lived) -> None:
    words = ["restore", str(moved.directory.with_name("copy.db")), "--moved", of(moved)]
    before = moved.rows("select path from roots order by name")
    points = 0
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, *words],
        env=moved.environment,
        cwd=moved.directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as playing:
        for at in (1, *range(20, 2000, 23)):
            code, said = killed_at(playing, at)
            if code == 0:
                break
            assert code == -signal.SIGKILL, said
            points += 1
            assert moved.rows("pragma integrity_check") == [("ok",)]
            after = moved.rows("select path from roots order by name")
            assert after == before or moved.rows("select 1 from events where type = 'RecordMoved'")
    assert (playing.returncode, points > 3) == (0, True)
    assert restore(moved, "--moved", of(moved))[0] == 0
    assert remaining(moved, str(moved.directory.with_name("ann"))) == {}
    assert not [name for name in os.listdir(moved.state) if "restoring" in name]
