"""`status` on a terminal: whether the daemon is well, what needs you, and what there is, in 24 rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.daemon.cli.status import briefly, due_words, why_not_running
from runward.daemon.cli.terminal.signs import Terminal
from runward.daemon.cli.terminal.tables import flowed
from runward.daemon.store.tables.session_lists import RunningRow
from runward.daemon.views.needs import agreeing, needs, table, tables
from runward.daemon.views.status import Status
from runward.daemon.views.text import age, ago, clock, duration, lag, short_id
from runward.handlers.times import moment_of

_ROWS: Final = 24
_LEAD: Final = 11
_LEAST: Final = 4
"""Rows for what needs a person, however much else there is."""

_NAMED: Final = 4


def page(figures: Status, state: str, terminal: Terminal) -> list[str]:
    """The screen. It leaves a row for the prompt that follows."""
    status = figures.json
    head = _headline(status, state, terminal)
    facts = [line for fact in _facts(figures, state, terminal) for line in _fact(*fact, terminal)]
    more = "runward status --all (each root, coverage), runward doctor"
    last = list(flowed(more, "More: ", "      ", terminal.columns))
    room = min(terminal.rows, _ROWS) - 1 - len(head) - len(facts) - len(last) - 2
    return [*head, *_needs(status, state, terminal, max(_LEAST, room)), "", *facts, "", *last]


def _headline(status: Mapping[str, JsonValue], state: str, terminal: Terminal) -> list[str]:
    since = moment_of(status["since"])
    if not status["running"]:
        sign, text = "failed", f"Runward is not running: {why_not_running(status, state)}"
    else:
        sign, word = ("working", "running") if status["stalled_s"] is None else ("failed", "stalled")
        version = f" {status['version']}" if status["version"] is not None else ""
        begun = (
            f" since {clock(since, terminal.now)} ({age(since, terminal.now)})" if since is not None else ""
        )
        text = f"Runward{version} is {word}{begun}, pid {status['pid'] or 'unknown'}"
    return list(flowed(terminal.text(text), f"{terminal.sign(sign)} ", "  ", terminal.columns))


def _needs(status: Mapping[str, JsonValue], state: str, terminal: Terminal, room: int) -> list[str]:
    """What needs a person, as far as there is room; the rest is counted."""
    things = [
        _need(text, fix, terminal, "failed" if kind == "failure" else "waiting")
        for kind, text, fix in _told(status, state, terminal)
    ]
    if not things:
        return ["all is well"] if status["running"] else []
    lines = ["one thing needs you" if len(things) == 1 else f"{len(things)} things need you"]
    for number, each in enumerate(things):
        is_last = number == len(things) - 1
        if number and len(lines) + len(each) + (not is_last) > room:
            return [*lines, *_need(f"{len(things) - number} more: `runward status --all`", None, terminal)]
        lines += each
    return lines


def _told(
    status: Mapping[str, JsonValue], state: str, terminal: Terminal
) -> Iterator[tuple[str, str, str | None]]:
    """The kind, the text and the fix of each need, as the screen has them."""
    things = list(needs(status, state))
    failures = [each.fix for each in things if each.kind == "failure"]
    for kind, text, fix in briefly(status, things):
        if kind == "approval":
            yield kind, _approvals(status["approvals"]), fix
        elif kind == "failure":
            # The command for a single one can be copied as it is.
            shown_by = failures[0] if len(failures) == 1 else fix
            yield kind, _failures(table(status["failures"]), terminal), shown_by
        else:
            yield kind, text, fix


def _need(text: str, fix: str | None, terminal: Terminal, state: str = "waiting") -> list[str]:
    shown = " ".join(short_id(word, terminal.ellipsis) for word in terminal.text(text).split(" "))
    lines = list(flowed(shown, f"  {terminal.sign(state)} ", "    ", terminal.columns))
    return [*lines, *flowed(terminal.text(fix), "      ", "      ", terminal.columns)] if fix else lines


def _approvals(count: JsonValue) -> str:
    steps = "1 step of a chain waits" if count == 1 else f"{agreeing(count, 'step', 'steps')} of chains wait"
    return f"{steps} for a person"


def _failures(failures: Mapping[str, JsonValue], terminal: Terminal) -> str:
    newest, count = tables(failures["newest"])[:_NAMED], failures["count"]
    assert isinstance(count, int), "our own JSON"
    named = ", ".join(terminal.id(str(each["session_id"])) for each in newest)
    more = f" and {count - len(newest)} more" if count > len(newest) else ""
    return f"{counted(count, 'session', 'sessions')} failed in the last 24 hours: {named}{more}"


def _fact(name: str, text: str, terminal: Terminal) -> Iterator[str]:
    return flowed(terminal.text(text), f"{name:<{_LEAD}}", " " * _LEAD, terminal.columns)


def _facts(figures: Status, state: str, terminal: Terminal) -> Iterator[tuple[str, str]]:
    status, now = figures.json, terminal.now
    counts = dict(table(status["sessions"]))
    yield "working", _working(counts.pop("running", 0), figures.running, now)
    yield "ended", _counted(counts)
    runs = table(status["chain_runs"])
    chains = _counted({name: count for name, count in table(status["chains"]).items() if count})
    going = [f"{runs[name]} {words}" for name, words in _GOING.items() if runs.get(name)]
    due = status["next_due"]
    at = moment_of(due["at"]) if isinstance(due, dict) else None
    next_due = f"{due_words(str(due['what']))} {ago(at, now)}" if isinstance(due, dict) else "nothing"
    yield "chains", f"{', '.join([chains, *going])}; next due: {next_due}"
    queue = table(status["queue"])
    oldest = queue["oldest_waiting_s"]
    since = f", the oldest for {duration(float(oldest))}" if isinstance(oldest, int | float) else ""
    yield "queue", f"{queue['waiting']} waiting, {queue['running']} running, {queue['held']} held{since}"
    lags = table(status["lag"])
    if lags["event_to_verdict_p50_s"] is not None:
        median, slowest = lag(lags["event_to_verdict_p50_s"]), lag(lags["event_to_verdict_p99_s"])
        yield "verdicts", f"{median} after a run's end (99 of 100 within {slowest})"
    yield "watching", _watching(status, now)
    settings = table(status["settings"])
    files, in_force = settings["files"], moment_of(settings["since"])
    assert isinstance(files, list), "our own JSON"
    named = ", ".join(terminal.path(str(each)) for each in files) or "the defaults"
    yield (
        "settings",
        f"{named}, in force since {clock(in_force, now)}" if in_force is not None else named,
    )
    hooks = table(status["hooks"])
    if hooks:
        from runward.daemon.hooks.standing import NOT_INSTALLED  # what edits settings is imported, too

        missing = next((agent for agent, standing in hooks.items() if standing == NOT_INSTALLED), None)
        install = "" if missing is None else f" (`runward hook install {missing}`)"
        yield "hooks", f"{'; '.join(f'{agent}: {standing}' for agent, standing in hooks.items())}{install}"
    kept = status["retention_s"]
    length = duration(float(kept)) if isinstance(kept, int | float) else "ever"
    yield "state", f"{terminal.path(state)}, kept for {length}"


_GOING: Final = {"running": "running", "waiting_approval": "waiting for a person"}


def _counted(counts: Mapping[str, JsonValue]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _working(count: JsonValue, running: Sequence[RunningRow], now: float) -> str:
    """How many, of what if all are known, and since when."""
    if not running:
        return "nothing"
    kinds = Counter(each.playbook or each.agent or each.layout for each in running)
    of = (
        f" ({', '.join(f'{number} {kind}' for kind, number in kinds.items())})"
        if count == len(running)
        else ""
    )
    return f"{count}{of}, the oldest for {age(running[0].started_at, now)}"


def _watching(status: Mapping[str, JsonValue], now: float) -> str:
    roots, coverage = tables(status["roots"]), table(status["coverage"])
    ill = [f"{each['name']} {each['health']}" for each in roots if each["health"] != "ok"]
    parts = (
        [f"{counted(len(roots), 'root', 'roots')}, {', '.join(ill) or 'all ok'}"] if roots else ["no root"]
    )
    if coverage["watched"] is not None:
        parts.append(agreeing(coverage["watched"], "directory", "directories"))
    scanned = moment_of(coverage["last_scan_at"])
    if scanned is not None:
        parts.append(f"last scan {ago(scanned, now)}, {coverage['found_by_scan']} found by it")
    return "; ".join(parts)
