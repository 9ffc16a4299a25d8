"""OpenAI's Chat Completions interface, which most agents speak to a model of the person's own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import uuid4

from tests.agents.replies import INPUT_TOKENS, OUTPUT_TOKENS, Asked, Calls, JsonObject, Refuses, Says, Uses

from runward.config.json_value import JsonValue

USAGE: Final[JsonObject] = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
SHELLS: Final = ("bash", "Bash", "run_shell_command", "run_commands", "Execute")
"""What the agents call their shell."""

SUBAGENTS: Final[Mapping[str, JsonObject]] = {
    # Copilot's, and opencode's and Kilo's
    "task": {"agent_type": "general-purpose", "name": "worker", "mode": "sync", "subagent_type": "general"},
    "Task": {"subagent_type": "worker", "await": True},  # Droid's
    "Agent": {},
    "agent": {},
}
"""The tools that start a sub-agent with a prompt, and what they want besides."""

SPAWNS: Final = "spawn_agent"
"""Cline's tool that starts one."""


class _Chat:
    end = "data: [DONE]\n\n"

    def asked(self, body: JsonObject) -> Asked:
        return Asked(
            str(body["model"]), tuple(_heard(body["messages"])), frozenset(_names(body.get("tools")))
        )

    def stream(self, reply: Says | Calls | Uses, asked: Asked) -> Sequence[JsonObject]:
        delta: JsonObject
        if isinstance(reply, Says):
            delta, reason = {"content": reply.text}, "stop"
        else:
            name, given = _call(reply, asked.tools)
            function: JsonObject = {"name": name, "arguments": json.dumps(given)}
            call: JsonObject = {
                "index": 0,
                "id": f"call_{uuid4().hex[:20]}",
                "type": "function",
                "function": function,
            }
            delta, reason = {"tool_calls": [call]}, "tool_calls"
        chunk: JsonObject = {
            "id": f"chatcmpl-{uuid4().hex[:20]}",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": asked.model,
        }
        choices: list[list[JsonValue]] = [
            [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}],
            [{"index": 0, "delta": {}, "finish_reason": reason}],
        ]
        return [*({**chunk, "choices": each} for each in choices), {**chunk, "choices": [], "usage": USAGE}]

    def refusal(self, reply: Refuses) -> JsonObject:
        return {"error": {"type": "invalid_request_error", "message": f"scripted {reply.status}"}}


CHAT: Final = _Chat()


def _heard(messages: JsonValue) -> Iterator[str | None]:
    assert isinstance(messages, list)
    for message in messages:
        match message:
            case {"role": "user", "content": str(text)}:
                yield text
            case {"role": "user", "content": list(parts)}:
                for part in parts:
                    match part:
                        case {"type": "text", "text": str(text)}:
                            yield text
            case {"role": "tool"}:
                yield None


def _names(tools: JsonValue) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"function": {"name": str(name)}}:
                yield name


def _call(reply: Calls | Uses, tools: frozenset[str]) -> tuple[str, JsonObject]:
    """The tool, and its parameters. A tool takes those that it knows."""
    if isinstance(reply, Uses):
        return reply.tool, reply.given
    told = "as it is written down"
    if reply.tool == "shell":
        name = next(each for each in SHELLS if each in tools)
        if name == "run_commands":
            return name, {"commands": [reply.argument]}
        given: JsonObject = {"command": reply.argument, "description": told}
        # A sub-agent of Droid must say it.
        return name, given | ({"riskLevel": "low", "riskLevelReason": told} if name == "Execute" else {})
    if SPAWNS in tools:
        return SPAWNS, {"systemPrompt": told, "task": reply.argument}
    starts = next(each for each in SUBAGENTS if each in tools)
    return starts, {"description": told, "prompt": reply.argument, **SUBAGENTS[starts]}
