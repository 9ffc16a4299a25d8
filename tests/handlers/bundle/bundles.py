"""Bundles of made-up sessions, drawn from a seed: what they say is arbitrary, and all of it fits together."""

import hashlib
import random
from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import Form, canonical_bytes, hash_of
from runward.handlers.bundle.parts import REPLAY, SUMMARY
from runward.handlers.bundle.receipt import file_entry, receipt_text, sealed

_WORDS = ("read", "né", "\n", '"', "\\", "<b>", "\u2028", "\U0001f600", "x" * 30, "1.0", "\x1b[31m", " ")
_COMMANDS = ("pytest -q", "cargo test", "go test ./...")


class Bundle(NamedTuple):
    """The three parts, as bytes; `fields` are the receipt's."""

    replay: bytes
    receipt: bytes
    summary: bytes
    fields: dict[str, JsonValue]

    def parts(self) -> dict[str, bytes]:
        return {"REPLAY.jsonl": self.replay, "RECEIPT.json": self.receipt, "PR_SUMMARY.md": self.summary}


def value(chance: random.Random, depth: int = 3) -> JsonValue:
    match chance.randrange(9 if depth else 6):
        case 0:
            return chance.choice([None, True, False])
        case 1:
            return chance.choice([0, -1, 2**53, 2**40]) + chance.randrange(1000) - 10**16 * 0
        case 2:
            return chance.choice([1.0, 1e21, 1e-7, -0.0, chance.random(), chance.random() * 1e300])
        case 3 | 4 | 5:
            return text(chance)
        case 6:
            return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {text(chance) + str(index): value(chance, depth - 1) for index in range(chance.randrange(4))}


def text(chance: random.Random) -> str:
    return "".join(chance.choice(_WORDS) for _ in range(chance.randrange(6)))


class _Session:
    """What is drawn before any line is written."""

    def __init__(self, chance: random.Random, form: Form) -> None:
        self.chance, self.form = chance, form
        self.id = f"sess_{chance.randrange(10**9)}_{chance.choice(['a', 'é', '*b*'])}"
        self.lines: list[dict[str, JsonValue]] = []
        self.calls: list[JsonValue] = []
        self.seconds = 0
        self.latency = 0

    def say(self, event: str, **fields: JsonValue) -> None:
        self.seconds += self.chance.randrange(3)
        at = f"2026-01-13T10:{self.seconds // 60:02d}:{self.seconds % 60:02d}Z"
        self.lines.append({"event": event, "t": at, **fields})

    def call(self, index: int) -> None:
        chance = self.chance
        params: JsonValue = {"path": text(chance), "more": _small(chance, self.form)}
        identifier, tool = f"tc_{index}", chance.choice(["Bash", "Read", "Edit"])
        params_hash = hash_of(params, self.form)
        extra: dict[str, JsonValue] = {}
        if chance.random() < 0.2:
            params = {"path": "[redacted]", "more": None}
            extra["redacted"] = ["/params/path"]
        self.say(
            "ToolCall",
            id=identifier,
            tool=tool,
            params=params,
            params_hash=params_hash,
            step_id=None,
            **extra,
        )
        entry: dict[str, JsonValue] = {"id": identifier, "tool": tool, "params_hash": params_hash}
        if chance.random() < 0.1:
            self.calls.append(
                {**entry, "output_hash": None, "step_utility": None, "latency_ms": None, "cost_tokens": None}
            )
            return
        output: JsonValue = {"content": text(chance), "error": None, "success": True}
        output_hash: JsonValue = hash_of(output, self.form)
        cut: dict[str, JsonValue] = {}
        if chance.random() < 0.2:
            output = {"content": "ab…yz", "error": None, "success": True}
            cut["cut"] = {"/output/content": 70_000}
        elif chance.random() < 0.1:
            output_hash, cut["problem"] = None, "the line is too long"
        utility = chance.choice([None, -1.0, 0.8, 1])
        latency = chance.choice([None, 0, 45, 12_000])
        self.latency += latency or 0
        self.say(
            "ToolResult",
            id=identifier,
            output=output,
            output_hash=output_hash,
            exit_code=chance.choice([None, 0, 1]),
            step_utility=0.800000011920929 if utility == 0.8 else utility,
            latency_ms=latency,
            **cut,
        )
        cost = chance.choice([None, 1200])
        self.calls.append(
            {
                **entry,
                "output_hash": output_hash,
                "step_utility": utility,
                "latency_ms": latency,
                "cost_tokens": cost,
            }
        )


