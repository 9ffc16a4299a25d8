"""A receipt compared with the replay: the same session, the same calls in the same order, the same end."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.problem import quoted
from runward.handlers.bundle.bundle_problem import BundleProblem
from runward.handlers.bundle.numbers import is_number
from runward.handlers.bundle.parts import RECEIPT, REPLAY
from runward.handlers.bundle.replay_facts import ReplayedCall, ReplayFacts

TOLERANCE: Final = 1e-6
"""How far utilities may differ: some writers keep them in 32 bits."""
_NAMED: Final = 100
"""Missing or extra calls that are named; the rest are counted."""


def differences(fields: dict[str, JsonValue], facts: ReplayFacts) -> Iterator[BundleProblem]:
    """Every difference between the two, with the line of the replay and the field of the receipt."""
    start = facts.start or {}
    if facts.start is not None and fields.get("session_id") != start.get("session_id"):
        yield _differ(facts.start_line, "session_id", start.get("session_id"), fields.get("session_id"))
    yield from _calls(fields.get("tool_calls"), facts.calls)
    yield from _verification(fields.get("verification"), facts)
    if facts.end is not None:
        said, confidence = facts.end.get("confidence"), fields.get("final_confidence")
        if not _same_number(said, confidence):
            yield _differ(facts.end_line, "final_confidence", said, confidence)


def _differ(line: int | None, field: str, in_replay: JsonValue, in_receipt: JsonValue) -> BundleProblem:
    message = f"{_said(in_replay)} in the replay, {_said(in_receipt)} in {RECEIPT}"
    return BundleProblem(REPLAY, line, field, message)


def _said(value: JsonValue) -> str:
    if value is None:
        return "null"
    return (
        value if isinstance(value, str) and value.startswith("sha256:") and len(value) < 80 else quoted(value)
    )


def _calls(stated: JsonValue, replayed: list[ReplayedCall]) -> Iterator[BundleProblem]:
    if not isinstance(stated, list) or not all(isinstance(each, dict) for each in stated):
        return  # the check of the fields reported it
    calls = [each for each in stated if isinstance(each, dict)]
    ids = [_text(call.get("id")) for call in calls]
    in_replay = [call.id for call in replayed]
    if ids == in_replay:
        for index, (call, other) in enumerate(zip(calls, replayed, strict=True)):
            yield from _call(index, call, other)
        return
    yield from _missing_or_extra(ids, replayed)
    yield from _matching(calls, ids, replayed)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _missing_or_extra(ids: list[str], replayed: list[ReplayedCall]) -> Iterator[BundleProblem]:
    missing = Counter(call.id for call in replayed) - Counter(ids)
    extra = Counter(ids) - Counter(call.id for call in replayed)
    if not missing and not extra:
        index = next(index for index, call in enumerate(replayed) if call.id != ids[index])
        message = f"the calls are in another order: {quoted(replayed[index].id)} in the replay, {quoted(ids[index])} in {RECEIPT}"
        yield BundleProblem(REPLAY, replayed[index].line, f"tool_calls[{index}].id", message)
        return
    named = 0
    for call in reversed(replayed):
        if missing[call.id] > 0 and named < _NAMED:
            missing[call.id] -= 1
            named += 1
            yield BundleProblem(
                REPLAY, call.line, "tool_calls", f"the call {quoted(call.id)} is not in {RECEIPT}"
            )
    for index in range(len(ids) - 1, -1, -1):
        if extra[ids[index]] > 0 and named < _NAMED:
            extra[ids[index]] -= 1
            named += 1
            message = f"the call {quoted(ids[index])} of {RECEIPT} is not in the replay"
            yield BundleProblem(REPLAY, None, f"tool_calls[{index}]", message)
    left = sum(missing.values()) + sum(extra.values())
    if left:
        yield BundleProblem(REPLAY, None, "tool_calls", f"{left} more calls are in only one of the two")


def _matching(
    calls: list[dict[str, JsonValue]], ids: list[str], replayed: list[ReplayedCall]
) -> Iterator[BundleProblem]:
    """The differences in the calls that both have, matched by their ids."""
    waiting: dict[str, list[int]] = {}
    for index in range(len(ids) - 1, -1, -1):
        waiting.setdefault(ids[index], []).append(index)
    for other in replayed:
        found = waiting.get(other.id)
        if found:
            index = found.pop()
            yield from _call(index, calls[index], other)


def _call(index: int, call: dict[str, JsonValue], other: ReplayedCall) -> Iterator[BundleProblem]:
    within = f"tool_calls[{index}]."
    if call.get("tool") != other.tool:
        yield _differ(other.line, f"{within}tool", other.tool, call.get("tool"))
    if call.get("params_hash") != other.params_hash:
        yield _differ(other.line, f"{within}params_hash", other.params_hash, call.get("params_hash"))
    line = other.result_line or other.line
    if call.get("output_hash") != other.output_hash:
        yield _differ(line, f"{within}output_hash", other.output_hash, call.get("output_hash"))
    if not _same_number(other.step_utility, call.get("step_utility"), TOLERANCE):
        yield _differ(line, f"{within}step_utility", other.step_utility, call.get("step_utility"))
    if not _same_number(other.latency_ms, call.get("latency_ms")):
        yield _differ(line, f"{within}latency_ms", other.latency_ms, call.get("latency_ms"))


def _same_number(left: JsonValue, right: JsonValue, tolerance: float = 0.0) -> bool:
    if is_number(left) and is_number(right):
        return left == right or abs(left - right) <= tolerance
    return left is None and right is None


def _verification(stated: JsonValue, facts: ReplayFacts) -> Iterator[BundleProblem]:
    if not isinstance(stated, dict):
        return
    said = facts.verification or {}
    line = facts.verification_line
    for key, in_receipt in (("commands", "commands_run"), ("exit_codes", "exit_codes")):
        if (said.get(key) or []) != (stated.get(in_receipt) or []):
            yield _differ(line, f"verification.{in_receipt}", said.get(key), stated.get(in_receipt))
    delta = stated.get("verification_delta")
    if not _same_number(said.get("verification_delta"), delta):
        yield _differ(line, "verification.verification_delta", said.get("verification_delta"), delta)
