"""Claude Code transcripts of our own making, with the fields of the real ones: for tests and demonstrations."""

from dataclasses import dataclass, field

import msgspec

from runward.config.json_value import JsonValue
from runward.handlers.times import iso_time

SESSION = "5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b11"
PARENT = "a1b2c3d4-0000-4000-8000-00000000beef"
BEGAN = 1_800_000_000.0
MODEL = "claude-opus-4-8"

Fields = dict[str, JsonValue]


@dataclass
class Transcript:
    """A transcript that is written record by record, one a second. `headless` ones begin like `claude -p …`."""

    session: str = SESSION
    version: str = "2.1.197"
    entrypoint: str | None = "sdk-cli"
    now: float = BEGAN
    lines: list[bytes] = field(default_factory=list)
    records: int = 0
    replies: int = 0
    calls: int = 0

    def write(self, record: JsonValue) -> None:
        self.lines.append(msgspec.json.encode(record))

    def content(self) -> bytes:
        """The file as it is now."""
        return b"".join(line + b"\n" for line in self.lines)

    def note(self, kind: str, **fields: JsonValue) -> None:
        """A record beside the conversation: no time, no place in its chain."""
        self.write({"type": kind, **fields, "sessionId": self.session})

    def chained(self, kind: str, **fields: JsonValue) -> None:
        """A record of the conversation."""
        record: Fields = {
            "parentUuid": f"u{self.records}" if self.records else None,
            "isSidechain": False,
            "type": kind,
            "uuid": f"u{self.records + 1}",
            "timestamp": self.tick(),
            "userType": "external",
            "cwd": "/home/dev/app",
            "sessionId": self.session,
            "version": self.version,
            "gitBranch": "main",
        }
        if self.entrypoint is not None:
            record["entrypoint"] = self.entrypoint
        self.records += 1
        self.write({**record, **fields})

    def tick(self) -> str:
        """The next second, as records have it."""
        stamp = f"{iso_time(self.now)[:19]}.000Z"
        self.now += 1
        return stamp

    def queued(self, text: str) -> None:
        """A program's prompt, before it is taken up."""
        for operation, more in (("enqueue", {"content": text}), ("dequeue", {})):
            self.note("queue-operation", operation=operation, timestamp=self.tick(), **more)

    def user(self, content: JsonValue, **fields: JsonValue) -> None:
        self.chained("user", message={"role": "user", "content": content}, **fields)

    def prompt(self, text: str, **fields: JsonValue) -> None:
        """What was asked for."""
        if self.entrypoint == "sdk-cli":
            self.queued(text)
        self.user(text, **fields)

    def said(self, content: JsonValue, stop: JsonValue, reply: str | None = None, **fields: JsonValue) -> str:
        """A line of a reply; without `reply` it begins a new one."""
        if reply is None:
            self.replies += 1
            reply = f"msg_{self.replies}"
        usage: JsonValue = {
            "input_tokens": 100,
            "cache_creation_input_tokens": 10,
            "cache_read_input_tokens": 1,
            "output_tokens": 20,
            "service_tier": "standard",
        }
        message: JsonValue = {
            "id": reply,
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }
        self.chained("assistant", message=message, **fields)
        return reply

    def text(
        self, text: str, stop: JsonValue = "end_turn", reply: str | None = None, **fields: JsonValue
    ) -> str:
        return self.said([{"type": "text", "text": text}], stop, reply, **fields)

    def call(self, name: str = "Bash", reply: str | None = None, **given: JsonValue) -> str:
        """A tool's call; its id."""
        self.calls += 1
        call = f"toolu_{self.calls}"
        self.said([{"type": "tool_use", "id": call, "name": name, "input": given}], "tool_use", reply)
        return call

    def result(
        self, call: str, content: JsonValue = "done", is_error: bool = False, **fields: JsonValue
    ) -> None:
        block: JsonValue = {
            "tool_use_id": call,
            "type": "tool_result",
            "content": content,
            "is_error": is_error,
        }
        self.user([block], **fields)

    def background(self, task: str = "b1", agent: bool = False) -> None:
        """A command or a sub-agent that is started in the background, as versions since 2.1 write it."""
        call = self.call("Agent" if agent else "Bash", run_in_background=True)
        if agent:
            text = f"Async agent launched successfully.\nagentId: {task} (internal ID …)"
            launched: JsonValue = {"isAsync": True, "status": "async_launched", "agentId": task}
            self.result(call, [{"type": "text", "text": text}], toolUseResult=launched)
        else:
            text = f"Command running in background with ID: {task}. Output is being written to: /tmp/{task}.output."
            self.result(call, text, toolUseResult={"stdout": "", "backgroundTaskId": task})

    def enqueue(self, text: str) -> None:
        """What comes for the model while it works, or while the session waits."""
        self.note("queue-operation", operation="enqueue", timestamp=self.tick(), content=text)

    def unqueue(self, operation: str = "dequeue") -> None:
        self.note("queue-operation", operation=operation, timestamp=self.tick())

    def interrupted(self, where: str = " for tool use") -> None:
        self.user([{"type": "text", "text": f"[Request interrupted by user{where}]"}])

    def synthetic(self, text: str, **fields: JsonValue) -> None:
        """What Claude Code writes in the model's place."""
        message: JsonValue = {
            "id": f"synthetic-{self.records}",
            "model": "<synthetic>",
            "role": "assistant",
            "stop_reason": "stop_sequence",
            "usage": {"input_tokens": 0, "output_tokens": 0},
            "content": [{"type": "text", "text": text}],
        }
        self.chained("assistant", message=message, **fields)

    def api_error(self, status: int = 400) -> None:
        self.synthetic(
            f"API Error: {status} refused", isApiErrorMessage=True, apiErrorStatus=status, error="unknown"
        )

    def limit(self, turns: int = 3) -> None:
        self.chained(
            "attachment", attachment={"type": "max_turns_reached", "maxTurns": turns, "turnCount": turns + 1}
        )

    def system(self, subtype: str, **fields: JsonValue) -> None:
        self.chained("system", subtype=subtype, isMeta=False, **fields)

    def command(self, name: str, output: str | None) -> None:
        """A slash command, and what the program itself answered."""
        self.user("<local-command-caveat>Caveat: The messages below …</local-command-caveat>", isMeta=True)
        self.user(f"<command-name>/{name}</command-name>\n<command-args>now</command-args>")
        if output is not None:
            self.user(f"<local-command-stdout>{output}</local-command-stdout>")

    def answered(self, name: str, output: str, for_the_model: str | None = None) -> None:
        """A slash command and the program's answer since 2.1.197, which a later prompt may tell the model of."""
        self.system(
            "local_command", content=f"<command-name>/{name}</command-name>\n<command-args></command-args>"
        )
        self.system("local_command", content=f"<local-command-stdout>{output}</local-command-stdout>")
        if for_the_model is not None:
            self.user(for_the_model, isMeta=True)

    def shell(self, command: str, output: str, *, is_aside: bool) -> None:
        """`! COMMAND`: up to 2.1.101 an aside, which a caveat says; since 2.1.197 the model has a word on it."""
        if is_aside:
            self.user(
                "<local-command-caveat>Caveat: The messages below …</local-command-caveat>", isMeta=True
            )
        self.user(f"<bash-input>{command}</bash-input>")
        self.user(f"<bash-stdout>{output}</bash-stdout><bash-stderr></bash-stderr>")

    def last_prompt(self) -> None:
        self.note("last-prompt", lastPrompt="…", leafUuid="u1")

    def continued(self) -> None:
        """What is put there when a session is resumed whose last turn had ended badly."""
        self.user([{"type": "text", "text": "Continue from where you left off."}], isMeta=True)
        self.synthetic("No response requested.", isApiErrorMessage=False)


