"""A boundary between two attempts has the line that draws it, wherever the portion begins and ends."""

from collections.abc import Sequence

import pytest
from tests.handlers.layouts import adjutant_lines, codex_lines
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript

from runward.handlers.layouts.layout import fed
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.transcript import LogLine


def adjutant() -> list[bytes]:
    return [*adjutant_lines.session("a"), *adjutant_lines.session("a"), *adjutant_lines.session("a")]


def claude_code() -> list[bytes]:
    transcript = Transcript()
    for _ in range(3):
        transcript.prompt("fix it")
        transcript.result(transcript.call())
        transcript.text("fixed")
    return transcript.lines


def codex() -> list[bytes]:
    log = codex_lines.Log().meta()
    for number in (1, 2, 3):
        log.start(number).prompt("fix it", number).call().output().say().complete(number)
    return [codex_lines.write(each) for each in log.records]


LOGS = {
    "adjutant": ("sess_7", "REPLAY.jsonl", adjutant, b"SessionStart"),
    "claude-code": (f"{SESSION}.jsonl", f"{SESSION}.jsonl", claude_code, b'"content":"fix it"'),
    "codex": (codex_lines.NAME, codex_lines.NAME, codex, b"task_started"),
}


@pytest.mark.parametrize("layout", LOGS)
def test_each_boundary_has_the_line_that_begins_the_next_attempt(layout: str) -> None:
    name, log, write, beginning = LOGS[layout]
    contents = write()
    begins = [number for number, content in enumerate(contents, 1) if beginning in content]
    found = set()
    for size in (1, 2, 3, 5, len(contents)):
        scan, lines = LAYOUTS.named(layout).start(name), _numbered(contents)
        boundaries: list[int | None] = []
        for first in range(0, len(lines), size):
            scan, resumed = fed(scan, log, lines[first : first + size])
            boundaries += [each.line for each in resumed]
        found.add(tuple(boundaries))
    assert len(found) == 1, "it does not depend on the portions"
    ((second, third),) = found
    calls = [number for number, content in enumerate(contents, 1) if _is_call(content)]
    for line, share in ((second, 1), (third, 2)):
        assert line in begins
        assert line is not None
        assert sum(call < line for call in calls) == share * len(calls) // 3, "those of the attempts before"


def _numbered(contents: Sequence[bytes]) -> list[LogLine]:
    return [LogLine(number, content) for number, content in enumerate(contents, 1)]


def _is_call(content: bytes) -> bool:
    return any(kind in content for kind in (b'"ToolCall"', b'"type":"tool_use"', b'"function_call"'))
