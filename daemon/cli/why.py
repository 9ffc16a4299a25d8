"""`runward why`: why a session, a run directory or a job is the way it is, first cause first."""

import re
import sqlite3
import sys
import time
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.session.finding import find_session, session_called, session_names, unjudged_session
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import is_daemon_up, pass_settings, store_to_read
from runward.daemon.cli.shell.finding import LAST, refuse_ambiguous, refuse_unknown
from runward.daemon.cli.terminal.options import json_option, no_pager_option, watched
from runward.daemon.cli.terminal.output import coloured, fail, fitting, print_json, print_lines, safe
from runward.daemon.store.tables import cursors, events, jobs, session_lists, sessions
from runward.daemon.store.tables.starts import runs_called, start_called
from runward.daemon.views import causes
from runward.daemon.views.causes import Entry
from runward.daemon.views.text import local
from runward.daemon.views.unjudged import as_its_files_tell
from runward.daemon.views.why import (
    Obstacle,
    Story,
    approval_story,
    asked_run_story,
    chain_run_story,
    not_taken_up,
    obstacles_of_chain,
    obstacles_of_directory,
    obstacles_of_job,
    obstacles_of_start,
    session_story,
)
from runward.handlers.secrets import json_without_secrets, text_without_secrets
from runward.handlers.subjects import CHAIN, START, of_start

if TYPE_CHECKING:
    from runward.daemon.views.answers import Answer

_JOB = "job:"
_CHAIN_RUN = "cr_"
_APPROVAL = "ap_"
_CHAINS: Final = (CHAIN, "chain:")
_EXCHANGE: Final = re.compile("artifact:|principal:|.*#intent/|[0-9a-f]{8}-[0-9a-f]{4}-")
"""An artifact, a principal, a line of a run, or the action of a person."""
_TIMERS: Final = ("TimerSet", "TimerRang")


@click.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.sessions)
@click.option(
    "-v", "--verbose", is_flag=True, help="Also show timers, and where in the journals each line is."
)
@click.option("--all", "is_whole", is_flag=True, help="On a terminal, show everything, not the answer alone.")
@no_pager_option
@json_option()
@watched
@pass_settings
def why(settings: Settings, identifier: str, verbose: bool, is_whole: bool, as_json: bool) -> None:
    """Explain why something happened: every event, decision and evidence in order, the first cause first.

    On a terminal, the answer is the first line; --all and --verbose show the rest.

    ID names a session, a run that was asked for, a run directory that is not a session yet, a job (its number, or
    job:NUMBER), a chain run, a step that another host runs (its order, or its session there), an approval, a chain
    (chain:NAME), and of the exchange artifact:ID, principal:ID or an action. @last is the newest session, chain:@last
    the newest chain run, and job:@last the newest job. What did not happen, and why, is at the end.

    \b
    Example:
      runward why @last
    """
    redact = settings.bundle.rules.redact
    is_short = sys.stdout.isatty() and not (is_whole or verbose)
    story, answer = _answered(settings, identifier, has_answer=as_json or is_short)
    if answer is not None and as_json:
        print_json(json_without_secrets(answer.json_with(story), redact))
    elif answer is not None:
        from runward.daemon.cli.answering import lines_of  # programs do without it

        print_lines(lines_of(story, answer, lambda text: text_without_secrets(text, redact)))
    else:
        whole = text_without_secrets("\n".join(whole_lines(story, is_verbose=verbose)), redact)
        print_lines(fitting(whole))


def why_json(settings: Settings, identifier: str) -> dict[str, JsonValue]:
    """What there is to say about what `identifier` names; exits 2 or 3 where that is not one thing."""
    story, answer = _answered(settings, identifier, has_answer=True)
    assert answer is not None
    return answer.json_with(story)


def _answered(settings: Settings, identifier: str, *, has_answer: bool) -> "tuple[Story, Answer | None]":
    """The story and, if wanted, its answer in short."""
    with store_to_read(settings) as connection:
        is_up = is_daemon_up(settings)
        # The inbox first (the store's transaction begins with its first query): a request that is taken up meanwhile
        # is then in the store, and not in neither.
        story = _waiting(settings.state_dir, identifier, is_up) or _story(
            connection, settings, identifier, is_up, time.time()
        )
        if not has_answer:
            return story, None
        from runward.daemon.views.answers import answer_of  # the text for programs has none

        return story, answer_of(connection, story)


def _waiting(state: str, text: str, is_up: bool) -> Story | None:
    """A run that was requested and that no daemon has recorded yet: the request is still in the inbox."""
    from runward.daemon.inbox.spool import list_inbox

    files = list_inbox(Path(state))
    if not files:
        return None
    from runward.daemon.views.chain_runs import asked_run, newest_asked_run

    is_last_run = text in [f"{word}{LAST}" for word in _CHAINS]
    asked = newest_asked_run(Path(state)) if is_last_run else asked_run(Path(state), text)
    if asked is not None:
        return asked_run_story(asked, is_up)
    from runward.daemon.inbox.requests import load_request
    from runward.handlers.model.requests import PlayRunRequested
    from runward.handlers.requests import run_name

    for file in files:
        event = load_request(file)
        if isinstance(event, PlayRunRequested):
            name = run_name(event.playbook, event.at, event.request)
            if text and name.startswith(text):
                headline = f"{event.said_by} asked for the playbook {event.playbook}"
                return Story(
                    noun="start",
                    identifier=name,
                    status="asked",
                    headline=headline,
                    obstacles=[not_taken_up(is_up)],
                )
    return None


