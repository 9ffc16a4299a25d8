"""Approvals: what a person is shown before a step runs, and what follows from their decision.

Shown are the step's command, the outcomes before it, and every file that was left. What is shown is what an approval
covers. So a file that nothing binds is named, and approved only by leaving it out.
"""

import hashlib
import json
import posixpath
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import one_line, shortened
from runward.config.step import Step
from runward.handlers.chains.advancing import Position, Startable, command_at, position_of, waiting_for_person
from runward.handlers.chains.stepping import NotStarted, Remote
from runward.handlers.contracts.files import TRIES
from runward.handlers.left_files import STATES, hash_of, why_not_without
from runward.handlers.model.approvals import (
    ApprovalDecided,
    ApprovalOf,
    ApprovalRequested,
    ApprovalStanding,
    ApprovalWanted,
    AskApproval,
    DecideApproval,
    Decision,
    FilesLeftIn,
    LeftFile,
    LeftFiles,
    LeftPlace,
    WorkPlace,
    Workplace,
    WorkplaceOf,
    lane_of,
)
from runward.handlers.model.asking import Asking, Given, TryLater, ask
from runward.handlers.model.chains import ChainRunOf
from runward.handlers.model.contracts import ProducedBy
from runward.handlers.model.effects import Deciding, Effect, Effects, Emit, Explain
from runward.handlers.model.files import Unreadable
from runward.handlers.model.fleet import OffersOf
from runward.handlers.model.outcomes import ArtifactFilesOf, BeingRead, OutcomeFile, OutcomesIn
from runward.handlers.model.schedules import TimerRang, TimerSet
from runward.handlers.model.sessions import Session, SessionOf
from runward.handlers.notices import LONGEST_LINE, notices


class Shown(NamedTuple):
    """What is shown, and its hash (SHA-256, hex)."""

    value: dict[str, JsonValue]
    hash: str


class _Named(NamedTuple):
    """Where a step's run left files, and the ids of those that its contract or an outcome names, by their paths."""

    step: int
    place: LeftPlace
    ids: Mapping[str, str]

    def step_of(self, file: LeftFile) -> int:
        """The number of the step that left the file."""
        return self.step


class _Worked(NamedTuple):
    """A directory outside the run directories, and the steps that worked there, with when they were ordered."""

    place: WorkPlace
    steps: tuple[tuple[float, int], ...]

    @property
    def step(self) -> int:
        """The first of them."""
        return self.steps[0][1]

    @property
    def ids(self) -> Mapping[str, str]:
        """No contract names a file there."""
        return {}

    def step_of(self, file: LeftFile) -> int:
        """The last step that had been ordered when the file changed."""
        changed_at = file.changed_at
        if changed_at is None:
            return self.step
        return max((each for each in self.steps if each[0] <= changed_at), default=self.steps[0])[1]


def shown(
    position: Position, step: int, tries: int, without: Collection[str] = (), until: float | None = None
) -> Asking[Shown | NotStarted]:
    """What would be shown now.

    `tries` says how often this was tried, `without` which files don't matter. What others changed later than `until`
    (Unix seconds) where they work together with steps doesn't matter either.
    """
    command = yield from command_at(position, step)
    if isinstance(command, NotStarted):
        return command
    outcomes: list[JsonValue] = []
    places: list[_Named] = []
    workplaces: dict[int, Workplace] = {}
    # What the steps before left is shown with it. So if a file of theirs changes before somebody approves, the approval
    # is void.
    for number, standing in sorted(position.run.steps.items()):
        if number == step:
            continue
        if standing.session_key is None:
            if standing.outcome is not None:  # another host's
                outcomes.append({"step": number, "outcome": standing.outcome, "files": None})
            continue
        session = yield from ask(SessionOf(standing.session_key))
        files = None if session is None else (yield from _outcome_files(session))
        outcomes.append({"step": number, "outcome": standing.outcome, "files": files})
        if session is not None:
            places.append((yield from _place(number, session)))
            workplace = yield from ask(WorkplaceOf(session.key))
            if workplace is not None:
                workplaces[number] = workplace
    worked = _worked(position, places, workplaces, until)
    if isinstance(command, Remote):
        value = yield from _elsewhere(position.step(step), command)
    else:
        value = {
            "argv": list(command.ready.argv),
            "env": dict(command.ready.environment),
            "cwd": command.ready.cwd,
        }
    value["outcomes"] = outcomes
    value["artifacts"] = list((yield from _left(places, worked, tries, without)))
    if isinstance(command, Startable) and command.ready.worktree is not None:
        value["worktree"] = list(command.ready.worktree)
    return Shown(value, hash_of(value))


