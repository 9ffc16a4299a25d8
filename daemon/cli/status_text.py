"""`runward status` for people, from the object that `--json` prints."""

from collections.abc import Iterator, Mapping
from typing import Final

from runward.config.json_value import JsonValue
from runward.daemon.cli.output import ago, align, coloured, duration, local, moment_of, safe

_SHOWN: Final = 10
"""Problems that are shown; more are only counted."""


def lines_of(status: Mapping[str, JsonValue], state: str, now: float) -> list[str]:
    """The status as lines for a terminal."""
    lines = [_headline(status, now), *(f"  {line}" for line in align(list(_facts(status, state, now))))]
    lines += _degraded(status)
    lines += _roots(status)
    lines += _problems(status)
    return lines


def _headline(status: Mapping[str, JsonValue], now: float) -> str:
    if not status["running"]:
        return f"runward is {coloured('failed', 'not running')}: start it with `runward daemon`"
    since = moment_of(status["since"])
    up = f" since {local(since)} ({duration(now - since)})" if since is not None else ""
    version = f" {safe(str(status['version']))}" if status["version"] is not None else ""
    return f"runward{version} is {coloured('ok', 'running')}{up}, pid {status['pid'] or 'unknown'}"


def _facts(status: Mapping[str, JsonValue], state: str, now: float) -> Iterator[tuple[str, str]]:
    yield "state:", f"{safe(state)} (epoch {status['epoch']})"
    sessions = _table(status["sessions"])
    counted = ", ".join(f"{count} {coloured(name)}" for name, count in sessions.items())
    yield "sessions:", counted or "none"
    queue = _table(status["queue"])
    oldest = queue["oldest_waiting_s"]
    age = f", the oldest waits for {duration(float(oldest))}" if isinstance(oldest, int | float) else ""
    held = coloured("held" if queue["held"] else "", f"{queue['held']} held")
    yield "queue:", f"{queue['waiting']} waiting, {queue['running']} running, {held}{age}"
    due = status["next_due"]
    if isinstance(due, dict):
        at = moment_of(due["at"])
        yield "next due:", f"{safe(str(due['what']))} {ago(at, now)}"
    if status["running"]:
        coverage = _table(status["coverage"])
        scanned = moment_of(coverage["last_scan_at"])
        watch = f"{coverage['watched']} directories, {coverage['flat']} roots flat, {coverage['overflows']} overflows"
        yield "watching:", f"{watch}, {coverage['found_by_scan']} found only by a scan"
        yield "last scan:", ago(scanned, now)
        if coverage["unread"]:
            yield "reading:", f"{coverage['unread']} places are still to be looked at"
        lag = _table(status["lag"])
        yield (
            "verdicts:",
            f"p50 {_lag(lag['event_to_verdict_p50_s'])}, p99 {_lag(lag['event_to_verdict_p99_s'])}",
        )
        if status["fences_refused"]:
            yield "fences:", f"{status['fences_refused']} refused"


def _degraded(status: Mapping[str, JsonValue]) -> list[str]:
    told = [f"  {safe(str(each))}" for each in _list(status["degraded"])]
    told += [
        f"  {count} held: {safe(reason or 'no reason given')}; `runward queue` shows them"
        for reason, count in _table(status["held_by_reason"]).items()
    ]
    return [coloured("warning", "degraded:"), *told] if told else []


def _roots(status: Mapping[str, JsonValue]) -> list[str]:
    rows = [
        (
            f"  {safe(str(root['name']))}",
            safe(str(root["layout"])),
            coloured(str(root["health"])),
            safe(f"{root['path']}" + (f": {root['problem']}" if root["problem"] else "")),
        )
        for root in _list(status["roots"])
        if isinstance(root, dict)
    ]
    return ["roots:", *align(rows)] if rows else []


def _problems(status: Mapping[str, JsonValue]) -> list[str]:
    found = [each for each in _list(status["problems"]) if isinstance(each, dict)]
    if not found:
        return []
    lines = [coloured("warning", "problems in files:")]
    for each in found[:_SHOWN]:
        place = f"{each['path']}:{each['line']}" if each["line"] is not None else str(each["path"])
        mend = f" ({each['mend']})" if each["mend"] else ""
        lines.append(f"  {safe(place)}: {safe(str(each['message']))}{safe(mend)}")
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more: `runward status --json` has them all")
    return lines


def _lag(value: JsonValue) -> str:
    return f"{value * 1000:.0f} ms" if isinstance(value, int | float) else "-"


def _table(value: JsonValue) -> Mapping[str, JsonValue]:
    assert isinstance(value, dict), "our own JSON"
    return value


def _list(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list), "our own JSON"
    return value
