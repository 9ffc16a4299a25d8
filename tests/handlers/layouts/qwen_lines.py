"""Chats of our own making, with the fields that Qwen Code writes."""

from typing import Self

from tests.handlers.layouts.pi_lines import AT, written

from runward.config.json_value import JsonValue

SESSION = "7b794b9f-21bc-4de9-9289-a191a0c5a504"
NAME = f"{SESSION}.jsonl"
PARENT = "3c2f4a9a-5f4b-4a5e-8f3a-0a4c6f1f7a11"


class Log:
    """A chat in the making: each call adds the record that Qwen Code adds, a second after the one before."""

    def __init__(self) -> None:
        self.records: list[dict[str, JsonValue]] = []

    def put(self, kind: str, provenance: str, **fields: JsonValue) -> Self:
        number = len(self.records)
        record: dict[str, JsonValue] = {
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": SESSION,
            "timestamp": AT.format(number),
            "type": kind,
            "provenance": provenance,
            "cwd": "/home/dev/app",
            "version": "0.24.4",
        }
        self.records.append({**record, **fields})
        return self

    def prompt(self, text: str = "make a file") -> Self:
        return self.put("user", "real_user", message={"role": "user", "parts": [{"text": text}]})

    def reply(self, *parts: JsonValue) -> Self:
        usage: JsonValue = {
            "promptTokenCount": 100,
            "candidatesTokenCount": 10,
            "cachedContentTokenCount": 40,
            "totalTokenCount": 110,
        }
        message: JsonValue = {"role": "model", "parts": list(parts)}
        return self.put(
            "assistant", "assistant_output", model="mock-model", message=message, usageMetadata=usage
        )

    def say(self, text: str = "Done.") -> Self:
        return self.reply({"text": "Let me think.", "thought": True}, {"text": text})

    def call(self, call: str = "call_1", command: str = "true") -> Self:
        return self.reply({"functionCall": {"id": call, "name": "bash", "args": {"command": command}}})

    def result(self, call: str = "call_1", *, failed: bool = False, status: str = "") -> Self:
        response: JsonValue = {"error" if failed else "output": "fine"}
        parts: JsonValue = [{"functionResponse": {"id": call, "name": "bash", "response": response}}]
        told: JsonValue = {"callId": call, "status": status or ("error" if failed else "success")}
        return self.put(
            "tool_result", "tool_result", message={"role": "user", "parts": parts}, toolCallResult=told
        )

    def fail(self, why: str = "400: refused") -> Self:
        event: JsonValue = {"event.name": "qwen-code.api_error", "error_message": why, "status_code": 400}
        return self.put("system", "system", subtype="ui_telemetry", systemPayload={"uiEvent": event})

    def fork(self) -> Self:
        """All that was is a copy: Qwen Code writes it with the fork's own id, and where it comes from."""
        for record in self.records:
            record["forkedFrom"] = {"sessionId": PARENT, "messageUuid": record["uuid"]}
        return self

    def lines(self) -> list[bytes]:
        return written(self.records)
