"""Why something is the way it is, in short: one sentence, at most ten lines of causes, and what to do next.

`why.py` has the whole story. Both the terminal and the Studio show this.
"""

import json
import os
import re
import shlex
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.config.root import NATIVE
from runward.daemon.store.tables.session_lists import sessions_called, steps_of_sessions
from runward.daemon.store.tables.sessions import (
    SessionRow,
    about_of,
    contract_of,
    exit_code_of,
    verification_of,
)
from runward.daemon.views.outcomes import ExpectedArtifact, expected_artifacts, not_delivered
from runward.daemon.views.rows import state_of
from runward.daemon.views.sessions import launched_command, orderer_of
from runward.daemon.views.text import duration, short_id
from runward.daemon.views.why import Story
from runward.handlers.times import iso

if TYPE_CHECKING:
    from runward.daemon.store.tables.chain_runs import ChainRunRow

MOST: Final = 10
"""Causes that are told."""


class Cause(NamedTuple):
    """A line: when (Unix seconds, None for the same moment as before), what, and the state whose sign it has."""

    at: float | None
    text: str
    state: str | None = None

    def as_json(self) -> JsonValue:
        return {"at": iso(self.at), "text": self.text, "state": self.state}


class Answer(NamedTuple):
    """The sentence, its state, the causes in short, and the commands to call next.

    `name` is the word of a shell that names the thing for certain. `whole` is to be called first, if what waits for a
    person can't be shown to its end.
    """

    state: str
    sentence: str
    causes: list[Cause]
    next: list[str]
    name: str
    whole: str | None = None

    def json_with(self, story: Story) -> dict[str, JsonValue]:
        """The story with this answer, as programs get it."""
        return {
            **story.as_json(),
            "answer": self.sentence,
            "causes_short": [each.as_json() for each in self.causes],
            "next": [*self.next],
        }


def answered_json(connection: sqlite3.Connection, story: Story) -> dict[str, JsonValue]:
    """The story with its answer, as programs get it."""
    return answer_of(connection, story).json_with(story)


def answer_of(connection: sqlite3.Connection, story: Story) -> Answer:
    """The story in short."""
    if story.session is not None:
        return _of_session(connection, story, story.session)
    if story.chain_run is not None:
        return _of_chain_run(connection, story, story.chain_run)
    state = _STATES.get(story.status or "", "pending")
    what, further, untold = story.headline, list[str](), ["job"]
    if story.noun == "chain":
        newest = _newest_run(connection, story)
        further = [f"runward chain {'show' if newest is None else 'runs'} {shlex.quote(story.identifier)}"]
        what = newest or what.removeprefix(f"it is {story.status}, ")
        untold = ["job", "event"]  # each decision of a chain says which event it was about
    causes = [Cause(each.at, _bare(each.summary)) for each in story.entries if each.kind not in untold]
    status = "" if story.status is None else f" is {story.status.replace('_', ' ')}"
    fixes = [match[1] for each in story.obstacles if (match := _COMMAND.match(each.fix or ""))]
    return Answer(
        state=state,
        sentence=f"{_NOUNS[story.noun]} {story.identifier}{status}: {what.rstrip('.')}.",
        causes=[*causes[-MOST + 3 :], *_obstacles(story)][:MOST],
        next=[*fixes, *further][:1],
        name=shlex.quote(f"{_PREFIXES.get(story.noun, '')}{story.identifier}"),
    )


def _newest_run(connection: sqlite3.Connection, story: Story) -> str | None:
    """What the newest run of a chain does; None if what was decided since says more, as that it is paused."""
    from runward.daemon.store.tables.chain_runs import chain_runs

    last = next((each for each in reversed(story.entries) if each.kind == "decision"), None)
    run = next(iter(chain_runs(connection, story.identifier, None, None, 1)), None)
    is_other = last is None or last.detail["verdict"] == "refused" or run is None or last.at > run.created_at
    return None if run is None or is_other else f"its newest run, {run.id}, {_OF_RUNS[run.status]}"


_OF_RUNS: Final[Mapping[str, str]] = {
    "running": "is working",
    "waiting_approval": "waits for a person",
    "completed": "completed",
    "failed": "failed",
    "timed_out": "timed out",
    "aborted": "was aborted",
    "cancelled": "was cancelled",
}
"""What is said of a chain run, by its status."""