def _elsewhere(step: Step, remote: Remote) -> Asking[dict[str, JsonValue]]:
    """What is shown of a step that another host runs: its name and values, and a hash of what each host would start by it.

    The command is that host's. Where the hash is not known here, that host asks for another approval.
    """
    offers = yield from ask(OffersOf("action" if step.skill is None else "skill", step.name))
    host = remote.host
    meant = [
        each
        for each in offers
        if (each.host == host if isinstance(host, str) else set(host.labels) <= set(each.labels))
    ]
    values = [
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in remote.rendered.values.items()
    ]
    return {
        "argv": ["on", f"{host}:", step.name, *values],
        "env": dict(remote.rendered.environment),
        "cwd": remote.rendered.cwd,
        "hosts": {each.host: each.hash for each in meant},
    }


def _outcome_files(session: Session) -> Asking[JsonValue]:
    """What the files of a step's outcomes hold now."""
    files = yield from ask(OutcomesIn(session.path, session.artifacts_path))
    if isinstance(files, Unreadable):
        raise TryLater(f"the outcomes of {session.key} can't be read: {files.why}")
    if isinstance(files, BeingRead):
        raise TryLater(f"the reports of {session.key} are being read")
    return [
        {
            "path": each.path,
            "sha256": None if (content := _content(each)) is None else hashlib.sha256(content).hexdigest(),
        }
        for each in files
    ]


def _content(file: OutcomeFile) -> bytes | None:
    """What stands for a file: its content, or if it is a large report, what was read of it."""
    return file.content if file.report is None else json.dumps(file.report, sort_keys=True).encode()


def _place(step: int, session: Session) -> Asking[_Named]:
    produced = yield from ask(ProducedBy(session.key, session.attempt))
    large = yield from ask(ArtifactFilesOf(session.key))
    ids = {path: identifier for identifier, path in large}
    ids |= {} if produced is None else {each.path: each.id for each in produced.files}
    return _Named(step, LeftPlace(session.path, session.artifacts_path, tuple(ids)), ids)


def _worked(
    position: Position, places: list[_Named], workplaces: Mapping[int, Workplace], until: float | None
) -> list[_Worked]:
    """The worktrees that are kept, and the directories that no run directory has in it, each once."""
    worked: list[_Worked] = []
    shared: dict[str, list[tuple[float, int]]] = {}
    for number, workplace in workplaces.items():
        ordered = (workplace.ordered_at, number)
        worktree = position.step(number).worktree
        if workplace.worktree is not None:
            if worktree is not None and worktree.is_kept(position.run.steps[number].status != "completed"):
                since = workplace.ordered_at if workplace.begun_at is None else workplace.begun_at
                worked.append(_Worked(WorkPlace(workplace.worktree, since, is_worktree=True), (ordered,)))
            continue
        cwd = posixpath.normpath(workplace.cwd)
        # Files in a run directory are shown with their run already.
        whole = [place for each in places for place in (each.place.path, each.place.artifacts_path)]
        if not any(cwd == each or cwd.startswith(f"{each}/") for each in whole):
            shared.setdefault(cwd, []).append(ordered)
    for cwd, steps in shared.items():
        worked.append(_Worked(WorkPlace(cwd, min(steps)[0], until), tuple(sorted(steps))))
    return worked


