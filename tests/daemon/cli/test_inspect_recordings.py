"""`runward inspect` on recordings of the real programs, and on homes that are laid out like theirs."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
import zstandard
from tests.daemon import recordings
from tests.daemon.cli.calling import Place
from tests.daemon.writers import kill
from tests.handlers.layouts.test_conversations import RECORDED

from runward.config.json_value import JsonValue
from runward.daemon.processes.proc import identity_of

RECORDINGS: dict[str, tuple[str, str, str, str, str, tuple[int, int, int], tuple[int, int] | None]] = {
    "claude-code/ok.jsonl": (
        "736b29cc-f014-4cfd-8653-5c88a69ffa05",
        "completed",
        "run.completed.ok",
        "2026-11-21T07:34:58.150Z",
        "2026-11-21T07:34:58.227Z",
        (7, 0, 0),
        (120, 20),
    ),
    "claude-code/tool.jsonl": (
        "00391a7d-01ed-4b8a-934b-6cd5927bc522",
        "completed",
        "run.completed.ok",
        "2026-11-21T07:34:58.795Z",
        "2026-11-21T07:34:58.995Z",
        (10, 1, 0),
        (240, 40),
    ),
    "claude-code/err400.jsonl": (
        "8a36cf73-da8a-49f9-8e3d-905f8ffa19df",
        "failed",
        "run.failed.api_error",
        "2026-11-21T07:35:00.946Z",
        "2026-11-21T07:35:01.128Z",
        (7, 0, 1),
        None,
    ),
    "codex/rollout-ok.jsonl": (
        "01a1fd0a-53a7-7c50-98f9-4e09b80d7c4f",
        "completed",
        "run.completed.ok",
        "2026-11-21T07:37:54.862Z",
        "2026-11-21T07:37:54.973Z",
        (14, 0, 0),
        (100, 10),
    ),
    "codex/rollout-tool.jsonl": (
        "01a1fd0a-54e7-7290-883d-4a336c7e24d9",
        "completed",
        "run.completed.ok",
        "2026-11-21T07:37:55.182Z",
        "2026-11-21T07:37:55.337Z",
        (19, 1, 0),
        (200, 20),
    ),
    "codex/rollout-err400.jsonl": (
        "01a1fd0a-566e-76d3-9399-ca1b8e99dd44",
        "failed",
        "run.failed.api_error",
        "2026-11-21T07:37:55.574Z",
        "2026-11-21T07:37:55.675Z",
        (10, 0, 1),
        None,
    ),
    "reports/qwen-chat.jsonl": (
        "019f0000-0000-7000-8000-00000000000a",
        "completed",
        "run.completed.ok",
        "2026-08-17T12:30:00.000Z",
        "2026-08-17T12:30:09.000Z",
        (2, 0, 0),
        None,
    ),
    "ctcp-run-pass": (
        "run-pass",
        "completed",
        "run.completed.ok",
        "2026-11-21T07:38:27.000Z",
        "2026-11-21T07:38:28.000Z",
        (29, 5, 1),
        None,
    ),
    "lionagi/run_completed": (
        "20261121T075401-0f5cc0",
        "completed",
        "run.completed.ok",
        "2026-11-21T07:54:01.400Z",
        "2026-11-21T07:54:02.325Z",
        (2, 0, 0),
        (120, 20),
    ),
}
LOGS = [name for name in RECORDINGS if name.endswith(".jsonl")]
FURTHER = ("gemini-cli", "opencode", "openhands", "inspect-ai", "aider", "swe-agent", "mini-swe-agent")


@pytest.fixture
def samples(material: Path) -> Path:
    return material / "samples"


def inspect(place: Place, path: Path) -> dict[str, JsonValue] | None:
    """The one session there, or None."""
    told = place.call("inspect", str(path), "--json").objects()
    assert len(told) <= 1
    return told[0] if told else None


def found(place: Place, path: Path) -> dict[str, JsonValue]:
    session = inspect(place, path)
    assert session is not None
    return session


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_judged_by_its_lines(place: Place, samples: Path, name: str) -> None:
    session_id, state, reason, started, finished, counts, usage = RECORDINGS[name]
    session = found(place, samples / name)
    assert session["layout"] == {"ctcp-run-pass": "ctcp", "reports/qwen-chat.jsonl": "qwen"}.get(
        name, name.partition("/")[0]
    )
    assert (session["session_id"], session["state"], session["reason_code"]) == (session_id, state, reason)
    assert (session["evidence"], session["attempt"], session["activity"]) == ("declared", 1, None)
    assert (session["started_at"], session["finished_at"]) == (started, finished)
    assert session["counts"] == dict(
        zip(("events", "tool_calls", "errors", "subagents"), (*counts, 0), strict=True)
    )
    assert session["usage"] == (
        None if usage is None else dict(zip(("input_tokens", "output_tokens"), usage, strict=True))
    )
    assert session["problems"] == []


@pytest.mark.parametrize(("agent", "situation"), recordings.RECORDINGS)
def test_a_recording_in_a_home_is_judged_by_its_files(
    place: Place, samples: Path, agent: str, situation: str
) -> None:
    session = found(place, samples / recordings.HOMES[agent].format(situation))
    reason = recordings.reason_of(agent, situation)
    assert (session["layout"], session["problems"], session["attempt"]) == (agent, [], 1)
    assert (session["state"], session["evidence"], session["reason_code"]) == (
        ("unknown", None, "run.unknown.no_process")
        if reason is None
        else (reason.split(".")[1], "declared", reason)
    )
    went_on = situation == "int_tool" and reason == recordings.COMPLETED
    _, calls, usage = RECORDED["tool" if went_on else situation]
    assert isinstance(session["counts"], dict)
    assert session["counts"]["tool_calls"] == calls
    assert session["usage"] == (
        None if usage is None else dict(zip(("input_tokens", "output_tokens"), usage, strict=True))
    )


def test_all_recordings_are_found_at_once_and_nothing_else(place: Place, samples: Path) -> None:
    told = place.call("inspect", str(samples), "--json")
    assert {str(each["path"]) for each in told.objects()} == {str(samples / name) for name in RECORDINGS}
    # Further tools also write files of that name, and opencode kept sessions in other files once.
    others = [line for line in told.err.splitlines() if "run.json: schema is None" not in line]
    assert [line.partition(",")[0] for line in others] == [
        f"runward: {samples}/opencode/storage has sessions of version 1.1.53 in files of their own"
    ]


@pytest.mark.parametrize(
    "name", ["claude-code/ok.stream.jsonl", "claude-code/tool.stream.jsonl", "codex/ok.exec.jsonl"]
)
def test_what_a_program_printed_is_no_layout(place: Place, samples: Path, name: str) -> None:
    told = place.call("inspect", str(samples / name), "--json")
    assert (told.code, told.json()) == (1, [])
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("name", FURTHER)
def test_sessions_of_tools_that_are_not_known_are_nobodys(place: Place, samples: Path, name: str) -> None:
    assert place.call("inspect", str(samples / name), "--json").code == 1


@pytest.mark.parametrize("name", LOGS)
def test_a_recording_that_breaks_off_has_not_ended_before_its_end(
    place: Place, samples: Path, name: str
) -> None:
    lines = (samples / name).read_bytes().splitlines(keepends=True)
    path = place.directory / os.path.basename(name)
    states = []
    for count in range(len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        session = inspect(place, path)
        states.append("nobody's" if session is None else session["state"])
    end = RECORDINGS[name][1]
    assert states[0] == "nobody's"
    assert states[-1] == end
    before = states[1 : states.index(end)]
    assert set(before) == {"unknown"}
    assert set(states[states.index(end) :]) == {end}


@pytest.mark.parametrize("name", LOGS)
def test_a_recording_that_is_moved_and_packed_is_the_same_session(
    place: Place, samples: Path, name: str
) -> None:
    packed = place.directory / "archived_sessions" / (os.path.basename(name) + ".zst")
    packed.parent.mkdir()
    packed.write_bytes(zstandard.compress((samples / name).read_bytes()))
    assert found(place, packed) == {**found(place, samples / name), "path": str(packed)}


def _home(place: Place, samples: Path, lines: int | None = None, *, typed: bool = False) -> Path:
    """A directory like Claude Code's with the recording of a tool call in it, up to so many lines."""
    recorded = (samples / "claude-code/tool.jsonl").read_bytes()
    if typed:
        recorded = recorded.replace(b'"entrypoint":"sdk-cli"', b'"entrypoint":"cli"')
    session = RECORDINGS["claude-code/tool.jsonl"][0]
    path = place.directory / f"claude/projects/-home-dev-app/{session}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(recorded.splitlines(keepends=True)[:lines]))
    os.utime(path, (time.time() - 100,) * 2)
    return path


