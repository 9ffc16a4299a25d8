"""Chains of a history, the events that fire them, and what a plain model expects of their runs: in every other history."""

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

from tests.simulation.broken import Broken
from tests.simulation.worktrees import WORDS

from runward.config.chain import Chain, read_chain
from runward.config.json_value import JsonValue
from runward.config.step import Callables
from runward.daemon.backup import MAYBE_BEGUN
from runward.handlers.model.approvals import ApprovalRequested
from runward.handlers.model.chains import (
    ChainFireRequested,
    ChainRunCancelRequested,
    EventOccurred,
    chain_run_of,
)
from runward.handlers.model.invocations import Play
from runward.handlers.model.schedules import Scheduled
from runward.handlers.schedules import PATIENCE

if TYPE_CHECKING:
    from tests.simulation.people import People
    from tests.simulation.universe import Universe

_DEFAULTS: Final[dict[str, JsonValue]] = {"passed": None, "findings": [], "round": 1}
"""What a `review_verdict` has where its file says nothing."""

ASKED: Final = "asked"
_TEXT: Final = """\
name: three
trigger: {event: asked, filter: {wanted: true}}
steps:
  - {id: review, skill: nothing, with: {n: "{{ trigger.n }}"}}
  - {id: merge, skill: report, with: {n: 1}, condition: "{{ steps.review.outcome.go }}"}
  - {id: tell, skill: nothing, with: {n: "{{ steps.merge.status }}"}}
"""
_OTHER: Final = """\
name: other
trigger: {event: asked}
concurrency: same
steps:
  - {id: only, skill: nothing, with: {n: "{{ trigger.n }}"}, start_within: 60sWORKTREE}
"""
_GATED: Final = """\
name: gated
trigger: {event: asked, filter: {wanted: true}}
timeout: 90s
steps:
  - {skill: report, with: {n: 1}, retry: {attempts: 3, backoff: 2s, on: ["run.*"]}WORKTREE}
  - {skill: nothing, with: {n: 2}, requires_approval: true, approval: {expires: 40s}}
"""
_TIMED: Final = """\
name: timed
trigger: {schedule: every 9s, timezone: UTC, max_runs: 3, OTHERS}
steps:
  - {skill: report, with: {n: 1}}
"""
_COMPOSITE: Final = """\
name: composite
trigger: {KIND: [{event: asked, filter: {wanted: true}}, {event: asked, filter: {wanted: false}}]WITHIN}
steps:
  - {skill: nothing, with: {n: "{{ trigger.n }}"}}
"""
_COMPOSITES: Final = (None, ("all_of", ", within: 300d"), ("sequence", ", within: 300d"), ("any_of", ""))
_WAYS: Final = ("overlap: queue, misfire: run_all", "jitter: 5s, misfire: run_once", "overlap: allow")
_OUTCOMES: Final[tuple[JsonValue, ...]] = (
    {"outcome_kind": "review_verdict", "summary": "fine", "verdict": "APPROVE", "go": True},
    {"outcome_kind": "review_verdict", "summary": "fine", "verdict": "APPROVE", "go": True},
    {"outcome_kind": "review_verdict", "summary": "no", "verdict": "REJECT", "go": False},
    {"go": True},
    None,
)
"""What a step may leave: the last but one is invalid, so it counts as not produced."""

STILL_RUNNING: Final = (
    "select s.run, s.step from chain_steps s join chain_runs r on r.id = s.run where s.status in ('running', 'waiting', 'waiting_approval')"
    " and r.status not in ('running', 'waiting_approval')"
    " and not exists (select 1 from jobs j where j.lane in (r.id, s.session_key) and j.state in ('held', 'discarded'))"
)

_RUNS: Final = "select id, chain, fired_by, status, trigger_event from chain_runs"
_STEPS: Final = "select run, step, status, reason_code, outcome from chain_steps order by run, step"
OPEN_JOBS: Final = (
    "select id, state, handler, lane, error from jobs j where state in ('waiting', 'running') and not exists ("  # our own words
    " select 1 from jobs h where h.lane = j.lane and h.id < j.id and h.state = 'held'"
    f" and h.error = '{MAYBE_BEGUN}')"
    " and lane not glob 'timer:schedule:*'"
    " and not (handler = 'timers/ring' and exists (select 1 from chain_runs r where j.lane glob 'timer:*' || r.id || '/*'"
    "  and r.status not in ('running', 'waiting_approval')))"
)
"""The jobs that somebody has to do; a timer of what is over is nobody's. Firings of a chain wait behind one that a restore holds: a person decides on it."""