def _story(connection: sqlite3.Connection, settings: Settings, text: str, is_up: bool, now: float) -> Story:
    if text == LAST:
        return session_story(connection, find_session(connection, settings, LAST), is_up, now)
    if text.startswith(_JOB):
        return _of_job(connection, text.removeprefix(_JOB), is_up, now)
    if text.startswith(START):
        return _of_start(connection, text.removeprefix(START), is_up)
    if text.startswith(_CHAIN_RUN) and (story := _of_chain_run(connection, text, is_up)) is not None:
        return story
    if text.startswith(_APPROVAL) and (story := _of_approval(connection, text)) is not None:
        return story
    if text.startswith(_CHAINS) and not _is_session_id(connection, text):
        return _of_chain(connection, settings, text[len(_CHAINS[0]) :], is_up)
    if _EXCHANGE.match(text) and (story := _of_exchange(connection, text)) is not None:
        return story
    kind, _, name = text.partition(":")
    if kind in ("artifact", "principal") and not _is_session_id(connection, text):
        fix = f"`runward exchange {kind} list` shows those that exist"
        fail(f"the exchange has no {kind} {safe(name)!r}: {fix}", NOT_FOUND)
    if not text:
        fail("an empty id is not valid: write the beginning of one, or @last", WRONG_USAGE)
    exact = sessions.session(connection, text)
    if exact is None and text.isdecimal() and not _is_session_id(connection, text):
        number = int(text)
        if number < 1 << 63 and jobs.job_row(connection, number) is not None:
            return _of_job(connection, text, is_up, now)
    key = exact.key if exact is not None else session_called(connection, text)
    if key is not None:
        row = sessions.session(connection, key)
        assert row is not None, "it was found in the same transaction"
        return session_story(connection, as_its_files_tell(connection, settings, row), is_up, now)
    unjudged_ones = unjudged_session(connection, settings, text)
    if len(unjudged_ones) > 1:
        refuse_ambiguous(text, [each.key for each in unjudged_ones])
    if unjudged_ones:
        return session_story(connection, unjudged_ones[0], is_up, now)
    starts = runs_called(connection, text, 9)
    if len(starts) > 1:
        refuse_ambiguous(text, starts)
    if starts:
        return _of_start(connection, starts[0], is_up)
    return _of_remote_step(connection, text, is_up) or _of_directory(connection, text, is_up, now)


def _is_session_id(connection: sqlite3.Connection, text: str) -> bool:
    return any(text in each for each in session_lists.sessions_called(connection, text, 2))


def _of_job(connection: sqlite3.Connection, text: str, is_up: bool, now: float) -> Story:
    from runward.daemon.cli.queue import find_job  # sessions do without the commands of the queue

    job = find_job(connection, text)
    error = f": {job.error}" if job.error else ""
    return Story(
        noun="job",
        identifier=str(job.id),
        status=job.state,
        headline=f"{job.handler} of {job.event_type} in {job.lane}{error}",
        entries=causes.causes_of_job(connection, job),
        obstacles=list(obstacles_of_job(connection, job, is_up, now)),
    )


def _of_start(connection: sqlite3.Connection, name: str, is_up: bool) -> Story:
    """A run that somebody asked for and that is not a session: refused, or not begun."""
    start = start_called(connection, name)
    decided = events.decisions_about(connection, of_start(name))
    if not decided:
        refuse_unknown("session", name, session_names(connection))
    return Story(
        noun="start",
        identifier=name,
        status="refused" if start is None else start.state,
        headline=decided[-1].summary,
        entries=causes.causes_of_start(connection, name),
        obstacles=[] if start is None else obstacles_of_start(start, is_up),
    )


def _of_chain(connection: sqlite3.Connection, settings: Settings, name: str, is_up: bool) -> Story:
    """A chain: what fired it lately, and why it did not fire. `@last` is the newest run of any chain."""
    if name == LAST:
        from runward.daemon.cli.chain.runs import find_run  # sessions do without what it imports

        return chain_run_story(connection, find_run(connection, LAST), is_up)
    from runward.daemon.store.tables.triggers import chain_statuses

    subject = f"{CHAIN}{name}"
    decided = events.decisions_about(connection, subject)
    standing = chain_statuses(connection).get(name)
    return Story(
        noun="chain",
        identifier=name,
        status="active" if standing is None else standing.status,
        headline=decided[-1].summary if decided else _never_fired(settings, name),
        entries=causes.causes_of_chain(connection, subject),
        obstacles=list(obstacles_of_chain(name, standing)),
    )