_COMMAND: Final = re.compile("`(runward [^`]+)`")
"""How a fix begins that is a command."""

_PREFIXES: Final = {"job": "job:", "chain": "chain:", "artifact": "artifact:"}
"""What commands want before the names of some nouns."""


_NOUNS: Final[Mapping[str, str]] = {
    "session": "Session",
    "start": "The run",
    "job": "Job",
    "chain": "Chain",
    "chain run": "Chain run",
    "approval": "Approval",
    "directory": "Directory",
    "artifact": "Artifact",
    "principal": "Principal",
    "action": "Action",
}
"""How a sentence begins about each noun of a story."""

_STATES: Final[Mapping[str, str]] = {
    "asked": "waiting",
    "held": "failed",
    "refused": "failed",
    "failed": "failed",
    "denied": "failed",
    "expired": "failed",
    "quarantined": "failed",
    "disabled": "cancelled",
    "discarded": "cancelled",
    "paused": "idle",
    "active": "completed",
    "done": "completed",
    "approved": "completed",
    "running": "working",
    "begun": "working",
}

SENTENCES: Final[Mapping[str, str]] = {
    "run.started.ok": "{id} {doing}.",
    "run.started.resumed": "{id} was resumed, and {doing}.",
    "run.completed.ok": "{id} completed: {delivered}.",
    "run.failed.missing_artifact": "{id} failed because it ended without {missing}.",
    "run.failed.exit_nonzero": "{id} failed because it {summary}.",
    "run.failed.signal": "{id} failed because something else killed it: {summary}.",
    "run.failed.exception": "{id} failed because the agent reported an error: {summary}.",
    "run.failed.api_error": "{id} failed because the model's API refused a request: {summary}.",
    "run.failed.limit_reached": "{id} failed because the agent reached a limit of its own: {summary}.",
    "run.failed.not_started": "{id} failed because it could not be started: {summary}.",
    "run.timed_out.deadline": "{id} timed out: {summary}.",
    "run.timed_out.stale": "{id} timed out because it was silent for too long: {summary}.",
    "run.aborted.user": "{id} was aborted: a person interrupted it.",
    "run.aborted.process_gone": "{id} was aborted: its process ended without reporting why.",
    "run.aborted.vanished": "{id} was aborted: its directory vanished while it ran.",
    "run.aborted.never_started": "{id} was aborted: it began and wrote nothing.",
    "run.aborted.stale": "{id} was aborted because it was quiet for too long: {summary}.",
    "run.cancelled.user": "{id} was cancelled: a person told it to stop.",
    "run.cancelled.sigterm": "{id} was cancelled: it was told to stop by a signal.",
    "run.cancelled.system": "{id} was cancelled: the system was shutting down.",
    "run.unknown.open_turn": "Nobody knows whether {id} still runs: {summary}.",
    "run.unknown.no_process": "Nobody knows whether {id} still runs: {summary}.",
    "chain.running.started": "{id} of {chain} is working: {steps}.",
    "chain.running.waits": "{id} of {chain} is working, and waits: {summary}.",
    "chain.waiting_approval.asked": "{id} of {chain} waits: you must approve {asked}.",
    "chain.completed.ok": "{id} of {chain} completed: {steps}.",
    "chain.failed.step_failed": "{id} of {chain} failed because a step did: {summary}.",
    "chain.failed.depth": "{id} of {chain} failed because chains fired each other too often: {summary}.",
    "chain.timed_out.step_timed_out": "{id} of {chain} timed out because a step did: {summary}.",
    "chain.timed_out.deadline": "{id} of {chain} timed out: {summary}.",
    "chain.aborted.step_aborted": "{id} of {chain} was aborted because a step was: {summary}.",
    "chain.aborted.denied": "{id} of {chain} was aborted because a person denied a step: {summary}.",
    "chain.aborted.approval_expired": "{id} of {chain} was aborted because nobody approved a step in time: {summary}.",
    "chain.cancelled.user": "{id} of {chain} was cancelled: {summary}.",
    "chain.cancelled.step_cancelled": "{id} of {chain} was cancelled because a step was: {summary}.",
    "chain.cancelled.superseded": "{id} of {chain} was cancelled: a later run took its place.",
}
"""The answer for each reason code; `{id}` is the thing itself, `{summary}` the recorded reason."""

