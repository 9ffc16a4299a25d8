"""What needs a person, from the object of `status --json`."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.daemon.store.ownership import UNREAD, how_to_start_daemon, how_to_start_runs
from runward.daemon.users import as_root
from runward.daemon.views.text import SIGNS, duration, fields

if TYPE_CHECKING:
    from runward.handlers.model.reasons import ReasonCode

Kind: TypeAlias = Literal[
    "daemon",
    "approval",
    "agent",
    "failure",
    "queue",
    "request",
    "settings",
    "root",
    "degraded",
    "file",
    "notice",
]
Level: TypeAlias = Literal["critical", "error", "warning"]

MOST_PROBLEMS: Final = 1000
"""Problems that `status --json` lists; it counts all."""

_MOST_NAMED: Final = 10
"""Wrong files that are named; more are only counted."""

_LONG_S: Final = 300.0
"""Seconds from which on a job waits for long."""

_MISSING_ARTIFACT: "Final[ReasonCode]" = "run.failed.missing_artifact"
_LOG: Final = "`runward log --level warning` and `runward doctor` say more"


class Need(NamedTuple):
    """Something that waits for a person, and what they can do.

    `subject` is the key of a session, the id of a chain run, the name of a root or the path of a file. `number` is
    how many things this stands for.
    """

    kind: Kind
    level: Level
    subject: str | None
    text: str
    fix: str | None
    number: int = 1

    def as_json(self) -> JsonValue:
        """The need as `status --json` prints it."""
        return {**fields(self, "kind level subject text fix"), "count": self.number}


ASKED: Final = (
    "running",
    "stalled_s",
    "exchange",
    "approvals",
    "waiting_approvals",
    "waiting_agents",
    "notices",
    "queue",
    "requests",
    "held_by_reason",
    "degraded",
    "failures",
    "settings",
    "roots",
    "problems",
    "problem_count",
)
"""The keys of the status that `needs` reads."""


class Attention(NamedTuple):
    """How many things need a person, by their kinds."""

    counts: Mapping[Kind, int]

    @property
    def failed(self) -> int:
        """Sessions that failed and that nobody has seen."""
        return self.counts.get("failure", 0)

    @property
    def waiting(self) -> int:
        """Everything else."""
        return sum(self.counts.values()) - self.failed

    @property
    def line(self) -> str:
        """In a few characters; empty if nothing needs anybody."""
        counts = (("waiting", self.waiting), ("failed", self.failed))
        return " ".join(f"{SIGNS[state][0]}{count}" for state, count in counts if count)

    def as_json(self) -> JsonValue:
        return {
            **fields(self, "waiting failed"),
            "needs": {str(kind): count for kind, count in self.counts.items()},
        }


def attention(things: Iterable[Need]) -> Attention:
    """How much that is."""
    counts: dict[Kind, int] = {}
    for each in things:
        counts[each.kind] = counts.get(each.kind, 0) + each.number
    return Attention(counts)


def needs(status: Mapping[str, JsonValue], state: str) -> Iterator[Need]:
    """Everything that a person should see to: first those who wait for an answer, then what failed."""
    stalled = status["stalled_s"]
    if isinstance(stalled, int | float):
        what = f"the daemon has not responded for {duration(stalled)}: it is stopped, or stuck"
        yield Need(
            "daemon",
            "critical",
            None,
            f"{what}; the rest of this report is from then",
            "see `runward log`, then restart the daemon",
        )
    yield from _approvals(status)
    yield from _agents(table(status["waiting_agents"]))
    yield from _failures(table(status["failures"]))
    for reason, count in table(status["held_by_reason"]).items():
        fix = "fix the cause, then `runward queue retry --all`; `runward queue` shows them"
        yield Need("queue", "error", None, f"{count} held: {reason or 'no reason given'}", fix)
    yield from _waiting(status, state)
    yield from _settings(table(status["settings"]))
    for root in tables(status["roots"]):
        if root["problem"]:
            name, problem = str(root["name"]), str(root["problem"])
            yield Need("root", "error", name, f"root {name}: {problem}", _fix_of_root(problem, state))
    yield from _degraded(status)
    yield from _wrong_files(status)
    dead = table(status["notices"])["dead"]
    if isinstance(dead, int) and dead:
        what = f"{counted(dead, 'notice', 'notices')} could not be delivered"
        yield Need("notice", "error", None, what, "`runward notify list --state dead`")


def _approvals(status: Mapping[str, JsonValue]) -> Iterator[Need]:
    """Steps of chains that wait for a person."""
    waiting, count = tables(status["waiting_approvals"]), status["approvals"]
    fix = "`runward chain approvals` shows what is to be approved"
    for each in waiting:
        what = f"{each['chain']}: step {each['step']} waits for a person"
        yield Need("approval", "warning", str(each["chain_run_id"]), what, fix)
    if more := _further(count, waiting):
        text = f"and {counted(more, 'step', 'steps')} more"
        yield Need("approval", "warning", None, text, fix)._replace(number=more)


def _agents(agents: Mapping[str, JsonValue]) -> Iterator[Need]:
    """Running sessions whose agent waits for an answer."""
    oldest, count = tables(agents["oldest"]), agents["count"]
    for each in oldest:
        fix = "answer it where it runs"
        yield Need("agent", "warning", str(each["key"]), f"{each['session_id']} waits for an answer", fix)
    if more := _further(count, oldest):
        text, fix = (
            f"and {counted(more, 'agent', 'agents')} more",
            "`runward session list --status running` shows them",
        )
        yield Need("agent", "warning", None, text, fix)._replace(number=more)


def _failures(failures: Mapping[str, JsonValue]) -> Iterator[Need]:
    """Sessions that failed in the last day and that nobody has seen."""
    newest, count = tables(failures["newest"]), failures["count"]
    for each in newest:
        reason = table(each["reason"])
        level: Level = "critical" if reason["code"] == _MISSING_ARTIFACT else "error"
        fix = f"`runward session show {shlex.quote(str(each['key']))}` shows it and marks it as seen"
        yield Need("failure", level, str(each["key"]), f"{each['session_id']}: {reason['summary']}", fix)
    if more := _further(count, newest):
        text = f"and {counted(more, 'session', 'sessions')} more"
        fix = "`runward session list --failed` shows them; `runward session seen --all` marks all as seen"
        yield Need("failure", "error", None, text, fix)._replace(number=more)


def _further(count: JsonValue, listed: Sequence[object]) -> int:
    """How many there are beyond those that are listed."""
    return max(0, count - len(listed)) if isinstance(count, int) else 0


def _settings(settings: Mapping[str, JsonValue]) -> Iterator[Need]:
    """Settings that are not in force: those that were refused, or that the daemon has not read yet."""
    refused, changed = items(settings["refused"]), items(settings["changed"])
    if refused and settings["store_fix"] is not None:
        what = f"new settings are not in force yet, the old ones are: {refused[0]}"
        fix = f"{settings['store_fix']}; the daemon then takes them over by itself"
        yield Need("settings", "error", None, what, fix)
    elif refused:
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        what = f"new settings were refused, the old ones are in force: {refused[0]}{more}"
        fix = "correct them, and the daemon takes them over by itself; `runward daemon --check` shows all problems"
        yield Need("settings", "error", None, what, fix)
    elif changed:
        named = ", ".join(map(str, changed))
        what = f"{named} changed after the daemon read it: the settings in force are the old ones"
        fix = "the daemon takes it over when nobody has written to it for a moment, or says what is wrong"
        yield Need("settings", "warning", None, what, fix)


def _fix_of_root(problem: str, state: str) -> str:
    if not problem.startswith(UNREAD):
        return "check that it exists and is readable; the daemon notices by itself"
    return how_to_start_runs(state) or "let the daemon's user read them; the daemon notices by itself"


def _degraded(status: Mapping[str, JsonValue]) -> Iterator[Need]:
    """Parts that do not work, except where a root or a file is named as the cause."""
    reasons = [f"root {root['name']}: {root['problem']}" for root in tables(status["roots"])]
    files = tuple(f"{each['path']}:" for each in tables(status["problems"]))
    messages = [str(each["message"]) for each in tables(status["problems"])]
    # The daemon reports the trouble of a root or of a file as degraded, too. Said twice, it would look like two things.
    degraded = [str(each) for each in items(status["degraded"])]
    for each in degraded:
        why = each.partition(": ")[2] or each
        is_a_problem = each.startswith(files) or any(why in message for message in messages)
        if each not in reasons and not is_a_problem:
            yield Need("degraded", "error", None, f"degraded: {each}", _LOG)
    exchange = status["exchange"]
    problem = exchange.get("sandbox_problem") if isinstance(exchange, dict) else None
    if problem and not any(str(problem) in each for each in degraded):
        what = f"code of the exchange is refused: {problem}"
        yield Need("degraded", "error", None, what, "`runward doctor --only sandbox`")


def _waiting(status: Mapping[str, JsonValue], state: str) -> Iterator[Need]:
    requests, oldest = table(status["requests"]), table(status["queue"])["oldest_waiting_s"]
    if requests["rejected"]:
        sentence = agreeing(
            requests["rejected"], "request was refused and is", "requests were refused and are"
        )
        what = f"{sentence} in `rejected` of the state directory"
        yield Need(
            "request", "error", None, what, "`runward log` says why (inbox.rejected); then remove them"
        )
    waiting = requests["waiting"]
    if waiting and not status["running"]:
        what = f"{agreeing(waiting, 'request waits', 'requests wait')} for a daemon"
        yield Need("request", "warning", None, what, f"start `{how_to_start(state)}`")
    if status["running"] and isinstance(oldest, int | float) and oldest > _LONG_S:
        fix = "`runward queue` shows it, `runward why` says what it waits for"
        yield Need("queue", "warning", None, f"a job has been waiting for {duration(oldest)}", fix)


def _wrong_files(status: Mapping[str, JsonValue]) -> Iterator[Need]:
    listed, count = tables(status["problems"]), status["problem_count"]
    assert isinstance(count, int), "our own JSON"
    errors = [each for each in listed if each["severity"] == "error"]
    for each in errors[:_MOST_NAMED]:
        path = str(each["path"])
        place = f"{path}:{each['line']}" if each["line"] is not None else path
        fix = None if each["fix"] is None else str(each["fix"])
        yield Need("file", "error", path, f"{place}: {each['message']}", fix)
    more = len(errors[_MOST_NAMED:]) + count - len(listed)
    if more > 0:
        text = f"and {more} more problems"
        yield Need("file", "error", None, text, where_problems_are(count))._replace(number=more)


def where_problems_are(count: int) -> str:
    """Where so many problems are listed."""
    has = "has them all" if count <= MOST_PROBLEMS else f"has the first {MOST_PROBLEMS}"
    return f"`runward status --json` {has}"


def how_to_start(state: str) -> str:
    """The command that starts the daemon of this state directory."""
    from runward.daemon.units import rendering  # most often the daemon runs

    unit = f"{rendering.SYSTEM_UNITS}/{rendering.SYSTEM.name}"
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
