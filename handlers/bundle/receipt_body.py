"""The receipt of an attempt before it is sealed: what the replay and the verdict say."""

from collections.abc import Sequence

from runward.config.json_value import JsonValue
from runward.handlers.bundle.receipt import file_entry
from runward.handlers.bundle.replay import CallRecord, Replay
from runward.handlers.journal.iso_time import iso_time
from runward.handlers.model.bundle import Part


def receipt_body(replay: Replay, parts: Sequence[Part], plain_names: Sequence[str]) -> dict[str, JsonValue]:
    """The fields in their order; `plain_names` are the names of the `parts` in an exported bundle."""
    order, runs = replay.order, replay.verification.runs()
    return {
        "session_id": order.session_id,
        "started_at": iso_time(order.stretch.started_at),
        "completed_at": iso_time(order.verdict.at),
        "issue_number": replay.issue_number,
        "plan_hash": replay.plan_hash,
        "tool_calls": [_call(each) for each in replay.calls.values()],
        "verification": {
            "commands_run": [run.command for run in runs],
            "exit_codes": [run.exit_code for run in runs],
            "verification_delta": replay.verification.delta,
        },
        "final_confidence": replay.confidence,
        "policy_bundle_id": replay.policy_bundle_id,
        "layout": order.layout,
        "attempt": order.attempt,
        "status": order.verdict.status,
        "reason_code": order.verdict.reason_code,
        "delivery": order.verdict.delivery,
        "event_hash": order.verdict.hash,
        "files": {
            name: file_entry(part.sha256, part.size) for name, part in zip(plain_names, parts, strict=True)
        },
    }


def _call(call: CallRecord) -> JsonValue:
    return {
        "id": call.id,
        "tool": call.tool,
        "params_hash": call.params_hash,
        "output_hash": call.output_hash,
        "step_utility": call.step_utility,
        "latency_ms": call.latency_ms,
        "cost_tokens": call.cost_tokens,
    }