_DOING: Final = {
    "working": "is working",
    "idle": "is idle: its turn is over, and it waits for the next prompt",
    "waiting": "waits for a person's answer",
    "unknown": "may be running: nobody saw its end",
}


def _of_session(connection: sqlite3.Connection, story: Story, row: SessionRow) -> Answer:
    state = state_of(row)
    expected = (
        expected_artifacts(contract_of(row), verification_of(row), not_delivered(connection, row.key)) or []
    )
    missing = [
        each.path for each in expected if each.is_required and each.state in ("missing", "not delivered")
    ]
    delivered = [each.path for each in expected if each.state == "delivered"]
    words = {
        "id": short_id(row.session_id),
        "summary": row.reason_summary,
        "doing": _DOING.get(state, "is over"),
        "missing": _and(missing) or "what it should have left",
        "delivered": f"it delivered {_and(delivered)}" if delivered else row.reason_summary,
    }
    causes = list(_causes_of_session(connection, row, expected))
    if row.not_judged_yet:
        causes.append(Cause(None, "so say its own files: no daemon has judged it yet"))
    return Answer(
        state=state,
        sentence=_sentence(row.reason_code, words),
        causes=[*causes[: MOST - 2], *_obstacles(story)][:MOST],
        next=_next_of_session(row, state, name := name_of_session(connection, row)),
        name=name,
    )


def name_of_session(connection: sqlite3.Connection, row: SessionRow) -> str:
    """The word of a shell that names this session for certain: its id, or its key where others may be meant by that."""
    called = sessions_called(connection, row.session_id, 2)
    is_clear = not row.session_id.startswith(_NO_NAMES) and (
        not called or [each[0] for each in called] == [row.key]
    )
    return shlex.quote(row.session_id if is_clear else row.key)


_NO_NAMES: Final = ("-", "@")
"""How options and @last begin."""


def _sentence(code: str, words: Mapping[str, str]) -> str:
    """The sentence of a reason code, with what an agent wrote only as a value, never as a template."""
    return SENTENCES.get(code, "{id}: {summary}.").format_map(words)


def _causes_of_session(
    connection: sqlite3.Connection, row: SessionRow, expected: Sequence[ExpectedArtifact]
) -> Iterator[Cause]:
    about, launched = about_of(row), launched_command(row)
    step, ordered = steps_of_sessions(connection, [row.key]).get(row.key), orderer_of(connection, row.key)
    accepted = None
    if step is not None:
        starter = f"{step.run} started it as step {step.step} of {step.chain}"
    elif ordered is not None:
        from runward.daemon.views.ordered import acceptance_in_words, order_in_words

        accepted = acceptance_in_words(ordered)
        starter = f"{order_in_words(ordered)}, had it started"
    elif row.layout == NATIVE:
        starter = (
            "it was launched"
            if row.containment is None
            else "runward run started it"
            if row.invocation_id is None
            else "the daemon started it"
        )
    else:
        starter = f"{row.layout} began" + (f" in {about.cwd}" if about.cwd else "")
    given = about.prompt if row.layout != NATIVE else launched.command
    yield Cause(row.started_at, f"{starter}: {given}" if given else starter)
    if accepted is not None:
        yield Cause(None, f"accepted by {accepted}")
    contract = _asks_for(row)
    if contract is not None:
        yield Cause(None, contract)
    if row.attempt > 1:
        yield Cause(None, f"it was resumed: this is attempt {row.attempt}")
    if row.finished_at is None:
        return
    took = duration(max(0.0, row.finished_at - row.started_at))
    summary = row.reason_summary if row.reason_code not in _ABOUT_FILES else _how_it_ended(connection, row)
    yield Cause(row.finished_at, f"{'it ' if summary.startswith('exited') else ''}{summary}, after {took}")
    for line in _missing_lines(expected):
        yield Cause(None, line)
    yield Cause(row.finished_at, f"so: {row.status}, {row.reason_code}")


_ABOUT_FILES: Final = ("run.failed.missing_artifact",)


def _how_it_ended(connection: sqlite3.Connection, row: SessionRow) -> str:
    """How it ended, where its reason is what it left: its exit code, if it has one."""
    code = exit_code_of(connection, row.key, row.attempt)
    if code is None and row.layout == NATIVE:
        code = 0  # of a run that is not judged yet, nothing is recorded; what it left counts only after a good end
    return "its turn ended" if code is None else f"exited with {code}"


