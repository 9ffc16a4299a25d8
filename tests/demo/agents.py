"""Stands in for Claude Code and Codex in the demo: a process that writes a transcript as the real programs do.

    agents.py claude-code|codex HOME SESSION DIRECTORY [ARTIFACT]

The records are of our own making, with the fields of the real ones, and are written one by one as the work goes on;
Claude Code writes those up to the prompt at once.
HOME stands for `~/.claude` or `~/.codex`. The agent works in DIRECTORY: with an ARTIFACT (`-` for none) it runs a tool,
writes the artifact, and ends its turn well. Without one its tool never ends: such an agent waits to be killed.
"""

import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

PACE = 0.15
"""Seconds between two writes."""

Record = dict[str, object]

NOTHING = "-"
PROMPT = "Look at what changed since the last release, and write down what you find."
ANSWER = "I looked at the changes, and I am done."
COMMAND = "git log --stat"


class ClaudeCode:
    """Claude Code 2.1, headless (`claude -p …`)."""

    def __init__(self, home: Path, session: str, directory: Path) -> None:
        self.session, self.directory = session, directory
        self.pid_file = home / "sessions" / f"{os.getpid()}.json"
        project = re.sub(r"[^A-Za-z0-9]", "-", str(directory))
        self.transcript = home / "projects" / project / f"{session}.jsonl"
        self.records = 0

    def begin(self) -> None:
        """Say who writes the session, and take up the prompt."""
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        said = {
            "pid": os.getpid(),
            "sessionId": self.session,
            "cwd": str(self.directory),
            "startedAt": int(time.time() * 1000),
            "procStart": start_ticks(),
            "version": "2.1.197",
            "kind": "interactive",
            "entrypoint": "sdk-cli",
        }
        self.pid_file.write_text(json.dumps(said))
        queued = [self._queued("enqueue", content=PROMPT), self._queued("dequeue")]
        append(self.transcript, *queued, self._chained("user", {"role": "user", "content": PROMPT}))

    def call(self) -> None:
        """The model calls a tool."""
        call: Record = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": COMMAND}}
        self._reply("msg_1", call, "tool_use")

    def finish(self) -> None:
        """The tool's result and the model's last words; the pid file goes when the program ends."""
        result = {"tool_use_id": "toolu_1", "type": "tool_result", "content": "", "is_error": False}
        append(self.transcript, self._chained("user", {"role": "user", "content": [result]}))
        self._reply("msg_2", {"type": "text", "text": ANSWER}, "end_turn")
        append(self.transcript, {"type": "last-prompt", "lastPrompt": PROMPT, "sessionId": self.session})
        self.pid_file.unlink()

    def _queued(self, operation: str, **fields: str) -> Record:
        record = {"type": "queue-operation", "operation": operation, "timestamp": now()}
        return {**record, "sessionId": self.session, **fields}

    def _chained(self, kind: str, message: Record) -> Record:
        parent = self._uuid() if self.records else None
        self.records += 1
        return {
            "parentUuid": parent,
            "isSidechain": False,
            "type": kind,
            "message": message,
            "uuid": self._uuid(),
            "timestamp": now(),
            "userType": "external",
            "entrypoint": "sdk-cli",
            "cwd": str(self.directory),
            "sessionId": self.session,
            "version": "2.1.197",
            "gitBranch": "main",
        }

    def _uuid(self) -> str:
        return f"{self.session[:-12]}{self.records:012x}"

    def _reply(self, reply: str, content: Record, stop: str) -> None:
        usage = {"input_tokens": 100, "output_tokens": 20, "service_tier": "standard"}
        message: Record = {
            "id": reply,
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": [content],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }
        append(self.transcript, self._chained("assistant", message))


class Codex:
    """Codex CLI 0.169, headless (`codex exec`). It holds its thread's lock as long as it lives."""

    def __init__(self, home: Path, session: str, directory: Path) -> None:
        self.session, self.directory = session, directory
        day = datetime.now().astimezone()
        name = f"rollout-{day:%Y-%m-%dT%H-%M-%S}-{session}.jsonl"
        self.rollout = home / "sessions" / f"{day:%Y/%m/%d}" / name
        self.lock = home / "thread-writer-locks" / f"{session}.lock"
        self.turn = f"{session[:9]}{int(session[9:13], 16) + 1:04x}{session[13:]}"
        self.records = 0
        self.tokens = 0
        self.unwritten: list[Record] = []

    def begin(self) -> None:
        """Lock the thread, describe it, and take up the prompt."""
        self.lock.parent.mkdir(parents=True, exist_ok=True)
        self.held = self.lock.open("w")
        fcntl.flock(self.held, fcntl.LOCK_EX)
        self._put(
            "session_meta",
            id=self.session,
            timestamp=now(),
            cwd=str(self.directory),
            originator="codex_exec",
            cli_version="0.169.0",
            source="exec",
            model_provider="openai",
        )
        attribution = {"turn_trigger": "exec"}
        self._event(
            "task_started", turn_id=self.turn, started_at=int(time.time()), turn_attribution=attribution
        )
        self._message("user", "input_text", PROMPT)
        content = [{"type": "text", "text": PROMPT, "text_elements": []}]
        item = {"type": "UserMessage", "id": "item_1", "content": content}
        self._event("item_completed", turn_id=self.turn, item=item)
        self._put("turn_context", turn_id=self.turn, cwd=str(self.directory), model="gpt-5-codex")
        self._write()

    def call(self) -> None:
        """The model calls a tool."""
        arguments = json.dumps({"cmd": COMMAND})
        self._item("function_call", name="exec_command", arguments=arguments, call_id="call_1")
        self._cost("resp_1")
        self._write()

    def finish(self) -> None:
        """The tool's result and the model's last words; the lock goes when the program ends."""
        self._item("function_call_output", call_id="call_1", output="Process exited with code 0\nOutput:\n")
        self._message("assistant", "output_text", ANSWER)
        self._cost("resp_2")
        self._event("task_complete", turn_id=self.turn, last_agent_message=ANSWER)
        self._write()
        self.lock.unlink()

    def _put(self, kind: str, /, **payload: object) -> None:
        record = {"timestamp": now(), "ordinal": self.records, "type": kind, "payload": payload}
        self.records += 1
        self.unwritten.append(record)

    def _write(self) -> None:
        """Write what there is to say in one go: a prompt never comes without the session that it belongs to."""
        append(self.rollout, *self.unwritten)
        self.unwritten.clear()

    def _event(self, kind: str, /, **payload: object) -> None:
        self._put("event_msg", type=kind, **payload)

    def _item(self, kind: str, /, **payload: object) -> None:
        self._put("response_item", type=kind, **payload)

    def _message(self, role: str, kind: str, text: str) -> None:
        self._item("message", role=role, content=[{"type": kind, "text": text}])

    def _cost(self, response: str) -> None:
        self.tokens += 120
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        total = {"input_tokens": 100, "output_tokens": self.tokens - 100, "total_tokens": self.tokens}
        self._put("token_usage_record", thread_id=self.session, response_id=response, usage=usage)
        self._event("token_count", info={"total_token_usage": total, "last_token_usage": usage})


def append(file: Path, *records: Record) -> None:
    """Add lines to a transcript in one write, and take a moment for it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as transcript:
        transcript.write("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in records))
    time.sleep(PACE)


def now() -> str:
    """The time as both programs write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def start_ticks() -> str:
    """When this process started: field 22 of its `stat`, the name of which may hold anything but `)` at its end."""
    return Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]


AGENTS: dict[str, Callable[[Path, str, Path], ClaudeCode | Codex]] = {
    "claude-code": ClaudeCode,
    "codex": Codex,
}


def main(layout: str, home: str, session: str, directory: str, artifact: str | None = None) -> None:
    agent = AGENTS[layout](Path(home), session, Path(directory))
    agent.begin()
    agent.call()
    if artifact is None:
        while True:
            time.sleep(3600)
    if artifact != NOTHING:
        Path(directory, artifact).write_text(f"# {PROMPT}\n\nNothing of note.\n")
    agent.finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
