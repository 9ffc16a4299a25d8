"""The calls that a replay shows, each with its result: for learning from sessions, and for comparing two of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
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


class Divergence(NamedTuple):
    """The first call that differs, counted from 0; a side that has no further call has None."""

    at: int
    left: ToldCall | None
    right: ToldCall | None


class Alignment(NamedTuple):
    """How many calls are the same, how many were the same but had different results, how many only one side made."""

    same: int
    changed: int
    left_only: int
    right_only: int


def first_divergence(left: Sequence[ToldCall], right: Sequence[ToldCall]) -> Divergence | None:
    """Where the calls diverge. None if they are the same."""
    for index in range(max(len(left), len(right))):
        ours = left[index] if index < len(left) else None
        theirs = right[index] if index < len(right) else None
        if ours is None or theirs is None or ours.same != theirs.same:
            return Divergence(index, ours, theirs)
    return None


def aligned(left: Sequence[ToldCall], right: Sequence[ToldCall]) -> Alignment:
    """The calls of both, aligned by what was called."""
    matcher = SequenceMatcher(
        None, [each.made for each in left], [each.made for each in right], autojunk=False
    )
    same = changed = matched = 0
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            is_same = left[block.a + offset].same == right[block.b + offset].same
            same, changed = same + is_same, changed + (not is_same)
        matched += block.size
    return Alignment(same, changed, len(left) - matched, len(right) - matched)