@pytest.mark.parametrize(
    ("lines", "typed", "alive", "gone"),
    [
        (7, False, ("running", "active"), ("aborted", "process_gone", "run.aborted.process_gone")),
        (7, True, ("running", "active"), ("aborted", "process_gone", "run.aborted.process_gone")),
        (None, True, ("running", "idle"), ("completed", "process_gone", "run.completed.ok")),
        (None, False, ("completed", None), ("completed", "declared", "run.completed.ok")),
    ],
    ids=["in a tool", "in a tool, typed", "idle", "headless and done"],
)
def test_claude_codes_pid_file_tells_whether_it_lives(
    place: Place,
    samples: Path,
    process: subprocess.Popen[bytes],
    lines: int | None,
    typed: bool,
    alive: tuple[str, str | None],
    gone: tuple[str, str, str],
) -> None:
    path = _home(place, samples, lines, typed=typed)
    recorded = json.loads((samples / "claude-code/sessions-pidfile.json").read_text())
    recorded |= {
        "pid": process.pid,
        "sessionId": path.stem,
        "procStart": str(identity_of(process.pid).start_ticks),
    }
    sessions = place.directory / "claude/sessions"
    sessions.mkdir()
    (sessions / f"{process.pid}.json").write_text(json.dumps(recorded))
    session = found(place, path)
    assert (session["state"], session["activity"]) == alive
    kill(process)
    session = found(place, path)
    assert (session["state"], session["evidence"], session["reason_code"]) == gone


def test_a_sub_agents_file_counts_in_its_parent_and_is_no_session(place: Place, samples: Path) -> None:
    path = _home(place, samples)
    own = path.with_suffix("") / "subagents/agent-a1b2c3.jsonl"
    own.parent.mkdir(parents=True)
    own.write_bytes(path.read_bytes().replace(b'"isSidechain":false', b'"isSidechain":true'))
    session = found(place, place.directory / "claude")
    assert session["path"] == str(path)
    assert session["counts"] == {"events": 10, "tool_calls": 1, "errors": 0, "subagents": 1}
    assert inspect(place, own) is None
