"""Deciding a round of jobs: their handlers run side by side, and their questions are answered in bulk.

Jobs of one lane are decided in order, and a later job sees what the earlier ones decided. A handler that fails stops
its own lane for the batch, and no other.
"""

import math
import sqlite3
import threading
import traceback
from collections import ChainMap, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, TypeVarTuple, Unpack

from runward.daemon.engine.foreseeing import Foreseen
from runward.daemon.rundir.opening import Halted
from runward.daemon.store.batch import Job, JobResult, put_back
from runward.daemon.store.tables.table import Fold
from runward.daemon.store.transaction import Reader, without_waiting
from runward.daemon.world.clock import Clock
from runward.handlers import route
from runward.handlers.model.asking import Given, NotYet, Question, TryLater
from runward.handlers.model.effects import Deciding, Effect, Effects
from runward.handlers.model.events import MAXIMUM_DEPTH, Event

LONGEST_WAIT: Final = 60.0
FIRST_WAIT: Final = 0.5

MOST_QUESTIONS: Final = 1000
"""How often a handler may ask before it must decide."""

LONG: Final = 60.0
"""Seconds after which a job that is still being decided is named by `status`."""

NOTHING_FORESEEN: Final = Foreseen()

Asked: TypeAlias = Question[Any]
Kind = TypeVar("Kind", bound=Asked)
T = TypeVar("T")


class FromStore(NamedTuple):
    """Answers all questions of one kind together, for the jobs of a round. The answer must contain every question."""

    answer: Callable[[Reader, Sequence[Any], Sequence[Job]], Awaitable[Mapping[Any, Any]]]


class AtOnce(NamedTuple):
    """Answers one question in the deciding thread: from the disk or the settings.

    If the answer `holds_for_round`, equal questions of the jobs of a round are answered once. If it `opens_files`, it is
    never asked inside a transaction. `size` is how many bytes an answer keeps in memory, if these may be many.
    """

    answer: Callable[[Any], Any]
    holds_for_round: bool = False
    opens_files: bool = True
    size: Callable[[Any], int] | None = None


class NoAnswer(LookupError):
    """Nobody answers a kind of question: a bug of Runward, which keeps the daemon from starting."""


@dataclass(slots=True)
class Answers:
    """Who answers which kind of question, and how effects in the same batch change the answers."""

    by_kind: dict[type[Asked], FromStore | AtOnce] = field(default_factory=dict)
    folds: Mapping[type[Effect], tuple[Fold, ...]] = field(default_factory=dict)

    def from_store(
        self,
        kind: type[Kind],
        answer: Callable[[Reader, Sequence[Kind], Sequence[Job]], Awaitable[Mapping[Kind, Any]]],
    ) -> None:
        """Have all questions of this kind answered together. Inside a transaction, the answer may not wait."""
        self.by_kind[kind] = FromStore(answer)

    def at_once(
        self,
        kind: type[Kind],
        answer: Callable[[Kind], Any],
        *,
        opens_files: bool = True,
        size: Callable[[Any], int] | None = None,
    ) -> None:
        """Have each question of this kind answered on its own, in the deciding thread."""
        self.by_kind[kind] = AtOnce(answer, opens_files=opens_files, size=size)

    def once_a_round(
        self, kind: type[Kind], answer: Callable[[Kind], Any], *, opens_files: bool = True
    ) -> None:
        """Like `at_once`, for the operator's files: all jobs of a round see them as they were at one moment."""
        self.by_kind[kind] = AtOnce(answer, holds_for_round=True, opens_files=opens_files)

    def check(self, kinds: Iterable[type[Asked]]) -> None:
        """Raises `NoAnswer` unless every one of these kinds is answered."""
        missing = [kind.__name__ for kind in kinds if kind not in self.by_kind]
        if missing:
            raise NoAnswer(f"nobody answers {', '.join(missing)}")


Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class InThread(Protocol):
    """Calls a function in a thread."""

    def __call__(
        self, function: Callable[[Unpack[Arguments]], Result], /, *arguments: *Arguments
    ) -> Awaitable[Result]: ...


