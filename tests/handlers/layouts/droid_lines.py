"""Sessions of our own making, with the fields that Droid writes."""

from typing import Self

from tests.handlers.layouts.directories import json_text
from tests.handlers.layouts.pi_lines import AT, written

from runward.config.json_value import JsonValue

SESSION = "5e2268f7-c830-433d-9f55-ede0ae712313"
NAME = f"{SESSION}.jsonl"
PARENT = "3c2f4a9a-5f4b-4a5e-8f3a-0a4c6f1f7a11"
SETTINGS = f"{SESSION}.settings.json"


def settings(*totals: JsonValue, **fields: JsonValue) -> bytes:
    """The settings beside the log: input, what was read from the cache, output, and what was written to the cache."""
    kinds = ("inputTokens", "cacheReadTokens", "outputTokens", "cacheCreationTokens")
    used: JsonValue = {"thinkingTokens": 0, **dict(zip(kinds, totals, strict=False))}
    return json_text({"model": "mock-model", "tokenUsage": used, **fields}).encode()


class Log:
    """A session in the making: each call adds the messages that Droid adds, a second after the one before."""

    def __init__(self, **header: JsonValue) -> None:
        self.records: list[dict[str, JsonValue]] = [
            {
                "type": "session_start", "id": SESSION, "title": "make a file", "owner": "unknown", "version": 2,
                "cwd": "/home/dev/app", **header,
            }
        ]  # fmt: skip
        self._messages = 0
        self._turn: str | None = None
        reminder: JsonValue = {"type": "text", "text": "<system-reminder>\nTools: none.\n</system-reminder>"}
        self.message("user", [reminder], "context-")

    def message(self, role: str, content: JsonValue, before: str = "", **fields: JsonValue) -> str:
        name = f"{before}m{self._messages}"
        message: JsonValue = {"role": role, "content": content, **fields}
        self.records.append(
            {"type": "message", "id": name, "timestamp": AT.format(self._messages), "message": message}
        )
        self._messages += 1
        return name

    def prompt(self, text: str = "make a file") -> Self:
        self._turn = self.message("user", [{"type": "text", "text": text}], interactionMode="auto")
        return self

    def reply(self, *parts: JsonValue) -> Self:
        self.message("assistant", list(parts), modelId="mock-model", reasoningEffort="none")
        return self

    def hook(self, event: str) -> Self:
        results: JsonValue = [{"exitCode": 0, "stdout": "", "stderr": ""}]
        self.message("user", [], visibility="user_only", hookEventName=event, hookResults=results)
        return self

    def outcome(self, reason: JsonValue = "completed") -> Self:
        turn, self._turn = self._turn, None
        self.records.append(
            {"type": "agent_turn_outcome", "turnId": turn, "reason": reason, "resultKind": "text"}
        )
        return self

    def say(self, text: str = "Done.") -> Self:
        if self._turn is None:
            self.prompt("try again")
        return self.reply({"type": "text", "text": text}).outcome()

    def call(self, call: str = "call_1", command: str = "true", tool: str = "bash") -> Self:
        return self.reply({"type": "tool_use", "id": call, "name": tool, "input": {"command": command}})

    def result(self, call: str = "call_1", *, failed: bool = False) -> Self:
        self.message(
            "user",
            [{"type": "tool_result", "tool_use_id": call, "is_error": failed, "content": "fine"}],
        )
        return self

    def fail(self, why: str = "400: refused") -> Self:
        """What the API refuses ends the turn. A new try begins with a new prompt."""
        if self._turn is None:
            self.prompt("try again")
        self.message("user", [{"type": "text", "text": why}], visibility="user_only")
        return self.outcome("model_request_rejected")

    def fork(self) -> Self:
        """All that was is a copy, in a session that names the last message of it."""
        messages = [each["id"] for each in self.records if each["type"] == "message"]
        self.records[0] |= {"parent": PARENT, "forkedAtMessageId": messages[-1]}
        return self

    def lines(self) -> list[bytes]:
        return written(self.records)
