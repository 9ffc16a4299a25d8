"""Who answers the questions that handlers ask: the store, the disk, or the settings in force."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from runward.config.bundle import BundleRules
from runward.config.chain import Chain
from runward.config.exchange import ExchangeRules
from runward.config.settings import USUAL, FleetSettings
from runward.daemon.engine.deciding import Answers
from runward.daemon.engine.foreseeing import MOST_BYTES
from runward.daemon.parts.actions_with_code import ActionsWithCode, no_sandbox
from runward.daemon.parts.notices import NOBODY, Messenger
from runward.daemon.store.batch import Job
from runward.daemon.store.tables import all as tables
from runward.daemon.store.tables.chain_runs import slots
from runward.daemon.store.transaction import Reader
from runward.daemon.watch.looks import AgentsInRuns
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Processes
from runward.handlers.exchange.reading import ActedWithCode, CodeOf
from runward.handlers.model.approvals import FilesLeftIn
from runward.handlers.model.bundle import BundleRulesOf, Draft, DraftOf, EstimateOf, NoDraft, WorkTreeOf
from runward.handlers.model.chains import (
    ChainNamed,
    IsHeard,
    ListenersTo,
    SlotsNow,
    SlotsStanding,
    StepsAtOnce,
)
from runward.handlers.model.contracts import (
    ArtifactsUnder,
    Declarations,
    DeclaredContract,
    HashesOf,
    LegsBefore,
    Ruled,
    RuledPlaybook,
)
from runward.handlers.model.exchange import ExchangeRulesNow
from runward.handlers.model.files import Unreadable
from runward.handlers.model.fleet import (
    Accepted,
    AcceptedNow,
    EventAccepted,
    HeardElsewhere,
    Offer,
    OffersOf,
    OwnHost,
)
from runward.handlers.model.invocations import ActionOf, Play, PlayOf
from runward.handlers.model.notices import RecipientsOf
from runward.handlers.model.outcomes import BeingRead, FinalMessageOf, OutcomeFile, OutcomesIn
from runward.handlers.model.schedules import Scheduled, ScheduleIn
from runward.handlers.model.sessions import AgeOf, CoveringRoot, LastChangeOf, LinkedSessionsOf, RootOf
from runward.handlers.model.shows import PlayFilesIn
from runward.handlers.registry import QUESTIONS

Declared: TypeAlias = Callable[[str | None, str | None], Declarations]
"""What a playbook and an agent of these names declare now."""

Ruling: TypeAlias = Callable[[RuledPlaybook], Ruled]
"""The settings that apply to a foreign session now."""

Playable: TypeAlias = Callable[[str], Play]
"""What a playbook of this name would start now."""

Covering: TypeAlias = Callable[[RootOf], CoveringRoot | None]
"""Which root watches a file of another tool's session by the settings in force."""


Bundled: TypeAlias = Callable[[BundleRulesOf], BundleRules | None]
"""How the bundle of a session is made by the settings in force."""

Drafted: TypeAlias = Callable[[DraftOf], Draft | NoDraft | Unreadable]
"""Writes a bundle without its receipt."""


class Chains(Protocol):
    """The chains that exist now."""

    def listening(self, event: str) -> tuple[Chain, ...]:
        """The valid chains that an event of this name may fire."""

    def chain(self, name: str) -> Chain | str:
        """The chain of this name, or why none can be fired."""

    def action(self, name: str) -> Play:
        """What the action of this name would start, and in which root."""

    def scheduled(self, name: str) -> Scheduled | None:
        """The schedule of the chain of this name, if the chain is valid."""

    def schedules(self) -> Mapping[str, str]:
        """What the files of all valid chains with a schedule say about it, by chain name."""

    def watched_paths(self) -> Mapping[str, Sequence[str]]:
        """The absolute globs of the files whose changes fire valid chains, each with the files of these chains."""

    def steps_at_once(self) -> int:
        """How many steps may run at the same time."""


GoOn: TypeAlias = Callable[[int], bool]
"""Called with the number of bytes read while files are hashed. A job that it halts is put back."""


def no_rules(question: RuledPlaybook) -> Ruled:
    """The ruling of settings without rules."""
    return Ruled()


