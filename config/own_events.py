"""The events that Runward itself reports to chains, and their fields.

They are declared once, here. The code that reports an event makes its fields from these. The check of a chain's file takes
from them which fields a filter or an expression may name. Events of GitHub are not among them, because any program may
report events of these names.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from runward.config.intent import ACTION_FIELDS
from runward.config.json_value import JsonValue


class SessionFinished(NamedTuple):
    """A session was judged."""

    session_id: str
    key: str
    layout: str
    status: str
    reason_code: str
    delivery: str | None
    playbook: str | None
    agent: str | None
    cwd: str | None
    outcome: JsonValue


class InvocationCompleted(NamedTuple):
    """An invocation is over."""

    invocation_id: str
    skill: str
    status: str
    reason_code: str
    chain: str | None
    outcome: JsonValue


class ArtifactAdded(NamedTuple):
    """An artifact of a session was kept."""

    id: str
    kind: str
    name: str
    session_id: str
    outcome: JsonValue


class ChainFinished(NamedTuple):
    """A chain run is over."""

    chain: str
    chain_run_id: str
    status: str
    reason_code: str | None


class FileChanged(NamedTuple):
    """A file that a chain watches was changed."""

    path: str
    change: str


class ActionTaken(NamedTuple):
    """An action in the exchange has its result."""

    action_type: str | None
    artifact_id: str | None
    principal_id: str | None
    success: bool
    error_code: str | None


EXCHANGE: Final = "exchange."
"""With the type of an action: the name of its event."""

OWN_EVENTS: Final[Mapping[str, Sequence[str]]] = {
    "session.finished": SessionFinished._fields,
    "invocation.completed": InvocationCompleted._fields,
    "artifact.added": ArtifactAdded._fields,
    "chain.finished": ChainFinished._fields,
    "file.changed": FileChanged._fields,
    **dict.fromkeys((f"{EXCHANGE}{each}" for each in ACTION_FIELDS), ActionTaken._fields),
}
