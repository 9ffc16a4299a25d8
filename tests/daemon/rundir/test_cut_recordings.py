"""Recordings of the real programs, cut anywhere: a turn that was not over there is never told as completed."""

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.daemon.recordings import COMPLETED, RECORDINGS, Recording, copied, reason_of

from runward.daemon.rundir.session_reading import read_session

ENDS = {
    "copilot": b'"content":"Done.',
    "droid": b'"type":"agent_turn_outcome"',
    "kimi": b'"type":"turn.ended"',
    "pi": b'"text":"Done.',
    "qwen": b'[{"text":"Done.',
}
"""What only the record contains that ends a turn well."""


def line_ends(content: bytes) -> Iterable[int]:
    """Before and after each newline, and the end."""
    after = (place + 1 for place, byte in enumerate(content) if byte == 10)
    return sorted({len(content), *(place for end in after for place in (end - 1, end))})


def inside_lines(content: bytes) -> Iterable[int]:
    return range(0, len(content), max(1, len(content) // 200))


def deciding(recording: Recording) -> dict[Path, float]:
    """The files that say together how the turn ended, and the bytes that each needs for that."""
    if recording.agent == "cline":
        return {each: len(each.read_bytes().rstrip()) for each in recording.documents}
    before, ends, after = recording.log.read_bytes().partition(ENDS[recording.agent])
    return {recording.log: len(before + ends + after.partition(b"\n")[0]) if ends else math.inf}


@pytest.mark.parametrize(("agent", "situation"), RECORDINGS)
@pytest.mark.parametrize("places", [line_ends, pytest.param(inside_lines, marks=pytest.mark.prove)])
def test_only_a_turn_that_was_over_is_completed(
    material: Path, tmp_path: Path, agent: str, situation: str, places: Callable[[bytes], Iterable[int]]
) -> None:
    recording = copied(material, tmp_path / "home", agent, situation)
    for file, needed in deciding(recording).items():
        content = file.read_bytes()
        for cut in (*places(content), len(content)):
            file.write_bytes(content[:cut])
            os.utime(file, (1000, 1000))  # nobody is writing it any more
            close = read_session(recording.layout, str(recording.path)).told.close
            is_completed = close is not None and close.status == "completed"
            assert is_completed == (cut >= needed and reason_of(agent, situation) == COMPLETED), (
                file.name,
                cut,
            )