def _small(chance: random.Random, form: Form) -> JsonValue:
    """RFC 8785 has no form for large whole numbers."""
    drawn = value(chance)
    return drawn if form == "seed" else text(chance)


def bundle(seed: int, form: Form = "seed", *, plain: bool = False) -> Bundle:
    """The bundle of this seed; a plain one is as the seed's own programs write it, without Runward's additions."""
    chance = random.Random(seed)
    session = _Session(chance, form)
    issue = chance.choice([None, 42])
    session.say(
        "SessionStart",
        session_id=session.id,
        issue_number=issue,
        policy_bundle_id="local-dev",
        attempt=1,
        hash="a" * 64,
    )
    plan_hash = chance.choice([None, hash_of({"steps": chance.randrange(9)}, form)])
    if plan_hash is not None:
        session.say("PlanStart", plan_hash=plan_hash, step_count=3)
    for index in range(chance.randrange(1, 8)):
        session.call(index)
        if chance.random() < 0.3:
            session.say("StepComplete", step_id=f"step-{index}", status="Success", iterations=None)
    commands: list[JsonValue] = list(_COMMANDS[: chance.randrange(4)])
    codes: list[JsonValue] = [chance.choice([0, 1]) for _ in commands]
    delta = chance.choice([None, 3, -1]) if commands else None
    if commands:
        session.say("Verification", commands=commands, exit_codes=codes, verification_delta=delta)
    confidence = chance.choice([None, 0.92, 1])
    session.say(
        "SessionEnd",
        status="Success",
        confidence=confidence,
        total_tool_calls=len(session.calls),
        total_latency_ms=session.latency,
        reason_code="run.completed.exit_zero",
        hash="b" * 64,
    )
    replay = b"".join(canonical_bytes(dict(each), form) + b"\n" for each in session.lines)
    shown = session.id.replace("*", "\\*")
    summary = (
        f"# PR Summary\n\n## Changes Made\n- none\n\n## Session\n- ID: {shown}\n- Issue: none\n".encode()
    )
    calls = [
        {key: each for key, each in call.items() if key != "cost_tokens" or not plain}
        for call in session.calls
        if isinstance(call, dict)
    ]
    fields: dict[str, JsonValue] = {
        "session_id": session.id,
        "started_at": "2026-01-13T10:00:00.123456789+00:00",
        "completed_at": "2026-01-13T10:05:32Z",
        "issue_number": issue,
        "plan_hash": plan_hash,
        "tool_calls": list[JsonValue](calls),
        "verification": {"commands_run": commands, "exit_codes": codes, "verification_delta": delta},
        "final_confidence": confidence,
        "policy_bundle_id": "local-dev",
    }
    if plain:
        fields["signature"] = None
        return Bundle(replay, receipt_text(fields), summary, fields)
    fields |= {
        "layout": "native",
        "attempt": 1,
        "status": "completed",
        "reason_code": "run.completed.exit_zero",
        "delivery": "passed",
        "event_hash": "b" * 64,
        "files": {
            REPLAY: file_entry(hashlib.sha256(replay).hexdigest(), len(replay)),
            SUMMARY: file_entry(hashlib.sha256(summary).hexdigest(), len(summary)),
        },
    }
    fields = sealed(fields, chance.choice([None, hash_of(seed, form)]), form).fields
    return Bundle(replay, receipt_text(fields), summary, fields)