def _left(
    places: list[_Named], worked: list[_Worked], tries: int, without: Collection[str]
) -> Asking[Iterator[dict[str, JsonValue]]]:
    """Every file that the runs of these steps left."""
    if not places:
        return iter(())
    question = FilesLeftIn(tuple(each.place for each in places), tuple(each.place for each in worked))
    answer = yield from ask(question)
    by_place: list[tuple[_Named | _Worked, LeftFiles]] = []
    everywhere: list[_Named | _Worked] = [*places, *worked]
    for named, each in zip(everywhere, answer, strict=True):
        if isinstance(each, Unreadable):
            raise TryLater(f"what step {named.step} left can't be read: {each.why}")
        by_place.append((named, each))
    files = [(named, file) for named, left in by_place for file in left.files]
    changing = [file.path for _, file in files if file.state == "changing" and file.path not in without]
    # A file that is written to just now may be at rest at the next try. After the last one, it is shown as what it is,
    # and nothing binds it.
    if changing and tries + 1 < TRIES:
        raise TryLater(f"{', '.join(changing[:5])} {STATES['changing']}")
    return (_as_json(named, file) for named, file in files)


def _as_json(named: _Named | _Worked, file: LeftFile) -> dict[str, JsonValue]:
    """A file as it is shown. A directory whose files are not shown one by one has no id."""
    shown: dict[str, JsonValue] = {
        "step": named.step_of(file),
        "id": named.ids.get(file.path),
        "path": file.path,
        "sha256": file.sha256,
        "state": file.state,
    }
    if file.state in ("hashed", "too_large"):
        shown["size"] = file.size
    if file.identity is not None:
        shown["identity"] = dict(file.identity._asdict())
    if file.target is not None:
        shown["target"] = file.target
    if file.state == "many":
        shown["files"] = file.number
    return shown


EXPIRES: Final = "expires "


def approval_id(key: str) -> str:
    """The id of the approval that an event of this key asks for."""
    return f"ap_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def ask_a_person(event: ApprovalWanted, given: Given) -> Deciding:
    """A step waits for a person: what is shown is stored under an id, and the time for the decision begins."""
    waiting = yield from waiting_for_person(event.run, event.step)
    if waiting is None:
        return ()
    run, _ = waiting
    position = position_of(run, given)
    now = yield from shown(position, event.step, given.tries)
    approval = approval_id(event.key)
    # There is no command to show. The chain run decides again, and the step ends for the same reason.
    if isinstance(now, NotStarted):
        changed = ApprovalDecided(
            approval=approval,
            run=run.id,
            step=event.step,
            at=given.at,
            decision="changed",
            note=now.why,
            said_by="",
        )
        return (Emit(changed),)
    rule = position.step(event.step).approval
    expires = None if rule is None or rule.expires is None else given.at + rule.expires
    asked = ApprovalStanding(
        id=approval,
        run=run.id,
        step=event.step,
        status="asked",
        shown_hash=now.hash,
        expires_at=expires,
        shown=now.value,
        asked_at=given.at,
    )
    effects: list[Effect] = [
        AskApproval(asked),
        Explain(run.id, "decided", f"step {position.step(event.step).id} waits for approval {approval}"),
    ]
    if expires is not None:
        effects.append(Emit(TimerSet(lane_of(run.id), f"{EXPIRES}{approval}", given.at, expires)))
    command = one_line(json.dumps(now.value["argv"], ensure_ascii=False))
    told = shortened(command, LONGEST_LINE)
    # An approval holds only for what was shown: of a command that is cut, only the rest is offered.
    offered = f"chain approve {approval}" if told == command else "chain approvals"
    lines = (told, f"runward {offered}")
    title = f"{run.chain}: step {position.step(event.step).id} waits for a person"
    return (*effects, *(yield from notices("approval.asked", approval, title, lines, given.at)))


LINK: Final = "link"
"""Who decided, when the link in a notice was used."""


