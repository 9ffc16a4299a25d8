"""Sessions of our own making, with the fields that Cline writes: its messages, and its two documents."""

from typing import Self

from tests.handlers.layouts.directories import document
from tests.handlers.layouts.pi_lines import AT, BEGAN

from runward.config.json_value import JsonValue
from runward.handlers.model.sessions import Document

SESSION = "1795688160000_w0zca"
ENDED = 60
"""The second in which a session ends."""


class Log:
    """A session in the making: each call adds the message that Cline adds, a second after the one before."""

    def __init__(self) -> None:
        self.records: list[dict[str, JsonValue]] = []

    def put(self, role: str, *content: JsonValue, **fields: JsonValue) -> Self:
        number = len(self.records)
        message: dict[str, JsonValue] = {"id": f"m{number}", "role": role, "content": list(content)}
        self.records.append({**message, "ts": int((BEGAN + number) * 1000), **fields})
        return self

    def prompt(self, text: str = "make a file") -> Self:
        return self.put("user", {"type": "text", "text": f'<user_input mode="act">{text}</user_input>'})

    def reply(self, *content: JsonValue, **metrics: JsonValue) -> Self:
        used: dict[str, JsonValue] = {
            "inputTokens": 100,
            "outputTokens": 10,
            "cacheReadTokens": 40,
            "cacheWriteTokens": 0,
        }
        return self.put("assistant", *content, modelInfo={"id": "mock-model"}, metrics={**used, **metrics})

    def say(self, text: str = "Done.", **metrics: JsonValue) -> Self:
        return self.reply({"type": "text", "text": text}, **metrics)

    def call(self, call: str = "call_1", command: str = "true", tool: str = "bash") -> Self:
        return self.reply({"type": "tool_use", "id": call, "name": tool, "input": {"command": command}})

    def result(self, call: str = "call_1", *, failed: bool = False) -> Self:
        content: JsonValue = [{"query": "true", "result": "fine", "success": not failed}]
        return self.put(
            "user", {"type": "tool_result", "tool_use_id": call, "name": "bash", "content": content}
        )

    def fail(self, why: str = "400: refused") -> Self:
        shown: JsonValue = {"displayOnly": True, "displayRole": "error"}
        return self.put("assistant", {"type": "text", "text": why}, metadata=shown)

    def messages(self) -> Document:
        content: JsonValue = {
            "version": 1,
            "agent": "lead",
            "sessionId": SESSION,
            "messages": list(self.records),
        }
        return document(f"{SESSION}.messages.json", content)

    def documents(self, status: str = "running", **fields: JsonValue) -> list[Document]:
        """Both documents."""
        return [session(status, **fields), self.messages()]


def session(status: str = "running", **fields: JsonValue) -> Document:
    """The document that says how the session stands."""
    over = status in ("completed", "failed", "cancelled")
    content: dict[str, JsonValue] = {
        "version": 1,
        "session_id": SESSION,
        "source": "cli",
        "pid": 19711,
        "started_at": AT.format(0),
        **({"ended_at": AT.format(ENDED - 1), "exit_code": 0} if over else {}),
        "status": status,
        "interactive": False,
        "model": "mock-model",
        "cwd": "/home/dev/app",
        "enable_spawn": True,
        "prompt": '<user_input mode="act">make a file</user_input>',
        "metadata": {"sessionHistoryOrigin": {"mode": "user", "version": "3.0.65"}},
    }
    return document(f"{SESSION}.json", {**content, **fields})
