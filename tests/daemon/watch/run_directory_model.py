"""A plain model of run directories: what is in them, and what a daemon that looks now and then must say.

It shares no code with the daemon. `Place` is a directory that exists; `Story` is what is known of the session
that lives under one name, whichever directory stands there.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

GRACE = 5.0

Contract: TypeAlias = tuple[tuple[str, bool], ...]
"""Path and whether it is required, of each artifact."""

ArtifactState: TypeAlias = Literal[
    "file", "empty", "directory", "fifo", "link inside", "link outside", "link upwards"
]


@dataclass(frozen=True)
class RunSays:
    contract: Contract | None
    launcher: int | None


@dataclass(frozen=True)
class ExitSays:
    status: str
    code: str


@dataclass(frozen=True)
class Doc:
    """A document as it was last written. `says` is None where it is not a document that counts."""

    version: int
    says: RunSays | ExitSays | int | None
    content: bytes = b""


@dataclass
class Place:
    """A directory: its documents, its artifacts (None where there is no directory for them), its journals."""

    docs: dict[str, Doc] = field(default_factory=dict)
    artifacts: dict[str, ArtifactState] | None = None
    journals: dict[str, list[str]] = field(default_factory=dict)

    def run(self) -> RunSays | None:
        says = self.docs["run.json"].says if "run.json" in self.docs else None
        return says if isinstance(says, RunSays) else None

    def exit(self) -> ExitSays | None:
        says = self.docs["exit.json"].says if "exit.json" in self.docs else None
        return says if isinstance(says, ExitSays) else None

    def process(self) -> int | None:
        says = self.docs["process.json"].says if "process.json" in self.docs else None
        return says if isinstance(says, int) else None

    def version(self, name: str) -> int | None:
        return self.docs[name].version if name in self.docs else None

    def write_line(self, journal: str, line: str) -> None:
        self.journals.setdefault(journal, []).append(line)


@dataclass
class Attempt:
    """One attempt's verdict; `ended_by` is None while it runs."""

    status: str = "running"
    code: str = ""
    ended_by: str | None = None
    delivery: str | None = None


@dataclass
class Story:
    """Everything that must be known of one name by now."""

    attempts: list[Attempt] = field(default_factory=list)
    history: list[tuple[int, str, str]] = field(default_factory=list)
    contract: Contract | None = None
    basis: str = ""
    start: tuple[int | None, bytes] | None = None
    """What of `run.json` the last attempt goes by."""
    end_content: bytes | None = None
    """The `exit.json` that ended it."""
    seen: dict[str, int] = field(default_factory=dict)
    """The versions of the documents at the last look."""
    vanished: bool = False
    launcher: int | None = None
    process: int | None = None
    gone_since: float | None = None

    @property
    def running(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].ended_by is None

    def pids(self) -> list[int]:
        return [pid for pid in (self.launcher, self.process) if pid is not None]

    def look(self, place: Place | None, now: float, gone: set[int], weighed: bool) -> None:
        """The daemon looks at what stands under the name; `weighed` says that it asks after processes too."""
        if place is None:
            if self.running:
                self._end("aborted", "run.aborted.vanished", "process_gone", None)
                self.vanished, self.seen = True, {}
            elif self.attempts and self.attempts[-1].ended_by != "declared":
                self.seen = {}
            return
        opened = self._see_start(place)
        self._see_process(place, opened)
        self._see_end(place)
        if weighed and self.running:
            self._weigh(place, now, gone)
        if self.attempts:
            self.seen = {name: doc.version for name, doc in place.docs.items()}

    def _see_start(self, place: Place) -> bool:
        run = place.run()
        if run is None:
            return False
        found = place.docs["run.json"]
        # A start that names its launcher is the same whenever its bytes are.
        start = (found.version if run.launcher is None else None, found.content)
        if self.running:
            self.start = start
            return False
        if self.attempts:
            changed = self.vanished or start != self.start
            if not changed or self._old_end_stands(place):
                return False
        else:
            self.contract = run.contract
            self.basis = "late" if place.exit() is not None else "first_look"
        self._open(place)
        self.start = start
        self.launcher, self.process = run.launcher, None
        return True

    def _old_end_stands(self, place: Place) -> bool:
        """Whether what ended the last attempt is still there: its file, or its process's, with the same content."""
        if self.attempts[-1].ended_by == "declared":
            end = place.docs.get("exit.json")
            if end is None:
                return False
            return end.version == self.seen.get("exit.json") or end.content == self.end_content
        if self.vanished or self.process is None or "process.json" not in place.docs:
            return False
        is_unchanged = place.version("process.json") == self.seen.get("process.json")
        return is_unchanged or place.process() == self.process

    def _see_process(self, place: Place, opened: bool) -> None:
        process = place.process()
        first = opened and len(self.attempts) == 1
        if process is not None and (first or place.version("process.json") != self.seen.get("process.json")):
            self.process, self.gone_since = process, None

    def _see_end(self, place: Place) -> None:
        end = place.exit()
        if end is None or not self.attempts:
            return
        if not self.running:
            if self.attempts[-1].ended_by == "declared":
                return  # a second end changes nothing
            self._open(place)  # a correction of weaker evidence
        self._end(end.status, end.code, "declared", place)
        self.end_content = place.docs["exit.json"].content

    def _weigh(self, place: Place, now: float, gone: set[int]) -> None:
        pids = self.pids()
        if not pids or not set(pids) <= gone:
            self.gone_since = None
        elif self.gone_since is None:
            self.gone_since = now
        elif now - self.gone_since >= GRACE:
            self._end("aborted", "run.aborted.process_gone", "process_gone", place)

    def _open(self, place: Place) -> None:
        self.attempts.append(Attempt())
        self.vanished, self.gone_since = False, None
        number = len(self.attempts)
        self.history.append((number, "running", "run.started.ok" if number == 1 else "run.started.resumed"))
        place.write_line("events.jsonl", "session_started" if number == 1 else "session_resumed")
        if number == 1 and self.contract is not None:
            place.write_line("events.jsonl", "contract_snapshotted")

    def _end(self, status: str, code: str, ended_by: str, place: Place | None) -> None:
        attempt = self.attempts[-1]
        verified = self.contract is not None
        if self.contract is not None:
            failed, attempt.delivery = judge(self.contract, place)
            if failed and status == "completed":
                status, code = "failed", "run.failed.missing_artifact"
        attempt.status, attempt.code, attempt.ended_by = status, code, ended_by
        self.gone_since = None
        self.history.append((len(self.attempts), status, code))
        if place is not None:
            if verified:
                place.write_line("events.jsonl", "artifact_verified")
            place.write_line("events.jsonl", "status_changed")
            place.write_line("events.jsonl", "session_finished")


def judge(contract: Contract, place: Place | None) -> tuple[bool, str]:
    """Whether the verification failed, and the delivery."""
    if place is None or place.artifacts is None:
        return True, "missing"
    states = [place.artifacts.get(path) for path, required in contract if required]
    produced = [state for state in states if state in ("file", "link inside")]
    absent = [state for state in states if state is None]
    if len(produced) == len(states):
        return False, "passed"
    if not absent:
        return True, "invalid"
    return True, "partial" if produced else "missing"