_NOT_OVER: Final = (
    "select id, current_step from chain_runs where status in ('running', 'waiting_approval')"
    " and not exists (select 1 from jobs j where (j.lane in (chain_runs.id, 'files:' || chain_runs.id)"
    "  or j.lane glob 'timer:' || chain_runs.id || '/*') and j.state in ('held', 'discarded'))"
    " and not exists (select 1 from chain_steps s join jobs j on j.lane = s.session_key"
    "  where s.run = chain_runs.id and j.state in ('held', 'discarded'))"
    " and not (reason_code = 'chain.running.waits' and (exists (select 1 from chain_runs o where o.chain = chain_runs.chain"
    "  and o.turn = chain_runs.turn and o.status in ('running', 'waiting_approval') and (o.reason_code <> 'chain.running.waits'"
    "  or exists (select 1 from jobs j where j.lane = o.id and j.state in ('held', 'discarded'))))"
    "  or exists (select 1 from jobs j where j.lane = 'chain:' || chain_runs.chain and j.state in ('held', 'discarded'))))"
    " and not (exists (select 1 from chain_steps s where s.run = chain_runs.id and s.reason_code = 'step.waiting.slot'"
    "  and s.status = 'waiting') and ((select count(*) from chain_steps where status = 'running') >= SLOTS"
    "  or exists (select 1 from jobs j where j.handler glob 'chains/*' and j.state in ('held', 'discarded'))))"
)
_BADLY_FIRED: Final = (
    "select id from chain_runs r where (select count(*) from firings where run = r.id) <> 1"
    " union all select run from firings where run is not null and run not in (select id from chain_runs)"
)
_NOT_INVOKED: Final = (
    "select run, step, attempt from chain_steps s where session_key is not null and not exists (select 1 from invocations i"
    "  where i.session_key = s.session_key and i.chain_run_id = s.run and i.step_index = s.step and i.try = s.attempt)"
    " union all select chain_run_id, step_index, try from invocations i where step_index is not null and not exists ("
    "  select 1 from chain_steps s where s.session_key = i.session_key)"
    " union all select id, null, null from chain_runs r where not exists (select 1 from invocations i"
    "  where i.chain_run_id = r.id and i.step_index is null)"
)
_NOT_ENDED: Final = (
    "select i.id, i.skill from invocations i left join chain_runs r on r.id = i.chain_run_id and i.step_index is null"
    " where i.status = 'running' and (exists (select 1 from sessions s where s.key = i.session_key and s.status <> 'running')"
    "  or r.status not in ('running', 'waiting_approval') and not exists (select 1 from jobs j"
    "   where j.lane = 'chain:' || r.chain and j.state in ('held', 'discarded')))"
)
_WANTED: Final = (
    "select e.key, json_extract(e.payload, '$.fields.wanted') from events e where e.type = 'EventOccurred'"
    " and not exists (select 1 from jobs j where j.event = e.seq and j.state <> 'done')"
    " and not exists (select 1 from jobs j join events f on f.seq = j.event where f.cause = e.key and j.state <> 'done')"
)


def _read(text: str) -> Chain:
    chain = read_chain(text, "chain.yaml", Callables(("report", "two", "nothing"))).value
    assert chain is not None
    return chain


