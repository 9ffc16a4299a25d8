"""A branch of a lionagi run, one agent's conversation: its messages, what streams meanwhile, and what both count."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.layouts.foreign_values import LARGEST_COUNT, count_in, object_in, text_in

_INPUT_KEYS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Tally(NamedTuple):
    """The content of one file of a branch: messages or chunks, calls, errors, and tokens of `replies` replies."""

    records: int = 0
    tool_calls: int = 0
    errors: int = 0
    replies: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


NOTHING: Final = Tally()


class Branch(NamedTuple):
    """One agent's conversation: what its own file held last, and what has streamed since."""

    id: str
    has_file: bool = False
    kept: Tally = NOTHING
    streamed: Tally = NOTHING
    began_at: float | None = None
    moved_at: float | None = None


def tally_of_messages(messages: Sequence[dict[str, JsonValue]]) -> Tally:
    """What the messages in a branch's own file amount to."""
    calls, errors, spent = 0, 0, NOTHING
    for message in messages:
        metadata = object_in(message.get("metadata"))
        kind = (text_in(metadata.get("lion_class")) or "").rpartition(".")[2]
        calls += kind == "ActionRequest"
        errors += kind == "ActionResponse" and metadata.get("is_error") is True
        execution = object_in(object_in(metadata.get("api_call_meta")).get("execution"))
        errors += bool(execution.get("error"))
        spent = sum_of(spent, _spent(object_in(metadata.get("model_response"))))
    return spent._replace(records=len(messages), tool_calls=calls, errors=errors)


def tally_of_chunks(chunks: Iterable[JsonValue]) -> Tally:
    """What the chunks of a reply that streams amount to; the end of a resumed stream is not an error."""
    count, calls, errors, spent = 0, 0, 0, NOTHING
    for chunk in chunks:
        if not isinstance(chunk, dict):
            continue
        count += 1
        kind = chunk.get("type")
        if kind == "text" or kind == "thinking":
            continue
        if kind == "tool_use":
            calls += 1
        elif kind == "tool_result":
            errors += chunk.get("is_error") is True
        elif kind == "error":
            errors += not object_in(chunk.get("metadata")).get("benign_eos")
        elif kind == "result":
            spent = sum_of(spent, _spent(object_in(chunk.get("metadata"))))
    return spent._replace(records=count, tool_calls=calls, errors=errors)


def _spent(reply: dict[str, JsonValue]) -> Tally:
    """The tokens of a reply that reports them. Its cached input is listed separately from the rest."""
    usage = object_in(reply.get("usage"))
    if not usage:
        return NOTHING
    read = sum(count_in(usage.get(key)) for key in _INPUT_KEYS)
    return Tally(replies=1, input_tokens=read, output_tokens=count_in(usage.get("output_tokens")))


def sum_of(one: Tally, other: Tally) -> Tally:
    """Both together, within bounds."""
    return Tally(*(min(less + more, LARGEST_COUNT) for less, more in zip(one, other, strict=True)))
