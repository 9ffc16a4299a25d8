"""`runward why` on a terminal: the answer in the first line, a few causes, and what to do next."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from runward.config.problem import counted
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import Part, flowed, flowed_part
from runward.daemon.views.answers import Answer, Cause
from runward.daemon.views.text import clock
from runward.daemon.views.why import Story

_LINES_OF_A_CAUSE: Final = 2
_NARROW: Final = 40
"""Columns below which there is no room for times."""


def lines_of(story: Story, answer: Answer, cleaned: Callable[[str], str]) -> list[str]:
    """The screen; `cleaned` takes secrets out of a text, before it is broken into lines."""
    terminal = terminal_here()
    causes = cause_lines(answer, terminal, cleaned)
    lines = [*sentence_lines(answer, terminal, cleaned), "", *causes.lines]
    if answer.causes:
        lines.append("")
    # Nobody approves what was cut: what shows all of it comes before what lets it run.
    for command in [answer.whole] if causes.is_cut and answer.whole is not None else answer.next:
        lines += flowed(terminal.command(cleaned(command)), "Next: ", "      ", terminal.columns)
    return [
        *lines,
        *flowed(terminal.command(cleaned(_all(story, answer))), "All:  ", "      ", terminal.columns),
    ]


def sentence_lines(answer: Answer, terminal: Terminal, cleaned: Callable[[str], str]) -> list[str]:
    """The answer itself, behind the sign of its state."""
    sign = terminal.sign(answer.state)
    return list(flowed(terminal.text(cleaned(answer.sentence)), f"{sign} ", "  ", terminal.columns))


def cause_lines(answer: Answer, terminal: Terminal, cleaned: Callable[[str], str]) -> Part:
    """The causes, each with its time where there is room; and whether one that waits for a person is cut."""
    is_narrow = terminal.columns < _NARROW
    times = ["" if each.at is None or is_narrow else clock(each.at, terminal.now) for each in answer.causes]
    longest = max(map(len, times), default=0)
    has_signs = any(each.state is not None for each in answer.causes)
    told = [
        _cause(f"  {time:<{longest}}  ", cause, cleaned(cause.text), terminal, has_signs=has_signs)
        for time, cause in zip(times, answer.causes, strict=True)
    ]
    is_cut = any(
        each.is_cut and cause.state == "waiting" for each, cause in zip(told, answer.causes, strict=True)
    )
    return Part([line for each in told for line in each.lines], is_cut)


def _cause(lead: str, cause: Cause, text: str, terminal: Terminal, *, has_signs: bool) -> Part:
    sign = "" if not has_signs else "  " if cause.state is None else f"{terminal.sign(cause.state)} "
    rest = " " * (len(lead) + (2 if has_signs else 0))
    return flowed_part(
        terminal.text(text), f"{lead}{sign}", rest, terminal.columns, _LINES_OF_A_CAUSE, terminal.ellipsis
    )


def _all(story: Story, answer: Answer) -> str:
    """The command that tells everything, and how much that is."""
    kinds = Counter(entry.kind for entry in story.entries)
    command = f"runward why {answer.name} --all"
    if not kinds:
        return command
    told = (
        f"{counted(kinds['event'], 'event', 'events')}, {counted(kinds['decision'], 'decision', 'decisions')}"
    )
    return f"{command} ({told}, their evidence)"
