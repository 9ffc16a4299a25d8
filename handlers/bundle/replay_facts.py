"""What a replay says, without its values: what a receipt is compared with."""

from dataclasses import dataclass, field

from runward.config.json_value import JsonValue


@dataclass(slots=True)
class ReplayedCall:
    """A tool call and its result. A hash is the one that the line states, else the one of its value."""

    line: int
    id: str
    tool: JsonValue
    params_hash: JsonValue
    result_line: int | None = None
    output_hash: JsonValue = None
    step_utility: JsonValue = None
    latency_ms: JsonValue = None


@dataclass(slots=True)
class HashCounts:
    """The result of checking the hashes of params and outputs. `parts` are those of the receipt and of whole parts."""

    recomputed: int = 0
    redacted: int = 0
    cut: int = 0
    unknown: int = 0
    parts: int = 0

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "recomputed": self.recomputed,
            "redacted": self.redacted,
            "cut": self.cut,
            "unknown": self.unknown,
            "parts": self.parts,
        }


@dataclass(slots=True)
class ReplayFacts:
    """The facts of one replay, with their line numbers."""

    events: int = 0
    start: dict[str, JsonValue] | None = None
    start_line: int | None = None
    plan_hash: JsonValue = None
    plan_line: int | None = None
    calls: list[ReplayedCall] = field(default_factory=list)
    verification: dict[str, JsonValue] | None = None
    verification_line: int | None = None
    end: dict[str, JsonValue] | None = None
    end_line: int | None = None
    hashes: HashCounts = field(default_factory=HashCounts)
