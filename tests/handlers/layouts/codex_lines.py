"""Rollouts of our own making, with the fields that Codex CLI of several versions writes.

A `Log` is written like a rollout: each call adds the records that Codex adds, in its order, and `lines()` gives them.
Turns without ids are those of versions up to 0.98, in which nothing says that a turn began or ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tests.handlers.layouts.directories import json_text

from runward.handlers.layouts.transcript import LogLine

Record = dict[str, Any]
"""A record before it is written: tests put anything into one."""

THREAD = "01a1fd0a-54e7-7290-883d-4a336c7e24d9"
PARENT = "01a1fd00-54e7-7290-883d-4a336c7e24d9"
NAME = f"rollout-2026-11-21T08-37-55-{THREAD}.jsonl"
BEGAN = 1_795_246_675.5
"""When the thread was made (Unix seconds)."""


def turn_id(number: int, thread: str = THREAD) -> str:
    """The id of a thread's turn, made `number` times 16 ms after the thread."""
    return f"{thread[:9]}{int(thread[9:13], 16) + 0x10 * number:04x}-7b12-a664-acd4859e{number:04x}"


def stamp(second: float) -> str:
    """The time so many seconds after the thread was made, as Codex writes it."""
    minutes, seconds = divmod(55.5 + second, 60)
    return f"2026-11-21T07:{37 + int(minutes):02d}:{seconds:06.3f}Z"


@dataclass
class Log:
    """A rollout in the making; `numbered` gives each record its ordinal, as 0.169 does."""

    thread: str = THREAD
    numbered: bool = True
    second: float = 0.0
    records: list[Record] = field(default_factory=list)
    total: tuple[int, int] = (0, 0)
    calls: int = 0

    def put(self, kind: str, payload: Record, after: float = 0.25) -> Self:
        """Add a record `after` seconds."""
        self.second += after
        record: Record = {"timestamp": stamp(self.second)}
        if self.numbered:
            record["ordinal"] = len(self.records)
        self.records.append({**record, "type": kind, "payload": payload})
        return self

    def event(self, kind: str, /, **payload: object) -> Self:
        return self.put("event_msg", {"type": kind, **payload})

    def item(self, kind: str, /, **payload: object) -> Self:
        return self.put("response_item", {"type": kind, **payload})

    def meta(self, **changed: object) -> Self:
        """The description of the thread; a key with None is left out."""
        payload: Record = {
            "id": self.thread,
            "timestamp": stamp(0),
            "cwd": "/home/dev/app",
            "originator": "codex_exec",
            "cli_version": "0.169.0",
            "source": "exec",
            "model_provider": "mock",
            **changed,
        }
        return self.put("session_meta", {key: value for key, value in payload.items() if value is not None})

    def setting(self) -> Self:
        """What Codex tells the model of its surroundings: no prompt."""
        return self.item(
            "message", role="user", content=[{"type": "input_text", "text": "<environment_context/>"}]
        )

    def start(self, number: int, trigger: str | None = "exec") -> Self:
        turn = turn_id(number, self.thread)
        attribution = {} if trigger is None else {"turn_attribution": {"turn_trigger": trigger}}
        return self.event("task_started", turn_id=turn, started_at=int(BEGAN + self.second), **attribution)

    def prompt(self, text: str, number: int | None = None) -> Self:
        """What was asked for: an item of a turn since 0.169, an event before."""
        self.item("message", role="user", content=[{"type": "input_text", "text": text}])
        if number is None:
            self.event("user_message", message=text, images=[])
        else:
            content = [{"type": "text", "text": text, "text_elements": []}]
            self.event(
                "item_completed",
                turn_id=turn_id(number, self.thread),
                item={"type": "UserMessage", "id": "u", "content": content},
            )
        return self.context(number)

    def context(self, number: int | None = None, model: str = "gpt-5-codex") -> Self:
        """The settings of a request to the model."""
        turn = {} if number is None else {"turn_id": turn_id(number, self.thread)}
        return self.put("turn_context", {**turn, "cwd": "/home/dev/app", "model": model})

    def call(self, name: str = "exec_command", call: str | None = None) -> Self:
        self.calls += 1
        return self.item("function_call", name=name, arguments="{}", call_id=call or f"call_{self.calls}")

    def output(self, text: object = "Process exited with code 0\nOutput:\n", call: str | None = None) -> Self:
        return self.item("function_call_output", call_id=call or f"call_{self.calls}", output=text)

    def say(self, text: str = "Done.") -> Self:
        return self.item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def tokens(self, given: int = 100, made: int = 10) -> Self:
        """The running total after a reply that cost so much; with nothing it is only repeated."""
        self.total = (self.total[0] + given, self.total[1] + made)
        info = {"total_token_usage": _usage(*self.total), "last_token_usage": _usage(given, made)}
        return self.event("token_count", info=info)

    def reply_record(
        self, response: str, given: int = 100, made: int = 10, thread: str | None = None
    ) -> Self:
        """The record of one reply's cost, which precedes the running total since 0.153."""
        return self.put(
            "token_usage_record",
            {
                "thread_id": thread or self.thread,
                "response_id": response,
                "usage": _usage(given, made),
            },
        )

    def complete(self, number: int, message: str | None = "Done.", **changed: object) -> Self:
        return self.event(
            "task_complete", turn_id=turn_id(number, self.thread), last_agent_message=message, **changed
        )

    def compact(self) -> Self:
        """The history is summed up; what that cost was told before."""
        return self.put("compacted", {"message": "so far", "replacement_history": []})

    def abort(self, number: int | None = None, reason: str = "interrupted") -> Self:
        turn = {} if number is None else {"turn_id": turn_id(number, self.thread)}
        return self.event("turn_aborted", reason=reason, **turn)

    def copy_of(self, other: "Log") -> Self:
        """Another thread's records, copied as a fork does: written anew, their contents as they were."""
        for record in other.records:
            self.put(record["type"], record["payload"], after=0.001)
        return self

    def lines(self) -> list[LogLine]:
        return log_lines([write(record) for record in self.records])


