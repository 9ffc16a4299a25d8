"""`chain fire`: the order, its result and with `--wait` the end of the run; with `--dry-run` each step over given outcomes, nothing started."""

import json
import shlex
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import click

from runward.config.chain import Chain
from runward.config.contract import resolve_contract
from runward.config.counted_values import Budget
from runward.config.document import read_json
from runward.config.json_value import JsonValue
from runward.config.problem import kind
from runward.config.seen import SeenChain, SeenStep
from runward.config.settings import Settings
from runward.config.step import NOT_STARTED, Step
from runward.daemon.cli.exits import BY_STATUS, NOT_SO, WRONG_USAGE
from runward.daemon.cli.shell.asking import (
    AwayTime,
    ask_daemon,
    need_daemon,
    new_request,
    note_if_late,
    note_without_daemon,
    once_taken_up,
)
from runward.daemon.cli.shell.context import store_to_read
from runward.daemon.cli.terminal.options import own_chain_run, text_of, values_of
from runward.daemon.cli.terminal.output import coloured, complain, fail, note, print_json, print_text, safe
from runward.daemon.configuration.declarations import Declarer
from runward.daemon.store.tables.artifacts import outcomes_left
from runward.daemon.store.tables.chain_runs import ChainRunRow, chain_runs_called
from runward.daemon.store.tables.events import why_refused
from runward.handlers.chains.advancing import run_id
from runward.handlers.chains.stepping import (
    Judged,
    NotStarted,
    Remote,
    command_of,
    given_to,
    judge,
    outcomes_seen,
    remote_of,
    result_of,
    unseen,
)
from runward.handlers.model.chains import MOST_OUTCOMES, ChainFireRequested, StepResult
from runward.handlers.model.invocations import Play
from runward.handlers.times import in_utc

_PERIOD: Final = 0.1
"""Seconds between two checks of the run's status."""


class Standing(NamedTuple):
    """The current state of the order: the run, or why there is none."""

    run: ChainRunRow | None = None
    refused: str | None = None

    @property
    def status(self) -> str:
        """The run's; before that `refused` or `asked`."""
        if self.refused is not None:
            return "refused"
        return "asked" if self.run is None else self.run.status

    @property
    def is_over(self) -> bool:
        """Whether nothing more will follow."""
        return self.status not in ("asked", "running", "waiting_approval")


def fire(
    settings: Settings, chain: Chain, fields: Mapping[str, JsonValue], *, waits: bool, as_json: bool
) -> None:
    """Leave the order in the inbox, and say which chain run it is. Exits 1 if it is refused."""
    if waits:
        need_daemon(settings)
    order = new_request(ChainFireRequested, chain.name, dict(fields), by_run=own_chain_run())
    request = ask_daemon(settings, order, before_any_daemon=True)
    # The run's id follows from the request, so it can be printed before a daemon has seen the request.
    run = run_id(f"{chain.name}@{request}")
    standing = once_taken_up(settings, lambda connection: _standing(connection, request, run))
    if standing is None:
        note_if_late(settings)
    standing = standing or Standing()
    if waits:
        standing = _over(settings, request, run)
    status = standing.status
    if as_json:
        print_json({"chain_run_id": run, "status": status, "problem": standing.refused})
    elif standing.refused is not None:
        fail(standing.refused, NOT_SO)
    else:
        click.echo(run)
        if waits:
            assert standing.run is not None
            note(f"{status} ({safe(standing.run.reason_code)}): {safe(standing.run.reason_summary)}")
    if standing.refused is not None:
        sys.exit(NOT_SO)
    if standing.run is None:
        note_without_daemon(settings)
    if waits:
        sys.exit(BY_STATUS[status])


def _over(settings: Settings, request: str, run: str) -> Standing:
    """The result of the run."""
    away = AwayTime(settings)
    while True:
        with store_to_read(settings) as connection:
            standing = _standing(connection, request, run)
        if standing is not None and standing.is_over:
            return standing
        away.check()
        time.sleep(_PERIOD)


def _standing(connection: sqlite3.Connection, request: str, run: str) -> Standing | None:
    runs = chain_runs_called(connection, run, 1)
    if runs:
        return Standing(runs[0])
    refused = why_refused(connection, request)
    return None if refused is None else Standing(refused=refused)


MOST_TRIAL: Final = 16 << 20
"""Bytes of a file with an event or outcomes."""

COMPLETED: Final = "run.completed.ok"
"""The reason of a step that would run, as later steps see it."""

NO_SESSION: Final = "-"
"""What stands for a step without a session, in a list of sessions."""


class Tried(NamedTuple):
    """What a step would do. `reason` is a code if it would not run, and `why` says it in words.

    A step that another `host` runs has no command here. `warning` says why nobody may begin it.
    """

    number: int
    id: str
    name: str
    condition: str | None
    value: JsonValue
    reason: str | None
    why: str | None
    argv: tuple[str, ...] | None
    unused: tuple[str, ...] = ()
    needs_approval: bool = False
    worktree: tuple[str, str] | None = None
    start_within: float | None = None
    stale_after: float | None = None
    host: str | None = None
    warning: str | None = None

    @property
    def would_run(self) -> bool:
        """Here, or on another host."""
        return self.argv is not None or self.host is not None


