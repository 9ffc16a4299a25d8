"""Single records of a Claude Code transcript (versions 1.0.60 to 2.1.332): what they hold, and what they mean.

Only the fields of a record that matter here are read, which is several times faster than reading all of it. Every
field may hold anything: a value of another kind than Claude Code writes counts as absent. What follows from the order
of the records is for the session.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from runward.config.json_value import LATEST, JsonValue
from runward.handlers.layouts.foreign_values import MOST_USD, UUID
from runward.handlers.layouts.transcript import Close, closed

LONGEST_ID: Final = 128
SESSION_ID: Final = re.compile(UUID)


Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]

Milliseconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=LATEST * 1000)]


class CacheCreation(msgspec.Struct, frozen=True, gc=False):
    """What was written to the cache for an hour; the rest is kept for five minutes."""

    ephemeral_1h_input_tokens: Tokens = 0


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens that a reply cost."""

    input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_creation: CacheCreation | None = None
    speed: str | None = None


class Block(msgspec.Struct, frozen=True, gc=False):
    """A part of a message: a text, a tool's call (`tool_use`) or its result (`tool_result`). Long values stay JSON."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None
    is_error: bool | None = None
    text: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()


Content: TypeAlias = str | list[Block] | None


class Message(msgspec.Struct, frozen=True, gc=False):
    """What was said to the model, or by it."""

    id: str | None = None
    model: str | None = None
    content: Content = None
    stop_reason: str | None = None
    usage: Usage | None = None


class Attachment(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Something that Claude Code tells the model, or the reader of the transcript."""

    type: str | None = None
    max_turns: int | None = None


