"""Deciding a batch: each job's handler is called, in order, with the facts that it asks for.

Runs in a thread, for facts of the disk are read here, before the transaction. Jobs of one session
are decided through a view, so that a job sees what those before it did. A handler that fails stops
its own lane for the batch and nobody else's.
"""

import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from runward.daemon.ports import Clock, Files, Halted
from runward.daemon.store.rows import Job, Outcome
from runward.handlers import route
from runward.handlers.effects import Effects, EndAttempt, OpenAttempt, ReleaseJob, TryLater
from runward.handlers.events import MAXIMUM_DEPTH, AttemptEnded
from runward.handlers.facts import (
    MAXIMUM_ROUNDS,
    Answer,
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
    LegsBefore,
    LinkedSessions,
    LinkedSessionsOf,
    Need,
    Play,
    PlayOf,
    ProcessesOf,
    ProducedBy,
    ProducedFiles,
    Question,
    RootOf,
    Ruled,
    RuledPlaybook,
    RunProcesses,
    Session,
    SessionOf,
    TriedBefore,
)
from runward.handlers.sessions.fold import fold

LONGEST_WAIT: Final = 60.0
FIRST_WAIT: Final = 0.5


class Orders(NamedTuple):
    """What orders to end runs need and left behind: whom runs name, by key; what was told, by key and attempt."""

    processes: Mapping[str, RunProcesses]
    carried_out: Mapping[tuple[str, int], Cancellation]


NO_ORDERS: Final = Orders({}, {})
NOTHING_LINKED: Final = LinkedSessions()

Declared: TypeAlias = Callable[[str | None, str | None], Declarations]
"""What a playbook and an agent of these names declare now."""

Ruling: TypeAlias = Callable[[RuledPlaybook], Ruled]
"""What a session of another tool falls under by the settings in force."""

Playable: TypeAlias = Callable[[str], Play]
"""What a playbook of this name would start now."""

Covering: TypeAlias = Callable[[RootOf], CoveringRoot | None]
"""Which root watches a file of another tool's session by the settings in force."""

ProducedBefore: TypeAlias = Mapping[tuple[str, int], ProducedFiles]
"""What attempts had produced, by session key and attempt."""


def no_playbooks(name: str) -> Play:
    """What can be started where there are no playbooks."""
    return Play(None, problem=f"there is no playbook {name!r}")


def no_rules(question: RuledPlaybook) -> Ruled:
    """The ruling of settings without rules."""
    return Ruled()


def no_roots(question: RootOf) -> CoveringRoot | None:
    """Who watches where there are no roots."""
    return None


@dataclass(slots=True)
class View:
    """What the jobs of a batch see: sessions and jobs as read, then as the jobs before left them.

    `left` counts the jobs of each lane that are still to be decided.
    """

    sessions: dict[str, Session | None]
    jobs: dict[int, JobState]
    left: Counter[str]
    orders: Orders
    produced: ProducedBefore
    linked: Mapping[str, LinkedSessions]
    hooked: Mapping[str, HookDeclaration]
    stopped: set[str] = field(default_factory=set)


