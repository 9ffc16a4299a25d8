"""The figures as a table for people and as JSON for programs."""

import os
import platform
import sqlite3
import sys
from importlib.metadata import version

from tests.bench.figure import Figure

from runward.config.json_value import JsonValue

_HEADS = ("figure", "measured", "goal", "", "min..max", "load")


def table(figures: list[Figure], judged: bool) -> str:
    """One line a figure with what explains it below; `judged` says whether a missed goal counts."""
    rows = [_HEADS, *(_row(figure, judged) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = []
    for row, figure in zip(rows, [None, *figures], strict=True):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if figure is not None:
            lines += [f"    {text}" for text in (figure.beside, *figure.problems[:5]) if text]
    return "\n".join(lines)


def document(figures: list[Figure], quick: bool) -> JsonValue:
    """All figures, and the machine they are of."""
    return {
        "schema": "runward-bench-v1",
        "quick": quick,
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": sys.version.split()[0],
            "sqlite": sqlite3.sqlite_version,
            "runward": version("runward"),
        },
        "figures": [_object(figure) for figure in figures],
    }


def _row(figure: Figure, judged: bool) -> tuple[str, ...]:
    low, high = figure.spread
    mark = "met" if figure.met else "MISSED"
    if figure.problems:
        mark = "WRONG"
    elif figure.goal is None or not judged:
        mark = "" if figure.goal is None else f"({mark.lower()})"
    goal = str(figure.goal) if figure.goal else ""
    return (
        figure.name,
        f"{figure.value:.3g} {figure.unit}",
        goal,
        mark,
        f"{low:.3g}..{high:.3g}",
        f"{figure.load:.1f}",
    )


def _object(figure: Figure) -> JsonValue:
    goal = figure.goal
    return {
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "min": figure.spread[0],
        "max": figure.spread[1],
        "goal": {"side": goal.side, "bound": goal.bound, "aim": goal.aim} if goal else None,
        "met": figure.met,
        "beside": figure.beside,
        "problems": list(figure.problems),
        "load": figure.load,
    }
