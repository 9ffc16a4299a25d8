"""Small lionagi runs of our own making, with the fields of the real ones."""

import json
from collections.abc import Sequence

from runward.config.json_value import JsonValue

RUN_ID = "20260301T100000-0a1b2c"
OWN = "11111111-aaaa-4bbb-8ccc-000000000001"
WORKER = "11111111-aaaa-4bbb-8ccc-000000000002"


def run_json(status: str = "running", **more: JsonValue) -> dict[str, JsonValue]:
    """`run.json` of `li agent`."""
    run: dict[str, JsonValue] = {
        "run_id": RUN_ID,
        "state_root": f"/home/dev/.lionagi/runs/{RUN_ID}",
        "artifact_root": f"/home/dev/.lionagi/runs/{RUN_ID}/artifacts",
        "branch_id": OWN,
        "agent_name": "reviewer",
        "provider": "claude",
        "model": "claude/sonnet",
        "status": status,
        "started_at": 1000.5,
        "ended_at": None if status == "running" else 1009.5,
        "cwd": "/home/dev/app",
    }
    return run | more


def message(kind: str, at: float = 1001.0, content: JsonValue = None, **metadata: JsonValue) -> JsonValue:
    """One message of a branch; `kind` is the last part of its class."""
    said: dict[str, JsonValue] = {"lion_class": f"lionagi.protocols.messages.some.{kind}"}
    return {
        "id": "m",
        "created_at": at,
        "metadata": said | metadata,
        "content": content or {},
        "role": "user",
    }


def instruction(text: str = "fix the lift") -> JsonValue:
    return message("Instruction", content={"instruction": text})


def response(usage: JsonValue = None, error: JsonValue = None, at: float = 1004.0) -> JsonValue:
    return message(
        "AssistantResponse",
        at,
        {"assistant_response": "Done."},
        model_response={"usage": usage or {"input_tokens": 100, "output_tokens": 20}},
        api_call_meta={"execution": {"status": "failed" if error else "completed", "error": error}},
    )


def branch(branch_id: str, messages: Sequence[JsonValue]) -> dict[str, JsonValue]:
    """`branches/<id>.json`."""
    return {
        "id": branch_id,
        "created_at": 1000.0,
        "messages": {"id": "p", "collections": list(messages), "progression": {"order": []}},
        "chat_model": {},
    }


def chunk(kind: str, **more: JsonValue) -> bytes:
    """A line of `stream/<id>.buffer.jsonl`."""
    said: dict[str, JsonValue] = {"type": kind, "content": None, "is_error": False, "metadata": {}}
    return json.dumps(said | more).encode()


def stream() -> list[bytes]:
    """What a reply with one call that fails streams."""
    return [
        chunk("system", metadata={"session_id": "s"}),
        chunk("text", content="I look."),
        chunk("tool_use", tool_name="Bash", tool_id="t1", tool_input={"command": "false"}),
        chunk("tool_result", tool_id="t1", tool_output="1", is_error=True),
        chunk("text", content="It is fixed."),
        chunk("result", metadata={"usage": {"input_tokens": 50, "output_tokens": 7}}),
    ]
