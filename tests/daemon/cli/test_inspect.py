"""`runward inspect`: what a directory says by itself."""

import json
import os
import socket
import subprocess
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.writers import kill
from tests.unprivileged import as_unprivileged

from runward.config.json_value import JsonValue
from runward.daemon.processes.proc import identity_of
from runward.daemon.views.inspected import rewritten_intents
from runward.handlers.exchange.intent import parse_intent, shown

_KEYS = [
    "layout",
    "session_id",
    "state",
    "evidence",
    "idle_s",
    "reason_code",
    "started_at",
    "finished_at",
    "agent",
    "model",
    "cwd",
    "path",
    "parent_session_id",
    "attempt",
    "activity",
    "counts",
    "usage",
    "problems",
]


def _identity(process: subprocess.Popen[bytes]) -> JsonValue:
    return dict(identity_of(process.pid)._asdict())


def _inspect(place: Place, name: str) -> dict[str, JsonValue]:
    (session,) = place.call("inspect", str(place.runs / name), "--json").objects()
    return session


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else to be refused")
def test_what_may_not_be_read_is_to_be_tried_again_and_where_its_place_tells_the_session_it_is_its_problem() -> (
    None
):
    with TemporaryDirectory() as directory:
        place = Place(Path(directory))
        place.directory.chmod(0o755)
        (place.directory / "log.jsonl").touch(0)
        (place.directory / "closed").mkdir(0)
        place.call("inspect", "--json", ".")  # imports what it needs, which a stranger may not
        for name, why in (("log.jsonl", "can't be read"), ("closed", "can't be listed")):
            code, out, err = as_unprivileged(partial(_told, place, name))
            assert (code, out) == ("75", "")
            assert err == f"runward: {name} {why}: Permission denied; check its permissions\n"
        code, out, err = as_unprivileged(lambda: _told(place, "."))
        assert (code, out) == ("1", "[]\n")
        assert "log.jsonl can't be read: Permission denied" in err
        rollout = (
            place.directory
            / "sessions/2026/01/02/rollout-2026-01-02T03-04-05-0190a8b4-0000-7000-8000-000000000000.jsonl"
        )
        rollout.parent.mkdir(parents=True)
        rollout.touch(0)
        code, out, err = as_unprivileged(lambda: _told(place, "sessions"))
        (session,) = json.loads(out)
        assert (code, session["state"], session["layout"]) == ("0", "unknown", "codex")
        assert session["problems"] == [{"line": None, "message": "can't be read: Permission denied"}]


def test_a_path_that_is_no_utf_8_is_json_all_the_same(place: Place) -> None:
    name = os.fsdecode(b"caf\xe9")
    place.add_run(name, exit_code=0)
    told = place.call("inspect", str(place.runs), "--json")
    (session,) = told.objects()
    assert str(session["path"]).encode().endswith(b"/runs/caf\0e9")


def _told(place: Place, name: str) -> list[str]:
    told = place.call("inspect", "--json", name)
    return [str(told.code), told.out, told.err]


def test_the_json_is_a_list_of_objects_with_the_promised_keys(place: Place) -> None:
    place.add_run("done", exit_code=0, agent="reviewer", session_id="its id")
    session = _inspect(place, "done")
    assert list(session) == _KEYS
    assert (session["state"], session["evidence"], session["reason_code"]) == (
        "completed",
        "declared",
        "run.completed.ok",
    )
    assert (session["session_id"], session["agent"], session["attempt"]) == ("its id", "reviewer", 1)
    assert (session["started_at"], session["finished_at"]) == (
        "2026-01-02T03:04:05.000Z",
        "2026-01-02T03:14:05.000Z",
    )
    assert session["counts"] == {"events": 0, "tool_calls": 0, "errors": 0, "subagents": 0}
    assert (session["idle_s"], session["usage"], session["problems"]) == (None, None, [])


def test_a_run_that_names_no_process_is_unknown(place: Place) -> None:
    run = place.add_run("open")
    for path in run.iterdir():
        os.utime(path, (time.time() - 100,) * 2)
    session = _inspect(place, "open")
    assert (session["state"], session["evidence"], session["reason_code"]) == (
        "unknown",
        None,
        "run.unknown.no_process",
    )
    assert isinstance(session["idle_s"], float)
    assert 99 < session["idle_s"] < 200


def test_a_run_with_a_living_process_is_running_however_old(
    place: Place, process: subprocess.Popen[bytes]
) -> None:
    place.add_run("alive", launcher=_identity(process))
    session = _inspect(place, "alive")
    assert (session["state"], session["reason_code"]) == ("running", "run.started.ok")


def test_a_run_whose_process_is_gone_is_aborted(place: Place, process: subprocess.Popen[bytes]) -> None:
    place.add_run("left", launcher=_identity(process))
    kill(process)
    session = _inspect(place, "left")
    assert (session["state"], session["evidence"], session["reason_code"]) == (
        "aborted",
        "process_gone",
        "run.aborted.process_gone",
    )


