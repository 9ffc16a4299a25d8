"""A session as `runward inspect` shows it, whatever its layout: one form for programs and for people."""

from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.cli.terminal.output import align, coloured, duration, iso, local, safe
from runward.handlers.layouts.scanner import Complaint
from runward.handlers.layouts.transcript import Counts, Usage
from runward.handlers.sessions.over import Standing


class InspectedSession(NamedTuple):
    """What a session's files say, and its process if they name one.

    `idle_s` are the seconds since anything changed, for a session that may still run; `started_at` is in Unix seconds.
    `problems` are the complaints about its files; with `names_files` their messages name the file.
    """

    layout: str
    session_id: str | None
    path: str
    standing: Standing
    idle_s: float | None
    started_at: float | None
    agent: str | None = None
    model: str | None = None
    cwd: str | None = None
    parent_session_id: str | None = None
    attempt: int = 1
    counts: Counts = Counts()
    usage: Usage | None = None
    problems: tuple[Complaint, ...] = ()
    names_files: bool = True

    def as_json(self) -> JsonValue:
        """The object that `inspect --json` prints of it."""
        standing = self.standing
        return {
            "layout": self.layout,
            "session_id": self.session_id,
            "state": standing.state,
            "evidence": standing.evidence,
            "idle_s": None if self.idle_s is None else round(self.idle_s, 3),
            "reason_code": standing.reason_code,
            "started_at": iso(self.started_at),
            "finished_at": iso(standing.ended_at),
            "agent": self.agent,
            "model": self.model,
            "cwd": self.cwd,
            "path": self.path,
            "parent_session_id": self.parent_session_id,
            "attempt": self.attempt,
            "activity": standing.activity,
            "counts": dict(self.counts._asdict()),
            "usage": None if self.usage is None else dict(self.usage._asdict()),
            "problems": [{"line": each.line, "message": self._message(each)} for each in self.problems],
        }

    def as_lines(self) -> list[str]:
        """The same for people."""
        standing, usage = self.standing, self.usage
        tokens = f"{usage.input_tokens} in, {usage.output_tokens} out" if usage is not None else "-"
        counted = [f"{count} {name.replace('_', ' ')}" for name, count in self.counts._asdict().items()]
        facts = [
            ("Session:", safe(str(self.session_id))),
            ("State:", f"{coloured(standing.state)} ({standing.reason_code})"),
            ("Evidence:", standing.evidence or "-"),
            ("Idle:", duration(self.idle_s) if self.idle_s is not None else "-"),
            ("Started:", local(self.started_at)),
            ("Finished:", local(standing.ended_at)),
            ("Activity:", standing.activity or "-"),
            ("Attempt:", str(self.attempt)),
            ("Agent:", safe(self.agent or "-")),
            ("Model:", safe(self.model or "-")),
            ("Layout:", self.layout),
            ("Cwd:", safe(self.cwd or "-")),
            ("Path:", safe(self.path)),
            ("Counted:", ", ".join(counted)),
            ("Tokens:", tokens),
        ]
        problems = [f"  {coloured('warning')}: {told(each, self.names_files)}" for each in self.problems]
        return [*align(facts), *problems, ""]

    def _message(self, complaint: Complaint) -> str:
        return _with_file(complaint) if self.names_files else complaint.message


def told(complaint: Complaint, names_file: bool = True) -> str:
    """A complaint in one line for people."""
    place = f"line {complaint.line}, " if complaint.line is not None else ""
    return safe(place + (_with_file(complaint) if names_file else complaint.message))


def _with_file(complaint: Complaint) -> str:
    return f"{complaint.file}: {complaint.message}" if complaint.file else complaint.message
