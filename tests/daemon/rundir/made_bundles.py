"""Bundles of sessions of several layouts, made from the sessions' files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.handlers.layouts import adjutant_lines, claude_code_lines, codex_lines, ctcp_lines, lionagi_lines

from runward.config.bundle import BundleRules
from runward.config.json_value import JsonValue
from runward.daemon.rundir.bundle_parts import make_on_demand, put_over
from runward.handlers.bundle.canonical import Form
from runward.handlers.model.bundle import BundleOrder, Cost, Stretch, Verdict

AT: Final = 1_769_860_800.0
VERDICT: Final = Verdict(AT + 60, "failed", "run.failed.exit_nonzero", "it *failed*", "passed", "c" * 64)
RULES: Final = {form: BundleRules(canonical_form=form, longest_text=60) for form in ("seed", "rfc8785")}

Write = Callable[[Path], tuple[str, Path]]
"""Writes a session's files into a directory; returns the session's id and where its files are."""


def _native(base: Path) -> tuple[str, Path]:
    events: list[dict[str, JsonValue]] = [
        {"event": "SessionStart", "issue_number": 42},
        {"event": "PlanStart", "steps": ["look", "work"]},
        _call("a", "Bash", {"command": "pytest -q"}),
        _result("a", {"content": None, "error": "1 failed, 3 passed in 0.1s", "success": False}, exit_code=1),
        _call("b", "Edit", {"path": "x", "text": "é\n\x1b[31m<b>", "n": [1, 1.0, 1e21, -0.0, 2**60]}),
        _result("b", {"content": "x" * 200}, step_utility=0.8),
        {"event": "StepComplete", "step_id": "look", "status": "Success"},
        _call("c", "Bash", {"command": "pytest -q", "api_key": "abc"}),
        _result("c", {"content": "4 passed in 0.1s"}, exit_code=0),
        _call("d", "Read", None),
        {"event": "SessionEnd", "confidence": 0.92},
    ]
    return "run", _log(base / "run", "trace.jsonl", [json.dumps(each).encode() for each in events])


def _call(call: str, tool: str, params: JsonValue) -> dict[str, JsonValue]:
    return {"event": "ToolCall", "id": call, "tool": tool, "params": params, "t": "2026-01-31T12:00:01Z"}


def _result(call: str, output: JsonValue, **more: JsonValue) -> dict[str, JsonValue]:
    return {"event": "ToolResult", "id": call, "output": output, "t": "2026-01-31T12:00:02Z", **more}


def _claude_code(base: Path) -> tuple[str, Path]:
    log = claude_code_lines.Transcript()
    claude_code_lines.good_turn(log)
    log.result(log.call("Write", path="a", content="b"), "no", is_error=True)
    log.call("Bash", command="sleep 60")
    (base / f"{claude_code_lines.SESSION}.jsonl").write_bytes(log.content())
    return claude_code_lines.SESSION, base / f"{claude_code_lines.SESSION}.jsonl"


def _codex(base: Path) -> tuple[str, Path]:
    lines = [line.content for line in codex_lines.resumed().lines()]
    return codex_lines.THREAD, _log(base, codex_lines.NAME, lines) / codex_lines.NAME


def _ctcp(base: Path) -> tuple[str, Path]:
    run = _log(base / "run-7", "events.jsonl", ctcp_lines.mended_run())
    (run / "RUN.json").write_text(json.dumps(ctcp_lines.run_json("pass")))
    return "run-7", run


def _adjutant(base: Path) -> tuple[str, Path]:
    return "sess_7", _log(base / "sess_7", "REPLAY.jsonl", adjutant_lines.session("a"))


def _lionagi(base: Path) -> tuple[str, Path]:
    run, own = base / lionagi_lines.RUN_ID, lionagi_lines.OWN
    (run / "branches").mkdir(parents=True)
    (run / "run.json").write_text(json.dumps(lionagi_lines.run_json("completed")))
    asked: JsonValue = {"function": "search", "arguments": {"q": "x"}}
    answered: JsonValue = {"action_request_id": "m1", "output": [1, {"a": None}]}
    messages = []
    for name, kind, content in (("m1", "ActionRequest", asked), ("m2", "ActionResponse", answered)):
        said = lionagi_lines.message(kind, 1001.0, content)
        assert isinstance(said, dict)
        messages.append({**said, "id": name})
    (run / f"branches/{own}.json").write_text(json.dumps(lionagi_lines.branch(own, messages)))
    return lionagi_lines.RUN_ID, run


def _log(directory: Path, name: str, lines: list[bytes]) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(b"".join(line + b"\n" for line in lines))
    return directory


SESSIONS: Final[dict[str, Write]] = {
    "native": _native,
    "claude-code": _claude_code,
    "codex": _codex,
    "ctcp": _ctcp,
    "adjutant": _adjutant,
    "lionagi": _lionagi,
}


def made(layout: str, session_id: str, path: Path, directory: Path, form: Form) -> None:
    """Put the bundle of this session into a directory."""
    order = BundleOrder(
        *(f"{layout}:r/{session_id}", session_id, layout, str(path), str(directory)),
        *(1, Stretch(AT, AT + 60, hash="d" * 64), VERDICT, RULES[form]),
        changes=("It *says* what",),
        next_steps=("look at `stderr`",),
        usage=(15_234, 8_921),
        cost=Cost(750, "msats"),
    )
    directory.mkdir(exist_ok=True)
    put_over(str(directory), make_on_demand(order, (), str(directory)).parts)
