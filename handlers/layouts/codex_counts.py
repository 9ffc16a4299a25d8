"""What is counted in a Codex rollout: tool calls, failed tools, sub-agents and tokens, each once.

The same call is described by several records (the call, the finished item, the output), and the same tokens by a
repeated running total. A bounded number of ids records what was counted.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from runward.config.json_value import JsonValue

MOST_IDS: Final = 16
"""Ids of each kind that are remembered: the records of one call are close together."""

LONGEST_ID: Final = 64
MOST_TOKENS: Final = 2**48
"""The largest believable number of tokens."""

SPAWN: Final = "spawn_agent"
"""The tool that orders a sub-agent."""

QUESTIONS: Final = frozenset({"request_user_input", "request_permissions"})
"""Tools by which the agent asks a person."""

LEAVES: Final = frozenset(
    {
        "apply_patch_approval_request",
        "elicitation_request",
        "exec_approval_request",
        "request_permissions",
        "request_user_input",
    }
)
"""Events by which a person is asked, in versions that record them."""

_EXIT: Final = "Exit code: "
_EXITED: Final = "\nProcess exited with code "
_HEADER: Final = 200
"""Characters at an output's beginning in which Codex says how the command ended."""

_LONGEST_CODE: Final = 12
_JSON_EXIT: Final = re.compile(r'"exit_code":\s*(-?\d+)[^"]*(?:"duration_seconds":[^"]*)?$')


@dataclass(slots=True)
class Calls:
    """The tool calls so far. It is a part of a scanner's state: only a copy of it is ever changed.

    `question` is the call by which the agent waits for a person, or the name of the event that says so.
    """

    calls: int = 0
    errors: int = 0
    spawned: int = 0
    started: int = 0
    question: str | None = None
    called: dict[str, None] = field(default_factory=dict)
    failed: dict[str, None] = field(default_factory=dict)
    agents: dict[str, None] = field(default_factory=dict)

    @property
    def subagents(self) -> int:
        """Sub-agents that were ordered, or those that were seen to start if there are more."""
        return max(self.spawned, self.started)

    def call(self, payload: dict[str, JsonValue]) -> None:
        """The model called a tool."""
        call, name = _call_id(payload), payload.get("name")
        if call is not None and not _is_new(self.called, call):
            return
        self.calls += 1
        if type(name) is not str:
            return
        if name == SPAWN:
            self.spawned += 1
        elif name in QUESTIONS:
            self.question = call or name

    def output(self, payload: dict[str, JsonValue]) -> None:
        """A tool's output came back. If something was asked before the tool could run, it has been answered."""
        if _says_failed(payload.get("output")):
            self.fail(payload)
        question = self.question
        if question is not None and (question in LEAVES or question == _call_id(payload)):
            self.question = None

    def fail(self, payload: dict[str, JsonValue]) -> None:
        """A tool is reported as failed; `payload` names its call."""
        call = _call_id(payload)
        if call is None or _is_new(self.failed, call):
            self.errors += 1

    def start_agent(self, thread: JsonValue) -> None:
        """A sub-agent with this thread's id began to work."""
        if isinstance(thread, str) and _is_new(self.agents, thread[:LONGEST_ID]):
            self.started += 1

    def copy(self) -> "Calls":
        """A copy that may be changed."""
        return Calls(
            self.calls,
            self.errors,
            self.spawned,
            self.started,
            self.question,
            self.called.copy(),
            self.failed.copy(),
            self.agents.copy(),
        )


@dataclass(slots=True)
class Tokens:
    """The tokens so far. It is a part of a scanner's state: only a copy of it is ever changed.

    `total` is the last reported running total (input, output). `is_ahead` says that a reply was counted by a
    record of its own (since 0.153), which the next running total repeats.
    """

    replies: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total: tuple[int, int] | None = None
    response: str | None = None
    is_ahead: bool = False

    def count_reply(self, payload: dict[str, JsonValue]) -> bool:
        """Count a reply by its own record, once per id. Whether it was one to count."""
        response, usage = payload.get("response_id"), _usage(payload.get("usage"))
        if usage is None:
            return False
        if isinstance(response, str):
            if response[:LONGEST_ID] == self.response:
                return False
            self.response = response[:LONGEST_ID]
        self._add(usage)
        self.is_ahead = True
        return True

    def count_total(self, payload: dict[str, JsonValue]) -> bool:
        """Count a reply by the running total, which is also reported without a change. Whether a reply was reported.

        A null total says that the process has none: a resumed one may start from zero.
        """
        before = self.total
        self.note_total(payload)
        if self.total is None or self.total == before:
            return False
        if self.is_ahead:
            self.is_ahead = False
            return True
        info = payload["info"]
        last = _usage(info.get("last_token_usage")) if isinstance(info, dict) else None
        self._add(last or _difference(before, self.total))
        return True

    def note_total(self, payload: dict[str, JsonValue]) -> None:
        """Take the running total without counting."""
        info = payload.get("info")
        self.total = _usage(info.get("total_token_usage")) if isinstance(info, dict) else None

    def _add(self, usage: tuple[int, int]) -> None:
        self.replies += 1
        self.input_tokens += usage[0]
        self.output_tokens += usage[1]


def _is_new(known: dict[str, None], identifier: str) -> bool:
    """Whether this id isn't among the known ones. It is then added, and the oldest is forgotten for it."""
    if identifier in known:
        return False
    known[identifier] = None
    if len(known) > MOST_IDS:
        del known[next(iter(known))]
    return True


def _call_id(payload: dict[str, JsonValue]) -> str | None:
    call = payload.get("call_id") or payload.get("id")
    return call[:LONGEST_ID] if isinstance(call, str) else None


def _says_failed(output: JsonValue) -> bool:
    """Whether a tool's output itself says that it failed: by an exit code, in the forms of all versions."""
    if isinstance(output, dict):
        return output.get("success") is False
    if not isinstance(output, str):
        return False
    if output.startswith(_EXIT):
        place = len(_EXIT)
    elif output.startswith("{"):
        found = _JSON_EXIT.search(output[-_HEADER:])
        return found is not None and found[1] != "0"
    else:
        place = output.find(_EXITED, 0, _HEADER) + len(_EXITED)
        if place < len(_EXITED):
            return False
    code = output[place : place + _LONGEST_CODE].partition("\n")[0]
    return code != "0" and code.removeprefix("-").isdecimal()


def _usage(usage: JsonValue) -> tuple[int, int] | None:
    if not isinstance(usage, dict):
        return None
    given, made = usage.get("input_tokens"), usage.get("output_tokens")
    if type(given) is not int or not 0 <= given <= MOST_TOKENS:
        return None
    if type(made) is not int or not 0 <= made <= MOST_TOKENS:
        return None
    return given, made


def _difference(before: tuple[int, int] | None, now: tuple[int, int]) -> tuple[int, int]:
    if before is None or now[0] < before[0] or now[1] < before[1]:
        return now
    return now[0] - before[0], now[1] - before[1]
