"""The exchange as data: events, effects, questions and their answers."""

from typing import Final, NamedTuple, TypeAlias

from runward.config.exchange import ExchangeRules
from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Question
from runward.handlers.model.effects import Effect
from runward.handlers.model.events import Event, Request

LANES: Final = "exchange:"
"""The prefix of the principals' lanes. What waits in them is decided one after another."""


class IntentMade(Event, frozen=True):
    """A run wrote a line into its `intents.jsonl`. `principal` is the run's agent, None if it has none.

    `text` is the line; `complaint` says why it can't be read as text at all. `owner` is the user who owns the run
    directory, None for the daemon's own user. `run` is the session where the run of a copied directory was first seen:
    a line of a run is known by it, wherever the directory is now. `launched` is whether Runward's launcher started the run.
    `nameless` is whether nothing says who the run is: then a copy of its directory could not be known from it.
    """

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
        # A line is known by its run and not by its place. So a copy of the directory carries nothing out again.
        return f"{self.session_key if self.run is None else self.run}#intent/{self.line}"

    @property
    def lane(self) -> str:
        return lane_of(self.principal if self.principal is not None else f"?{self.session_key}")


class _OfPrincipal:
    """A statement about a principal: it goes into the principal's lane."""

    __slots__ = ()
    principal: str

    @property
    def lane(self) -> str:
        return lane_of(self.principal)


class ActionRequested(_OfPrincipal, Request, frozen=True):
    """A person, or a person's program, requests an action of `principal`. `text` is the intent as JSON."""

    principal: str
    text: str
    said_by: str = ""


class PrincipalCreateRequested(_OfPrincipal, Request, frozen=True):
    """A person wants a principal. `disk_quota` (bytes) and `cpu_seconds` are those of the settings unless given here.

    `is_agent` means that it acts on its own; `config` is the content of its artifact. `has_memory` gives it a memory
    artifact.
    """

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


class MintRequested(_OfPrincipal, Request, frozen=True):
    """A person creates `amount` units of a resource (millionths unless it is scrip); a negative amount takes them
    away."""

    principal: str
    amount: int
    resource: str = "scrip"
    reason: str = ""
    said_by: str = ""


class ActionTaken(Event, frozen=True):
    """An action has its result: the run's journals report it, and chains may react to it.

    `told` is the line of `results.jsonl` without its hash. `action` is the key of what asked for it. `subject` is the
    same, or the attempt of a run and the number of the line. `further` are the actions of the same attempt that were
    carried out with it, in order: they have no event of their own.
    """

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
    further: tuple["ActionTaken", ...] = ()

    @property
    def key(self) -> str:
        return f"{self.subject}/taken"

    @property
    def lane(self) -> str:
        return f"{LANES}{self.action}" if self.session_key is None else self.session_key


def lane_of(principal: str) -> str:
    """The lane where the intents of a principal wait."""
    return f"{LANES}{principal}"


SCRIP: Final = "scrip"
MILLIONTHS: Final = 1_000_000
"""Units of a resource that is not scrip."""

MINT: Final = "mint"
"""The other side of minting: the only account that may be below zero."""

SYSTEM: Final = "system"
"""The owner of the genesis artifacts."""

GENESIS: Final = "genesis_"
LEDGER: Final = f"{GENESIS}ledger"
STORE: Final = f"{GENESIS}store"


class SharedArtifact(NamedTuple):
    """An artifact. Times are Unix seconds; `version` counts its writes from 1."""

    id: str
    type: str
    content: str
    owner_id: str
    created_at: float
    updated_at: float
    executable: bool = False
    code: str = ""
    price: int = 0
    policy: dict[str, JsonValue] | None = None
    deleted_at: float | None = None
    deleted_by: str | None = None
    interface: dict[str, JsonValue] | None = None
    depends_on: tuple[str, ...] = ()
    has_standing: bool = False
    can_execute: bool = False
    memory_artifact_id: str | None = None
    access_contract_id: str | None = None
    version: int = 1
    written_by: str = ""
    """The principal that wrote this version of content and code."""
    disk_of: str | None = None
    """Who gave it to its owner, and uses disk quota for it until the owner writes it. None if that is the owner."""
    bare_size: int | None = None
    """Its size, if content and code are left out."""

    @property
    def counts_for(self) -> str:
        """Whose disk quota it uses."""
        return self.owner_id if self.disk_of is None else self.disk_of

    @property
    def stands(self) -> bool:
        """Whether it may act, if it is a principal."""
        return self.has_standing and self.deleted_at is None

    @property
    def acts(self) -> bool:
        """Whether its code acts with its wallet and its owner's rights: only if the owner wrote it."""
        return self.written_by == self.owner_id

    @property
    def size(self) -> int:
        """Bytes of content and code."""
        if self.bare_size is not None:
            return self.bare_size
        return len(self.content.encode()) + len(self.code.encode())


