"""The directory of a play in a show: `_meta.json` while it is played, and `_verdict.json` once its gate has decided.

Source: the split between store and disk of the specification of outcomes. A show is a directory of plays. `_intent.md`,
`_prompt.md`, logs and the agents' own directories are bulk data, which stays on disk and is not read. What they become:

- `_verdict.json` with `gate_passed`: `completed`, `run.completed.ok`, whether the gate opened or not: a refusal is a
  result. The file becomes a `gate_verdict` of the session.
- `_verdict.json` without it: an open turn, and a complaint.
- `_meta.json` alone: an open turn. Its `status` is the player's own word and ends nothing: the gate comes later.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from runward.config.json_value import JsonValue
from runward.handlers.calls import Told as ToldCall
from runward.handlers.foreign_json import parse_time, sane_time
from runward.handlers.layouts.call_readers import CallLayout, PlacedLine, WithoutDocuments
from runward.handlers.layouts.foreign_values import (
    document_object,
    list_in,
    seconds_in,
    text_in,
    whole_text_in,
)
from runward.handlers.layouts.native import OF_A_RUN
from runward.handlers.layouts.transcript import Heads, KeepsState, LogLine, Resumed, Told, closed
from runward.handlers.model.sessions import Complaint, Document
from runward.handlers.model.shows import Meta
from runward.handlers.secrets import without_secrets

MOST_PLAYS: Final = 200
"""Plays that one play depends on."""

MOST_FURTHER: Final = 64 << 10
"""Bytes of the fields without a column, as JSON; more are not kept at all."""

_KNOWN: Final = frozenset({"status", "agent", "model", "started_at", "finished_at", "depends_on"})


def read_meta(content: dict[str, JsonValue]) -> Meta:
    """What a play's `_meta.json` says. A field that makes no sense counts as absent.

    Its fields are not documented anywhere: unknown ones are kept as they are.
    """
    needed = [whole_text_in(each) for each in list_in(content.get("depends_on"))[:MOST_PLAYS]]
    return Meta(
        status=text_in(content.get("status")),
        agent=text_in(content.get("agent")),
        model=text_in(content.get("model")),
        started_at=time_in(content.get("started_at")),
        finished_at=time_in(content.get("finished_at")),
        depends_on=tuple(each for each in needed if each is not None),
        further=_further(content),
    )


def _further(content: dict[str, JsonValue]) -> JsonValue:
    further = {key: value for key, value in content.items() if key not in _KNOWN}
    if not further:
        return None
    written = without_secrets(json.dumps(further).encode())
    value: JsonValue = json.loads(written) if len(written) <= MOST_FURTHER else None
    return value


def time_in(value: JsonValue) -> float | None:
    """A time that is written in Unix seconds or in ISO 8601."""
    return seconds_in(value) if isinstance(value, int | float) else parse_time(value)


LAYOUT: Final = "show"
SHOWN_BY: Final = (
    "a `_verdict.json` with `gate_passed`, or a `_meta.json` beside an `_intent.md` or a `_prompt.md`"
)
META: Final = "_meta.json"
VERDICT: Final = "_verdict.json"
PLAN: Final = "_show.md"
DOCUMENTS: Final = (META, VERDICT)
LOGS: Final = ()
MARKERS: Final = (META, VERDICT)

_BULK: Final = frozenset({"_intent.md", "_prompt.md"})
_LONGEST_SUMMARY: Final = 300


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a play."""

    version: Literal[1]
    name: str
    is_begun: bool = False
    started_at: float | None = None
    agent: str | None = None
    model: str | None = None
    moved_at: float | None = None
    gate_passed: bool | None = None
    decided_at: float | None = None
    in_meta: Complaint | None = None
    in_verdict: Complaint | None = None
    meta: str | None = None


def recognises_directory(names: frozenset[str], heads: Heads) -> bool:
    """A gate's verdict, or the play's data next to its intent or prompt."""
    if names & OF_A_RUN:
        return False
    return b'"gate_passed"' in heads.get(VERDICT, b"") or (META in names and bool(names & _BULK))


class ShowScanner(KeepsState[State]):
    """Reads plays. The module's docstring says what their files become."""

    def start(self, name: str) -> State:
        return State(1, name)

    def feed(self, state: State, file: str, lines: Sequence[LogLine]) -> tuple[State, tuple[Resumed, ...]]:
        return state, ()

    def see(self, state: State, documents: Sequence[Document]) -> State:
        for document in documents:
            if document.name not in DOCUMENTS:
                continue
            at = sane_time(document.modified_at)
            state = replace(state, is_begun=True, moved_at=max(at, state.moved_at or 0.0))
            content = document_object(document)
            if document.name == META:
                state = replace(
                    _with_meta(state, content), meta=".".join(str(each) for each in document.signature)
                )
            else:
                state = _with_verdict(state, content, at)
        return state

    def tell(self, state: State) -> Told:
        close = None
        if state.gate_passed is not None:
            state_of_gate = "opened" if state.gate_passed else "stayed shut"
            close = closed("run.completed.ok", f"the play's gate {state_of_gate}", state.decided_at)
        return Told(
            session_id=state.name,
            attempt=int(state.is_begun),
            turn="closed" if close else "open" if state.is_begun else "none",
            close=close,
            headless=True,
            started_at=state.started_at,
            moved_at=state.moved_at,
            agent=state.agent,
            model=state.model,
            complaints=tuple(each for each in (state.in_meta, state.in_verdict) if each is not None),
            turns=int(state.is_begun),
            data=state.meta,
        )


SCANNER: Final = ShowScanner(State)


def _with_meta(state: State, content: dict[str, JsonValue] | Complaint) -> State:
    if isinstance(content, Complaint):
        return replace(state, in_meta=content)
    meta = read_meta(content)
    return replace(state, started_at=meta.started_at, agent=meta.agent, model=meta.model, in_meta=None)


def _with_verdict(state: State, content: dict[str, JsonValue] | Complaint, at: float) -> State:
    if isinstance(content, Complaint):
        return replace(state, gate_passed=None, in_verdict=content)
    passed = content.get("gate_passed")
    if not isinstance(passed, bool):
        complaint = Complaint(VERDICT, 1, "gate_passed is not true or false", "it counts as soon as it is")
        # A verdict that can't be read ends nothing: it counts as soon as it can.
        return replace(state, gate_passed=None, in_verdict=complaint)
    return replace(state, gate_passed=passed, decided_at=at, in_verdict=None)


def gate_verdict(written: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The outcome in a `_verdict.json`. It gets its kind here, and a summary, which the gate gives as feedback."""
    feedback = text_in(written.get("feedback"), _LONGEST_SUMMARY)
    usual = "the gate opened" if written.get("gate_passed") is True else "the gate stayed shut"
    return {
        "outcome_kind": "gate_verdict",
        "name": "gate",
        "summary": feedback.strip().partition("\n")[0] or usual if feedback else usual,
        **written,
    }


class _NoCalls(WithoutDocuments):
    """A play's calls are those of its agents, whose directories are sessions of their own."""

    def take(self, source: str, lines: Iterable[PlacedLine]) -> Iterator[ToldCall]:
        """There are none."""
        return iter(())


CALLS: Final = CallLayout(lambda name, beside: _NoCalls(), documents=(META,))