def no_playbooks(name: str) -> Play:
    """What can be started when there are no playbooks."""
    return Play(None, problem=f"there is no playbook {name!r}")


def no_estimate(key: str) -> str | None:
    """Stands in if no prices are known."""
    return None


def no_fleet() -> FleetSettings | None:
    """The settings of a host that is in no fleet."""
    return None


def no_offers(asked: OffersOf) -> tuple[Offer, ...]:
    """What other hosts accept from one that is in no fleet."""
    return ()


def heard_by_none(event: str) -> bool:
    """Whether another host accepts events of this name, if there is none."""
    return False


class NoChains:
    """Stands in if there are no chains."""

    def listening(self, event: str) -> tuple[Chain, ...]:
        return ()

    def chain(self, name: str) -> Chain | str:
        return f"there is no chain {name!r}"

    def action(self, name: str) -> Play:
        return Play(None, problem=f"there is no action {name!r}")

    def scheduled(self, name: str) -> Scheduled | None:
        return None

    def schedules(self) -> Mapping[str, str]:
        return {}

    def watched_paths(self) -> Mapping[str, Sequence[str]]:
        return {}

    def steps_at_once(self) -> int:
        return USUAL.steps_at_once


NO_CHAINS: Final = NoChains()


def no_roots(question: RootOf) -> CoveringRoot | None:
    """The answer if there are no roots."""
    return None


def no_bundles(question: BundleRulesOf) -> BundleRules | None:
    """How bundles are made when there are none."""
    return None


@dataclass(slots=True)
class InForce:
    """What the settings in force and the operator's files say, each with a stand-in for a daemon without such files."""

    declared: Declared
    ruled: Ruling = no_rules
    playable: Playable = no_playbooks
    covering: Covering = no_roots
    chains: Chains = NO_CHAINS
    messenger: Messenger = NOBODY
    bundled: Bundled = no_bundles
    estimated: Callable[[str], str | None] = no_estimate
    """What a session of this key cost at the prices that are known; for threads."""
    exchange: Callable[[], ExchangeRules] = ExchangeRules
    fleet: Callable[[], FleetSettings | None] = no_fleet
    offers: Callable[[OffersOf], tuple[Offer, ...]] = no_offers
    heard: Callable[[str], bool] = heard_by_none
    """Whether another host of the fleet accepts events of this name from this one."""
    with_code: ActionsWithCode = field(default_factory=lambda: ActionsWithCode(no_sandbox))
    """Works out the actions that need code."""


