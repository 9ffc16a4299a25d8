"""`runward status`: whether the daemon is up, and what it has to do."""

import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.config.settings import Settings
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO
from runward.daemon.cli.shell.context import settings_and_complaints
from runward.daemon.cli.terminal.options import json_option, watched
from runward.daemon.cli.terminal.output import align, at_home, coloured, print_json, print_text, room, safe
from runward.daemon.cli.terminal.tables import flowed
from runward.daemon.store.tables.session_lists import RunningRow
from runward.daemon.views.needs import Need, agreeing, how_to_start, needs, table, tables
from runward.daemon.views.sessions import NOT_KNOWN
from runward.daemon.views.status import Status, status_of
from runward.daemon.views.text import ago, duration, lag, local
from runward.handlers.times import moment_of


@click.command()
@click.option(
    "--all", "is_whole", is_flag=True, help="On a terminal, show everything: each root, coverage, lag."
)
@json_option()
@watched
@click.pass_context
def status(context: click.Context, is_whole: bool, as_json: bool) -> None:
    """Show whether the daemon is well, what needs you, and what is running, waiting, held and due.

    Exit code 0: it is running. 1: it is running but does not respond. 3: it is not running.

    \b
    Example:
      runward status
      runward status --watch
    """
    settings, say_what_is_wrong = settings_and_complaints(context)
    is_screen = sys.stdout.isatty() and not as_json
    if not is_screen:
        say_what_is_wrong()
    figures = status_of(settings, time.time())
    if as_json:
        print_json(figures.json)
    else:
        # It never pages: what is longer than the screen is most often looked at by `--watch`.
        print_text("\n".join(_page(settings, figures, is_whole=is_whole)))
    if is_screen and not table(figures.json["settings"])["refused"]:
        say_what_is_wrong()
    sys.exit(code_of(figures.json))


def code_of(figures: Mapping[str, JsonValue]) -> int:
    """The exit code that says whether the daemon runs."""
    if not figures["running"]:
        return NOT_FOUND
    return GOOD if figures["stalled_s"] is None else NOT_SO


def _page(settings: Settings, figures: Status, *, is_whole: bool) -> list[str]:
    if sys.stdout.isatty() and not is_whole:
        from runward.daemon.cli.status_screen import page  # programs do without it
        from runward.daemon.cli.terminal.signs import terminal_here

        return page(figures, settings.state_dir, terminal_here())
    return lines_of(figures.json, figures.running, settings.state_dir, time.time(), room())


def why_not_running(status: Mapping[str, JsonValue], state: str) -> str:
    """What to do where no daemon runs: start one, or look at the machine's."""
    elsewhere = status["elsewhere"]
    if not isinstance(elsewhere, dict):
        return f"start it with `{how_to_start(state)}`"
    theirs = str(elsewhere["state_dir"])
    pid, named = elsewhere["pid"] or "unknown", safe(shlex.quote(theirs))
    return f"the machine's daemon (pid {pid}) works over {safe(theirs)}: `RUNWARD_STATE_DIR={named} runward status` shows it"


_MOST_FAILURES: Final = 3

_TIMER: Final = "timers/ring of timer:"


def lines_of(
    status: Mapping[str, JsonValue], running: Sequence[RunningRow], state: str, now: float, columns: int
) -> list[str]:
    """The status as lines for a terminal with this many columns."""
    return [
        _headline(status, state, now),
        *_needs_lines(list(briefly(status, needs(status, state))), bool(status["running"]), columns),
        *_running(status, running, now),
        *align(list(_facts(status, state, now))),
        *_roots(status),
    ]


def _headline(status: Mapping[str, JsonValue], state: str, now: float) -> str:
    if not status["running"]:
        word = coloured("failed", "not running")
        over = f" over {safe(state)};" if isinstance(status["elsewhere"], dict) else ":"
        return f"runward is {word}{over} {why_not_running(status, state)}"
    since = moment_of(status["since"])
    up = f" since {local(since)} ({duration(now - since)})" if since is not None else ""
    version = f" {safe(str(status['version']))}" if status["version"] is not None else ""
    word = coloured("ok", "running") if status["stalled_s"] is None else coloured("failed", "stalled")
    return f"runward{version} is {word}{up}, pid {status['pid'] or 'unknown'}"


def briefly(status: Mapping[str, JsonValue], things: Iterable[Need]) -> Iterator[tuple[str, str, str | None]]:
    """The kind, the text and the fix of each need; one line for all approvals, and one for all failures."""
    for kind, group in groupby(things, key=lambda each: each.kind):
        if kind == "approval":
            verb = "waits" if status["approvals"] == 1 else "wait"
            steps = agreeing(status["approvals"], "step", "steps")
            yield kind, f"{steps} of chains {verb} for a person", "`runward chain approvals`"
        elif kind == "failure":
            yield (
                kind,
                _failures(table(status["failures"])),
                "`runward session show ID` shows one; `runward session seen --all` marks them as seen",
            )
        else:
            yield from ((kind, each.text, each.fix) for each in group)


def _failures(failures: Mapping[str, JsonValue]) -> str:
    newest, count = tables(failures["newest"])[:_MOST_FAILURES], failures["count"]
    assert isinstance(count, int), "our own JSON"
    named = ", ".join(f"{each['session_id']} ({table(each['reason'])['code']})" for each in newest)
    more = f" and {count - len(newest)} more" if count > len(newest) else ""
    return f"{counted(count, 'session', 'sessions')} failed in the last 24 hours: {named}{more}"