class Chains:
    """The chains that there are, as a daemon finds them, and what was done about them."""

    def __init__(self, universe: "Universe") -> None:
        self._universe = universe
        self._dice = random.Random(f"{universe.seed}/chains")
        worktree = f", {WORDS}" if universe.worktrees.are_there else ""
        texts = (text.replace("WORKTREE", worktree) for text in (_TEXT, _OTHER, _GATED))
        self._there = {chain.name: chain for chain in map(_read, texts)}
        self._is_timed = False
        self._composite: str | None = None
        drawn = random.Random(f"{universe.seed}/composites").choice(_COMPOSITES)
        if drawn is not None:
            self._composite, within = drawn
            chain = _read(_COMPOSITE.replace("KIND", self._composite).replace("WITHIN", within))
            self._there[chain.name] = chain
        self.slots = random.Random(f"{universe.seed}/slots").choice((1, 2, 16))
        self.watching = 0
        """How many people have yet to answer an approval."""
        self.answered: Counter[str] = Counter()
        """How often somebody approved of an approval, by its id."""
        self.left: dict[str, JsonValue] = {}
        """What the commands of steps left as their outcome, by its session's key."""

    def listening(self, event: str) -> tuple[Chain, ...]:
        return tuple(
            each for each in self._there.values() if any(leaf.event == event for leaf in each.trigger.leaves)
        )

    def chain(self, name: str) -> Chain | str:
        return self._there.get(name, f"there is no chain {name!r}")

    def action(self, name: str) -> Play:
        return Play(None, problem=f"there is no action {name!r}")

    def scheduled(self, name: str) -> Scheduled | None:
        schedule = self._there[name].trigger.schedule if self._is_timed and name in self._there else None
        return None if schedule is None else Scheduled(schedule, name, PATIENCE)

    def steps_at_once(self) -> int:
        return self.slots

    def check_slots(self) -> None:
        """No commit leaves more steps running than may."""
        for (running,) in self._universe.peek("select count(*) from chain_steps where status = 'running'"):
            if running > self.slots:
                self._universe.timeline.fail(Broken(f"{running} steps run at once, and {self.slots} may"))

    @property
    def not_over(self) -> str:
        """Asks for the chain runs that nothing keeps from being over."""
        return _NOT_OVER.replace("SLOTS", str(self.slots))

    def schedules(self) -> dict[str, str]:
        return {name: name for name in self._there if self.scheduled(name) is not None}

    def watched_paths(self) -> dict[str, list[str]]:
        return {}

    def moments(self, length: float) -> list[float]:
        """When somebody emits an event, or fires a chain. In some histories there is a chain with a schedule, too."""
        dice = random.Random(f"{self._universe.seed}/schedules")
        self._is_timed = dice.random() < 0.4
        self._universe.timeline.after(length, self._no_times_any_more)
        timed = _read(_TIMED.replace("OTHERS", dice.choice(_WAYS)))
        self._there[timed.name] = timed
        count = self._dice.choice((0, 4))
        return [self._dice.uniform(0.0, length) for _ in range(count)]

    def _no_times_any_more(self) -> None:
        self._is_timed = False

    def happen(self, people: "People") -> None:
        """An event that fires one chain or two, one that is reported twice, or a chain that a person fires."""
        now, kind = self._universe.clock.now(), self._dice.random()
        if kind < 0.3:
            name = self._dice.choice(("three", "three", "no such chain"))
            people.request(ChainFireRequested(people.uuid(), now, name, {"n": 1} if kind < 0.25 else {}))
            return
        fields: dict[str, JsonValue] = {"n": 1, "wanted": kind < 0.8}
        if self._dice.random() < 0.5:
            self._universe.timeline.after(self._dice.uniform(0.0, 12.0), lambda: self._cancel(people))
        for _ in range(3):
            self.watching += 1
            self._universe.timeline.after(
                self._dice.uniform(0.0, 40.0), lambda: self._answer(people, looks=6)
            )
        fields["which"] = which = people.uuid()
        event = EventOccurred(which, now, ASKED, "some", fields)
        people.request(event)
        if kind > 0.7:
            self._universe.tally.reached["an event that was told twice"] += 1
            self._universe.timeline.after(self._dice.uniform(0.0, 20.0), lambda: people.request(event))

    def _cancel(self, people: "People") -> None:
        """Somebody has had enough of a chain run, perhaps of one that is over."""
        runs = self._universe.peek("select id from chain_runs order by status <> 'running', id")
        if runs:
            run = str(runs[0][0] if self._dice.random() < 0.9 else self._dice.choice(runs)[0])
            people.request(ChainRunCancelRequested(people.uuid(), self._universe.clock.now(), run, "enough"))

    def _answer(self, people: "People", looks: int) -> None:
        """Somebody approves or denies what waits, perhaps what was decided before.

        If nothing waits yet, that person looks again, `looks` times at most.
        """
        known = self._universe.peek("select id, run, status from approvals order by status <> 'asked', id")
        if looks and (not known or known[0][2] != "asked"):
            again = self._dice.uniform(3.0, 30.0)
            self._universe.timeline.after(again, lambda: self._answer(people, looks - 1))
            return
        self.watching -= 1
        if not known:
            return
        approval, run, _ = known[0] if self._dice.random() < 0.9 else self._dice.choice(known)
        decision: Literal["approved", "denied"] = "approved" if self._dice.random() < 0.6 else "denied"
        self.answered[str(approval)] += decision == "approved"
        at = self._universe.clock.now()
        people.request(ApprovalRequested(people.uuid(), at, str(approval), str(run), decision))

    def outcome(self, session: str) -> bytes | None:
        """What the command of a step writes into `outcome.json`; None for nothing."""
        if chain_run_of(session) is None:
            return None
        outcome = self.left[session] = self._dice.choice(_OUTCOMES)
        return None if outcome is None else json.dumps(outcome).encode()

    def at_rest(self) -> None:
        """Each run is over, its steps are those of the model, and each event fired what listens once."""
        peek = self._universe.peek
        if left := peek(self.not_over):
            raise Broken(f"these chain runs are not over: {left}")
        if left := peek(STILL_RUNNING):
            raise Broken(f"these steps are said to run, and their chain runs are over: {left}")
        if badly := peek(_NOT_INVOKED):
            raise Broken(f"what was ordered and the invocations differ: {badly}")
        if left := peek(_NOT_ENDED):
            raise Broken(f"these invocations go on, and what they were of is over: {left}")
        runs = {str(row[0]): row for row in peek(_RUNS)}
        if badly := peek(_BADLY_FIRED):
            raise Broken(f"what is kept of firings and the runs that there are differ: {badly}")
        for (result,) in peek("select result from firings"):
            self._universe.tally.reached[str(result)] += 1
        if len([row for row in runs.values() if row[1] == "timed"]) > 3:
            raise Broken("a schedule fired more often than its max_runs")
        steps: dict[str, dict[int, tuple[str, str | None, JsonValue]]] = {}
        for run, step, status, reason, outcome in peek(_STEPS):
            said = None if outcome is None else json.loads(str(outcome))
            steps.setdefault(str(run), {})[int(step)] = (str(status), reason, said)
        for run, (_, chain, _, status, trigger) in runs.items():
            self._check(run, str(chain), str(status), json.loads(str(trigger)), steps.get(run, {}))
        self._check_composite()
        fired = Counter((str(row[1]), str(row[2])) for row in runs.values())
        for key, wanted in peek(_WANTED):
            for chain, is_wanted in (("three", bool(wanted)), ("gated", bool(wanted)), ("other", True)):
                if fired[chain, str(key)] != is_wanted:
                    raise Broken(f"the event {key} fired {chain} {fired[chain, str(key)]} times")

    def _check_composite(self) -> None:
        """An event counts for one run of a composite, and what is held is not enough for another one."""
        peek, kind = self._universe.peek, self._composite
        used: Counter[str] = Counter()
        for run, cause in peek("select id, cause from chain_runs where chain = 'composite'"):
            self._universe.tally.reached[f"a run of {kind}"] += 1
            events = json.loads(str(cause))["events"]
            used.update(str(each["fields"]["which"]) for each in events)
            wanted = [bool(each["fields"]["wanted"]) for each in events]
            right = {
                "all_of": sorted(wanted) == [False, True],
                "sequence": wanted == [True, False],
                "any_of": len(wanted) == 1,
            }
            if kind is None or not right[kind]:
                raise Broken(f"{run} of {kind} was fired by {events}")
        if badly := [event for event, count in used.items() if count > 1]:
            raise Broken(f"these events fired a composite more than once: {badly}")
        if peek(_COMPOSITE_IS_HELD):
            return  # a restore holds what was told, or a person gave it up
        held = [bool(wanted) for (wanted,) in peek(_HELD_BY_COMPOSITE)]
        is_enough = {
            "all_of": len(set(held)) == 2,
            "sequence": False in held,
            "any_of": bool(held),
            None: bool(held),
        }
        if is_enough[kind]:
            raise Broken(f"events are held for {kind}, and they are enough for it: {held}")

    def _check(
        self,
        run: str,
        chain: str,
        status: str,
        trigger: dict[str, JsonValue],
        steps: dict[int, tuple[str, str | None, JsonValue]],
    ) -> None:
        reached, peek = self._universe.tally.reached, self._universe.peek
        if status in ("running", "waiting_approval"):
            return  # a person gave its job up, or a restore holds it
        reached[f"a chain run that is {status}"] += 1
        reached["a step that waited for a slot"] += bool(
            peek(
                "select 1 from decisions where subject = ? and summary glob 'step * waits for a slot*'",
                (run,),
            )
        )
        reached["a step that could not begin in time"] += any(
            reason == "step.timed_out.start_within" for _, reason, _ in steps.values()
        )
        reached["a chain run that waited for another"] += bool(
            peek("select 1 from decisions where subject = ? and summary glob 'it waits until *'", (run,))
        )
        if chain == "timed":
            return
        if chain == "gated":
            self._check_gated(run, status, steps)
            return
        if status == "cancelled" and all(
            reason != "run.failed.not_started" for _, reason, _ in steps.values()
        ):
            return  # the step that ran may have come to its end before it was told
        whole = 3 if chain == "three" else 1
        if (status == "completed") != (len(steps) == whole and not _failed(steps)):
            raise Broken(f"{run} is {status}, with the steps {steps}")
        if "n" not in trigger and steps[0][1] != "run.failed.not_started":
            raise Broken(f"{run} began a step whose value is missing: {steps}")
        for number, (_, reason, outcome) in steps.items():
            written = self.left.get(f"native:runs/{run}-{number}-1")
            expected = {**_DEFAULTS, **written} if isinstance(written, dict) else written
            if outcome is not None and outcome != expected:
                raise Broken(f"step {number} of {run} has the outcome {outcome}, and left {written}")
            reached["a step that was never started"] += reason == "run.failed.not_started"
        if chain == "three" and 1 in steps:
            outcome = steps[0][2]
            goes = isinstance(outcome, dict) and outcome["go"] is True
            reached["a step that was skipped"] += not goes
            if (steps[1][0] == "skipped") == goes:
                raise Broken(f"{run} went on to {steps[1]} after the outcome {outcome}")

    def _check_gated(
        self, run: str, status: str, steps: dict[int, tuple[str, str | None, JsonValue]]
    ) -> None:
        """The second step ran only if somebody approved it; the first one at most three times."""
        peek, reached = self._universe.peek, self._universe.tally.reached
        approvals = {str(row[0]): str(row[1]) for row in peek(_APPROVALS, (run,))}
        tries = {int(step): int(tries) for step, tries in peek(_TRIES, (run,))}
        reached["a step that was tried again"] += tries.get(0, 0) > 1
        for each in approvals.values():
            reached[f"an approval that was {each}"] += 1
        if tries.get(0, 0) > 3 or tries.get(1, 0) > 1:
            raise Broken(f"{run} tried its steps too often: {tries}")
        approved = [each for each, decision in approvals.items() if decision == "approved"]
        if len(approved) > 1 or any(not self.answered[each] for each in approved):
            raise Broken(f"{run} has approvals that nobody gave: {approvals}")
        if tries.get(1, 0) and not approved:
            raise Broken(f"{run} ran a step that nobody approved: {approvals}")
        is_whole = len(steps) == 2 and not _failed(steps)
        may_be = {
            "completed": is_whole,
            "aborted": _failed(steps),
            "cancelled": True,
            "timed_out": not is_whole,
            "failed": _failed(steps),
        }
        if not may_be[status]:
            raise Broken(f"{run} is {status}, with the steps {steps}")


_HELD_BY_COMPOSITE: Final = (
    "select json_extract(fields, '$.wanted') from held_events where chain = 'composite' order by id"
)
_COMPOSITE_IS_HELD: Final = (
    "select 1 from jobs where lane = 'chain:composite' and state in ('held', 'discarded') limit 1"
)
_APPROVALS: Final = "select id, status from approvals where run = ? order by id"
_TRIES: Final = (
    "select step, count(*) from chain_steps where run = ? and session_key is not null group by step"
)


def _failed(steps: dict[int, tuple[str, str | None, JsonValue]]) -> bool:
    return any(status not in ("completed", "skipped") for status, _, _ in steps.values())
