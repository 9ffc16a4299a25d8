"""The figures as a table for people, and as the table of `docs/performance.md`."""

from collections.abc import Mapping, Sequence

from tests.bench.figure import Figure, Measured, Measurement, Outcome
from tests.bench.results import RECORDED, Result, load_results

_HEADS = ("figure", "measured", "goal", "", "min..max")


def table(outcomes: Sequence[Outcome], is_judged: bool) -> str:
    """One line a figure with what explains it below; `is_judged` says whether a missed goal counts."""
    rows = [_HEADS, *(_row(outcome, is_judged) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = []
    for row, outcome in zip(rows, [None, *outcomes], strict=True):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if isinstance(outcome, Measured):
            lines += [f"    {text}" for text in (outcome.beside, *outcome.problems[:5]) if text]
            if is_judged and not outcome.met and outcome.figure.missed:
                lines.append(f"    why it is missed: {outcome.figure.missed}")
        elif outcome is not None:
            lines.append(f"    {outcome.why}")
    return "\n".join(lines)


def listing(measurements: Sequence[Measurement]) -> str:
    """Each measurement with its figures and their goals."""
    lines = []
    for each in measurements:
        lines.append(f"{each.name}: {each.what}")
        lines += [
            f"    {figure.name}: {figure.what}, {figure.unit}"
            + (f", {figure.goal}" if figure.goal is not None else "")
            for figure in each.figures
        ]
    return "\n".join(lines)


def page_table(measurements: Sequence[Measurement]) -> str:
    """The table of the page, from what was recorded last; below it, why goals are missed."""
    results = load_results(RECORDED)
    figures = [figure for each in measurements for figure in each.figures]
    lines = ["| figure | measured | goal | | range | load | of |", "| -- | -- | -- | -- | -- | -- | -- |"]
    lines += [_page_row(figure, results) for figure in figures]
    reasons: dict[str, list[str]] = {}
    for figure in figures:
        if figure.missed and _is_missed(figure, results):
            reasons.setdefault(figure.missed, []).append(figure.what)
    why = [f"- **{'; '.join(whats)}:** {reason}." for reason, whats in reasons.items()]
    return "\n".join([*lines, "", "What is missed, and why:", "", *why] if why else lines)


def _page_row(figure: Figure, results: Mapping[str, Result]) -> str:
    known = results.get(figure.name)
    goal = str(figure.goal or "-")
    if known is None or known.value is None or known.spread is None:
        why = known.not_measured if known is not None else "yet"
        return f"| {figure.what} | not measured{':' if known is not None else ''} {why} | {goal} | - | - | - | - |"
    low, high = known.spread
    spread = "one sample" if low == high else f"{low:.3g} to {high:.3g}"
    load = "-" if known.load is None else f"{known.load.before:.1f}, {known.load.after:.1f}"
    mark = "-" if figure.goal is None else ("**missed**" if _is_missed(figure, results) else "met")
    origin = f"{known.date} {known.commit}".strip() or "before"
    return f"| {figure.what} | {known.value:.3g} {figure.unit} | {goal} | {mark} | {spread} | {load} | {origin} |"


def _is_missed(figure: Figure, results: Mapping[str, Result]) -> bool:
    known = results.get(figure.name)
    if figure.goal is None or known is None or known.value is None:
        return False
    return bool(known.problems) or not figure.goal.kept_by(known.value)


def _row(outcome: Outcome, is_judged: bool) -> tuple[str, ...]:
    figure = outcome.figure
    goal = str(figure.goal or "")
    if not isinstance(outcome, Measured):
        return (figure.what, "not measured", goal, "", "")
    low, high = outcome.spread
    mark = "met" if outcome.met else "MISSED"
    if outcome.problems:
        mark = "WRONG"
    elif figure.goal is None or not is_judged:
        mark = "" if figure.goal is None else f"({mark.lower()})"
    return (figure.what, f"{outcome.value:.3g} {figure.unit}", goal, mark, f"{low:.3g}..{high:.3g}")