class Origin(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a record was copied from."""

    session_id: str | None = None


class Record(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One line. A message may be just a text."""

    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    message: Message | str | None = None
    type: str | None = None
    timestamp: str | None = None
    entrypoint: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    request_session_id: str | None = None
    version: str | None = None
    is_meta: bool | None = None
    is_api_error_message: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    attachment: Attachment | None = None
    subtype: str | None = None
    operation: str | None = None
    content: Content = None
    agent_setting: str | None = None
    forked_from: Origin | None = None
    tool_use_result: msgspec.Raw = msgspec.Raw()
    model_usage: msgspec.Raw = msgspec.Raw()
    total_cost_usd: Annotated[float, msgspec.Meta(ge=0, le=MOST_USD)] | None = msgspec.field(
        default=None, name="totalCostUSD"
    )
    has_unknown_model_cost: bool | None = None
    start_time: Milliseconds | None = None
    total_duration: Milliseconds | None = None


decode: Final = msgspec.json.Decoder(Record).decode
"""A line's record. Raises what is in `NOT_DECODED` for a line that is not quite as Claude Code writes them."""

NOT_DECODED: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def record_of(value: Mapping[str, JsonValue]) -> Record:
    """The record that an object amounts to when each malformed field is left out."""
    return _struct(Record, value)


Struct = TypeVar("Struct", bound=msgspec.Struct)
_INNER: Final[Mapping[str, type[msgspec.Struct]]] = {
    "message": Message,
    "usage": Usage,
    "cache_creation": CacheCreation,
    "attachment": Attachment,
    "forkedFrom": Origin,
}


def _struct(kind: type[Struct], value: Mapping[str, JsonValue]) -> Struct:
    fields: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        given = value.get(field.encode_name)
        if isinstance(given, dict) and field.encode_name in _INNER:
            fields[field.name] = _struct(_INNER[field.encode_name], given)
        elif field.type is msgspec.Raw:
            fields[field.name] = msgspec.Raw(msgspec.json.encode(given))
        elif isinstance(given, list) and field.name == "content":
            fields[field.name] = [_struct(Block, block) for block in given if isinstance(block, dict)]
        else:
            try:
                fields[field.name] = msgspec.convert(given, field.type)
            except msgspec.ValidationError:
                continue
    return kind(**fields)


def content_of(record: Record) -> Content:
    """The content of a record's message, which may be the message itself."""
    message = record.message
    return message.content if isinstance(message, Message) else message


def text_of(content: Content) -> str:
    """The text of a message's content: the content itself, or that of its first text block."""
    if isinstance(content, list):
        for block in content:
            if block.type == "text":
                return _text(block.text)
        return ""
    return content or ""


def every_text_of(content: Content) -> str:
    """The text of a message's content: the content itself, or that of all its text blocks."""
    if isinstance(content, list):
        return "".join(_text(block.text) for block in content if block.type == "text")
    return content or ""


def _text(raw: msgspec.Raw) -> str:
    try:
        value = msgspec.json.decode(raw)
    except NOT_DECODED:
        return ""
    return value if isinstance(value, str) else ""


UserRecord: TypeAlias = Literal[
    "prompt", "interruption", "command", "command_output", "caveat", "shell", "follow_up", "aside"
]
"""What a `user` record is, because Claude Code writes much under that name that no person typed.

`command` is a slash command that may be answered by the program itself, with `command_output`. `shell` is a command
that a person gave to the shell (`! …`), or its output. A `caveat` says that what follows was not said to the
model. `follow_up` is a text that Claude Code inserted for the model to continue with (a stop hook's message, the
end of a background task). An `aside` is for the record only.
"""

INTERRUPTIONS: Final = ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
_INTERRUPTED_RESULTS: Final = tuple(msgspec.json.encode(text) for text in INTERRUPTIONS)
SYNTHETIC: Final = "<synthetic>"
"""The model of assistant records that no model wrote."""

TURN_ENDS: Final = ("turn_duration", "stop_hook_summary")
"""System records that Claude Code writes when a turn is over, however it went."""

AGENT_TOOLS: Final = ("Task", "Agent")
ASKING_TOOLS: Final = ("ExitPlanMode", "exit_plan_mode", "AskUserQuestion")
"""Tools whose whole work is to wait for a person: a plan's approval, a question's answer."""

COMPLETED: Final = closed("run.completed.ok", "its turn ended")
ANSWERED: Final = closed("run.completed.ok", "its command was answered")
INTERRUPTED: Final = closed("run.aborted.user", "a person interrupted it")

_CAVEATS: Final = ("<local-command-caveat>", "Caveat: The messages below were generated by the user")
_COMMANDS: Final = ("<command-name>", "<command-message>")
_COMMAND_OUTPUTS: Final = ("<local-command-stdout>", "<local-command-stderr>")
_SHELL: Final = ("<bash-input>", "<bash-stdout>", "<bash-stderr>")
_UNKNOWN_COMMAND: Final = ("Unknown slash command: ", "Unknown skill: ")

_HEADLESS: Final = ("sdk-cli", "sdk-ts", "sdk-py", "claude-code-github-action")
_INTERACTIVE: Final = ("cli", "claude-vscode", "claude-desktop")

_INTERNAL_AGENTS: Final = tuple(
    f"agent-a{label}-"
    for label in (
        "agent_summary",
        "auto_dream",
        "away_summary",
        "compact",
        "extract_memories",
        "prompt_suggestion",
        "rename",
        "side_question",
        "speculation",
    )
)
_SUMMARY_KEPT: Final = 300


def is_subagent_file(name: str) -> bool:
    """Whether a transcript's path names a sub-agent's: a file `agent-*.jsonl`, or anything under `subagents/`."""
    return name.rsplit("/", 1)[-1].startswith("agent-") or "subagents" in name.split("/")[:-1]


def counts_as_subagent(name: str, first: Record | None) -> bool:
    """Whether a sub-agent worked for the session, by the first record of its file.

    The warm-ups of 2.0.30 and what Claude Code forks off for its own summaries and suggestions did not.
    """
    file = name.rsplit("/", 1)[-1]
    if not file.startswith("agent-") or file.startswith(_INTERNAL_AGENTS):
        return False
    return first is None or text_of(content_of(first)) != "Warmup"


def is_headless(entrypoint: str | None) -> bool | None:
    """Whether a program runs the session instead of a person. None if that is not known."""
    if entrypoint in _HEADLESS:
        return True
    return False if entrypoint in _INTERACTIVE else None


def says_interrupted(result: Block) -> bool:
    """Whether a tool's result is nothing but the note that a person interrupted it."""
    return bytes(result.content) in _INTERRUPTED_RESULTS


def user_record(record: Record, content: Content, text: str) -> UserRecord:
    """What a main-chain `user` record without tools' results is; `content` and `text` are those of its message."""
    if text in INTERRUPTIONS:
        return "interruption"
    if record.is_compact_summary or record.is_visible_in_transcript_only:
        return "aside"
    if text.startswith(("<", "Caveat")):
        if text.startswith(_CAVEATS):
            return "caveat"
        if text.startswith(_COMMANDS):
            return "command"
        if is_command_output(text):
            return "command_output"
        if text.startswith(_SHELL):
            return "shell"
        if text.startswith(NOTIFICATION):
            return "follow_up"
    return "follow_up" if record.is_meta or not content else "prompt"


def is_command_output(content: Content) -> bool:
    """Whether a text is the program's own answer to a slash command."""
    return isinstance(content, str) and content.startswith(_COMMAND_OUTPUTS)


def is_unknown_command(text: str) -> bool:
    """Whether a text says that there is no such slash command, as older versions record it: as if it were a prompt."""
    return text.startswith(_UNKNOWN_COMMAND)


def command_text(text: str) -> str:
    """A slash command as it was typed, from the tags in its record."""
    name, arguments = _between(text, "command-name"), _between(text, "command-args")
    return f"{name} {arguments}".strip()


def _between(text: str, tag: str) -> str:
    _, opened, rest = text.partition(f"<{tag}>")
    inside, closing, _ = rest.partition(f"</{tag}>")
    return inside.strip() if opened and closing else ""


def api_error(content: Content) -> Close:
    """The end of a turn whose request finally failed. The content is Claude Code's own message about it."""
    text = " ".join(text_of(content).split())[:_SUMMARY_KEPT]
    return closed("run.failed.api_error", text or "a request to the model failed")


def turns_used_up(most: int | None) -> Close:
    """The end of a turn at the limit of turns that the agent was started with."""
    limit = f" of {most} turns" if most is not None and 0 <= most < 10**9 else ""
    return closed("run.failed.limit_reached", f"it reached its limit{limit}")


def ended_by_itself(stop_reason: str | None) -> Close:
    """The end of a turn that Claude Code says is over, after a reply that did not itself say it was the last.

    `stop_reason` is what the reply said instead; some versions always write null.
    """
    if stop_reason in ("max_tokens", "model_context_window_exceeded"):
        return closed("run.failed.limit_reached", f"the reply was cut off: {stop_reason}")
    if stop_reason == "refusal":
        return closed("run.failed.api_error", "the model refused")
    return COMPLETED


TASKS_KEPT: Final = 64
"""Tasks that are remembered at a time. If a session has more, the oldest are not waited for."""

NOTIFICATION: Final = "<task-notification>"
"""The beginning of a text that tells the model about a task's end."""

_ID: Final = re.compile(r"<task-id>([^<]{1,128})</task-id>")
_STATUS: Final = re.compile(r"<status>([^<]{1,40})</status>")
_BEGINNING: Final = 300
"""Bytes at the beginning of a result in which it says that its task runs in the background."""

_TOLD: Final = b"utput is being written to"
"""What the result of a background command says in versions that report the command's end."""

_OVER: Final = ("completed", "failed", "killed", "stopped")


class _Task(msgspec.Struct, frozen=True, gc=False):
    task_id: str | None = None
    status: str | None = None


class _Result(msgspec.Struct, frozen=True, gc=False):
    background: str | None = msgspec.field(default=None, name="backgroundTaskId")
    agent: str | None = msgspec.field(default=None, name="agentId")
    status: str | None = None
    task_id: str | None = None
    task: _Task | None = None


_decode: Final = msgspec.json.Decoder(_Result).decode


class Change(NamedTuple):
    """A task that began or is over."""

    task: str
    is_over: bool


# A headless session waits for its background tasks if its version reports their end (since 2.1). Each end is reported to
# the model, which then continues. Earlier versions ended them with the session, and recorded nothing about it.


def may_begin_task(output: msgspec.Raw) -> bool:
    """Whether a tool's result, as the model gets it, is worth a closer look."""
    beginning = bytes(memoryview(output)[:_BEGINNING])
    return b"ackground" in beginning or b"Async agent" in beginning  # runs for every result, so no generator


def change_by_result(result: msgspec.Raw, output: msgspec.Raw) -> Change | None:
    """What a tool's result says about a background task; `output` is the same in the form that the model gets."""
    try:
        read = _decode(result)
    except NOT_DECODED:
        return None
    if read.background:
        return Change(read.background[:LONGEST_ID], False) if _TOLD in bytes(output) else None
    if read.agent and read.status == "async_launched":
        return Change(read.agent[:LONGEST_ID], False)
    if read.task_id:
        return Change(read.task_id[:LONGEST_ID], True)
    if read.task is not None and read.task.task_id and read.task.status in _OVER:
        return Change(read.task.task_id[:LONGEST_ID], True)
    return None


class Notification(NamedTuple):
    """What the model is told about a task. Nothing more is reported about one that was `ended` with the session."""

    task: str
    was_ended: bool


def notification(text: str) -> Notification | None:
    """What a text says about a task's end, if anything."""
    if not text.startswith(NOTIFICATION) or (named := _ID.search(text)) is None:
        return None
    status = _STATUS.search(text)
    return Notification(named[1], status is not None and status[1] == "killed")


def clipped(text: str | None, longest: int) -> str | None:
    """A text that is there, clipped. None for an empty one, too."""
    return text[:longest] if text else None