def test_a_process_on_another_host_can_be_judged_by_nobody_here(
    place: Place, process: subprocess.Popen[bytes]
) -> None:
    place.add_run("far", launcher=_identity(process), host=f"not-{socket.gethostname()}")
    assert _inspect(place, "far")["reason_code"] == "run.unknown.open_turn"


def test_a_directory_of_runs_gives_each_of_them_in_order(place: Place) -> None:
    for name in ("b", "a"):
        place.add_run(name, exit_code=1)
    (place.runs / "no run").mkdir()
    listed = place.call("inspect", str(place.runs), "--json").objects()
    assert [each["session_id"] for each in listed] == ["a", "b"]
    assert {each["state"] for each in listed} == {"failed"}


def test_a_file_of_a_run_stands_for_the_run(place: Place) -> None:
    place.add_run("done", exit_code=0)
    assert len(place.call("inspect", str(place.runs / "done/exit.json"), "--json").objects()) == 1


def test_journals_are_counted_and_their_ill_formed_lines_named(place: Place) -> None:
    run = place.add_run("told", exit_code=0)
    (run / "events.jsonl").write_text('{"event":"a"}\nno\n[]\n{"event":"b"}\n')
    (run / "trace.jsonl").write_text('{"event":"ToolCall"}\n{"event":"ToolResult"}\n{"event":"ToolCall"}\n')
    session = _inspect(place, "told")
    assert session["counts"] == {"events": 2, "tool_calls": 2, "errors": 0, "subagents": 0}
    assert session["problems"] == [
        {"line": 2, "message": "events.jsonl: not JSON: Expecting value"},
        {"line": 3, "message": "events.jsonl: does not contain a JSON object"},
    ]


def test_an_ill_formed_file_is_a_problem_of_the_session(place: Place) -> None:
    run = place.add_run("odd")
    (run / "exit.json").write_text(json.dumps({"exit_code": "zero"}))
    (run / "trace.jsonl").symlink_to("/etc/passwd")
    session = _inspect(place, "odd")
    assert session["state"] == "unknown"
    problems = session["problems"]
    assert isinstance(problems, list)
    assert [str(each["message"]).split(":")[0] for each in problems if isinstance(each, dict)] == [
        "exit.json",
        "trace.jsonl",
    ]


def test_a_layout_that_nobody_knows_gives_an_empty_list_and_exits_1(place: Place) -> None:
    for arguments in ((str(place.directory),), (str(place.directory), "--layout", "unheard-of")):
        told = place.call("inspect", *arguments, "--json")
        assert (told.code, told.json()) == (1, [])
        assert told.err.count("\n") == 1


def test_a_run_whose_first_file_is_broken_is_no_session_and_it_is_said(place: Place) -> None:
    (place.runs / "broken").mkdir(parents=True)
    (place.runs / "broken/run.json").write_text("{")
    told = place.call("inspect", str(place.runs / "broken"), "--json")
    assert (told.code, told.json()) == (1, [])
    assert "line 1, run.json: not JSON" in told.err


def test_a_missing_path_exits_3(place: Place) -> None:
    assert place.call("inspect", "nowhere").code == 3


def test_people_read_it_with_local_times_and_nothing_steers_their_terminal(place: Place) -> None:
    place.add_run("odd", exit_code=0, session_id="\x1b[31m", agent="\u202eevil")
    shown = place.call("inspect", str(place.runs / "odd"), TZ="CET-1").out
    assert "\x1b" not in shown
    assert "Session:   \\x1b[31m" in shown
    assert "Agent:     \\u202eevil" in shown
    assert "2026-01-02 04:04:05 CET" in shown


def test_it_needs_and_makes_no_state_directory(place: Place) -> None:
    run = place.directory / "elsewhere"
    run.mkdir()
    (run / "run.json").write_text('{"schema": "runward-run-v1"}')
    assert place.call("inspect", "elsewhere").code == 0
    assert not place.state.exists()


def test_no_contract_is_judged(recorded: Place) -> None:
    (session,) = recorded.call("inspect", str(recorded.runs / "silent"), "--json").objects()
    assert session["state"] == "completed"
    assert recorded.call("session", "show", "silent", "--json").object()["status"] == "failed"


def test_intents_that_were_rewritten_after_they_were_carried_out_are_named(tmp_path: Path) -> None:
    lines = [f'{{"action_type": "read_artifact", "artifact_id": "{name}"}}' for name in "abc"]
    results = [
        json.dumps({"line": number, "intent": shown(parse_intent(line.encode()))})
        for number, line in enumerate(lines[:2], 1)
    ]
    (tmp_path / "results.jsonl").write_text("".join(f"{each}\n" for each in results))

    def named(*now: str) -> list[tuple[str, int | None]]:
        (tmp_path / "intents.jsonl").write_text("\n".join(now))
        return [(each.file, each.line) for each in rewritten_intents(str(tmp_path))]

    assert named(*lines) == named(*lines[:2]) == []
    assert named(lines[0], lines[2]) == [("intents.jsonl", 2)]
    assert named(lines[0]) == [("intents.jsonl", 2)]
    assert named("nonsense", lines[1]) == [("intents.jsonl", 1)]
    (tmp_path / "intents.jsonl").unlink()
    assert rewritten_intents(str(tmp_path)) == []