@dataclass
class BareLog(Log):
    """A rollout as versions up to 0.29 write it: records stand bare, each batch behind a line for the state."""

    def put(self, kind: str, payload: Record, after: float = 0.25) -> Self:
        """Add a record as it is; it has no time."""
        self.records.append(payload)
        return self

    def meta(self, **changed: object) -> Self:
        return self.put("", {"id": self.thread, "timestamp": stamp(0), "instructions": None, **changed})

    def batch(self) -> Self:
        """What comes next is recorded together."""
        return self.put("", {"record_type": "state"})

    def aside(self, text: str) -> Self:
        """What Codex says to the model in the person's name."""
        return self.item("message", id=None, role="user", content=[{"type": "input_text", "text": text}])

    def ask(self, text: str) -> Self:
        """A prompt, and the request that follows."""
        return self.batch().aside(text).batch()


def log_lines(contents: Sequence[bytes]) -> list[LogLine]:
    """These lines, numbered."""
    return [LogLine(number, content) for number, content in enumerate(contents, 1)]


def write(record: object) -> bytes:
    """A record as Codex writes it, without its newline."""
    return json_text(record, separators=(",", ":"), ensure_ascii=False).encode()


def _usage(given: int, made: int) -> Record:
    return {
        "input_tokens": given,
        "cached_input_tokens": 0,
        "output_tokens": made,
        "reasoning_output_tokens": 0,
        "total_tokens": given + made,
    }


def ok() -> Log:
    """One prompt, one answer: 0.169, headless."""
    log = Log().meta().start(1).setting().prompt("say hello", 1)
    return log.say().reply_record("r1").tokens().complete(1)


def tool() -> Log:
    """A preamble, a command, an answer."""
    log = Log().meta().start(1).setting().prompt("write it", 1).say("I will run a command.")
    log.call().reply_record("r1").output().tokens()
    return log.say().reply_record("r2").tokens().complete(1)


def refused() -> Log:
    """The model's API refuses the first request, as 0.169 records it."""
    error = {"message": "no such model", "codex_error_info": "bad_request"}
    return Log().meta().start(1).setting().prompt("say hello", 1).complete(1, None, error=error)


def interrupted() -> Log:
    """Ctrl-C while a command runs: the interrupt is not the last line."""
    log = Log().meta().start(1).prompt("wait", 1).call().reply_record("r1")
    log.output("aborted by user after 2.9s").tokens().abort(1)
    item = {"type": "CommandExecution", "id": "call_1", "status": "failed", "exit_code": -1}
    return log.event("item_completed", turn_id=turn_id(1), item=item)


def killed_in_tool() -> Log:
    """SIGKILL or SIGTERM while a command runs."""
    return Log().meta().start(1).prompt("wait", 1).call().reply_record("r1")


def killed_in_request() -> Log:
    """SIGKILL while the model is asked."""
    return Log().meta().start(1).setting().prompt("wait", 1)


def resumed() -> Log:
    """`codex exec resume`: the same file, a further turn."""
    log = ok()
    log.start(2).context(2).prompt("and now", 2).call().reply_record("r2").output().tokens()
    return log.say().reply_record("r3").tokens().complete(2)


def forked() -> Log:
    """A fork that copied its origin's records, before anything of its own."""
    origin = Log(PARENT).meta().start(1).prompt("the origin's prompt", 1).call().tokens().output()
    origin.say().tokens().complete(1)
    fork = Log().meta(forked_from_id=PARENT).copy_of(origin)
    fork.total = origin.total
    return fork


def old_ok() -> Log:
    """0.98: no turn has an id, and the last thing told of a turn is the total after its answer."""
    log = (
        Log(numbered=False)
        .meta(cli_version="0.98.0")
        .setting()
        .prompt("say hello")
        .event("token_count", info=None)
    )
    return log.event("agent_message", message="Done.").say().tokens()


