"""A session as a trajectory in ATIF, the format that the evaluation framework Harbor defined: steps, calls, results.

Source: RFC 0001 of Harbor, and its published models (harbor 0.26.0). A step is a text of a person, of the tool, or of the agent; the
calls that the agent makes after it, with no result in between, belong to it, and so do their results. What a session does not say is
left out: texts that a model thought, what each reply cost, which replies made which calls in parallel.
"""

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.bundle.shown import Showing
from runward.handlers.calls import Called, Paid, Returned, Told, Unusable
from runward.handlers.times import iso

SCHEMA: Final = "ATIF-v1.7"
"""The oldest version with `extra` in calls and results: older readers know more of the old ones."""

MOST_HELD: Final = 32 << 20
"""Bytes of texts and lines that wait for the result of a call before them. After that, its step is given without the result."""

Source: TypeAlias = Literal["user", "agent", "system"]
_OF_STEP: Final = 500
"""Bytes that a step takes besides its texts."""

_SOURCES: Final[dict[str, Source]] = {"user": "user", "assistant": "agent", "system": "system"}
_TEXTS: Final = ("text", "input_text", "output_text")


@dataclass(slots=True)
class _Step:
    source: Source
    at: float | None
    message: str = ""
    extra: dict[str, JsonValue] = field(default_factory=dict)
    calls: list[JsonValue] = field(default_factory=list)
    results: list[JsonValue] = field(default_factory=list)
    waits_for: set[str] = field(default_factory=set)
    tokens: int | None = None
    size: int = 0

    def add_tokens(self, tokens: int | None) -> None:
        if tokens is not None:
            self.tokens = (self.tokens or 0) + tokens

    def as_json(self, number: int) -> dict[str, JsonValue]:
        told: dict[str, JsonValue] = {"step_id": number}
        if self.at is not None:
            told["timestamp"] = iso(self.at)
        told |= {"source": self.source, "message": self.message}
        if self.calls:
            told["tool_calls"] = self.calls
        if self.results:
            told["observation"] = {"results": self.results}
        if self.tokens is not None:
            told["metrics"] = {"extra": {"total_tokens": self.tokens}}
        return told | ({"extra": self.extra} if self.extra else {})


