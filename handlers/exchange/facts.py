"""What is asked about the exchange: its artifacts, principals, balances and rules."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from runward.config.exchange import ExchangeRules
from runward.config.json_value import JsonValue
from runward.handlers.asking import Question

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


@dataclass(frozen=True, slots=True)
class SharedArtifactOf(Question["SharedArtifact | None"]):
    """Question: the artifact with this id, deleted ones included. Answer: `SharedArtifact`, or None."""

    id: str


@dataclass(frozen=True, slots=True)
class PrincipalOf(Question["Principal | None"]):
    """Question: the principal with this id. Answer: `Principal`, or None."""

    id: str


def without_case(name: str) -> str:
    """The form in which names are compared. A name that was ever taken differs from all others in this form; only
    names of older versions may have other letters than those of ASCII."""
    return name.lower() if name.isascii() else name


@dataclass(frozen=True, slots=True)
class NamesLike(Question["tuple[str, ...]"]):
    """Question: the artifacts whose id is this name, compared without case. Each principal is an artifact, too. Answer:
    their ids."""

    name: str


@dataclass(frozen=True, slots=True)
class BalanceOf(Question[int]):
    """Question: what an account has of a resource. Answer: units of scrip, or millionths of other resources."""

    account: str
    resource: str = SCRIP


@dataclass(frozen=True, slots=True)
class ResourcesOf(Question["tuple[str, ...]"]):
    """Question: the names of the resources that an account has a balance of. Answer: the names."""

    account: str


@dataclass(frozen=True, slots=True)
class ExistingInExchange(Question["Existing"]):
    """Question: everything in the exchange. Answer: `Existing`."""


@dataclass(frozen=True, slots=True)
class ExchangeRulesNow(Question[ExchangeRules]):
    """Question: what the settings say about the exchange. Answer: `ExchangeRules`."""


@dataclass(frozen=True, slots=True)
class CpuUsedBy(Question["tuple[tuple[float, float], ...]"]):
    """Question: what CPU time a principal used. Answer: each time that is kept (Unix seconds), with its seconds."""

    principal: str


class ActionsTaken(NamedTuple):
    """How many of a run's intents have their result (`told`), and how many will have one: 1 if that isn't known yet. What
    waits behind an action that is held doesn't count."""

    told: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class ActionsOf(Question["ActionsTaken"]):
    """Question: how far the intents of a session are carried out. Answer: `ActionsTaken`."""

    session_key: str


QUESTIONS: Final = (
    ActionsOf,
    SharedArtifactOf,
    PrincipalOf,
    NamesLike,
    BalanceOf,
    ExistingInExchange,
    ExchangeRulesNow,
    ResourcesOf,
    CpuUsedBy,
)