def given_trigger(words: Sequence[str], file: str | None) -> Mapping[str, JsonValue]:
    """The fields of the event: those of the file, overridden by the words."""
    fields = _json(file) if file is not None else {}
    if not isinstance(fields, dict):
        fail(f"{file} contains {kind(fields)}, not an object with the fields of the event", WRONG_USAGE)
    return {**fields, **values_of(words)}


class Known(NamedTuple):
    """What is known of a step: its outcome, and what its session left. Without a `result` it is assumed."""

    outcome: JsonValue = None
    result: StepResult | None = None
    session_id: str | None = None


def given_outcomes(file: str | None) -> Sequence[Known]:
    """The outcomes in step order; None for a step without one."""
    given = _json(file) if file is not None else []
    if not isinstance(given, list):
        fail(f"{file} contains {kind(given)}, not a list of outcomes", WRONG_USAGE)
    outcomes: list[Known] = []
    for number, each in enumerate(given):
        if each is not None and not isinstance(each, dict):
            note(f"{file}: outcome {number} is {kind(each)}, not an object: it counts as not produced")
        kept = _valid(each, f"{file}: outcome {number}") if isinstance(each, dict) else None
        outcomes.append(Known(None if kept is None else dict(kept)))
    return outcomes


def _valid(outcome: Mapping[str, JsonValue], where: str) -> Mapping[str, JsonValue] | None:
    """The outcome as it would be kept. An invalid one that names its kind counts as not produced."""
    from runward.config.outcome import CheckedOutcome, check_outcome

    if "outcome_kind" not in outcome:
        return outcome
    checked = check_outcome(dict(outcome))
    if isinstance(checked, CheckedOutcome):
        return checked.value
    note(
        f"{where} counts as not produced: {'; '.join(f'{each.field} {each.message}'.strip() for each in checked)}"
    )
    return None


def recorded_outcomes(settings: Settings, sessions: Sequence[str]) -> Sequence[Known | None]:
    """What these sessions left, with their outcomes of registered kinds; None for `-`."""
    from runward.daemon.cli.session.finding import recorded_session
    from runward.daemon.store.tables.sessions import exit_code_of

    outcomes_known: list[Known | None] = []
    with store_to_read(settings) as connection:
        for each in sessions:
            if each == NO_SESSION:
                outcomes_known.append(None)
                continue
            row = recorded_session(connection, settings, each)
            outcomes, is_cut = outcomes_left(connection, row.key, MOST_OUTCOMES)
            if not outcomes:
                note(f"{each} has no outcome of a registered kind")
            code = exit_code_of(connection, row.key, row.attempt)
            kept = row.artifact_verification_json
            verification = None if kept is None else json.loads(kept)
            result = result_of(
                row.delivery, verification, code, row.artifacts_path, None if is_cut else outcomes[:-1]
            )
            outcomes_known.append(Known(outcomes[-1] if outcomes else None, result, row.session_id))
    return outcomes_known


def _json(file: str) -> JsonValue:
    text = text_of(file, MOST_TRIAL)
    parsed = read_json(text, file)
    if parsed.value is None:
        complain(parsed.problems)
        sys.exit(WRONG_USAGE)
    return parsed.value.root


def try_out(
    settings: Settings,
    chain: Chain,
    trigger: Mapping[str, JsonValue],
    known: Sequence[Known | None],
) -> list[Tried]:
    """What each step would do; a step after one that could not be started would not run either."""
    tried: list[Tried] = []
    before: list[SeenStep] = []
    declarer = Declarer(settings)
    stopped_by: str | None = None
    about: SeenChain = {
        "name": chain.name,
        "run_id": None,
        "event": chain.trigger.event,
        "event_id": "dry-run",
        "fired_at": in_utc(time.time()),
        "due_at": None,
        "events": [],
    }
    budget = Budget()
    for step in chain.steps:
        given, refused = given_to(trigger, before, about), unseen(step, before)
        judged = judge(step, given, budget) if refused is None else Judged(None, refused=refused)
        reason: str | None = judged.reason
        why = judged.why
        argv: tuple[str, ...] | None = None
        play: Play | None = None
        unused: tuple[str, ...] = ()
        worktree: tuple[str, str] | None = None
        remote: Remote | None = None
        if stopped_by is not None:
            reason, why = NOT_STARTED, f"the run would end at step {stopped_by}"
        elif judged.refused is not None:
            reason, why, stopped_by = NOT_STARTED, judged.refused.why, step.id
        elif reason is None and step.host is not None:
            ordered = remote_of(step, given, budget)
            if isinstance(ordered, NotStarted):
                reason, why, stopped_by = NOT_STARTED, ordered.why, step.id
            else:
                remote = ordered
        elif reason is None:
            play = declarer.play(step.skill) if step.skill is not None else declarer.action(step.name)
            command = command_of(step, play, given, budget)
            if isinstance(command, NotStarted):
                reason, why, stopped_by = NOT_STARTED, command.why, step.id
            else:
                argv, unused, worktree = command.argv, command.unused, command.worktree
        would_run = argv is not None or remote is not None
        asks = would_run and step.approval is not None
        tried.append(
            Tried(
                *(step.index, step.id, step.name, step.condition, judged.value, reason, why, argv),
                unused=unused,
                needs_approval=asks,
                worktree=worktree,
                start_within=step.start_within,
                stale_after=step.stale_after,
                host=None if remote is None else str(remote.host),
                warning=None if remote is None else _warning(settings, step, remote),
            )
        )
        left = known[step.index] if step.index < len(known) else None
        before.append(_seen(step, play, left or Known(), reason, would_run=would_run, host=_host_of(remote)))
    return tried