def _needs_lines(things: Sequence[tuple[str, str, str | None]], is_up: bool, columns: int) -> Iterator[str]:
    if not things:
        if is_up:
            yield coloured("ok", "all is well")
        yield ""
        return
    yield coloured(
        "warning", "one thing needs you:" if len(things) == 1 else f"{len(things)} things need you:"
    )
    for _, text, fix in things:
        yield from flowed(at_home(safe(text)), "  ! ", "    ", columns)
        if fix is not None:
            yield from flowed(at_home(safe(fix)), "    -> ", "       ", columns)
    yield ""


def _running(status: Mapping[str, JsonValue], running: Sequence[RunningRow], now: float) -> Iterator[str]:
    if not running:
        return
    rows = [
        (
            f"  {safe(each.session_id)}",
            safe(each.playbook or each.agent or each.layout),
            duration(now - each.started_at),
            each.activity or NOT_KNOWN,
        )
        for each in running
    ]
    count = table(status["sessions"]).get("running", len(running))
    yield f"{count} {coloured('running')}"
    yield from align(rows)
    if isinstance(count, int) and count > len(running):
        yield f"  and {count - len(running)} more: `runward session list --status running`"
    yield ""


def _facts(status: Mapping[str, JsonValue], state: str, now: float) -> Iterator[tuple[str, str]]:
    yield "sessions", _counted(status)
    chains, runs = table(status["chains"]), table(status["chain_runs"])
    if any(chains.values()) or runs:
        counts = ", ".join(f"{count} {coloured(name)}" for name, count in chains.items() if count)
        yield "chains", counts or "none"
        yield "chain runs", ", ".join(f"{count} {coloured(name)}" for name, count in runs.items()) or "none"
    queue = table(status["queue"])
    oldest = queue["oldest_waiting_s"]
    age = f", the oldest for {duration(float(oldest))}" if isinstance(oldest, int | float) else ""
    held = coloured("held" if queue["held"] else "", f"{queue['held']} held")
    yield "queue", f"{queue['waiting']} waiting, {queue['running']} running, {held}{age}"
    due = status["next_due"]
    at = moment_of(due["at"]) if isinstance(due, dict) else None
    yield (
        "next due",
        f"{safe(due_words(str(due['what'])))} {ago(at, now)}" if isinstance(due, dict) else "nothing",
    )
    kept = status["retention_s"]
    yield (
        "kept",
        f"{duration(float(kept))} after a session's end" if isinstance(kept, int | float) else "forever",
    )
    if status["running"]:
        yield from _daemons_own(status, now)
    yield "state", f"{safe(state)} (epoch {status['epoch']})"


def due_words(what: str) -> str:
    """A timer by whose it is, as `schedule:nightly`; any other job as it is."""
    timer = what.removeprefix(_TIMER)
    return what if timer == what else timer.rpartition("/")[0]


def _counted(status: Mapping[str, JsonValue]) -> str:
    sessions = table(status["sessions"])
    return ", ".join(f"{count} {coloured(name)}" for name, count in sessions.items()) or "none"


def _daemons_own(status: Mapping[str, JsonValue], now: float) -> Iterator[tuple[str, str]]:
    """What only a running daemon knows."""
    lags, coverage = table(status["lag"]), table(status["coverage"])
    if status["since"] is None:
        yield "starting", "it has not reported anything yet"
        return
    if lags["event_to_verdict_p50_s"] is not None:
        median, slowest = lag(lags["event_to_verdict_p50_s"]), lag(lags["event_to_verdict_p99_s"])
        yield "verdicts", f"{median} after the end of a run (99 of 100 within {slowest})"
    elif lags["awaited_p50_s"] is None:
        yield "verdicts", "none since it started"
    if lags["awaited_p50_s"] is not None:
        median, slowest = lag(lags["awaited_p50_s"]), lag(lags["awaited_p99_s"])
        yield "waited for files", f"{median} after the end of a run (99 of 100 within {slowest})"
    watched = (
        agreeing(coverage["watched"], "directory", "directories"),
        agreeing(coverage["flat"], "root flat", "roots flat"),
        agreeing(coverage["overflows"], "overflow", "overflows"),
    )
    yield "watching", f"{', '.join(watched)}, {coverage['found_by_scan']} found only by a scan"
    yield "last scan", ago(moment_of(coverage["last_scan_at"]), now)
    if coverage["unread"]:
        yield "reading", f"{coverage['unread']} places are still to be looked at"
    exchange = status["exchange"]
    killed = exchange["workers_killed"] if isinstance(exchange, dict) else None
    if isinstance(killed, dict):
        last = f"the last {ago(moment_of(killed['last_at']), now)}: {safe(str(killed['last_reason']))}"
        yield "workers", f"{killed['count']} killed or crashed since it started, {last}"
    if status["fences_refused"]:
        yield "fences", f"{status['fences_refused']} refused"


def _roots(status: Mapping[str, JsonValue]) -> Iterator[str]:
    rows = [
        (
            f"  {safe(str(root['name']))}",
            safe(str(root["layout"])),
            coloured(str(root["health"])),
            safe(str(root["path"])),
        )
        for root in tables(status["roots"])
    ]
    if rows:
        yield "roots"
        yield from align(rows)