class Trajectory:
    """Makes steps of what a session's files say, in their order. Each is given when the results of its calls are there.

    `steps` counts those that were given, `usd` is what the session says that it paid, if it says it of all replies, `unusable` are the first and the number of
    the lines that could not be used.
    """

    def __init__(self, showing: Showing) -> None:
        self._showing = showing
        self._waiting: deque[_Step] = deque()
        self._held = 0
        self._callers: dict[str, _Step] = {}
        self.steps = 0
        self._paid_usd: float | None = None
        self._is_paid_whole = True
        self.unusable: tuple[str, int] | None = None

    @property
    def usd(self) -> float | None:
        return self._paid_usd if self._is_paid_whole else None

    def said(
        self, at: float | None, role: Literal["user", "assistant", "system"], text: str
    ) -> Iterator[JsonValue]:
        """Take in a text of the conversation; gives the steps that are complete."""
        message, missing = self._shown({"output": text}, "output", "/message")
        yield from self._begin(_Step(_SOURCES[role], at, str(message), missing), len(text))

    def told(self, record: Told) -> Iterator[JsonValue]:
        """Take in what the files say next about calls; gives the steps that are complete."""
        match record:
            case Called():
                yield from self._called(record)
            case Returned():
                yield from self._returned(record)
            case Paid():
                if record.usd is None:
                    self._is_paid_whole = False
                else:
                    self._paid_usd = (self._paid_usd or 0.0) + record.usd
            case Unusable():
                first, count = self.unusable or (_place_of(record), 0)
                self.unusable = first, count + 1
            case _:
                pass

    def rest(self) -> Iterator[JsonValue]:
        """The steps that are left at the end of the files."""
        while self._waiting:
            yield self._give()

    def _called(self, call: Called) -> Iterator[JsonValue]:
        step = self._waiting[-1] if self._waiting else None
        if step is None or step.source != "agent" or step.results or step.size >= MOST_HELD:
            step = _Step("agent", call.at)
            yield from self._begin(step, 0)
        named = not isinstance(call.params, dict)
        params, missing = self._shown(
            {"params": call.params}, "params", "/arguments/input" if named else "/arguments"
        )
        arguments: JsonValue = (
            params if isinstance(params, dict) else {} if params is None else {"input": params}
        )
        told: dict[str, JsonValue] = {
            "tool_call_id": self._showing.id(call.id),
            "function_name": self._showing.name(call.tool),
            "arguments": arguments,
        }
        step.calls.append(told | ({"extra": missing} if missing else {}))
        step.add_tokens(call.tokens)
        step.waits_for.add(call.id)
        if (before := self._callers.get(call.id)) is not None and before is not step:
            before.waits_for.discard(call.id)  # a further call of this id gets the result
        self._callers[call.id] = step
        self._hold(step, call.place.length)

    def _returned(self, returned: Returned) -> Iterator[JsonValue]:
        call = self._showing.id(returned.id)
        told_output = returned.content if returned.success else returned.error
        output, extra = self._shown({"output": told_output}, "output", "/content")
        if not returned.success:
            extra["success"] = False
        if returned.exit_code is not None:
            extra["exit_code"] = returned.exit_code
        step = self._callers.pop(returned.id, None)
        told: dict[str, JsonValue] = {}
        if step is not None:
            step.waits_for.discard(returned.id)
            told["source_call_id"] = call
            step.add_tokens(returned.tokens)
        else:
            # The call is in a step that was given already, or nowhere: a result may only name a call of its own step.
            extra["call_id"] = call
            step = _Step("system", returned.at)
            yield from self._begin(step, 0)
        content = _text_of(output)
        if content is not None:
            told["content"] = content
        step.results.append(told | ({"extra": extra} if extra else {}))
        self._hold(step, returned.place.length)

    def _begin(self, step: _Step, size: int) -> Iterator[JsonValue]:
        """The newest step is never given: calls may still be added to it."""
        while self._waiting and (not self._waiting[0].waits_for or self._held >= MOST_HELD):
            yield self._give()
        self._waiting.append(step)
        self._hold(step, size + _OF_STEP)

    def _hold(self, step: _Step, size: int) -> None:
        step.size += size
        self._held += size

    def _give(self) -> JsonValue:
        step = self._waiting.popleft()
        self._held -= step.size
        for call in step.waits_for:
            if self._callers.get(call) is step:
                del self._callers[call]
        self.steps += 1
        return step.as_json(self.steps)

    def _shown(
        self, fields: dict[str, JsonValue], value: str, at: str
    ) -> tuple[JsonValue, dict[str, JsonValue]]:
        """What is shown of one of these fields, and what names the places where something is missing, as below `at`."""
        shown = self._showing.fields(fields)
        missing: dict[str, JsonValue] = {}
        redacted, cut = shown.get("redacted"), shown.get("cut")
        if isinstance(redacted, list):
            missing["redacted"] = [_below(at, value, str(each)) for each in redacted]
        if isinstance(cut, dict):
            missing["cut"] = {_below(at, value, each): length for each, length in cut.items()}
        return shown[value], missing


def _below(at: str, value: str, pointer: str) -> str:
    """A JSON Pointer into a field of a replay, as one into the object of a trajectory that shows it."""
    return f"{at}{pointer.removeprefix(f'/{value}')}"


def _place_of(record: Unusable) -> str:
    line = f"line {record.place.line} of " if record.place.line else ""
    return f"{line}{record.place.source}: {record.problem}"


def _text_of(value: JsonValue) -> str | None:
    """A result as text: the text of its parts if it has nothing else, otherwise its JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [each.get("text") for each in value if isinstance(each, dict) and each.get("type") in _TEXTS]
        if len(texts) == len(value) and all(isinstance(each, str) for each in texts):
            return "\n".join(map(str, texts))
    return json.dumps(value, ensure_ascii=False)
