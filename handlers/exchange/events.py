"""What can happen in the exchange."""

from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.event_kinds import Request

LANES: Final = "exchange:"
"""The prefix of the principals' lanes. What waits in them is decided one after another."""


@dataclass(frozen=True, slots=True)
class IntentMade:
    """A run wrote a line into its `intents.jsonl`. `principal` is the run's agent, None if it has none.

    `text` is the line; `complaint` says why it can't be read as text at all. `owner` is the user who owns the run
    directory, None for the daemon's own user. `run` is the session where the run of a copied directory was first seen:
    a line of a run is known by it, wherever the directory is now. `launched` is whether Runward's launcher started the run.
    `nameless` is whether nothing says who the run is: then a copy of its directory could not be known from it.
    """

    type: ClassVar[str] = "IntentMade"
    version: ClassVar[int] = 1

    session_key: str
    attempt: int
    line: int
    at: float
    principal: str | None
    text: str
    complaint: str | None = None
    owner: str | None = None
    run: str | None = None
    launched: bool = False
    nameless: bool = False

    @property
    def key(self) -> str:
        return f"{self.session_key if self.run is None else self.run}#intent/{self.line}"

    @property
    def lane(self) -> str:
        return lane_of(self.principal if self.principal is not None else f"?{self.session_key}")


@dataclass(frozen=True, slots=True)
class ActionRequested(Request):
    """A person, or a person's program, requests an action of `principal`. `text` is the intent as JSON."""

    type: ClassVar[str] = "ActionRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    principal: str
    text: str
    said_by: str = ""

    @property
    def lane(self) -> str:
        return lane_of(self.principal)


@dataclass(frozen=True, slots=True)
class PrincipalCreateRequested(Request):
    """A person wants a principal. `disk_quota` (bytes) and `cpu_seconds` are those of the settings unless given here.

    `is_agent` means that it acts on its own; `config` is the content of its artifact. `has_memory` gives it a memory
    artifact.
    """

    type: ClassVar[str] = "PrincipalCreateRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    principal: str
    owner: str | None = None
    scrip: int = 0
    disk_quota: int | None = None
    cpu_seconds: float | None = None
    is_cpu_unlimited: bool = False
    users: tuple[str, ...] = ()
    is_agent: bool = False
    has_memory: bool = False
    config: str = ""
    said_by: str = ""

    @property
    def lane(self) -> str:
        return lane_of(self.principal)


@dataclass(frozen=True, slots=True)
class MintRequested(Request):
    """A person creates `amount` units of a resource (millionths unless it is scrip); a negative amount takes them
    away."""

    type: ClassVar[str] = "MintRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    principal: str
    amount: int
    resource: str = "scrip"
    reason: str = ""
    said_by: str = ""

    @property
    def lane(self) -> str:
        return lane_of(self.principal)


@dataclass(frozen=True, slots=True)
class ActionTaken:
    """An action has its result: the run's journals report it, and chains may react to it.

    `told` is the line of `results.jsonl` without its hash. `action` is the key of what asked for it. `subject` is the
    same, or the attempt of a run and the number of the line.
    """

    type: ClassVar[str] = "ActionTaken"
    version: ClassVar[int] = 1

    subject: str
    action: str
    at: float
    principal: str | None
    action_type: str | None
    artifact_id: str | None
    is_success: bool
    error_code: str | None
    told: dict[str, JsonValue]
    session_key: str | None = None

    @property
    def key(self) -> str:
        return f"{self.subject}/taken"

    @property
    def lane(self) -> str:
        return f"{LANES}{self.action}" if self.session_key is None else self.session_key


def lane_of(principal: str) -> str:
    """The lane where the intents of a principal wait."""
    return f"{LANES}{principal}"


ExchangeEvent: TypeAlias = (
    IntentMade | ActionRequested | PrincipalCreateRequested | MintRequested | ActionTaken
)
