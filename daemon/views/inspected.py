"""A session as `runward inspect` reads it, whatever its layout."""

from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.views.units import iso
from runward.handlers.layouts.transcript import Counts, Usage
from runward.handlers.model.sessions import Complaint
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
            "problems": [{"line": each.line, "message": self.message(each)} for each in self.problems],
        }

    def message(self, complaint: Complaint) -> str:
        """What is wrong, with the file if it is not the only one."""
        return with_file(complaint) if self.names_files else complaint.message


def with_file(complaint: Complaint) -> str:
    """The message of a complaint, after its file."""
    return f"{complaint.file}: {complaint.message}" if complaint.file else complaint.message