@dataclass(slots=True)
class AtWork:
    """The job that a thread is deciding, since when (monotonic seconds), and how many bytes were read for it."""

    job: Job
    since: float
    read: int = 0


class Decider:
    """Decides rounds of jobs with these answers."""

    def __init__(self, answers: Answers, store: Reader, clock: Clock) -> None:
        self._answers = answers
        self._store = store
        self._clock = clock
        self._at_work: dict[int, AtWork] = {}
        """By the thread that decides."""

    def at_work(self) -> AtWork | None:
        """The job that this thread is deciding."""
        return self._at_work.get(threading.get_ident())

    def degraded(self) -> list[str]:
        """The jobs that take long, for `status`."""
        now = self._clock.monotonic()
        return [
            f"{work.job.handler} in lane {work.job.lane} has run for {int((now - work.since) // 60)} min"
            for work in list(self._at_work.values())
            if now - work.since >= LONG
        ]

    async def decide(
        self, jobs: Sequence[Job], in_thread: InThread, wait_out: Callable[[str], Awaitable[None]]
    ) -> list[JobResult]:
        """A result for each job, in order. `wait_out` is awaited while the store does not answer."""
        round_ = self.begin(jobs)
        await self.finish(round_, in_thread, wait_out)
        return round_.results()

    def begin(self, jobs: Sequence[Job]) -> "Round":
        """A round of these jobs, of which none is decided yet."""
        return Round(jobs, self._answers, self._clock, self._at_work)

    async def foresee(
        self, events: Iterable[Event], in_thread: InThread, wait_out: Callable[[str], Awaitable[None]]
    ) -> Foreseen:
        """Answer what handlers will ask of files about these new events, of each lane the first one.

        `wait_out` is awaited while the store does not answer.
        """
        jobs: dict[str, Job] = {}
        for event in events:
            handler = route.foreseeing(event)
            if handler is not None and event.lane not in jobs:
                jobs[event.lane] = Job(len(jobs), 0, event, "", 0, handler, event.lane)
        if not jobs:
            return NOTHING_FORESEEN
        round_ = _Foresight(tuple(jobs.values()), self._answers, self._clock, self._at_work)
        await self.finish(round_, in_thread, wait_out)
        round_.foreseen.problems += [
            each.error for each in round_.results() if each.state == "held" and each.error
        ]
        return round_.foreseen

    def decide_inside(
        self, jobs: Sequence[Job], transaction: Reader, foreseen: Foreseen = NOTHING_FORESEEN
    ) -> "Round":
        """Decide what can be decided from this transaction, from memory, and from what was foreseen. Raises `sqlite3.Error`.

        The other jobs are left undecided, each at a question whose answer opens a file.
        """
        round_ = Round(jobs, self._answers, self._clock, self._at_work, foreseen)
        asked = round_.asked()
        while not round_.is_over:
            answers = (
                without_waiting(self._together(questions, round_.jobs, transaction)) for questions in asked
            )
            asked = round_.go_on(dict(ChainMap(*answers)), inside=True)
            if not asked:
                break
        return round_

    async def finish(
        self,
        round_: "Round",
        in_thread: InThread,
        wait_out: Callable[[str], Awaitable[None]],
        at_once: float = math.inf,
    ) -> None:
        """Decide what is left of a round. `wait_out` is awaited while the store does not answer.

        It returns earlier once it has opened files for `at_once` seconds in one go. The next call continues.
        """
        # Handlers are generators: all run until they ask the store. Then each kind of question is one
        # statement, however many jobs ask.
        asked = round_.asked()
        while not round_.is_over:
            answered: dict[Asked, object] = {}
            for questions in asked:
                while True:
                    try:
                        answered |= await self._together(questions, round_.jobs, self._store)
                        break
                    except sqlite3.Error as error:
                        await wait_out(str(error))
            asked = await in_thread(round_.go_on, answered, at_once)
            if round_.is_paused:
                return

    async def _together(
        self, questions: Sequence[Asked], jobs: Sequence[Job], reader: Reader
    ) -> dict[Asked, object]:
        """The answers to questions of one kind. If one question is wrong, only that one fails."""
        answerer = self._answers.by_kind[type(questions[0])]
        assert isinstance(answerer, FromStore)
        try:
            answers = await answerer.answer(reader, questions, jobs)
            return {question: answers[question] for question in questions}
        except sqlite3.Error:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised in the handler that asked
            # One bad question must not fail the handlers that asked others of the same kind.
            if len(questions) == 1:
                return {questions[0]: _Failed(error)}
        alone: dict[Asked, object] = {}
        for question in questions:
            alone |= await self._together([question], jobs, reader)
        return alone


