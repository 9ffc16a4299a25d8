"""Anthropic's Messages interface, as much of it as Claude Code needs."""

import json
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import uuid4

from tests.agents.replies import INPUT_TOKENS, OUTPUT_TOKENS, Asked, Calls, JsonObject, Refuses, Says, Uses

from runward.config.json_value import JsonValue

SUBAGENT_TOOLS: Final = ("Agent", "Task")
"""The tool that starts a sub-agent, by its newest name first."""

USAGE: Final[JsonObject] = {
    "input_tokens": INPUT_TOKENS,
    "output_tokens": OUTPUT_TOKENS,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


class _Messages:
    end = ""

    def asked(self, body: JsonObject) -> Asked:
        return Asked(
            str(body["model"]), tuple(_heard(body["messages"])), frozenset(_names(body.get("tools")))
        )

    def stream(self, reply: Says | Calls | Uses, asked: Asked) -> Sequence[JsonObject]:
        block, delta = _block(reply, asked.tools)
        message: JsonObject = {
            "id": f"msg_{uuid4().hex[:22]}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": USAGE | {"output_tokens": 1},
        }
        reason = "end_turn" if isinstance(reply, Says) else "tool_use"
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": USAGE,
            },
            {"type": "message_stop"},
        ]

    def refusal(self, reply: Refuses) -> JsonObject:
        kind = "invalid_request_error" if reply.status == 400 else "api_error"
        return {"type": "error", "error": {"type": kind, "message": f"scripted {reply.status}"}}


MESSAGES: Final = _Messages()


def _heard(messages: JsonValue) -> Iterator[str | None]:
    assert isinstance(messages, list)
    for message in messages:
        match message:
            case {"role": "user", "content": str(text)}:
                yield text
            case {"role": "user", "content": list(blocks)}:
                for block in blocks:
                    match block:
                        case {"type": "text", "text": str(text)}:
                            yield text
                        case {"type": "tool_result"}:
                            yield None


def _names(tools: JsonValue) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"name": str(name)}:
                yield name


def _block(reply: Says | Calls | Uses, tools: frozenset[str]) -> tuple[JsonObject, JsonObject]:
    """A reply's one block as it begins, and what is then added to it."""
    if isinstance(reply, Says):
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text}
    given: JsonObject
    if isinstance(reply, Uses):
        name, given = reply.tool, reply.given
    elif reply.tool == "shell":
        name = "Bash"
        given = {"command": reply.argument, "description": "as it is written down"}
    else:
        name = next(each for each in SUBAGENT_TOOLS if each in tools)
        given = {
            "description": "as it is written down",
            "prompt": reply.argument,
            "subagent_type": "general-purpose",
        }
    if isinstance(reply, Calls) and reply.in_background:
        given["run_in_background"] = True
    block: JsonObject = {"type": "tool_use", "id": f"toolu_{uuid4().hex[:20]}", "name": name, "input": {}}
    return block, {"type": "input_json_delta", "partial_json": json.dumps(given)}
