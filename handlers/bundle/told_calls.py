"""The calls that a replay shows, each with its result: the basis for comparing sessions and for learning from them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import NotCanonical, canonical, parse


@dataclass(slots=True)
class ToldCall:
    """A call of a replay. `output` is None until something came back."""

    id: str
    tool: str
    params: JsonValue
    params_hash: JsonValue = None
    output: JsonValue = None
    output_hash: JsonValue = None
    step_utility: JsonValue = None

    def as_json(self) -> JsonValue:
        """The call for programs."""
        return {"id": self.id, "tool": self.tool, "params": self.params, "output": self.output}

    @property
    def made(self) -> tuple[str, str]:
        """What was called, and with what: by the hash of the whole if that is known."""
        return self.tool, _known(self.params_hash, self.params)

    @property
    def same(self) -> tuple[str, str, str]:
        """What two equal calls have in common."""
        return *self.made, _known(self.output_hash, self.output)


class ToldReplay(NamedTuple):
    """The calls of a replay in their order, and the difference that its verification made."""

    calls: list[ToldCall]
    verification_delta: JsonValue = None


def told_replay(lines: Iterable[bytes]) -> ToldReplay:
    """What the lines of a replay say about calls. Other lines, and malformed ones, are skipped."""
    calls: dict[str, ToldCall] = {}
    delta: JsonValue = None
    for line in _objects(lines):
        match line:
            case {"event": "ToolCall", "id": str(number), "tool": str(tool)} if number not in calls:
                calls[number] = ToldCall(number, tool, line.get("params"), line.get("params_hash"))
            case {"event": "ToolResult", "id": str(number)} if number in calls:
                call = calls[number]
                call.output, call.output_hash = line.get("output"), line.get("output_hash")
                call.step_utility = line.get("step_utility")
            case {"event": "Verification"}:
                delta = line.get("verification_delta")
    return ToldReplay(list(calls.values()), delta)


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, JsonValue]]:
    for line in lines:
        try:
            value = parse(line)
        except NotCanonical:
            continue
        if isinstance(value, dict):
            yield value


def _known(digest: JsonValue, value: JsonValue) -> str:
    if isinstance(digest, str):
        return digest
    try:
        return canonical(value)
    except NotCanonical:
        return repr(value)


def costs_of(receipt: bytes) -> dict[str, JsonValue]:
    """The tokens of each call, by its id, as a receipt has them. Empty if the receipt can't be read."""
    try:
        fields = parse(receipt)
    except NotCanonical:
        return {}
    calls = fields.get("tool_calls") if isinstance(fields, dict) else None
    return {
        str(each["id"]): each.get("cost_tokens")
        for each in (calls if isinstance(calls, list) else [])
        if isinstance(each, dict) and "id" in each
    }
