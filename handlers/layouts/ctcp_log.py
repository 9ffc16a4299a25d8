"""The lines of a CTCP run's `events.jsonl`: one line, its time, and what the lines together say.

The check of a run reads them, too. It must not load what the readers of calls need.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import LATEST, JsonValue
from runward.config.problem import kind
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.foreign_values import is_error_code

# The orchestrator writes times without a zone, other parts of the run with one.
LONGEST_TIME: Final = 40
"""Characters of a time that are kept: no real time is longer."""

_QUARTER: Final = 900
_FARTHEST_ZONE: Final = 14 * 3600
_LAG: Final = 2


def ahead_of_utc(written: str | None, modified_at: float) -> int:
    """How far zoneless times are ahead of UTC (s), from one of them and the time at which its file was written.

    0 if the two don't differ by about a multiple of a quarter of an hour, as in a copy that was made later.
    """
    local = time_at(written, 0)
    if local is None:
        return 0
    difference = local - modified_at
    if not -_FARTHEST_ZONE - _LAG <= difference <= _FARTHEST_ZONE + _LAG:
        return 0
    # Zones differ from UTC by quarters of an hour. A difference that is not near one comes from a copy that was made
    # later.
    zone = round(difference / _QUARTER) * _QUARTER
    return zone if abs(difference - zone) <= _LAG else 0


def time_at(written: str | None, ahead: int) -> float | None:
    """ISO 8601 as Unix seconds. Real files mix times with a zone and times without one."""
    if written is None:
        return None
    try:
        moment = datetime.fromisoformat(written)
        at = moment.timestamp() if moment.tzinfo else moment.replace(tzinfo=UTC).timestamp() - ahead
    except (ValueError, OverflowError):
        return None
    return at if 0.0 <= at <= LATEST else None


FIELDS: Final = ("ts", "role", "event", "path")


class LineFault(NamedTuple):
    """What is wrong with a line: the name of the rule that it breaks, and why."""

    rule: str
    message: str


def read_line(content: bytes) -> dict[str, JsonValue] | LineFault:
    """The event in the line, or what is wrong with it."""
    value = read_json(content)
    if isinstance(value, NotJson):
        return LineFault("not_json", value.message)
    if not isinstance(value, dict):
        return LineFault("not_object", f"must be an object, not {kind(value)}")
    wrong = [key for key in FIELDS if not isinstance(value.get(key), str)]
    if wrong:
        return LineFault(
            "field", f"{', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} missing or not text"
        )
    return value


Meaning: TypeAlias = Literal["works", "verifies", "verified", "moves", "waits", "passed", "failed"]


class Event(NamedTuple):
    """What an event says about the run, whether it reports a command's result, and whether that went wrong."""

    meaning: Meaning
    is_command: bool = False
    is_failure: bool = False


_NAMED: Final[Mapping[str, Event]] = {
    "run_created": Event("works"),
    "find_local_run": Event("works", True),
    "local_exec_completed": Event("works", True),
    "fixer_patch_promoted": Event("works"),
    "patch_backup_created": Event("works"),
    "patch_revert_started": Event("works"),
    "patch_reverted": Event("works", True),
    "patch_apply": Event("works", True),
    "verify_started": Event("verifies"),
    "verify_complete": Event("verified", True),
    "verify_passed": Event("verified"),
    "outbox_prompt_fulfilled": Event("moves"),
    "outbox_prompt_created": Event("waits"),
    "local_exec_failed": Event("waits", True, True),
    "patch_rejected": Event("waits"),
    "patch_revert_failed": Event("waits", True, True),
    "apply_blocked_dirty": Event("waits"),
    "stop_budget_exceeded": Event("waits"),
    "stop_max_iterations": Event("waits"),
    "blocked": Event("waits"),
    "run_pass": Event("passed"),
    "verify_failed": Event("failed"),
    "failure_bundle_created": Event("failed"),
}
KNOWN: Final[Mapping[str, Event]] = {
    **_NAMED,
    **{name.upper(): event for name, event in _NAMED.items()},
}
"""Real logs have names in upper and lower case."""

_WORK: Final = frozenset({"works", "verifies"})
_VERIFICATION: Final = frozenset({"verifies", "verified", "passed", "failed"})


@dataclass(slots=True)
class Log:
    """What `events.jsonl` has said so far. Times are as written: their zone may become known later.

    Only `feed` changes such a value, and only its own copy.
    """

    attempt: int = 0
    end: Literal["", "passed", "failed"] = ""
    is_waiting: bool = False
    is_verifying: bool = False
    knows_verification: bool = False
    started_at: str | None = None
    moved_at: str | None = None
    ended_at: str | None = None
    events: int = 0
    commands: int = 0
    errors: int = 0

    def take(self, event: Event, exit_code: JsonValue, at: str | None) -> bool:
        """Take in a known event. True if it begins the next attempt after an end."""
        meaning, is_command, is_failure = event
        if is_command:
            self.commands += 1
            self.errors += is_failure or is_error_code(exit_code)
        goes_on = self.end != ""
        if goes_on and meaning not in _WORK:
            return False
        self.is_verifying = meaning == "verifies"
        self.is_waiting = meaning == "waits"
        if meaning in _VERIFICATION:
            self.knows_verification = True
            if meaning == "passed" or meaning == "failed":
                self.end, self.ended_at = meaning, at and at[:LONGEST_TIME]
                return False
        if goes_on:
            self.attempt, self.end = self.attempt + 1, ""
            self.started_at, self.ended_at = at and at[:LONGEST_TIME], None
        return goes_on