class _Failed(NamedTuple):
    """Stands in for an answer if a bug of Runward made answering fail."""

    error: Exception


@dataclass(slots=True)
class _Lane:
    """The jobs that are still to be decided in this order, and the handler of the first one."""

    jobs: deque[Job]
    handler: Deciding | None = None
    question: Asked | None = None
    asked: int = 0
    now: float = 0.0


class Round:
    """Jobs that are decided side by side, lane by lane."""

    def __init__(
        self,
        jobs: Sequence[Job],
        answers: Answers,
        clock: Clock,
        at_work: dict[int, AtWork],
        foreseen: Foreseen = NOTHING_FORESEEN,
    ) -> None:
        self.jobs = jobs
        self._foreseen = foreseen
        self._answers = answers
        self._clock = clock
        self._at_work = at_work
        self._inside = False
        self._until = math.inf
        self._has_opened = False
        self.is_paused = False
        """Whether the last call stopped before a question about files, because it had taken long enough."""
        self._lanes: dict[str, _Lane] = {}
        for job in jobs:
            # Principals act on one exchange: what one of them spends can't be paid to another as well. So their
            # lanes are decided in order, like one.
            name = route.decided_in_order_with(job.lane)
            lane = self._lanes.get(name)
            if lane is None:
                self._lanes[name] = _Lane(deque((job,)))
            else:
                lane.jobs.append(job)
        self._results: dict[int, JobResult] = {}
        self._known: dict[Asked, object] = dict(foreseen.settings)
        self._fresh: list[Effect] = []
        self._decided: dict[Asked, list[tuple[Fold, Effect]]] = {}
        # Calling a handler takes no time: it runs up to its first question.
        for lane in self._lanes.values():
            self._call(lane)

    @property
    def is_over(self) -> bool:
        """Whether every job has its result."""
        return len(self._results) == len(self.jobs)

    def results(self) -> list[JobResult]:
        """The results that are there, in the order of their jobs."""
        return [self._results[job.id] for job in self.jobs if job.id in self._results]

    def undecided(self) -> list[Job]:
        """The jobs without a result, in order."""
        return [job for job in self.jobs if job.id not in self._results]

    def keep_undecided(self) -> None:
        """What was decided so far is durable. From now on there are only the other jobs."""
        self.jobs, self._results = self.undecided(), {}
        # The store answers with what was decided. Added to its answers once more, it would count twice.
        self._known.clear()
        self._fresh.clear()
        self._decided.clear()

    def go_on(
        self, answered: Mapping[Asked, object], at_once: float = math.inf, *, inside: bool = False
    ) -> list[list[Asked]]:
        """Continue every lane until it is done or asks the store; returns these questions, those of one kind together.

        `inside` a transaction, it also stops at a question whose answer opens a file. After `at_once` seconds, each lane
        stops at such a question until the next call.
        """
        thread, self._inside = threading.get_ident(), inside
        self._until, self._has_opened, self.is_paused = self._clock.monotonic() + at_once, False, False
        try:
            return self._go_on(answered, thread)
        finally:
            self._at_work.pop(thread, None)

    def _go_on(self, answered: Mapping[Asked, object], thread: int) -> list[list[Asked]]:
        self._fold()
        for question, answer in answered.items():
            # The store doesn't know yet what this round decided. A later job must see it, or it would decide
            # as if it had not happened.
            for fold, effect in self._decided.get(question, ()):
                answer = fold.apply(answer, effect)
            self._known[question] = answer
        for lane in self._lanes.values():
            if lane.jobs:
                self._at_work[thread] = AtWork(lane.jobs[0], self._clock.monotonic())
            if lane.question is not None and lane.question in answered:
                self._fold()  # two lanes may have asked the same
                self._send(lane, self._known[lane.question])
            if lane.jobs:
                self._advance(lane)
        return self.asked()

    def asked(self) -> list[list[Asked]]:
        """The questions for the store that lanes wait for, those of one kind together."""
        asked: dict[type[Asked], dict[Asked, None]] = {}
        for lane in self._lanes.values():
            question = lane.question
            if question is not None and isinstance(self._answers.by_kind[type(question)], FromStore):
                asked.setdefault(type(question), {})[question] = None
        return [list(questions) for questions in asked.values()]

    def _advance(self, lane: _Lane) -> None:
        while lane.jobs:
            if lane.question is None:
                self._at_work[threading.get_ident()] = AtWork(lane.jobs[0], self._clock.monotonic())
                self._call(lane)
                continue
            answerer = self._answers.by_kind[type(lane.question)]
            # The disk is asked anew each time: what another job was told about it may be out of date.
            is_fresh = isinstance(answerer, AtOnce) and not answerer.holds_for_round
            if not is_fresh:
                if self._fresh:
                    self._fold()
                if lane.question in self._known:
                    self._send(lane, self._known[lane.question])
                    continue
            if isinstance(answerer, FromStore):
                return
            answer: object
            # All who write or read here wait for the transaction, and a file may take any time to open.
            if self._inside and answerer.opens_files:
                foreseen = self._foreseen.of_lane(lane.jobs[0].lane)
                if lane.question not in foreseen:
                    return
                answer = foreseen[lane.question]
            elif answerer.opens_files and self._is_over_time():
                return
            else:
                answer = self._answer(lane, answerer)
            self._send(lane, answer)

    def _is_over_time(self) -> bool:
        """Whether this call has opened files for long enough. Each call opens at least one."""
        if self._has_opened and self._clock.monotonic() >= self._until:
            self.is_paused = True
        self._has_opened = True
        return self.is_paused

    def _answer(self, lane: _Lane, answerer: AtOnce) -> object:
        """The answer to the lane's question, from the disk or the settings."""
        assert lane.question is not None
        try:
            answer: object = answerer.answer(lane.question)
            if answerer.holds_for_round:
                self._known[lane.question] = answer
        except Exception as error:  # noqa: BLE001 - it is raised in the handler that asked
            return _Failed(error)
        return answer

    def _decision(self, lane: _Lane) -> route.Decision:
        job = lane.jobs[0]
        return route.decide(job.handler, job.event, Given(job.event_hash, lane.now, job.tries))

    def _call(self, lane: _Lane) -> None:
        """Call the handler of the lane's first job up to its first question."""
        job, lane.now, lane.asked = lane.jobs[0], self._clock.now(), 0
        try:
            # Events that cause one another would fill the store. The chain of causes is recorded, so its end
            # is visible.
            if job.depth >= MAXIMUM_DEPTH:
                raise LoopOfEvents(f"{job.event.key} is {job.depth} events deep: its causes form a loop")
            decision = self._decision(lane)
        except Exception as error:  # noqa: BLE001 - a handler's bug is held with its traceback, visibly
            self._fail(lane, error)
            return
        if isinstance(decision, tuple):
            self._done(lane, decision)
        else:
            lane.handler = decision
            self._send(lane, None)

    def _send(self, lane: _Lane, answer: object) -> None:
        """Give the lane's handler an answer; take its next question or its decision."""
        assert lane.handler is not None
        lane.asked += 1
        try:
            if lane.asked > MOST_QUESTIONS:
                # It is closed, so that its `finally` runs here and not in the garbage collector.
                lane.handler.close()
                raise TooManyQuestions(f"{lane.jobs[0].handler} still asks after {MOST_QUESTIONS} answers")
            if isinstance(answer, _Failed):
                question = lane.handler.throw(answer.error)
            else:
                question = lane.handler.send(answer)
            if type(question) not in self._answers.by_kind:
                raise NoAnswer(f"nobody answers {type(question).__name__}")
            lane.question = question
        except StopIteration as stopped:
            self._done(lane, stopped.value)
        except Exception as error:  # noqa: BLE001 - a handler's bug is held with its traceback, visibly
            self._fail(lane, error)

    def _done(self, lane: _Lane, effects: Effects) -> None:
        self._next(lane, JobResult(lane.jobs[0], "done", effects))
        self._fresh += effects

    def _fold(self) -> None:
        """Make what was decided so far visible to later questions. Most rounds have none."""
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, []
        for effect in fresh:
            for fold in self._answers.folds.get(type(effect), ()):
                question = fold.question(effect)
                self._decided.setdefault(question, []).append((fold, effect))
                if question in self._known:
                    self._known[question] = fold.apply(self._known[question], effect)

    def _fail(self, lane: _Lane, error: Exception) -> None:
        """Delay or hold the lane's first job; the lane's other jobs wait."""
        job = lane.jobs[0]
        if isinstance(error, Halted):
            result = put_back(job)
        elif isinstance(error, NotYet):
            result = put_back(job)._replace(run_after=error.until)
        elif isinstance(error, TryLater):
            # The environment refused a fact, which is nobody's mistake: it is tried without end, ever more
            # slowly.
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(job.tries, 10))
            result = JobResult(job, "waiting", error=error.why, run_after=lane.now + wait)
        else:
            trace = "".join(traceback.format_exception(error, limit=-6))
            # A bug would fail again, so it is held at once, where a person sees it.
            result = JobResult(job, "held", error=trace)
        self._next(lane, result)
        # Only its own lane stops. Others that are merely decided in order with it go on.
        following = [each for each in lane.jobs if each.lane == job.lane]
        for each in following:
            self._results[each.id] = JobResult(each, "waiting")
        if following:
            lane.jobs = deque(each for each in lane.jobs if each.lane != job.lane)

    def _next(self, lane: _Lane, result: JobResult) -> None:
        self._results[result.job.id] = result
        lane.jobs.popleft()
        lane.handler = lane.question = None


class _Foresight(Round):
    """A round that decides nothing, and keeps what was answered about files and settings."""

    def __init__(
        self, jobs: Sequence[Job], answers: Answers, clock: Clock, at_work: dict[int, AtWork]
    ) -> None:
        self.foreseen = Foreseen()
        super().__init__(jobs, answers, clock, at_work)

    def _decision(self, lane: _Lane) -> route.Decision:
        return route.foresee(lane.jobs[0].event)

    def _answer(self, lane: _Lane, answerer: AtOnce) -> object:
        question = lane.question
        assert question is not None
        if self.foreseen.is_full and not answerer.holds_for_round:
            return _Failed(TryLater("what was foreseen already takes much memory"))
        answer = super()._answer(lane, answerer)
        # A bug is met again by the handler itself, which is held for it.
        if isinstance(answer, _Failed):
            return answer
        if answerer.holds_for_round:
            self.foreseen.settings[question] = answer
        else:
            size = 0 if answerer.size is None else answerer.size(answer)
            self.foreseen.keep(lane.jobs[0].lane, question, answer, size)
        return answer


class LoopOfEvents(RuntimeError):
    """Events cause one another endlessly."""


class TooManyQuestions(RuntimeError):
    """A handler asks again and again: a bug of Runward."""