def described(artifact: SharedArtifact) -> SharedArtifact:
    """The artifact without content and code."""
    return artifact._replace(content="", code="", bare_size=artifact.size)


class Principal(NamedTuple):
    """A principal: the users that may act as it in addition to the daemon's, its quota and use of the disk (bytes), its
    allocation of CPU (seconds in a window; None for no limit).

    `disk_default` and `cpu_default` are the parts of quota and allocation that the settings gave, and that can't be given
    away. `disk_default` is None until a run that a launcher started brings them. `has_standing` follows from its artifact,
    which is where that is stored: without standing, nobody acts.
    """

    id: str
    created_at: float
    users: tuple[str, ...]
    disk_quota: int
    disk_used: int
    cpu_seconds: float | None
    version: int = 1
    disk_default: int | None = 0
    cpu_default: float = 0.0
    has_standing: bool = True


class Existing(NamedTuple):
    """All artifacts, without content and code, and all principals with their scrip."""

    artifacts: tuple[SharedArtifact, ...]
    principals: tuple[str, ...]
    scrip: dict[str, int]


class SharedArtifactOf(Question["SharedArtifact | None"], frozen=True):
    """Question: the artifact with this id, deleted ones included. Answer: `SharedArtifact`, or None."""

    id: str


class PrincipalOf(Question["Principal | None"], frozen=True):
    """Question: the principal with this id. Answer: `Principal`, or None."""

    id: str


def without_case(name: str) -> str:
    """The form in which names are compared. A name that was ever taken differs from all others in this form; only
    names of older versions may have other letters than those of ASCII."""
    return name.lower() if name.isascii() else name


class NamesLike(Question["tuple[str, ...]"], frozen=True):
    """Question: the artifacts whose id is this name, compared without case. Each principal is an artifact, too. Answer:
    their ids."""

    name: str


class BalanceOf(Question[int], frozen=True):
    """Question: what an account has of a resource. Answer: units of scrip, or millionths of other resources."""

    account: str
    resource: str = SCRIP


class ResourcesOf(Question["tuple[str, ...]"], frozen=True):
    """Question: the names of the resources that an account has a balance of. Answer: the names."""

    account: str


class ExistingInExchange(Question["Existing"], frozen=True):
    """Question: everything in the exchange. Answer: `Existing`."""


class ExchangeRulesNow(Question[ExchangeRules], frozen=True):
    """Question: what the settings say about the exchange. Answer: `ExchangeRules`."""


class CpuUsedBy(Question["tuple[tuple[float, float], ...]"], frozen=True):
    """Question: what CPU time a principal used. Answer: each time that is kept (Unix seconds), with its seconds."""

    principal: str


class ActionsTaken(NamedTuple):
    """How many of a run's intents have their result (`told`), and how many will have one: 1 if that isn't known yet. What
    waits behind an action that is held doesn't count."""

    told: int = 0
    waiting: int = 0


class ActionsOf(Question["ActionsTaken"], frozen=True):
    """Question: how far the intents of a session are carried out. Answer: `ActionsTaken`."""

    session_key: str


class KeepArtifact(Effect, frozen=True):
    """Store this version of an artifact. Refused unless it follows the stored version."""

    artifact: SharedArtifact


class KeepPrincipal(Effect, frozen=True):
    """Store this version of a principal. Refused unless it follows the stored version."""

    principal: Principal


class Post(Effect, frozen=True):
    """An entry of the ledger: `amount` units of a resource from one account to another. No balance may fall below
    zero."""

    at: float
    action: str
    giver: str
    taker: str
    resource: str
    amount: int
    reason: str


class UseCpu(Effect, frozen=True):
    """A principal used CPU time (seconds) at a moment (Unix seconds). Times before `kept` no longer count."""

    principal: str
    at: float
    seconds: float
    kept: float


class RecordAction(Effect, frozen=True):
    """Store an action with its result: one for each intent. `told_in` is the key of the event that reports it."""

    key: str
    at: float
    principal: str | None
    session_key: str | None
    line: int | None
    action_type: str | None
    artifact_id: str | None
    intent: JsonValue
    result: JsonValue
    is_success: bool
    error_code: str | None
    scrip_after: int | None
    told_in: str
    sandbox: str | None = None


class CountIntent(Effect, frozen=True):
    """Count one more intent of a run as finished: it has its result, or will never have one."""

    session_key: str


ExchangeEffect: TypeAlias = KeepArtifact | KeepPrincipal | Post | UseCpu | RecordAction | CountIntent