def _warning(settings: Settings, step: Step, remote: Remote) -> str | None:
    from runward.daemon.cli.chain.other_hosts import not_offered  # few chains have such steps

    return not_offered(settings, step, remote.host)


def _host_of(remote: Remote | None) -> str | None:
    """The host that runs the step, if it is known before one takes it."""
    return remote.host if remote is not None and isinstance(remote.host, str) else None


def _seen(
    step: Step, play: Play | None, known: Known, reason: str | None, *, would_run: bool, host: str | None
) -> SeenStep:
    """What later steps see of this one. Another host runs it with a `play` that is not known here.

    A step that would run counts as completed, with all that its contract expects, unless a session says otherwise.
    """
    name = f"dry-run-{step.index}-1"
    assumed = StepResult(exit_code=0) if play is None else _assumed(play, name)
    result = known.result or assumed if would_run else StepResult()
    outcome = known.outcome if would_run else None
    return {
        "id": step.id,
        "name": step.name,
        "status": "completed" if would_run else "skipped",
        "skipped": not would_run,
        "reason": COMPLETED if would_run else reason,
        "outcome": outcome,
        "outcomes": outcomes_seen(result.earlier, outcome),
        "delivery": result.delivery,
        "verification": result.verification,
        "exit_code": result.exit_code,
        "session_id": known.session_id or name if would_run else None,
        "host": host,
        "artifacts": result.artifacts,
        "try": 1 if would_run else 0,
    }


def _assumed(play: Play, name: str) -> StepResult:
    """The result of a run that delivers all that its contract expects. The paths are those of a run with this name."""
    declared = None if play.playbook is None else play.playbook.artifacts
    contract = resolve_contract(playbook=declared, agent=play.defaults)
    if contract is None:
        return StepResult(exit_code=0)
    files = [each for each in contract.expected if each.rules is None or each.rules.path is None]
    produced: list[JsonValue] = [{"id": each.id, "path": each.path, "size": 1} for each in files]
    verification: JsonValue = {
        "status": "passed",
        "checked_at": 0,
        "missing_required": [],
        "missing_optional": [],
        "produced": produced,
    }
    return result_of("passed", verification, 0, f"{play.root_path}/{name}/artifacts", ())


def print_trial(tried: Sequence[Tried], *, as_json: bool) -> None:
    """As JSON, or a paragraph for each step."""
    if as_json:
        print_json({"steps": [_as_json(each) for each in tried]})
        return
    for each in tried:
        verdict = coloured("ok", "would run") if each.would_run else coloured("warning", "would not run")
        print_text(f"{each.number}  {safe(each.id)} ({safe(each.name)}): {verdict}")
        if each.condition is not None:
            print_text(f"   condition  {safe(each.condition)}")
        if each.argv is not None:
            print_text(f"   command    {safe(shlex.join(each.argv))}")
        elif each.host is not None:
            print_text(f"   host       {safe(each.host)}")
        else:
            print_text(f"   reason     {each.reason}{f': {safe(each.why)}' if each.why else ''}")
        if each.warning is not None:
            print_text(f"   {coloured('warning')}    {safe(each.warning)}")
        if each.worktree is not None:
            repo, ref = each.worktree
            print_text(f"   worktree   {safe(ref)} of {safe(repo)}")
        if each.start_within is not None:
            print_text(f"   begins     within {each.start_within:g} s, or it is timed out")
        if each.stale_after is not None:
            print_text(f"   silence    of {each.stale_after:g} s ends it")
        if each.needs_approval:
            print_text("   approval   a person is asked first")
        if each.unused:
            print_text(f"   unused     {safe(', '.join(each.unused))}")


def _as_json(each: Tried) -> JsonValue:
    return {
        "index": each.number,
        "id": each.id,
        "name": each.name,
        "would_run": each.would_run,
        "needs_approval": each.needs_approval,
        "condition": each.condition,
        "value": each.value,
        "reason": each.reason,
        "why": each.why,
        "argv": None if each.argv is None else list(each.argv),
        "worktree": None if each.worktree is None else dict(zip(("repo", "ref"), each.worktree, strict=True)),
        "start_within": each.start_within,
        "stale_after": each.stale_after,
        "host": each.host,
        "warning": each.warning,
    }
