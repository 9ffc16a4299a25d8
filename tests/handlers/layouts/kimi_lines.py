"""Sessions of our own making, with the fields that Kimi Code writes."""

import json
from typing import Self

from tests.handlers.layouts.pi_lines import BEGAN, written

from runward.config.json_value import JsonValue
from runward.daemon.rundir.session_files import NOT_KNOWN
from runward.handlers.model.sessions import Document

SESSION = "session_076d5c76-98d5-4eb7-8dea-0ce58f20048c"
NAME = SESSION
PARENT = "session_3c2f4a9a-5f4b-4a5e-8f3a-0a4c6f1f7a11"


class Log:
    """A session in the making: each call adds the records that Kimi adds, a second after the ones before."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.records: list[dict[str, JsonValue]] = []
        began: JsonValue = int(BEGAN * 1000)
        self.records.append({"type": "metadata", "protocol_version": "1.5", "created_at": began})
        self.put("profile.bind", modelAlias="mock", environmentDisclosure={"cwd": "/home/dev/app"})

    def put(self, kind: str, /, **data: JsonValue) -> Self:
        at = int(BEGAN * 1000) + 1000 * len(self.records)
        self.records.append({"type": kind, "agentId": "main", **data, "time": at})
        return self

    def event(self, kind: str, /, **data: JsonValue) -> Self:
        return self.put("context.append_loop_event", event={"type": kind, "turnId": "0", **data})

    def prompt(self, text: str = "make a file") -> Self:
        return self.put("turn.prompt", input=[{"type": "text", "text": text}], origin={"kind": "user"})

    def reply(self) -> Self:
        usage: JsonValue = {"inputOther": 60, "output": 10, "inputCacheRead": 40, "inputCacheCreation": 0}
        return self.put("llm.request", kind="loop", model="mock-model").put(
            "usage.record", model="mock", usage=usage, usageScope="turn"
        )

    def say(self, text: str = "Done.") -> Self:
        self.reply().event("content.part", uuid="u1", part={"type": "text", "text": text})
        return self.put("turn.ended", turnId=0, reason="completed", durationMs=1)

    def call(self, call: str = "call_1", command: str = "true", tool: str = "bash") -> Self:
        self.reply().event("tool.call", uuid="u2", toolCallId=call, name=tool, args={"command": command})
        # Kimi writes the end of a step after its results; the usage in it is that of the record before.
        return self

    def result(self, call: str = "call_1", *, failed: bool = False) -> Self:
        result: dict[str, JsonValue] = {"output": "fine", "durationMs": 1}
        if failed:
            result["isError"] = True
        usage: JsonValue = {"inputOther": 60, "output": 10, "inputCacheRead": 40, "inputCacheCreation": 0}
        self.event("tool.result", parentUuid="u2", toolCallId=call, result=result)
        return self.event("step.end", uuid="u3", finishReason="tool_use", usage=usage)

    def fail(self, why: str = "400 refused") -> Self:
        return self.put(
            "turn.ended", turnId=0, reason="failed", error={"code": "provider.api_error", "message": why}
        )

    def fork(self) -> Self:
        """All that was is a copy, of which the state beside it says when it was made."""
        self.put("forked")
        at = int(BEGAN * 1000) + 1000 * len(self.records)
        state = {"id": SESSION, "cwd": "/home/dev/app", "createdAt": at, "forkedFrom": PARENT}
        self.documents = [Document("state.json", NOT_KNOWN, BEGAN, json.dumps(state).encode())]
        return self

    def lines(self) -> list[bytes]:
        return written(self.records)