def good_turn(transcript: Transcript, prompt: str = "make a file") -> None:
    """A prompt, one call of a tool with its result, and a last word."""
    transcript.prompt(prompt)
    reply = transcript.text("I will run a command.", stop="tool_use")
    call = transcript.call(reply=reply, command="touch file")
    transcript.result(call)
    transcript.text("Done.")


def headless_run() -> Transcript:
    """`claude -p "make a file"`, to its end."""
    transcript = Transcript()
    good_turn(transcript)
    transcript.last_prompt()
    return transcript


def killed_run() -> Transcript:
    """`claude -p`, killed while a tool runs."""
    transcript = Transcript()
    transcript.prompt("make a file")
    reply = transcript.text("I will run a command.", stop="tool_use")
    transcript.call(reply=reply, command="sleep 60")
    return transcript


def notification(task: str = "b1", status: str = "completed") -> str:
    """What the model is told of a task's end."""
    return f"<task-notification>\n<task-id>{task}</task-id>\n<status>{status}</status>\n</task-notification>"


def subagent_file(prompt: str = "look around", session: str = SESSION) -> Transcript:
    """A sub-agent's own file, begun after what the session said first."""
    transcript = Transcript(session=session, now=BEGAN + 100)
    transcript.user(prompt, isSidechain=True, agentId="0f2d6c1e")
    transcript.said([{"type": "text", "text": "Done."}], "end_turn", isSidechain=True, agentId="0f2d6c1e")
    return transcript
