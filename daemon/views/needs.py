"""What needs a person, from the object of `status --json`."""

import os
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from runward.config.counting import counted
from runward.config.json_value import JsonValue
from runward.daemon.store.ownership import UNREAD, how_to_start_daemon, how_to_start_runs
from runward.daemon.users import as_root
from runward.daemon.views.units import duration

_MOST_PROBLEMS: Final = 10
_MOST_FAILURES: Final = 3
_LONG_S: Final = 300.0
"""Seconds from which on a job waits for long."""

_LOG: Final = "`runward log --level warning` and `runward doctor` say more"


class Need(NamedTuple):
    """Something that waits for a person, and what they can do."""

    what: str
    fix: str | None


def needs(status: Mapping[str, JsonValue], state: str) -> Iterator[Need]:
    """Everything that a person should see to, the worst first."""
    stalled = status["stalled_s"]
    if isinstance(stalled, int | float):
        what = f"the daemon has not responded for {duration(stalled)}: it is stopped, or stuck"
        yield Need(
            f"{what}; the rest of this report is from then", "see `runward log`, then restart the daemon"
        )
    yield from _settings(table(status["settings"]))
    for reason, count in table(status["held_by_reason"]).items():
        fix = "fix the cause, then `runward queue retry --all`; `runward queue` shows them"
        yield Need(f"{count} held: {reason or 'no reason given'}", fix)
    for root in tables(status["roots"]):
        if root["problem"]:
            yield Need(f"root {root['name']}: {root['problem']}", _fix_of_root(str(root["problem"]), state))
    told = [f"root {root['name']}: {root['problem']}" for root in tables(status["roots"])]
    files = tuple(f"{each['path']}:" for each in tables(status["problems"]))
    messages = [str(each["message"]) for each in tables(status["problems"])]
    for each in items(status["degraded"]):
        why = str(each).partition(": ")[2] or str(each)
        is_a_problem = str(each).startswith(files) or any(why in message for message in messages)
        if str(each) not in told and not is_a_problem:
            yield Need(f"degraded: {each}", _LOG)
    exchange = status["exchange"]
    problem = exchange.get("sandbox_problem") if isinstance(exchange, dict) else None
    if problem and not any(str(problem) in str(each) for each in items(status["degraded"])):
        yield Need(f"code of the exchange is refused: {problem}", "`runward doctor --only sandbox`")
    yield from _failures(table(status["failures"]))
    yield from _waiting(status, state)
    approvals = status["approvals"]
    if isinstance(approvals, int) and approvals:
        verb = "waits" if approvals == 1 else "wait"
        yield Need(
            f"{counted(approvals, 'step', 'steps')} of chains {verb} for a person",
            "`runward chain approvals`",
        )
    dead = table(status["notices"])["dead"]
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
    newest, count = tables(failures["newest"])[:_MOST_FAILURES], failures["count"]
    if not newest or not isinstance(count, int):
        return
    named = ", ".join(f"{each['session_id']} ({table(each['reason'])['code']})" for each in newest)
    more = f" and {count - len(newest)} more" if count > len(newest) else ""
    what = f"{counted(count, 'session', 'sessions')} failed in the last 24 hours: {named}{more}"
    yield Need(what, "`runward session show ID` shows one; `runward session seen --all` marks them as seen")


def _settings(settings: Mapping[str, JsonValue]) -> Iterator[Need]:
    """Settings that are not in force: those that were refused, or that the daemon has not read yet."""
    refused, changed = items(settings["refused"]), items(settings["changed"])
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
    requests, oldest = table(status["requests"]), table(status["queue"])["oldest_waiting_s"]
    if requests["rejected"]:
        said = agreeing(requests["rejected"], "request was refused and is", "requests were refused and are")
        what = f"{said} in `rejected` of the state directory"
        yield Need(what, "`runward log` says why (inbox.rejected); then remove them")
    waiting = requests["waiting"]
    if waiting and not status["running"]:
        yield Need(
            f"{agreeing(waiting, 'request waits', 'requests wait')} for a daemon",
            f"start `{how_to_start(state)}`",
        )
    if status["running"] and isinstance(oldest, int | float) and oldest > _LONG_S:
        yield Need(
            f"a job has been waiting for {duration(oldest)}",
            "`runward queue` shows it, `runward why` says what it waits for",
        )


def _wrong_files(status: Mapping[str, JsonValue]) -> Iterator[Need]:
    found = [each for each in tables(status["problems"]) if each["severity"] == "error"]
    for each in found[:_MOST_PROBLEMS]:
        place = f"{each['path']}:{each['line']}" if each["line"] is not None else str(each["path"])
        yield Need(f"{place}: {each['message']}", None if each["fix"] is None else str(each["fix"]))
    if len(found) > _MOST_PROBLEMS:
        what = f"and {len(found) - _MOST_PROBLEMS} more problems"
        yield Need(what, "`runward status --json` has them all")


def how_to_start(state: str) -> str:
    """The command that starts the daemon of this state directory."""
    from runward.daemon.units import placing, rendering  # most often the daemon runs

    unit = f"{placing.SYSTEM_UNITS}/{rendering.SYSTEM.name}"
    if state == rendering.SYSTEM_STATE and os.path.lexists(unit):
        return as_root(f"systemctl start {rendering.SYSTEM.name}")
    return how_to_start_daemon(state)


def agreeing(count: JsonValue, one: str, more: str) -> str:
    return counted(count, one, more) if isinstance(count, int) else f"{count} {more}"


def table(value: JsonValue) -> Mapping[str, JsonValue]:
    assert isinstance(value, dict), "our own JSON"
    return value


def tables(value: JsonValue) -> list[Mapping[str, JsonValue]]:
    return [each for each in items(value) if isinstance(each, dict)]


def items(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list), "our own JSON"
    return value
