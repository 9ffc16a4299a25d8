"""What a scripted model is asked and what it replies, whatever the interface it is spoken to through."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from runward.config.json_value import JsonValue

JsonObject: TypeAlias = dict[str, JsonValue]

INPUT_TOKENS: Final = 120
OUTPUT_TOKENS: Final = 20
"""What every reply costs."""


class Asked(NamedTuple):
    """A request to `model`: what it has heard in order, texts of the person's and None for each tool's result, and
    the tools that it may call.
    """

    model: str
    heard: tuple[str | None, ...]
    tools: frozenset[str]


class Says(NamedTuple):
    """A reply in words, which ends the turn."""

    text: str


class Calls(NamedTuple):
    """A call of a tool: of the shell with a command, or of a sub-agent with a prompt.

    `in_background`, where the agent has such: the reply to the call comes at once.
    """

    tool: Literal["shell", "subagent"]
    argument: str
    in_background: bool = False


class Uses(NamedTuple):
    """A call of a tool by its own name, as those of MCP servers have one."""

    tool: str
    given: JsonObject


class Refuses(NamedTuple):
    """An error in place of a reply."""

    status: int


class Stalls(NamedTuple):
    """No reply at all."""


Reply: TypeAlias = Says | Calls | Uses | Refuses | Stalls


class Wire(Protocol):
    """An interface that a model is spoken to through. `end` follows the last event of a stream."""

    end: str

    def asked(self, body: JsonObject) -> Asked:
        """What a request amounts to."""
        ...

    def stream(self, reply: Says | Calls | Uses, asked: Asked) -> Sequence[JsonObject]:
        """A reply as the events of its stream."""
        ...

    def refusal(self, reply: Refuses) -> JsonObject:
        """An error's body."""
        ...