class Decider:
    """Calls handlers and answers what they ask."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        declared: Declared,
        ruled: Ruling = no_rules,
        playable: Playable = no_playbooks,
        covering: Covering = no_roots,
    ) -> None:
        self._files = files
        self._clock = clock
        self._declared = declared
        self._ruled = ruled
        self._playable = playable
        self._covering = covering
        self.go_on: Callable[[int], bool] = lambda read: True
        """Asked while files are hashed, with the bytes that were read; a job that is halted so is put back."""

    def decide(
        self,
        jobs: Sequence[Job],
        sessions: Mapping[str, Session],
        states: Mapping[int, JobState],
        orders: Orders = NO_ORDERS,
        produced: ProducedBefore = MappingProxyType({}),
        linked: Mapping[str, LinkedSessions] = MappingProxyType({}),
        hooked: Mapping[str, HookDeclaration] = MappingProxyType({}),
    ) -> list[Outcome]:
        """An outcome for each job, in order. `states` are of the jobs that the events speak of."""
        view = View(
            {job.lane: sessions.get(job.lane) for job in jobs},
            dict(states),
            Counter(job.lane for job in jobs),
            orders,
            produced,
            linked,
            hooked,
        )
        return [self._outcome(job, view) for job in jobs]

    def _outcome(self, job: Job, view: View) -> Outcome:
        view.left[job.lane] -= 1
        if job.lane in view.stopped:
            return Outcome(job, "waiting")
        now = self._clock.now()
        try:
            decision = self._rounds(job, view, now)
        except Halted:
            view.stopped.add(job.lane)
            return put_back(job)
        except Exception:  # noqa: BLE001 - a handler's bug is held with its traceback, visibly
            view.stopped.add(job.lane)
            return Outcome(job, "held", error=traceback.format_exc(limit=-6))
        if isinstance(decision, TryLater):
            view.stopped.add(job.lane)
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(job.tries, 10))
            return Outcome(job, "waiting", error=decision.why, run_after=now + wait)
        if view.left[job.lane] > 0:
            view.sessions[job.lane] = fold(view.sessions[job.lane], decision)
            view.jobs |= {each.job: JobState(each.state) for each in decision if isinstance(each, ReleaseJob)}
        return Outcome(job, "done", decision)

    def _rounds(self, job: Job, view: View, now: float) -> Effects | TryLater:
        if job.depth >= MAXIMUM_DEPTH:
            raise LoopOfEvents(f"{job.event.key} is {job.depth} events deep: they cause one another")
        facts: dict[Question, Answer] = {SessionOf(job.lane): view.sessions[job.lane]}
        if isinstance(job.event, AttemptEnded):
            facts[LinkedSessionsOf(job.lane)] = view.linked.get(job.lane, NOTHING_LINKED)
        for _ in range(MAXIMUM_ROUNDS + 1):
            decision = route.decide(job.handler, job.event, job.event_hash, facts, now)
            if not isinstance(decision, Need):
                return decision
            for question in decision.questions:
                facts[question] = self._answer(question, view, job)
        raise TooManyRounds(f"{job.handler} still asks after {MAXIMUM_ROUNDS} rounds")

    def _answer(self, question: Question, view: View, job: Job) -> Answer:
        match question:
            case SessionOf(key=key):
                if key not in view.sessions:
                    raise NotPrefetched(f"the session {key} is asked for outside its own lane")
                return view.sessions[key]
            case JobStateOf(job=number):
                return view.jobs.get(number)
            case ProcessesOf(key=key):
                return view.orders.processes.get(key, RunProcesses())
            case CancellationOf(key=key, attempt=attempt):
                return view.orders.carried_out.get((key, attempt))
            case DeclaredToHook(key=key):
                return view.hooked.get(key)
            case LinkedSessionsOf(launcher=key):
                return view.linked.get(key, NOTHING_LINKED)
            case ArtifactsUnder(root=root, within=within, paths=paths):
                return self._files.artifacts(root, within, paths)
            case LegsBefore():
                return self._files.early_legs(question)
            case ProducedBy(key=key, attempt=attempt):
                return view.produced.get((key, attempt))
            case HashesOf(root=root, within=within, paths=paths):
                return self._files.hashes(root, within, paths, self.go_on)
            case TriedBefore():
                return job.tries
            case DeclaredContract(playbook=playbook, agent=agent):
                return self._declared(playbook, agent)
            case RuledPlaybook():
                return self._ruled(question)
            case PlayOf(playbook=playbook):
                return self._playable(playbook)
            case RootOf():
                return self._covering(question)


def put_back(job: Job) -> Outcome:
    """The outcome of a claimed job that was not come to: it waits again, and wasn't tried."""
    return Outcome(job._replace(tries=job.tries - 1), "waiting")


class LoopOfEvents(RuntimeError):
    """Events cause one another without end."""


class TooManyRounds(RuntimeError):
    """A handler asks again and again: a bug of ours."""


class NotPrefetched(LookupError):
    """A handler asks for a session that its lane doesn't name: a bug of ours."""


def waves(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """The outcomes as transactions, in order.

    One is the rule. An attempt that opens after another of its session ended needs the next one,
    because a transaction's statements run table by table.
    """
    found: list[list[Outcome]] = [[]]
    wave_of: dict[str, int] = {}
    ended: set[tuple[str, int]] = set()
    for outcome in outcomes:
        lane = outcome.job.lane
        wave = wave_of.get(lane, 0)
        if (lane, wave) in ended and any(isinstance(effect, OpenAttempt) for effect in outcome.effects):
            wave += 1
            wave_of[lane] = wave
            if wave == len(found):
                found.append([])
        if any(isinstance(effect, EndAttempt) for effect in outcome.effects):
            ended.add((lane, wave))
        found[wave].append(outcome)
    return found
