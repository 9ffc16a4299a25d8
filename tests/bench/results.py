"""What was measured, as JSON: for each figure its newest value, with the machine, the commit and the load it was measured at."""

import os
import platform
import sqlite3
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict
from tests.bench.figure import Measured, Outcome

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = ROOT / "docs" / "figures.json"
"""What `docs/performance.md` shows."""


class Load(BaseModel):
    """Processors that others kept busy, before and after the measurement."""

    before: float
    after: float


class Result(BaseModel):
    """A figure and its value, or why there is none."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    figure: str
    what: str
    unit: str
    goal: str
    not_measured: str = ""
    value: float | None = None
    spread: tuple[float, float] | None = None
    met: bool | None = None
    beside: str = ""
    problems: list[str] = []
    values: dict[str, list[float]] = {}
    load: Load | None = None
    machine: str = ""
    commit: str = ""
    date: str = ""
    seconds: float | None = None


class Document(BaseModel):
    """All results."""

    results: list[Result] = []


def result(outcome: Outcome, load: Load | None, seconds: float) -> Result:
    """What is kept of a figure that was, or could not be, measured just now."""
    figure = outcome.figure
    known = Result(
        figure=figure.name,
        what=figure.what,
        unit=figure.unit,
        goal=str(figure.goal or ""),
        load=load,
        machine=_machine(),
        commit=_commit(),
        date=datetime.now(UTC).date().isoformat(),
    )
    if not isinstance(outcome, Measured):
        return known.model_copy(update={"not_measured": outcome.why})
    measured = {
        "value": outcome.value,
        "spread": outcome.spread,
        "met": outcome.met,
        "beside": outcome.beside,
        "problems": list(outcome.problems),
        "values": {name: list(samples) for name, samples in outcome.values.items()},
        "seconds": round(seconds, 1),
    }
    return known.model_copy(update=measured)


def load_results(file: Path) -> dict[str, Result]:
    """The results in a file by their figures; none, if it isn't there."""
    if not file.exists():
        return {}
    return {each.figure: each for each in Document.model_validate_json(file.read_bytes()).results}


def merge(file: Path, new: Sequence[Result], declared: Sequence[str]) -> None:
    """Put new results in place of older ones. A figure that could not be measured keeps the value it had."""
    results = load_results(file)
    for each in new:
        if not each.not_measured or results.get(each.figure, each).not_measured:
            results[each.figure] = each
    document = Document(results=[results[name] for name in declared if name in results])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document.model_dump_json(indent=1, exclude_defaults=True) + "\n")


@cache
def _machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()},"
        f" SQLite {sqlite3.sqlite_version}"
    )


@cache
def _commit() -> str:
    """The commit that was measured, with a `+` where files had been changed since."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
