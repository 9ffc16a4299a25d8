"""The figures of the daemon in the text format of Prometheus (0.0.4): what the Studio, `runward metrics` and the file for a collector say."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.reading import reading
from runward.daemon.store.tables.usage import Tokens, tokens_by_model
from runward.daemon.views.status import status_in
from runward.daemon.views.text import UNKNOWN, visible
from runward.handlers.times import moment_of


class Figure(NamedTuple):
    """A figure: its name, help and type, and where the status object has it.

    The keys at the end of `at` that `label` names are its samples, by the values of that label. A list counts its
    entries, a time is in Unix seconds, and what is null has no sample.
    """

    name: str
    help: str
    at: tuple[str, ...]
    label: str = ""
    keys: Mapping[str, str] | None = None
    """The keys that are samples, and the values of the label for them; None for all keys."""
    type: Literal["gauge", "counter"] = "gauge"


_TOKENS: Final = "runward_usage_tokens_total"

MOST_MODELS: Final = 100
"""Models that have samples of their own; a collector keeps a series for each."""

_STATES: Final = {"waiting": "waiting", "running": "running", "held": "held"}
_REQUESTS: Final = {"waiting": "waiting", "rejected": "rejected"}
_VERDICTS: Final = {"event_to_verdict_p50_s": "0.5", "event_to_verdict_p99_s": "0.99"}
_AWAITED: Final = {"awaited_p50_s": "0.5", "awaited_p99_s": "0.99"}

FIGURES: Final = (
    Figure("up", "Whether the daemon runs.", ("running",)),
    Figure("stalled_seconds", "Seconds without a response, if there are too many.", ("stalled_s",)),
    Figure("start_time_seconds", "When the daemon started.", ("since",)),
    Figure("epoch", "How many daemons have owned the store so far.", ("epoch",)),
    Figure("sessions", "Sessions by status.", ("sessions",), label="status"),
    Figure("chains", "Chains by status.", ("chains",), label="status"),
    Figure("chain_runs", "Chain runs by status.", ("chain_runs",), label="status"),
    Figure("steps", "Steps of chain runs that are open.", ("steps",), label="status"),
    Figure("approvals_waiting", "Steps that wait for a person.", ("approvals",)),
    Figure("agents_waiting", "Running sessions that wait for an answer.", ("waiting_agents", "count")),
    Figure("failures_unseen", "Failures of the last day that nobody has seen.", ("failures", "count")),
    Figure("jobs", "Open jobs by state.", ("queue",), label="state", keys=_STATES),
    Figure("oldest_job_seconds", "For how long the oldest job waits.", ("queue", "oldest_waiting_s")),
    Figure("next_due_seconds", "When the next job is due.", ("next_due", "at")),
    Figure(
        "requests", "Requests in the inbox, and refused ones.", ("requests",), label="state", keys=_REQUESTS
    ),
    Figure("notices", "Notices that were not delivered.", ("notices",), label="state"),
    Figure(
        "event_to_verdict_seconds",
        "From the end of a run to its verdict, since the daemon started.",
        ("lag",),
        label="quantile",
        keys=_VERDICTS,
    ),
    Figure(
        "awaited_event_to_verdict_seconds",
        "The same for runs whose files were waited for.",
        ("lag",),
        label="quantile",
        keys=_AWAITED,
    ),
    Figure("watched_directories", "Directories that are watched.", ("coverage", "watched")),
    Figure("flat_roots", "Roots that are only scanned below the first level.", ("coverage", "flat")),
    Figure("overflows_total", "Overflows of the watch.", ("coverage", "overflows"), type="counter"),
    Figure("found_by_scan_total", "What only a scan found.", ("coverage", "found_by_scan"), type="counter"),
    Figure("last_scan_time_seconds", "When the last scan ended.", ("coverage", "last_scan_at")),
    Figure("last_scan_duration_seconds", "How long it took.", ("coverage", "last_scan_s")),
    Figure("unread_places", "Places that are still to be looked at.", ("coverage", "unread")),
    Figure(
        "fences_refused_total",
        "Writes refused because another daemon took over.",
        ("fences_refused",),
        type="counter",
    ),
    Figure("degraded", "What the daemon can't do as it should.", ("degraded",)),
    Figure("problems", "Wrong configuration and wrong files of runs.", ("problem_count",)),
    Figure("exchange_actions_waiting", "Actions without a result.", ("exchange", "actions_waiting")),
    Figure(
        "exchange_workers_killed_total",
        "Workers of the sandbox that were killed or crashed.",
        ("exchange", "workers_killed", "count"),
        type="counter",
    ),
)
"""All figures, each after `runward_`, in their order."""


def metrics(settings: Settings, now: float, *, is_ending: bool = False) -> str:
    """The figures as they are now; with `is_ending`, as they are once the daemon has ended."""
    with reading(settings.state_dir) as connection:
        status = status_in(connection, settings, now, with_cost=False).json
        tokens = tokens_by_model(connection, MOST_MODELS)
    if is_ending:
        status["running"] = False
    return "".join([*lines_of(status), *tokens_lines(tokens)])


def lines_of(status: Mapping[str, JsonValue]) -> list[str]:
    """The figures of this status object."""
    return [line for figure in FIGURES for line in _lines(figure, status)]


def tokens_lines(tokens: Mapping[str, Tokens]) -> Iterator[str]:
    """The tokens of each model, by their kind."""
    if not tokens:
        return
    yield f"# HELP {_TOKENS} Tokens that agents' replies used, by model and kind.\n# TYPE {_TOKENS} counter\n"
    # Two names may look the same once they are escaped. A collector refuses all of a text with the same sample twice.
    sums: dict[str, int] = {}
    for model, counts in tokens.items():
        for kind, count in counts._asdict().items():
            sample = f'{_TOKENS}{{model="{escaped(model or UNKNOWN)}",kind="{kind}"}}'
            sums[sample] = sums.get(sample, 0) + count
    for sample, count in sums.items():
        yield f"{sample} {count}\n"


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
    at: JsonValue = dict(status)
    for key in figure.at:
        at = at.get(key) if isinstance(at, dict) else None
    if not figure.label:
        yield "", at
    elif isinstance(at, dict):
        for key, value in at.items():
            if figure.keys is None or key in figure.keys:
                yield key if figure.keys is None else figure.keys[key], value


def _number(value: JsonValue) -> float | int | None:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, bool | int):
        return int(value)
    return value if isinstance(value, float) else moment_of(value)


def escaped(label: str) -> str:
    """The value of a label, as the format writes it. What is invisible is escaped before: agents write such texts."""
    return visible(label).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
