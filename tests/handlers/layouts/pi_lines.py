"""Sessions of our own making, with the fields that Pi writes."""

from collections.abc import Sequence
from copy import deepcopy

from tests.handlers.layouts.directories import json_text

from runward.config.json_value import JsonValue

SESSION = "01a2175a-e6c4-751a-8cb5-d6b41ca5e814"
NAME = f"2026-11-26T10-16-03-013Z_{SESSION}.jsonl"
PARENT = "01a2175a-0000-751a-8cb5-d6b41ca5e814"
AT = "2026-11-26T10:16:{:06.3f}Z"
BEGAN = 1_795_688_160.0


USAGE: dict[str, JsonValue] = {
    "input": 60, "output": 10, "cacheRead": 40, "cacheWrite": 0, "totalTokens": 110,
    "cost": {"input": 6e-5, "output": 2e-5, "total": 8e-5},
}  # fmt: skip


class Log:
    """A session in the making: each call adds the record that Pi adds, a second after the one before."""

    def __init__(self, **header: JsonValue) -> None:
        self.records: list[dict[str, JsonValue]] = []
        self.put("session", version=3, id=SESSION, cwd="/home/dev/app", **header)
        self.put("model_change", id="m0", provider="mock", modelId="mock-model")
        self.message("system", [{"type": "text", "text": "You are pi."}])

    def put(self, kind: str, **fields: JsonValue) -> None:
        number = len(self.records)
        record = {"type": kind, "id": f"r{number}", "timestamp": AT.format(number)}
        self.records.append({**record, **fields})

    def message(self, role: str, content: JsonValue, **fields: JsonValue) -> None:
        self.put("message", message={"role": role, "content": content, **fields})

    def prompt(self, text: str = "make a file") -> "Log":
        self.message("user", [{"type": "text", "text": text}])
        return self

    def reply(self, stop: str, *parts: JsonValue, **fields: JsonValue) -> "Log":
        said = {"model": "mock-model", "usage": deepcopy(USAGE), "stopReason": stop, **fields}
        self.message("assistant", list(parts), **said)
        return self

    def say(self, text: str = "Done.") -> "Log":
        return self.reply("stop", {"type": "text", "text": text})

    def call(self, call: str = "call_1", command: str = "true") -> "Log":
        return self.reply(
            "toolUse", {"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": command}}
        )

    def result(self, call: str = "call_1", *, failed: bool = False) -> "Log":
        content: JsonValue = [{"type": "text", "text": "fine"}]
        self.message("toolResult", content, toolCallId=call, toolName="bash", isError=failed)
        return self

    def fail(self, why: str = "400: refused") -> "Log":
        return self.reply("error", errorMessage=why, usage={"input": 0, "output": 0})

    def fork(self, key: str = "parentSession") -> "Log":
        """All that was is a copy, in a session that begins now."""
        path = f"/home/dev/.pi/agent/sessions/--a--/2026_{PARENT}.jsonl"
        self.records[0] |= {key: path, "timestamp": AT.format(len(self.records))}
        return self

    def lines(self) -> list[bytes]:
        return written(self.records)


def written(records: Sequence[dict[str, JsonValue]]) -> list[bytes]:
    return [json_text(each).encode() for each in records]