def _never_fired(settings: Settings, name: str) -> str:
    """What a chain waits for about which nothing was decided yet; exits 2 or 3 if it is not valid, or does not exist."""
    from runward.daemon.cli.chain.commands import right_chain

    leaves = right_chain(settings, name).trigger.leaves
    named = (each.event or (each.schedule and each.schedule.times.text) for each in leaves)
    waits = ", ".join(each for each in named if each) or "a person (`runward chain fire`)"
    return f"nothing has fired it yet: it waits for {waits}"


def _of_exchange(connection: sqlite3.Connection, text: str) -> Story | None:
    from runward.daemon.views.exchange import exchange_story

    return exchange_story(connection, text)


def _of_approval(connection: sqlite3.Connection, text: str) -> Story | None:
    from runward.daemon.store.tables.approvals import approvals_called

    approvals = approvals_called(connection, text)
    return approval_story(connection, approvals[0]) if len(approvals) == 1 else None


def _of_chain_run(connection: sqlite3.Connection, text: str, is_up: bool) -> Story | None:
    from runward.daemon.store.tables.chain_runs import chain_runs_called

    runs = chain_runs_called(connection, text, 2)
    if len(runs) != 1:
        return None
    return chain_run_story(connection, runs[0], is_up)


def _of_remote_step(connection: sqlite3.Connection, text: str, is_up: bool) -> Story | None:
    """The chain run of a step that another host runs: it has no session here. `text` is the id of its order, or of its session there."""
    from runward.daemon.store.tables.chain_runs import chain_runs_called, run_of_remote_session
    from runward.handlers.model.fleet import lane_of_taken, try_of

    ordered = try_of(text)
    if ordered is not None:
        run: str | None = ordered.run
    else:
        run = None if lane_of_taken(text) is None else run_of_remote_session(connection, text)
    rows = [] if run is None else chain_runs_called(connection, run, 2)
    return chain_run_story(connection, rows[0], is_up) if len(rows) == 1 else None


def _of_directory(connection: sqlite3.Connection, text: str, is_up: bool, now: float) -> Story:
    """A run directory: its session, whatever that calls itself; else what was looked at there, and what is wrong."""
    directories = cursors.directories_called(connection, text, 9)
    if len(directories) > 1:
        refuse_ambiguous(text, [f"{each.root}/{each.directory}" for each in directories])
    if not directories:
        refuse_unknown("session", text, session_names(connection))
    (directory,) = directories
    row = sessions.session(connection, directory.session_key)
    if row is not None:
        return session_story(connection, row, is_up, now)
    problems = obstacles_of_directory(connection, directory.path)
    if not problems:
        why_none = "there was no run.json in it at the last look"
        problems = [Obstacle("it is not a session", why_none, "write one, or start it with `runward run`")]
    return Story(
        noun="directory",
        identifier=directory.path,
        status=None,
        headline="a run directory that is not a session",
        entries=causes.causes_of_session(connection, directory.session_key),
        obstacles=problems,
    )


def whole_lines(story: Story, *, is_verbose: bool = False) -> list[str]:
    """All of the story, as it is read outside of a screen."""
    status = f"{coloured(story.status)}: " if story.status is not None else ""
    lines = [f"{story.noun} {safe(story.identifier)}: {status}{safe(story.headline)}"]
    lines += [safe(story.delivered), ""] if story.delivered is not None else [""]
    indent = " " * (len(local(0.0)) + 2)
    for entry, following in zip_longest(story.entries, story.entries[1:]):
        if not is_verbose and _is_detail(entry, following):
            continue
        leads = entry.kind in ("event", "action")
        when = f"{local(entry.at)}  " if leads else indent
        lines.append(f"{when}{_kind(entry):<9} {_coloured_summary(entry)}")
        lines += [f"{indent}          {safe(note)}" for note in entry.notes]
    if story.obstacles:
        lines += ["", "What did not happen, and why"] if story.entries else ["What did not happen, and why"]
        for each in story.obstacles:
            fix = f" ({each.fix})" if each.fix else ""
            lines.append(f"  {safe(each.what)}: {safe(each.why)}{safe(fix)}")
    return lines


def _is_detail(entry: Entry, following: Entry | None) -> bool:
    """A line that is in its journal; a timer of which nothing else is told than another event."""
    if entry.kind == "journal":
        return entry.detail["state"] == "done"
    is_timer = entry.kind == "event" and entry.detail["type"] in _TIMERS
    return is_timer and (following is None or following.kind == "event")


def _kind(entry: Entry) -> str:
    return "refused" if entry.detail.get("verdict") == "refused" else entry.kind


def _coloured_summary(entry: Entry) -> str:
    word = entry.detail.get("status") if entry.kind == "status" else entry.detail.get("state")
    if entry.kind == "decision" and entry.detail.get("verdict") == "refused":
        word = "refused"
    if entry.kind == "status" and isinstance(word, str):
        return f"{coloured(word)}{safe(entry.summary.removeprefix(word))}"
    return coloured(word, entry.summary) if word in ("held", "refused") else safe(entry.summary)
