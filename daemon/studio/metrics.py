"""The figures of `status --json` in the text format of Prometheus, version 0.0.4."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.views.text import moment_of


class Figure(NamedTuple):
    """A figure: its name, type and help, and where the status object has it.

    The keys at the end of `at` that `label` names are its samples, by the values of that label. A list counts its
    entries, a time is in Unix seconds, and what is null has no sample.
    """

    name: str
    type: Literal["gauge", "counter"]
    help: str
    at: tuple[str, ...]
    label: str = ""
    keys: Mapping[str, str] | None = None
    """The keys that are samples, and the values of the label for them; None for all keys."""


_STATES: Final = {"waiting": "waiting", "running": "running", "held": "held"}
_REQUESTS: Final = {"waiting": "waiting", "rejected": "rejected"}
_VERDICTS: Final = {"event_to_verdict_p50_s": "0.5", "event_to_verdict_p99_s": "0.99"}
_AWAITED: Final = {"awaited_p50_s": "0.5", "awaited_p99_s": "0.99"}

FIGURES: Final = (
    Figure("up", "gauge", "Whether the daemon runs.", ("running",)),
    Figure("stalled_seconds", "gauge", "Seconds without a response, if there are too many.", ("stalled_s",)),
    Figure("start_time_seconds", "gauge", "When the daemon started.", ("since",)),
    Figure("epoch", "gauge", "How many daemons have owned the store so far.", ("epoch",)),
    Figure("sessions", "gauge", "Sessions by status.", ("sessions",), "status"),
    Figure("chains", "gauge", "Chains by status.", ("chains",), "status"),
    Figure("chain_runs", "gauge", "Chain runs by status.", ("chain_runs",), "status"),
    Figure("steps", "gauge", "Steps of chain runs that are open.", ("steps",), "status"),
    Figure("approvals_waiting", "gauge", "Steps that wait for a person.", ("approvals",)),
    Figure(
        "agents_waiting", "gauge", "Running sessions that wait for an answer.", ("waiting_agents", "count")
    ),
    Figure(
        "failures_unseen", "gauge", "Failures of the last day that nobody has seen.", ("failures", "count")
    ),
    Figure("jobs", "gauge", "Open jobs by state.", ("queue",), "state", _STATES),
    Figure(
        "oldest_job_seconds", "gauge", "For how long the oldest job waits.", ("queue", "oldest_waiting_s")
    ),
    Figure("next_due_seconds", "gauge", "When the next job is due.", ("next_due", "at")),
    Figure(
        "requests", "gauge", "Requests in the inbox, and refused ones.", ("requests",), "state", _REQUESTS
    ),
    Figure("notices", "gauge", "Notices that were not delivered.", ("notices",), "state"),
    Figure(
        "event_to_verdict_seconds",
        "gauge",
        "From the end of a run to its verdict, since the daemon started.",
        ("lag",),
        "quantile",
        _VERDICTS,
    ),
    Figure(
        "awaited_event_to_verdict_seconds",
        "gauge",
        "The same for runs whose files were waited for.",
        ("lag",),
        "quantile",
        _AWAITED,
    ),
    Figure("watched_directories", "gauge", "Directories that are watched.", ("coverage", "watched")),
    Figure("flat_roots", "gauge", "Roots that are only scanned below the first level.", ("coverage", "flat")),
    Figure("overflows_total", "counter", "Overflows of the watch.", ("coverage", "overflows")),
    Figure("found_by_scan_total", "counter", "What only a scan found.", ("coverage", "found_by_scan")),
    Figure("last_scan_time_seconds", "gauge", "When the last scan ended.", ("coverage", "last_scan_at")),
    Figure("last_scan_duration_seconds", "gauge", "How long it took.", ("coverage", "last_scan_s")),
    Figure("unread_places", "gauge", "Places that are still to be looked at.", ("coverage", "unread")),
    Figure(
        "fences_refused_total",
        "counter",
        "Writes refused because another daemon took over.",
        ("fences_refused",),
    ),
    Figure("degraded", "gauge", "What the daemon can't do as it should.", ("degraded",)),
    Figure("problems", "gauge", "Wrong configuration and wrong files of runs.", ("problems",)),
    Figure("exchange_actions_waiting", "gauge", "Actions without a result.", ("exchange", "actions_waiting")),
    Figure(
        "exchange_workers_killed_total",
        "counter",
        "Workers of the sandbox that were killed or crashed.",
        ("exchange", "workers_killed", "count"),
    ),
)
"""All figures, each after `runward_`, in their order."""


def metrics(status: Mapping[str, JsonValue]) -> str:
    """The figures of this status object."""
    return "".join(line for figure in FIGURES for line in _lines(figure, status))


def _lines(figure: Figure, status: Mapping[str, JsonValue]) -> Iterator[str]:
    name = f"runward_{figure.name}"
    samples = [
        (label, number) for label, value in _samples(figure, status) if (number := _number(value)) is not None
    ]
    if not samples:
        return
    yield f"# HELP {name} {figure.help}\n# TYPE {name} {figure.type}\n"
    for label, number in samples:
        labels = f'{{{figure.label}="{escaped(label)}"}}' if figure.label else ""
        yield f"{name}{labels} {number!r}\n"


def _samples(figure: Figure, status: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """The values of the label, and what the status says for each."""
    found: JsonValue = dict(status)
    for key in figure.at:
        found = found.get(key) if isinstance(found, dict) else None
    if not figure.label:
        yield "", found
    elif isinstance(found, dict):
        for key, value in found.items():
            if figure.keys is None or key in figure.keys:
                yield key if figure.keys is None else figure.keys[key], value


def _number(value: JsonValue) -> float | int | None:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, bool | int):
        return int(value)
    return value if isinstance(value, float) else moment_of(value)


def escaped(label: str) -> str:
    """The value of a label, as the format writes it."""
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
