"""Recordings of the real programs, cut anywhere: a turn that was not over there is never told as completed."""

import math
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.handlers.layouts.test_conversations import AGENTS

from runward.daemon.rundir.session_places import Place, sessions_under
from runward.daemon.rundir.session_reading import read_session
from runward.handlers.layouts import cline
from runward.handlers.layouts.layout import DirectoryLayout, LogLayout
from runward.handlers.layouts.places import named
from runward.handlers.layouts.registry import LAYOUTS

HOMES = {
    **{name: each.recordings for name, each in AGENTS.items()},
    "cline": "cline-cli/{}/.cline/data/sessions",
}
ENDS = {
    "copilot": b'"content":"Done.',
    "droid": b'"type":"agent_turn_outcome"',
    "kimi": b'"type":"turn.ended"',
    "pi": b'"text":"Done.',
    "qwen": b'[{"text":"Done.',
}
"""What only the record contains that ends a turn well."""

COMPLETED = {(agent, situation) for agent in HOMES for situation in ("ok", "tool")} | {("droid", "int_tool")}
RECORDINGS = [
    (agent, situation)
    for agent in HOMES
    for situation in ("ok", "tool", "err400", "int_tool")
    if (agent, situation) != ("cline", "int_tool")  # there is none
]


def line_ends(content: bytes) -> Iterable[int]:
    """Before and after each newline, and the end."""
    after = (place + 1 for place, byte in enumerate(content) if byte == 10)
    return sorted({len(content), *(place for end in after for place in (end - 1, end))})


def inside_lines(content: bytes) -> Iterable[int]:
    return range(0, len(content), max(1, len(content) // 200))


def deciding(session: Place, agent: str) -> dict[Path, float]:
    """The files that say together how the turn ended, and the bytes that each needs for that."""
    path = Path(session.path)
    if agent == "cline":
        documents = [path / each for each in named(cline.DOCUMENTS, path.name)]
        return {each: len(each.read_bytes().rstrip()) for each in documents}
    log = path / session.layout.logs[0] if isinstance(session.layout, DirectoryLayout) else path
    before, ends, after = log.read_bytes().partition(ENDS[agent])
    return {log: len(before + ends + after.partition(b"\n")[0]) if ends else math.inf}


@pytest.mark.parametrize(("agent", "situation"), RECORDINGS)
@pytest.mark.parametrize("places", [line_ends, pytest.param(inside_lines, marks=pytest.mark.prove)])
def test_only_a_turn_that_was_over_is_completed(
    material: Path, tmp_path: Path, agent: str, situation: str, places: Callable[[bytes], Iterable[int]]
) -> None:
    shutil.copytree(material / "samples" / HOMES[agent].format(situation), tmp_path / "home")
    (session,) = sessions_under(str(tmp_path / "home"), LAYOUTS)
    assert isinstance(session, Place)
    assert isinstance(session.layout, LogLayout | DirectoryLayout)
    assert session.layout.name == agent
    for file, needed in deciding(session, agent).items():
        content = file.read_bytes()
        for cut in (*places(content), len(content)):
            file.write_bytes(content[:cut])
            os.utime(file, (1000, 1000))  # nobody is writing it any more
            close = read_session(session.layout, session.path).told.close
            is_completed = close is not None and close.status == "completed"
            assert is_completed == (cut >= needed and (agent, situation) in COMPLETED), (file.name, cut)
