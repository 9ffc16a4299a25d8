"""`runward status` for people, from the object that `--json` prints: is all well, what needs me, then the rest."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.daemon.cli.terminal.output import align, coloured, safe
from runward.daemon.cli.terminal.wrapping import wrapped
from runward.daemon.store.ownership import UNREAD, how_to_start_daemon, how_to_start_runs
from runward.daemon.store.reading_sessions import RunningRow
from runward.daemon.users import as_root
from runward.daemon.views.liveness import NOBODY_CAN_TELL
from runward.daemon.views.units import ago, duration, local, moment_of

_MOST_PROBLEMS: Final = 10
_MOST_FAILURES: Final = 3
_LONG_S: Final = 300.0
"""Seconds from which on a job waits for long."""

_TIMER: Final = "timers/ring of timer:"

_LOG: Final = "`runward log --level warning` and `runward doctor` say more"


class Need(NamedTuple):
    """Something that waits for a person, and what they can do."""

    what: str
    fix: str | None


def lines_of(
    status: Mapping[str, JsonValue], running: Sequence[RunningRow], state: str, now: float, columns: int
) -> list[str]:
    """The status as lines for a terminal with this many columns."""
    return [
        _headline(status, state, now),
        *_needs_lines(list(needs(status, state)), bool(status["running"]), columns),
        *_running(status, running, now),
        *align(list(_facts(status, state, now))),
        *_roots(status),
    ]


def needs(status: Mapping[str, JsonValue], state: str) -> Iterator[Need]:
    """Everything that a person should see to, the worst first."""
    stalled = status["stalled_s"]
    if isinstance(stalled, int | float):
        what = f"the daemon has not responded for {duration(stalled)}: it is stopped, or stuck"
        yield Need(
            f"{what}; the rest of this report is from then", "see `runward log`, then restart the daemon"
        )
    yield from _settings(_table(status["settings"]))
    for reason, count in _table(status["held_by_reason"]).items():
        fix = "fix the cause, then `runward queue retry --all`; `runward queue` shows them"
        yield Need(f"{count} held: {reason or 'no reason given'}", fix)
    for root in _tables(status["roots"]):
        if root["problem"]:
            yield Need(f"root {root['name']}: {root['problem']}", _fix_of_root(str(root["problem"]), state))
    told = [f"root {root['name']}: {root['problem']}" for root in _tables(status["roots"])]
    files = tuple(f"{each['path']}:" for each in _tables(status["problems"]))
    messages = [str(each["message"]) for each in _tables(status["problems"])]
    for each in _list(status["degraded"]):
        why = str(each).partition(": ")[2] or str(each)
        is_a_problem = str(each).startswith(files) or any(why in message for message in messages)
        if str(each) not in told and not is_a_problem:
            yield Need(f"degraded: {each}", _LOG)
    exchange = status["exchange"]
    problem = exchange.get("sandbox_problem") if isinstance(exchange, dict) else None
    if problem and not any(str(problem) in str(each) for each in _list(status["degraded"])):
        yield Need(f"code of the exchange is refused: {problem}", "`runward doctor --only sandbox`")
    yield from _failures(_table(status["failures"]))
    yield from _waiting(status, state)
    approvals = status["approvals"]
    if isinstance(approvals, int) and approvals:
        verb = "waits" if approvals == 1 else "wait"
        yield Need(
            f"{counted(approvals, 'step', 'steps')} of chains {verb} for a person",
            "`runward chain approvals`",
        )
    dead = _table(status["notices"])["dead"]
    if isinstance(dead, int) and dead:
        yield Need(
            f"{counted(dead, 'notice', 'notices')} could not be delivered",
            "`runward notify list --state dead`",
        )
    yield from _wrong_files(status)


def _fix_of_root(problem: str, state: str) -> str:
    if not problem.startswith(UNREAD):
        return "check that it exists and is readable; the daemon notices by itself"
    return how_to_start_runs(state) or "let the daemon's user read them; the daemon notices by itself"


def _failures(failures: Mapping[str, JsonValue]) -> Iterator[Need]:
    """Sessions that failed in the last day and that nobody has seen."""
    newest, count = _tables(failures["newest"])[:_MOST_FAILURES], failures["count"]
    if not newest or not isinstance(count, int):
        return
    named = ", ".join(f"{each['session_id']} ({_table(each['reason'])['code']})" for each in newest)
    more = f" and {count - len(newest)} more" if count > len(newest) else ""
    what = f"{counted(count, 'session', 'sessions')} failed in the last 24 hours: {named}{more}"
    yield Need(what, "`runward session show ID` shows one; `runward session seen --all` marks them as seen")


def _settings(settings: Mapping[str, JsonValue]) -> Iterator[Need]:
    """Settings that are not in force: those that were refused, or that the daemon has not read yet."""
    refused, changed = _list(settings["refused"]), _list(settings["changed"])
    if refused and settings["store_fix"] is not None:
        what = f"new settings are not in force yet, the old ones are: {refused[0]}"
        yield Need(what, f"{settings['store_fix']}; the daemon then takes them over by itself")
    elif refused:
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        what = f"new settings were refused, the old ones are in force: {refused[0]}{more}"
        yield Need(
            what,
            "correct them, and the daemon takes them over by itself; `runward daemon --check` shows all problems",
        )
    elif changed:
        named = ", ".join(map(str, changed))
        what = f"{named} changed after the daemon read it: the settings in force are the old ones"
        yield Need(
            what, "the daemon takes it over when nobody has written to it for a moment, or says what is wrong"
        )


def _waiting(status: Mapping[str, JsonValue], state: str) -> Iterator[Need]:
    requests, oldest = _table(status["requests"]), _table(status["queue"])["oldest_waiting_s"]
    if requests["rejected"]:
        said = _agreeing(requests["rejected"], "request was refused and is", "requests were refused and are")
        what = f"{said} in `rejected` of the state directory"
        yield Need(what, "`runward log` says why (inbox.rejected); then remove them")
    waiting = requests["waiting"]
    if waiting and not status["running"]:
        yield Need(
            f"{_agreeing(waiting, 'request waits', 'requests wait')} for a daemon",
            f"start `{_start(state)}`",
        )
    if status["running"] and isinstance(oldest, int | float) and oldest > _LONG_S:
        yield Need(
            f"a job has been waiting for {duration(oldest)}",
            "`runward queue` shows it, `runward why` says what it waits for",
        )


def _wrong_files(status: Mapping[str, JsonValue]) -> Iterator[Need]:
    found = [each for each in _tables(status["problems"]) if each["severity"] == "error"]
    for each in found[:_MOST_PROBLEMS]:
        place = f"{each['path']}:{each['line']}" if each["line"] is not None else str(each["path"])
        yield Need(f"{place}: {each['message']}", None if each["fix"] is None else str(each["fix"]))
    if len(found) > _MOST_PROBLEMS:
        what = f"and {len(found) - _MOST_PROBLEMS} more problems"
        yield Need(what, "`runward status --json` has them all")


def _headline(status: Mapping[str, JsonValue], state: str, now: float) -> str:
    if not status["running"]:
        word, elsewhere = coloured("failed", "not running"), status["elsewhere"]
        if not isinstance(elsewhere, dict):
            return f"runward is {word}: start it with `{_start(state)}`"
        theirs = safe(str(elsewhere["state_dir"]))
        return (
            f"runward is {word} over {safe(state)}; the machine's daemon (pid {elsewhere['pid'] or 'unknown'}) works over"
            f" {theirs}: `RUNWARD_STATE_DIR={theirs} runward status` shows it"
        )
    since = moment_of(status["since"])
    up = f" since {local(since)} ({duration(now - since)})" if since is not None else ""
    version = f" {safe(str(status['version']))}" if status["version"] is not None else ""
    word = coloured("ok", "running") if status["stalled_s"] is None else coloured("failed", "stalled")
    return f"runward{version} is {word}{up}, pid {status['pid'] or 'unknown'}"


def _start(state: str) -> str:
    """The command that starts the daemon of this state directory."""
    from runward.daemon.units import placing, rendering  # most often the daemon runs

    unit = f"{placing.SYSTEM_UNITS}/{rendering.SYSTEM.name}"
    if state == rendering.SYSTEM_STATE and os.path.lexists(unit):
        return as_root(f"systemctl start {rendering.SYSTEM.name}")
    return how_to_start_daemon(state)


def _needs_lines(found: Sequence[Need], is_up: bool, columns: int) -> Iterator[str]:
    if not found:
        if is_up:
            yield coloured("ok", "all is well")
        yield ""
        return
    yield coloured("warning", "one thing needs you:" if len(found) == 1 else f"{len(found)} things need you:")
    for need in found:
        yield from wrapped(safe(need.what), "  ! ", "    ", columns)
        if need.fix is not None:
            yield from wrapped(safe(need.fix), "    -> ", "       ", columns)
    yield ""


def _running(status: Mapping[str, JsonValue], running: Sequence[RunningRow], now: float) -> Iterator[str]:
    if not running:
        return
    rows = [
        (
            f"  {safe(each.session_id)}",
            safe(each.playbook or each.agent or each.layout),
            duration(now - each.started_at),
            each.activity or NOBODY_CAN_TELL,
        )
        for each in running
    ]
    count = _table(status["sessions"]).get("running", len(running))
    yield f"{count} {coloured('running')}"
    yield from align(rows)
    if isinstance(count, int) and count > len(running):
        yield f"  and {count - len(running)} more: `runward session list --status running`"
    yield ""


def _facts(status: Mapping[str, JsonValue], state: str, now: float) -> Iterator[tuple[str, str]]:
    yield "sessions", _counted(status)
    chains, runs = _table(status["chains"]), _table(status["chain_runs"])
    if any(chains.values()) or runs:
        told = ", ".join(f"{count} {coloured(name)}" for name, count in chains.items() if count)
        yield "chains", told or "none"
        yield "chain runs", ", ".join(f"{count} {coloured(name)}" for name, count in runs.items()) or "none"
    queue = _table(status["queue"])
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
    sessions = _table(status["sessions"])
    return ", ".join(f"{count} {coloured(name)}" for name, count in sessions.items()) or "none"


def _daemons_own(status: Mapping[str, JsonValue], now: float) -> Iterator[tuple[str, str]]:
    """What only a running daemon knows."""
    lag, coverage = _table(status["lag"]), _table(status["coverage"])
    if status["since"] is None:
        yield "starting", "it has not reported anything yet"
        return
    if lag["event_to_verdict_p50_s"] is not None:
        median, slowest = _lag(lag["event_to_verdict_p50_s"]), _lag(lag["event_to_verdict_p99_s"])
        yield "verdicts", f"{median} after the end of a run (99 of 100 within {slowest})"
    elif lag["awaited_p50_s"] is None:
        yield "verdicts", "none since it started"
    if lag["awaited_p50_s"] is not None:
        median, slowest = _lag(lag["awaited_p50_s"]), _lag(lag["awaited_p99_s"])
        yield "waited for files", f"{median} after the end of a run (99 of 100 within {slowest})"
    watched = (
        _agreeing(coverage["watched"], "directory", "directories"),
        _agreeing(coverage["flat"], "root flat", "roots flat"),
        _agreeing(coverage["overflows"], "overflow", "overflows"),
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
        for root in _tables(status["roots"])
    ]
    if rows:
        yield "roots"
        yield from align(rows)


def _lag(value: JsonValue) -> str:
    if not isinstance(value, int | float):
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else duration(value)


def _agreeing(count: JsonValue, one: str, more: str) -> str:
    return counted(count, one, more) if isinstance(count, int) else f"{count} {more}"


def _table(value: JsonValue) -> Mapping[str, JsonValue]:
    assert isinstance(value, dict), "our own JSON"
    return value


def _tables(value: JsonValue) -> list[Mapping[str, JsonValue]]:
    return [each for each in _list(value) if isinstance(each, dict)]


def _list(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list), "our own JSON"
    return value
