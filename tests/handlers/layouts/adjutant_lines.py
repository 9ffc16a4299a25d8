"""Small Adjutant sessions of our own making, in every form that was written."""

import json
from typing import Literal

from runward.config.json_value import JsonValue

Form = Literal["a", "b", "c", "d", "d-early"]
FORMS: tuple[Form, ...] = ("a", "b", "c", "d", "d-early")


def record(form: Form, event: str, at: str, **more: JsonValue) -> bytes:
    """A line of `REPLAY.jsonl`: canonical JSON."""
    keys = ("type", "ts") if form == "d-early" else ("event", "t")
    line: dict[str, JsonValue] = {keys[0]: event, keys[1]: at}
    return json.dumps(line | more, sort_keys=True, separators=(",", ":")).encode()


def start(form: Form, at: str = "2026-01-13T10:00:00Z", session_id: str = "sess_7") -> list[bytes]:
    """The lines that a session of this form begins with."""
    policy = "policy_version" if form == "a" else "policy_bundle_id"
    more: dict[str, JsonValue] = {"session_id": session_id, policy: "v1"}
    if form != "d-early":
        more["issue_number"] = 42
    begun = [record(form, "SessionStart", at, **more)]
    if form in ("a", "b"):
        return begun
    header: dict[str, JsonValue] = {
        "event" if form != "d-early" else "type": "ReplayHeader",
        "replay_version": 1,
        "producer": "openagents-runtime" if form.startswith("d") else "adjutant@1.2.3",
        "created_at": "2026-01-13T09:59:59Z",
    }
    return [json.dumps(header, sort_keys=True).encode(), *begun]


def call(form: Form, call_id: str, exit_code: int | None = 0) -> list[bytes]:
    """A tool call and its result."""
    return [
        record(form, "ToolCall", "2026-01-13T10:00:02Z", id=call_id, tool="shell", params={}, step_id="s1"),
        record(
            form,
            "ToolResult",
            "2026-01-13T10:00:03Z",
            id=call_id,
            output_hash="sha256:00",
            exit_code=exit_code,
            step_utility=0.5,
            latency_ms=45,
        ),
    ]


def step(form: Form, status: str) -> bytes:
    return record(form, "StepComplete", "2026-01-13T10:00:04Z", step_id="s1", status=status, iterations=1)


def end(form: Form, status: str, confidence: float = 0.92) -> bytes:
    return record(
        form,
        "SessionEnd",
        "2026-01-13T10:00:09Z",
        status=status,
        confidence=confidence,
        total_tool_calls=2,
        total_latency_ms=90,
    )


def session(form: Form, status: str = "Success", step_status: str = "Success") -> list[bytes]:
    """A whole session: two calls, one of which failed, a check, an end."""
    if form.startswith("d"):
        middle = [
            record(form, "RuntimeEvent", "2026-01-13T10:00:05Z", seq=1, runtime_event_type="run.started"),
            record(
                form, "Payment", "2026-01-13T10:00:06Z", rail="lightning", amount_msats=7, status="released"
            ),
        ]
    else:
        middle = [step(form, step_status)]
    check = record(form, "Verification", "2026-01-13T10:00:08Z", commands=["true"], exit_codes=[0])
    return [*start(form), *call(form, "tc_1"), *call(form, "tc_2", 1), *middle, check, end(form, status)]


def receipt(form: Form) -> dict[str, JsonValue]:
    """`RECEIPT.json`, written when a session is over."""
    said: dict[str, JsonValue] = {
        "session_id": "sess_7",
        "tool_calls": [{"tool": "shell", "params_hash": "sha256:00", "output_hash": "sha256:00"}] * 2,
        "policy_version" if form == "a" else "policy_bundle_id": "v1",
    }
    if form.startswith("d"):
        return said | {
            "schema": "openagents.receipt.v1",
            "trajectory_hash": "sha256:00",
            "created_at": "2026-01-13T10:00:00Z",
            "verification": [{"command": "true", "exit_code": 0}],
        }
    return said | {
        "started_at": "2026-01-13T10:00:00.123456789+00:00",
        "completed_at": "2026-01-13T10:00:09.123456789+00:00",
        "plan_hash": "sha256:00",
        "verification": {"commands_run": ["true"], "exit_codes": [0], "verification_delta": 0},
        "final_confidence": 0.92,
        "signature": None,
    }
