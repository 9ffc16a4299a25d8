"""Sessions of our own making, with the fields that GitHub Copilot CLI writes."""

from typing import Self

from tests.handlers.layouts.pi_lines import AT, written

from runward.config.json_value import JsonValue

SESSION = "e0b2836c-d3cf-4193-8da5-bc187366a4cc"
NAME = SESSION
PARENT = "3c2f4a9a-5f4b-4a5e-8f3a-0a4c6f1f7a11"


class Log:
    """A session in the making: each call adds the records that Copilot adds, a second after the ones before."""

    def __init__(self) -> None:
        self.records: list[dict[str, JsonValue]] = []
        context: JsonValue = {"cwd": "/home/dev/app"}
        self.put(
            "session.start",
            sessionId=SESSION,
            copilotVersion="1.0.102",
            selectedModel="mock-model",
            context=context,
        )
        self.put("system.message", content="You are Copilot.")

    def put(self, kind: str, /, **data: JsonValue) -> Self:
        number = len(self.records)
        self.records.append(
            {"type": kind, "data": data, "id": f"r{number}", "timestamp": AT.format(number), "parentId": None}
        )
        return self

    def prompt(self, text: str = "make a file") -> Self:
        return self.put("user.message", content=text)

    def reply(self, text: str, *requests: JsonValue) -> Self:
        usage: JsonValue = {
            "model": "mock-model",
            "inputTokens": 100,
            "outputTokens": 10,
            "cacheReadTokens": 40,
            "cacheWriteTokens": 0,
        }
        self.put("assistant.turn_start", turnId="0").put("session.usage_record", usage=usage)
        return self.put("assistant.message", model="mock-model", content=text, toolRequests=list(requests))

    def say(self, text: str = "Done.") -> Self:
        return self.reply(text)

    def call(self, call: str = "call_1", command: str = "true") -> Self:
        return self.reply("", {"toolCallId": call, "name": "bash", "arguments": {"command": command}})

    def result(self, call: str = "call_1", *, failed: bool = False) -> Self:
        answer: JsonValue = {"content": "fine"}
        said: dict[str, JsonValue] = {"error" if failed else "result": answer}
        return self.put("tool.execution_complete", toolCallId=call, success=not failed, **said)

    def fail(self, why: str = "400: refused") -> Self:
        return self.put("assistant.turn_end", turnId="0").put("session.error", message=why, statusCode=400)

    def fork(self, name: str = '"make a file" ({})') -> Self:
        """All that was is a copy, in a session that begins now."""
        self.records[0]["timestamp"] = AT.format(len(self.records))
        said = f'Forked from {name.format(PARENT)} as "make a file (fork)" ({SESSION}).'
        return self.put("session.info", infoType="fork", message=said)

    def lines(self) -> list[bytes]:
        return written(self.records)
