"""Contract J: `events.jsonl`, the run's journal."""

from collections.abc import Iterator
from typing import Final

from runward.config.problem import quoted
from runward.handlers.ctcp import verify_report
from runward.handlers.ctcp.documents import MOST_BYTES, Documents, lined_content_of
from runward.handlers.ctcp.event_lines import LineFault, read_line
from runward.handlers.ctcp.report import Report
from runward.handlers.layouts.ctcp_times import time_at
from runward.handlers.layouts.foreign_json import read_json

PATH: Final = "events.jsonl"
RUN: Final = "RUN.json"

_ENDS: Final = {"pass": "PASS", "fail": "FAIL"}


def check(documents: Documents, report: Report) -> None:
    """Check every line, and that the run's own end and its report agree."""
    _check_end(documents, report)
    content = lined_content_of(documents, PATH, report)
    if content is None:
        return
    events = 0
    for number, line in _lines(content):
        if report.is_full:
            return
        if line is None:
            report.add("too_large", f"the line is over {MOST_BYTES >> 20} MiB", number)
            events += 1
        elif line and not line.isspace():
            events += 1
            found = read_line(line)
            if isinstance(found, LineFault):
                report.add(found.rule, found.message, number)
            elif time_at(str(found["ts"]), 0) is None:
                report.add("time", f"ts is {quoted(found['ts'])}, which is not a time", number)
    if not events:
        report.add("no_events", "contains nothing")


def _lines(content: bytes | bytearray) -> Iterator[tuple[int, bytes | None]]:
    """The lines with their numbers. None for a line that is too long."""
    start = number = 0
    while start < len(content):
        end = content.find(b"\n", start)
        end = len(content) if end == -1 else end
        number += 1
        yield number, bytes(content[start:end]) if end - start <= MOST_BYTES else None
        start = end + 1


def _check_end(documents: Documents, report: Report) -> None:
    found = verify_report.check(documents, Report("I", verify_report.PATH))
    run = documents.document(RUN)
    value = read_json(bytes(run.content)) if run.state == "file" else None
    status = value.get("status") if isinstance(value, dict) else None
    end = _ENDS.get(status) if isinstance(status, str) else None
    if found is not None and end is not None and found.result is not None and end != found.result:
        message = f"status is {quoted(status)}, and the verification's result is {found.result}"
        report.add("other_end", message, path=RUN)