def older_ok() -> Log:
    """0.63: the answer is recorded after its total."""
    log = (
        Log(numbered=False)
        .meta(cli_version="0.63.0")
        .setting()
        .prompt("say hello")
        .event("token_count", info=None)
    )
    return log.event("agent_message", message="Done.").tokens().say()


def oldest_tool() -> Log:
    """0.39: `codex exec` describes itself as the terminal program does; the call is recorded after the tool ran."""
    log = Log(numbered=False).meta(cli_version="0.39.0", originator="codex_cli_rs", source=None)
    log.setting().prompt("write it").tokens().call("shell")
    log.output('{"output":"","metadata":{"exit_code":0,"duration_seconds":0.1}}').context()
    return log.event("agent_message", message="Done.").tokens().say()


BARE_SETTING = "<environment_context>\n  <cwd>/home/dev/app</cwd>\n</environment_context>"


def bare_ok() -> Log:
    """0.20: nothing but the prompt and the answer."""
    return BareLog().meta().ask("say hello").batch().say()


def bare_tool() -> Log:
    """0.29: the reply that calls a tool is recorded when the tool is through."""
    log = BareLog().meta(instructions="Be kind.\n", git={"commit_hash": "0c1d2e", "branch": "main"})
    log.batch().aside("<user_instructions>\n\nBe kind.\n\n</user_instructions>").aside(BARE_SETTING)
    log.ask("write it").batch().item("reasoning", id="rs_1", summary=[], encrypted_content=None)
    log.call("shell").output('{"output":"","metadata":{"exit_code":1,"duration_seconds":0.1}}')
    return log.batch().batch().say()


def bare_killed() -> Log:
    """0.29: a refusal of the API, an interrupt and SIGKILL, in a tool or a request, all leave this."""
    return BareLog().meta().batch().aside(BARE_SETTING).ask("wait")


def bare_resumed() -> Log:
    """0.20 goes on in the same file."""
    log = BareLog().meta().ask("say hello").batch().say()
    log.ask("write it").batch().call("shell").output("{}")
    return log.batch().batch().say()


def bare_copied() -> Log:
    """0.29 goes on in a file of its own: the copied history is one batch."""
    log = BareLog().meta()
    log.batch().aside(BARE_SETTING).aside("the origin's prompt").call("shell").output("{}").say("Before.")
    return log.ask("say hello").batch().say()


def unanswered() -> Log:
    """0.104: an error of the API leaves only that there is no last message."""
    log = Log(numbered=False).meta(cli_version="0.104.0").setting().start(1, None).prompt("say hello")
    return log.complete(1, None)


def reviewed() -> Log:
    """`codex exec review`: the start that is recorded is the reviewer's, the end is that of the turn around it."""
    log = (
        Log()
        .meta()
        .event("item_completed", turn_id=turn_id(1), item={"type": "EnteredReviewMode", "id": "i"})
    )
    log.start(2, None)
    content = [{"type": "text", "text": "Review the changes."}]
    log.event(
        "item_completed", turn_id=turn_id(2), item={"type": "UserMessage", "id": "u", "content": content}
    )
    return log.say("No findings.").complete(1, None)


def old_reviewed() -> Log:
    """The same with 0.98."""
    log = Log(numbered=False).meta(cli_version="0.98.0").setting().event("entered_review_mode")
    log.event("user_message", message="Review the changes.").event(
        "user_message", message="Review the changes."
    )
    return log.event("exited_review_mode").say("No findings.")


def compacted() -> Log:
    """The terminal program's `/compact`, and a command of the person's own: turns without a prompt or an answer."""
    log = Log().meta(originator="codex-tui", source="vscode").start(1, "user").prompt("first", 1)
    log.say().reply_record("r1").tokens().complete(1)
    log.start(2, None).say("so far").reply_record("r2").tokens().compact().context(2).complete(2, None)
    log.start(3, None)
    item = {"type": "CommandExecution", "id": "x", "status": "completed", "exit_code": 0}
    return log.event("item_completed", turn_id=turn_id(3), item=item).complete(3, None)


def terminal() -> Log:
    """The terminal program: two turns, the second one interrupted with Escape."""
    log = Log().meta(originator="codex-tui", source="vscode").start(1, "user").prompt("first", 1)
    log.say().reply_record("r1").tokens().complete(1)
    return log.start(2, "user").prompt("second", 2).call().reply_record("r2").output().tokens().abort(2)


ALL = (
    ok,
    tool,
    refused,
    interrupted,
    killed_in_tool,
    killed_in_request,
    resumed,
    forked,
    old_ok,
    older_ok,
    oldest_tool,
    unanswered,
    terminal,
    reviewed,
    old_reviewed,
    compacted,
    bare_ok,
    bare_tool,
    bare_killed,
    bare_resumed,
    bare_copied,
)
"""Every rollout of this page."""