def answers_of_the_world(
    files: Files,
    processes: Processes,
    agents: AgentsInRuns,
    in_force: InForce,
    go_on: GoOn,
    drafted: Drafted,
) -> Answers:
    """Who answers which question. Raises `NoAnswer` if nobody answers one."""
    answers = Answers(folds=tables.FOLDS)
    _ask_store(answers, agents, in_force)
    answers.at_once(ArtifactsUnder, lambda asked: files.artifacts(asked.root, asked.within, asked.paths))
    answers.at_once(LegsBefore, files.early_legs)
    answers.at_once(LastChangeOf, lambda asked: files.change_of_run(asked.path))
    answers.at_once(HashesOf, lambda asked: files.hashes(asked.root, asked.within, asked.paths, go_on))
    answers.at_once(FilesLeftIn, lambda asked: files.left(asked.places, asked.elsewhere, go_on))
    answers.at_once(AgeOf, lambda asked: _age(processes, asked))
    answers.once_a_round(DeclaredContract, lambda asked: in_force.declared(asked.playbook, asked.agent))
    answers.at_once(RuledPlaybook, in_force.ruled)
    answers.once_a_round(PlayOf, lambda asked: in_force.playable(asked.playbook))
    answers.once_a_round(ActionOf, lambda asked: in_force.chains.action(asked.action), opens_files=False)
    answers.at_once(RootOf, in_force.covering)
    answers.once_a_round(ListenersTo, lambda asked: _listening(in_force, asked.event, asked.host))
    answers.once_a_round(
        IsHeard, lambda asked: in_force.heard(asked.event) or bool(_listening(in_force, asked.event, None))
    )
    answers.once_a_round(HeardElsewhere, lambda asked: in_force.heard(asked.event), opens_files=False)
    answers.once_a_round(
        EventAccepted,
        lambda asked: _accepts_event(in_force.fleet(), asked),
        opens_files=False,
    )
    answers.once_a_round(ChainNamed, lambda asked: in_force.chains.chain(asked.name))
    answers.once_a_round(StepsAtOnce, lambda asked: in_force.chains.steps_at_once(), opens_files=False)
    answers.once_a_round(ScheduleIn, lambda asked: in_force.chains.scheduled(asked.chain))
    answers.once_a_round(RecipientsOf, lambda asked: in_force.messenger.recipients(asked.kind))
    answers.at_once(
        OutcomesIn,
        lambda asked: files.outcomes(asked.path, asked.artifacts_path, asked.named),
        size=_bytes_of_outcomes,
    )
    answers.at_once(PlayFilesIn, lambda asked: files.play_files(asked.path))
    answers.at_once(FinalMessageOf, lambda asked: files.final_message(asked.layout, asked.path))
    answers.at_once(BundleRulesOf, in_force.bundled)
    answers.at_once(WorkTreeOf, lambda asked: files.work_tree(asked.cwd, asked.since))
    answers.at_once(EstimateOf, lambda asked: in_force.estimated(asked.key))
    answers.at_once(DraftOf, drafted)
    answers.once_a_round(ExchangeRulesNow, lambda asked: in_force.exchange(), opens_files=False)
    answers.once_a_round(OwnHost, lambda asked: _own_host(in_force.fleet()), opens_files=False)
    answers.once_a_round(AcceptedNow, lambda asked: _accepted(in_force.fleet(), asked), opens_files=False)
    answers.once_a_round(OffersOf, in_force.offers)
    # It starts the code: only once the intent is durable, so not inside the transaction that records it.
    answers.at_once(ActedWithCode, in_force.with_code.answer)
    answers.at_once(CodeOf, in_force.with_code.ran, opens_files=False)
    answers.check(QUESTIONS)
    return answers


def _bytes_of_outcomes(answer: tuple[OutcomeFile, ...] | BeingRead | Unreadable) -> int:
    if isinstance(answer, BeingRead | Unreadable):
        return 0
    # What a large report says is as bounded, but how large it is in memory is not known.
    return sum(MOST_BYTES if each.content is None else len(each.content) for each in answer)


def _listening(in_force: InForce, event: str, host: str | None) -> tuple[Chain, ...]:
    own = _own_host(in_force.fleet())
    chains = in_force.chains.listening(event)
    return tuple(each for each in chains if each.trigger.is_for(event, host, own))


def _accepts_event(fleet: FleetSettings | None, asked: EventAccepted) -> bool:
    entries = () if fleet is None else fleet.accept
    return any(each.is_from(asked.host) and asked.event in each.events for each in entries)


def _own_host(fleet: FleetSettings | None) -> str | None:
    return None if fleet is None else fleet.host


def _accepted(fleet: FleetSettings | None, asked: AcceptedNow) -> Accepted | None:
    if fleet is None:
        return None
    from runward.handlers.fleet.offering import accepted  # few hosts are in a fleet

    return accepted(fleet.accept, asked.origin, asked.kind, asked.name, asked.signer)


def _age(processes: Processes, asked: AgeOf) -> float | None:
    if all(processes.state(each) == "gone" for each in (asked.launcher, asked.process)):
        return None
    return processes.age(asked.process)


def _ask_store(answers: Answers, agents: AgentsInRuns, in_force: InForce) -> None:
    for kind, answerer in tables.ANSWERS.items():
        answers.from_store(kind, answerer)
    answers.from_store(LinkedSessionsOf, agents.linked)

    async def slots_now(
        store: Reader, asked: Sequence[SlotsNow], jobs: Sequence[Job]
    ) -> dict[SlotsNow, SlotsStanding]:
        return dict.fromkeys(asked, await slots(store, in_force.chains.steps_at_once(), len(jobs)))

    answers.from_store(SlotsNow, slots_now)
