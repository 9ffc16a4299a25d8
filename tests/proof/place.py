"""A place for a daemon: its settings, its state directory and one root, and what can be read of them from outside."""

import json
import os
import signal
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.contract_json import entry
from tests.proof.processes import Forks, Process
from tests.waiting import PATIENCE_S, wait_for

STARTED_AT = "2026-02-03T04:05:06Z"
FINISHED_AT = "2026-02-03T04:06:07Z"
WRITTEN_AT = 1_770_091_600_000_000_000
"""Nanoseconds: the modification time of every file of a run, so that what is read from it is the same each time."""

NEVER_SCANNED = 'scan.period = "1h"'
"""Settings under which whatever is found is found by the watch, or by a scan that it asked for."""

TORN = "torn"
"""The event of a line that is not JSON: no line has it, so anyone who expects certain events waits on, or fails."""

EXITED = {"exit_code": 0, "signal": None, "cause": "exited", "finished_at": FINISHED_AT}


@dataclass(slots=True)
class Place:
    """A directory for one proof. `roots` are the lines of the settings after the state directory."""

    directory: Path
    forks: Forks
    state: Path = field(init=False)
    runs: Path = field(init=False)
    settings: Path = field(init=False)
    started: list[Process] = field(default_factory=list)
    code_in_process: bool = False
    """Whether code of the exchange runs in the daemons' own processes, without a sandbox."""

    def __post_init__(self) -> None:
        self.state, self.runs = self.directory / "state", self.directory / "runs"
        self.settings = self.directory / "runward.toml"
        self.runs.mkdir(parents=True, exist_ok=True)
        self.set_up()

    def set_up(self, *roots: Path, further: str = "") -> None:
        """Write the settings: these roots, by default the one that is there."""
        text = f'state_dir = "{self.state}"\nplaybooks = ["playbooks"]\nagents = []\n{further}\n'
        for root in roots or (self.runs,):
            text += f'[[roots]]\nname = "{root.name}"\npath = "{root}"\nlayout = "native"\n'
        self.settings.write_text(text)

    def daemon(
        self,
        *arguments: str,
        fault: str | None = None,
        fences_out: Sequence[str] = (),
        unprivileged: bool = False,
        output: Path | None = None,
        hangs: str | None = None,
        terminal: str | None = None,
    ) -> Process:
        """Start `runward daemon ARGUMENTS…` here; with `hangs`, one of `hangs.HANGS`."""
        environment = {
            "HOME": str(self.directory),
            "PATH": os.environ["PATH"],
            "RUNWARD_CONFIG": str(self.settings),
        }
        if fault is not None:
            environment["RUNWARD_FAULT"] = fault
        output = output or self.directory / f"output-{len(self.started)}"
        process = self.forks.start(
            "daemon",
            *arguments,
            *(("--no-wait",) if "--once" in arguments else ()),  # a proof lets its runs end when it wants
            environment=environment,
            output=output,
            fences_out=fences_out,
            unprivileged=unprivileged,
            hangs=hangs,
            terminal=terminal,
            code_in_process=self.code_in_process,
        )
        self.started.append(process)
        return process

    def once(self, fault: str | None = None, fences_out: Sequence[str] = ()) -> int:
        """Run `runward daemon --once` to its end; returns its exit code."""
        return self.daemon("--once", fault=fault, fences_out=fences_out).wait()

    @contextmanager
    def serving(self) -> Iterator[Process]:
        """A daemon that is ready, ended by SIGTERM with 0 afterwards."""
        daemon = self.daemon()
        self.wait_ready(daemon)
        yield daemon
        daemon.send(signal.SIGTERM)
        assert daemon.wait() == 0, daemon.said()[-3000:]

    def wait_ready(self, daemon: Process) -> None:
        """Until a daemon said that it is ready."""
        wait_for(
            lambda: '"ready"' in daemon.said() or daemon.ended(), f"ready; it said:\n{daemon.said()[-2000:]}"
        )
        assert daemon.code is None, daemon.said()[-3000:]

    def close(self) -> None:
        """Leave no process behind."""
        for process in self.started:
            process.kill()

    # What is read from outside.

    def rows(self, query: str, *parameters: object) -> list[tuple[object, ...]]:
        """All rows of a query; none while there is no store."""
        try:
            with closing(
                sqlite3.connect(f"file:{self.state}/runward.db?mode=ro", uri=True, isolation_level=None)
            ) as connection:
                return connection.execute(query, parameters).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error) or "unable to open" in str(error):
                return []
            raise

    def statuses(self) -> dict[str, str]:
        """The status of each session, by its directory's name."""
        rows = self.rows("select key, status from sessions")
        return {str(key).rpartition("/")[2]: str(status) for key, status in rows}

    def ended(self) -> int:
        """How many sessions have ended."""
        return sum(status != "running" for status in self.statuses().values())

    def wait_ended(self, count: int, within: float = PATIENCE_S) -> None:
        """Until so many sessions have ended."""
        wait_for(lambda: self.ended() >= count, f"{count} ends, there are {self.ended()}", within)

    def status(self) -> dict[str, object]:
        """The daemon's own report; empty while there is none."""
        try:
            report: dict[str, object] = json.loads((self.state / "status.json").read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return report

    def log(self, event: str) -> list[dict[str, object]]:
        """The log's whole lines about an event: one is torn while it is written, or where the disk was full."""
        lines = _lines(self.state / "log" / "runward.jsonl", containing=f'"{event}"')
        return [line for line in lines if line["event"] == event]

    def journal(self, run: str, name: str = "events.jsonl") -> list[str]:
        """The events that a journal tells, in order."""
        return [str(line["event"]) for line in _lines(self.runs / run / name)]

    def journal_of_ours(self, run: str) -> list[str]:
        """The events of our own lines in `events.jsonl`, whatever else stands there."""
        lines = _lines(self.runs / run / "events.jsonl", containing='"role":"runward"')
        return [str(line["event"]) for line in lines]

    # What is put there.

    def lose_power(self) -> None:
        """Have the next daemon find that the machine was started anew, after a daemon that ended in order."""
        with closing(sqlite3.connect(self.state / "runward.db", isolation_level=None)) as connection:
            connection.execute("update daemon set boot_id = 'the boot before'")

    def start_run(
        self,
        name: str,
        expected: Sequence[tuple[str, bool]] = (),
        root: Path | None = None,
        **further: object,
    ) -> Path:
        """A run that started, under a contract over (path, required)."""
        directory = (root or self.runs) / name
        (directory / "artifacts").mkdir(parents=True)
        run = {"schema": "runward-run-v1", "session_id": name, "started_at": STARTED_AT, **further}
        if expected:
            run["contract"] = {"expected": [entry(path, required) for path, required in expected]}
        write(directory / "run.json", json.dumps(run))
        return directory

    def finish_run(self, directory: Path, **said: object) -> None:
        """The run's end, as its launcher declares it."""
        write(directory / "exit.json", json.dumps(EXITED | said))

    def finished_run(self, name: str, root: Path | None = None) -> Path:
        """A run that delivered."""
        directory = self.start_run(name, [("report.md", True)], root)
        write(directory / "artifacts" / "report.md", "found nothing\n")
        self.finish_run(directory)
        return directory

    def put_request(self, content: dict[str, object], named: str | None = None) -> str:
        """A file in the inbox, as a command puts it there. Its name is made of its content, or of `named`."""
        name = str(uuid.uuid5(uuid.NAMESPACE_URL, named or json.dumps(content)))
        inbox = self.state / "inbox"
        inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(inbox / f"{name}.json", json.dumps(content))
        return name


def _lines(path: Path, containing: str = "") -> list[dict[str, object]]:
    """The lines of a file that a daemon may be writing at this moment: what is torn is an event called TORN."""
    content = path.read_bytes() if path.exists() else b""
    return [_read_line(line) for line in content.splitlines() if containing.encode() in line]


def _read_line(line: bytes) -> dict[str, object]:
    try:
        read: dict[str, object] = json.loads(line)
    except ValueError:
        return {"event": TORN}
    return read


def write(path: Path, text: str | bytes) -> None:
    """Write a file whole and rename it into place, with the modification time that all have."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(temporary, ns=(WRITTEN_AT, WRITTEN_AT))
    temporary.rename(path)