def _missing_lines(expected: Sequence[ExpectedArtifact]) -> Iterator[str]:
    """A line for each artifact that is not there, or doesn't count."""
    for each in expected:
        if each.state == "missing":
            yield f"{each.path} is not there" + (f" ({each.why})" if each.why else "")
        elif each.state == "not delivered":
            yield f"{each.path} does not count: {each.why}"


def _asks_for(row: SessionRow) -> str | None:
    """What its contract asks for; None without one."""
    expected = expected_artifacts(contract_of(row), None, {})
    who = f"playbook {row.playbook}" if row.playbook else "its contract"
    if row.contract_problem is not None:
        return f"{who} can't be used as it is: {row.contract_problem}"
    if not expected:
        return None
    required = _and([each.path for each in expected if each.is_required])
    optional = _and([each.path for each in expected if not each.is_required])
    if not required:
        return f"{who} asks for {optional}, if possible"
    return f"{who} asks for {required}" + (f", and if possible {optional}" if optional else "")


def _next_of_session(row: SessionRow, state: str, name: str) -> list[str]:
    has_log = row.layout == NATIVE and os.path.isfile(f"{row.path}/stdout.log")
    if state in ("completed", "cancelled", "idle") or not has_log:
        return [f"runward session show {name}"]
    if state == "working":
        return [f"runward session logs {name} -f"]
    return [f"runward session logs {name}"]


def _of_chain_run(connection: sqlite3.Connection, story: Story, run: "ChainRunRow") -> Answer:
    from runward.daemon.store.tables.approvals import open_approvals
    from runward.daemon.store.tables.chain_runs import chain_steps, name_of_cause
    from runward.daemon.views.chain_rows import (
        WHOLE_APPROVALS,
        command_asked,
        step_lines,
        summary_of_steps,
    )

    steps = chain_steps(connection, run.id)
    asked = next((each for each in open_approvals(connection) if each.run == run.id), None)
    words = {
        "id": f"Chain run {run.id}",
        "chain": run.chain,
        "summary": run.reason_summary,
        "steps": summary_of_steps(run, steps),
        "asked": asked.step_id() if asked is not None else "a step",
    }
    event = json.loads(run.trigger_event)
    given = (
        " ".join(f"{key}={_short(value)}" for key, value in event.items()) if isinstance(event, dict) else ""
    )
    first = f"{name_of_cause(connection, run.id)} fired it" + (f": {given}" if given else "")
    causes = [Cause(run.created_at, first)]
    command = None if asked is None else command_asked(asked)
    causes += [Cause(*each) for each in step_lines(run, steps, command, MOST - len(causes))]
    state = {"running": "working", "waiting_approval": "waiting"}.get(run.status, run.status)
    if asked is not None:
        commands = [f"runward chain approve {asked.id} (or: chain deny)"]
    else:
        failed = next(
            (
                each
                for each in steps
                if each.session_key and each.status in ("failed", "timed_out", "aborted")
            ),
            None,
        )
        commands = [f"runward chain run show {run.id}"]
        if failed is not None and failed.session_key is not None:
            commands = [f"runward why {shlex.quote(failed.session_key.rpartition('/')[2])}"]
    return Answer(
        state=state,
        sentence=_sentence(run.reason_code, words),
        causes=causes,
        next=commands,
        name=shlex.quote(run.id),
        whole=None if asked is None else WHOLE_APPROVALS,
    )


def _obstacles(story: Story) -> Iterator[Cause]:
    for each in story.obstacles[:2]:
        yield Cause(None, f"{each.what}: {each.why}", "waiting")
    if len(story.obstacles) > 2:
        yield Cause(
            None,
            f"and {counted(len(story.obstacles) - 2, 'more thing', 'more things')} did not happen",
            "waiting",
        )


def _bare(summary: str) -> str:
    """A cause without the type of its event, or the name of its handler."""
    lead, colon, rest = summary.partition(": ")
    return rest if colon and (" " not in lead or "/" in lead) else summary


def _and(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; of many, the first three and how many more."""
    if len(words) > 4:
        words = [*words[:3], f"{len(words) - 3} more"]
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def _short(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
