"""OpenAI's Responses interface, as much of it as Codex needs."""

import json
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import uuid4

from tests.agents.replies import INPUT_TOKENS, OUTPUT_TOKENS, Asked, Calls, JsonObject, Refuses, Says, Uses

from runward.config.json_value import JsonValue

USAGE: Final[JsonObject] = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
LONGEST_COMMAND_MS: Final = 30_000


class _Responses:
    end = ""

    def asked(self, body: JsonObject) -> Asked:
        return Asked(str(body["model"]), tuple(_heard(body["input"])), frozenset(_names(body.get("tools"))))

    def stream(self, reply: Says | Calls | Uses, asked: Asked) -> Sequence[JsonObject]:
        response = f"resp_{uuid4().hex[:20]}"
        return [
            {"type": "response.created", "response": {"id": response}},
            {"type": "response.output_item.done", "output_index": 0, "item": _item(reply, asked.tools)},
            {"type": "response.completed", "response": {"id": response, "usage": USAGE}},
        ]

    def refusal(self, reply: Refuses) -> JsonObject:
        return {
            "error": {
                "type": "invalid_request_error",
                "code": "scripted",
                "message": f"scripted {reply.status}",
            }
        }


RESPONSES: Final = _Responses()


def _heard(items: JsonValue) -> Iterator[str | None]:
    assert isinstance(items, list)
    for item in items:
        match item:
            case {"type": "message", "role": "user", "content": list(blocks)}:
                for block in blocks:
                    match block:
                        case {"type": "input_text", "text": str(text)}:
                            yield text
            case {"type": "function_call_output" | "custom_tool_call_output"}:
                yield None


def _names(tools: JsonValue) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"name": str(name)} | {"type": str(name)}:
                yield name


def _item(reply: Says | Calls | Uses, tools: frozenset[str]) -> JsonObject:
    if isinstance(reply, Says):
        said: JsonObject = {"type": "output_text", "text": reply.text}
        return {"type": "message", "role": "assistant", "id": f"msg_{uuid4().hex[:10]}", "content": [said]}
    call: JsonObject = {
        "type": "function_call",
        "id": f"fc_{uuid4().hex[:10]}",
        "call_id": f"call_{uuid4().hex[:10]}",
    }
    if isinstance(reply, Uses):
        return call | {"name": reply.tool, "arguments": json.dumps(reply.given)}
    if reply.tool == "subagent":
        arguments = json.dumps({"message": reply.argument})
        return call | {"namespace": "multi_agent_v1", "name": "spawn_agent", "arguments": arguments}
    name, given = _shell(reply.argument, tools)
    return call | {"name": name, "arguments": json.dumps(given)}


def _shell(command: str, tools: frozenset[str]) -> tuple[str, JsonObject]:
    """The call of the shell, which three generations of Codex have named differently."""
    if "exec_command" in tools:
        return "exec_command", {"cmd": command, "yield_time_ms": LONGEST_COMMAND_MS}
    if "shell_command" in tools:
        return "shell_command", {"command": command, "timeout_ms": LONGEST_COMMAND_MS}
    return "shell", {"command": ["bash", "-lc", command], "timeout_ms": LONGEST_COMMAND_MS}