def answer_approval(event: ApprovalRequested, given: Given) -> Deciding:
    """A person approves or denies: decided once, and only for what was shown."""
    approval = yield from ask(ApprovalOf(event.approval))
    word = "approval" if event.decision == "approved" else "denial"
    if approval is None or approval.run != event.run:
        return _refused(event.run, f"the {word} of {event.approval}: there is no such approval")
    if approval.status != "asked":
        return _refused(event.run, f"the {word} of {event.approval}: it is already {approval.status}")
    waiting = yield from waiting_for_person(event.run, approval.step)
    if waiting is None:
        return _refused(event.run, f"the {word} of {event.approval}: its step no longer waits for it")
    run, _ = waiting
    if approval.expires_at is not None and given.at >= approval.expires_at:
        return _refused(event.run, f"the {word} of {event.approval}: its time is over")
    rule = position_of(run, given).step(approval.step).approval
    # Anybody may have the link, also the person who fired the chain.
    if rule is not None and rule.not_by_launcher and event.by_link:
        why = "a link does not say who uses it, and the person who fired the chain may not approve; use `runward chain approve`"
        return _refused(event.run, f"the {word} of {event.approval}: {why}")
    if rule is not None and rule.not_by_launcher and event.said_by == run.said_by:
        return _refused(event.run, f"the {word} of {event.approval}: {event.said_by} fired the chain")
    by = LINK if event.by_link else event.said_by
    if event.decision == "denied":
        return decided(approval, given.at, "denied", event.note, by)
    answered = yield from approved(approval, given, event.note, by, event.without)
    if isinstance(answered, NotCovered):
        return _refused(event.run, f"the {word} of {event.approval}: {answered.why}")
    return answered


class NotCovered(NamedTuple):
    """Why an approval doesn't count as it is: a file that it can't cover was not left out in words."""

    why: str


def approved(
    approval: ApprovalStanding, given: Given, note: str, by: str, without: tuple[str, ...] = ()
) -> Asking[Effects | NotCovered]:
    """Approve it, unless what was shown has changed: then it is void, and asked for again.

    The files `without` which it is approved may have changed.
    """
    why = why_not_without(approval.shown, without)
    if why is not None:
        return NotCovered(why)
    run = yield from ask(ChainRunOf(approval.run))
    assert run is not None
    position = position_of(run, given)
    # The hash is compared when somebody approves, and not before: what counts is what would run now.
    now = yield from shown(position, approval.step, given.tries, without, approval.asked_at)
    if isinstance(now, NotStarted) or not _is_as_shown(now, approval, without):
        why = f"the approval of {approval.id}: what was shown has changed; a new approval is asked for"
        return (*_refused(approval.run, why), *decided(approval, given.at, "changed", note, by))
    effects = decided(approval, given.at, "approved", note, by)
    if without:
        summary = f"{approval.id} is approved without {', '.join(without)}"
        effects = (*effects, Explain(approval.run, "decided", summary, {"without": list(without)}))
    return effects


def _is_as_shown(now: Shown, approval: ApprovalStanding, without: tuple[str, ...]) -> bool:
    """Whether nothing has changed since it was shown, but for the files that are left out."""
    if now.hash == approval.shown_hash:
        return True
    before = approval.shown
    return (
        bool(without) and isinstance(before, dict) and hash_of(now.value, without) == hash_of(before, without)
    )


def decided(approval: ApprovalStanding, at: float, decision: Decision, note: str, by: str) -> Effects:
    """Store the decision, and let the chain run continue from it."""
    answer = ApprovalDecided(
        approval=approval.id,
        run=approval.run,
        step=approval.step,
        at=at,
        decision=decision,
        note=note,
        said_by=by,
    )
    return (DecideApproval(approval.id, at, decision, note, by), Emit(answer))


def _refused(run: str, why: str) -> Effects:
    return (Explain(run, "refused", f"not accepted: {why}"),)


NOBODY: Final = "no one decided in time"
BY: Final = "on_timeout"


def expire_approval(event: TimerRang, given: Given) -> Deciding:
    """Nobody decided on an approval in time: its step is denied, or approved if the file says so and nothing changed."""
    approval = yield from ask(ApprovalOf(event.what.removeprefix(EXPIRES)))
    # Nothing removes a timer: this one also rings after somebody decided.
    run = None if approval is None else (yield from ask(ChainRunOf(approval.run)))
    if approval is None or run is None or approval.status != "asked" or run.status != "waiting_approval":
        return ()
    rule = position_of(run, given).step(approval.step).approval
    if rule is not None and rule.on_timeout == "approve":
        answered = yield from approved(approval, given, NOBODY, BY)
        if not isinstance(answered, NotCovered):
            return answered
        return decided(approval, given.at, "expired", f"{NOBODY}, and {answered.why}", BY)
    return decided(approval, given.at, "expired", NOBODY, BY)
