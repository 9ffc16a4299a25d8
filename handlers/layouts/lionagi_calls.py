"""The calls of a lionagi run: the requests and responses of actions in the file of its own branch, and what its replies
cost.

That file is written whole before and after each turn. What streams in between is removed afterwards, so it isn't read.
The branches that `run.json` does not name are sub-agents.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Paid, Place, Returned, Told, Unusable
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.call_reader import CallLayout, CallReader, PlacedLine
from runward.handlers.layouts.foreign_values import list_in, object_in, seconds_in, text_in, whole_text_in
from runward.handlers.layouts.lionagi import RUN
from runward.handlers.layouts.told_values import number_in
from runward.handlers.model.sessions import Document

_BRANCHES: Final = "branches/*.json"

MOST_USD: Final = 1_000_000
"""A reply that cost more is not believed."""


class LionagiCalls:
    """Reads the file of a run's own branch. Each of its messages is reported once."""

    def __init__(self) -> None:
        self._branch: str | None = None
        self._told: set[str] = set()
        self._paid: set[str] = set()

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[Told]:
        """There are no logs."""
        return iter(())

    def see(self, document: Document) -> Iterator[Told]:
        """What a document says that was not reported before."""
        place = Place(document.name, 1, 0, len(document.content))
        is_run = document.name == RUN
        if not is_run and document.name != f"branches/{self._branch}.json":
            return
        value = NotJson(document.problem) if document.problem else read_json(document.content)
        if isinstance(value, NotJson):
            yield Unusable(place, value.message)
        elif is_run:
            self._branch = whole_text_in(object_in(value).get("branch_id")) or self._branch
        else:
            for message in list_in(object_in(object_in(value).get("messages")).get("collections")):
                yield from self._message(place, object_in(message))

    def _message(self, place: Place, message: dict[str, JsonValue]) -> Iterator[Told]:
        metadata, content = object_in(message.get("metadata")), object_in(message.get("content"))
        kind = (text_in(metadata.get("lion_class")) or "").rpartition(".")[2]
        name = whole_text_in(message.get("id"))
        cost = number_in(object_in(metadata.get("model_response")).get("total_cost_usd"), 0, MOST_USD)
        if cost is not None and name is not None and name not in self._paid:
            self._paid.add(name)
            yield Paid(place, seconds_in(message.get("created_at")), cost)
        if kind not in ("ActionRequest", "ActionResponse") or name in self._told:
            return
        if name is None:
            yield Unusable(place, f"an {kind} without id")
            return
        self._told.add(name)
        at = seconds_in(message.get("created_at"))
        if kind == "ActionRequest":
            asked = object_in(content.get("action_request")) or content
            tool = whole_text_in(asked.get("function"))
            if tool is None:
                yield Unusable(place, "an ActionRequest without function")
            else:
                yield Called(place, at, name, tool, asked.get("arguments"))
            return
        call = whole_text_in(content.get("action_request_id"))
        if call is None:
            yield Unusable(place, "an ActionResponse without action_request_id")
            return
        answer = object_in(content.get("action_response")) or content
        output, error = answer.get("output"), answer.get("error")
        if metadata.get("is_error") is True or error is not None:
            yield Returned(place, at, call, None, output if error is None else error, False)
        else:
            yield Returned(place, at, call, output)


def _start(_name: str) -> CallReader:
    return LionagiCalls()


CALLS: Final = CallLayout(_start, documents=(RUN, _BRANCHES))
