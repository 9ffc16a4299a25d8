"""Who answers what handlers ask: the store, the disk, or the settings in force."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from runward.daemon.ports import Files
from runward.daemon.store import queries
from runward.daemon.store.rows import Job
from runward.daemon.store.store import Store
from runward.daemon.worker.agents_in_runs import AgentsInRuns
from runward.daemon.worker.deciding import Answers, Fold
from runward.handlers.effects import (
    Effect,
    EndAttempt,
    FoldContract,
    HoldToLaunch,
    OpenAttempt,
    OpenSession,
    RefuseFold,
    ReleaseJob,
)
from runward.handlers.facts import (
    QUESTIONS,
    ArtifactsUnder,
    Cancellation,
    CancellationOf,
    CoveringRoot,
    Declarations,
    DeclaredContract,
    DeclaredToHook,
    HashesOf,
    HookDeclaration,
    JobState,
    JobStateOf,
    Launch,
    LaunchOf,
    LegsBefore,
    LinkedSessionsOf,
    Play,
    PlayOf,
    ProcessesOf,
    ProducedBy,
    ProducedFiles,
    RootOf,
    Ruled,
    RuledPlaybook,
    RunProcesses,
    Session,
    SessionOf,
)
from runward.handlers.sessions.fold import fold

Declared: TypeAlias = Callable[[str | None, str | None], Declarations]
"""What a playbook and an agent of these names declare now."""

Ruling: TypeAlias = Callable[[RuledPlaybook], Ruled]
"""What a session of another tool falls under by the settings in force."""

Playable: TypeAlias = Callable[[str], Play]
"""What a playbook of this name would start now."""

Covering: TypeAlias = Callable[[RootOf], CoveringRoot | None]
"""Which root watches a file of another tool's session by the settings in force."""

GoOn: TypeAlias = Callable[[int], bool]
"""Asked while files are hashed, with the bytes that were read; a job that is halted so is put back."""


_OF_SESSION: Final = Fold(
    lambda effect: SessionOf(effect.key), lambda session, effect: fold(session, (effect,))
)
FOLDS: Final[Mapping[type[Effect], Fold]] = {
    OpenSession: _OF_SESSION,
    OpenAttempt: _OF_SESSION,
    EndAttempt: _OF_SESSION,
    FoldContract: _OF_SESSION,
    HoldToLaunch: _OF_SESSION,
    RefuseFold: _OF_SESSION,
    ReleaseJob: Fold(lambda effect: JobStateOf(effect.job), lambda state, effect: JobState(effect.state)),
}
"""What effects mean for the answers to later jobs of the same batch."""


def no_rules(question: RuledPlaybook) -> Ruled:
    """The ruling of settings without rules."""
    return Ruled()


def no_playbooks(name: str) -> Play:
    """What can be started where there are no playbooks."""
    return Play(None, problem=f"there is no playbook {name!r}")


def no_roots(question: RootOf) -> CoveringRoot | None:
    """Who watches where there are no roots."""
    return None


def answers_of_the_world(
    store: Store,
    files: Files,
    agents: AgentsInRuns,
    declared: Declared,
    ruled: Ruling = no_rules,
    playable: Playable = no_playbooks,
    covering: Covering = no_roots,
    go_on: GoOn = lambda read: True,
) -> Answers:
    """Who answers which question. Raises `NoAnswer` if nobody answers one."""
    answers = Answers(folds=FOLDS)
    _ask_store(answers, store, agents)
    answers.at_once(ArtifactsUnder, lambda asked: files.artifacts(asked.root, asked.within, asked.paths))
    answers.at_once(LegsBefore, files.early_legs)
    answers.at_once(HashesOf, lambda asked: files.hashes(asked.root, asked.within, asked.paths, go_on))
    answers.at_once(DeclaredContract, lambda asked: declared(asked.playbook, asked.agent))
    answers.at_once(RuledPlaybook, ruled)
    answers.at_once(PlayOf, lambda asked: playable(asked.playbook))
    answers.at_once(RootOf, covering)
    answers.check(QUESTIONS)
    return answers


def _ask_store(answers: Answers, store: Store, agents: AgentsInRuns) -> None:
    async def sessions(asked: Sequence[SessionOf], jobs: Sequence[Job]) -> Mapping[SessionOf, Session | None]:
        found = await queries.sessions(store, [each.key for each in asked])
        return {each: found.get(each.key) for each in asked}

    async def states(
        asked: Sequence[JobStateOf], jobs: Sequence[Job]
    ) -> Mapping[JobStateOf, JobState | None]:
        found = await queries.job_states(store, [each.job for each in asked])
        return {each: found.get(each.job) for each in asked}

    async def processes(
        asked: Sequence[ProcessesOf], jobs: Sequence[Job]
    ) -> Mapping[ProcessesOf, RunProcesses]:
        found = await queries.processes_of(store, [each.key for each in asked])
        return {each: found.get(each.key, RunProcesses()) for each in asked}

    async def orders(
        asked: Sequence[CancellationOf], jobs: Sequence[Job]
    ) -> Mapping[CancellationOf, Cancellation | None]:
        found = await queries.cancellations_of(store, [each.key for each in asked])
        return {each: found.get((each.key, each.attempt)) for each in asked}

    async def launches(asked: Sequence[LaunchOf], jobs: Sequence[Job]) -> Mapping[LaunchOf, Launch | None]:
        found = await queries.launches(store, [each.key for each in asked])
        return {each: found.get(each.key) for each in asked}

    async def hooked(
        asked: Sequence[DeclaredToHook], jobs: Sequence[Job]
    ) -> Mapping[DeclaredToHook, HookDeclaration | None]:
        found = await queries.hook_declarations(store, [each.key for each in asked])
        return {each: found.get(each.key) for each in asked}

    async def produced(
        asked: Sequence[ProducedBy], jobs: Sequence[Job]
    ) -> Mapping[ProducedBy, ProducedFiles | None]:
        found = await queries.produced(store, [(each.key, each.attempt) for each in asked])
        return {each: found.get((each.key, each.attempt)) for each in asked}

    answers.from_store(SessionOf, sessions)
    answers.from_store(JobStateOf, states)
    answers.from_store(ProcessesOf, processes)
    answers.from_store(CancellationOf, orders)
    answers.from_store(DeclaredToHook, hooked)
    answers.from_store(LaunchOf, launches)
    answers.from_store(ProducedBy, produced)
    answers.from_store(LinkedSessionsOf, agents.linked)
