"""The commands in groups, by what people want: the help of `runward` on a terminal, in 24 rows."""

from collections.abc import Iterator, Sequence
from typing import Final

from runward.daemon.cli.terminal.output import WIDEST, width
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import flowed

_ALONE: Final = "(nothing)"

GROUPS: Final[dict[str, Sequence[tuple[str, str]]]] = {
    "Look": (
        (_ALONE, "what needs you, what works, what ended"),
        ("top", "the same, live"),
        ("session", "list, show, logs, tail, wait, cancel, seen, verify, export"),
        ("why", "why ID: why it is as it is, or did not happen"),
        ("status", "is the daemon well"),
        ("usage", "tokens and money"),
        ("log doctor metrics studio", ""),
    ),
    "Run": (
        ("run", "launch a command: runward run --playbook P -- COMMAND…"),
        ("play", "list, check, run playbooks"),
        ("chain", "define, fire, runs, approvals, approve, deny, pause"),
        ("event schedule invocation show", ""),
    ),
    "Prove": (("receipt replay artifact outcome contract ctcp inspect training", ""),),
    "Share": (("exchange mcp", ""),),
    "Set up": (
        ("init", "find agents, install hooks and service; --undo"),
        ("daemon", "run it, install it as a service"),
        ("hook notify root config completion fleet", ""),
    ),
    "Keep": (("queue prune backup restore schema man help", ""),),
}
"""By group: commands, and what they are for. Several that are named together need no words."""

_NAME: Final = 9
_COMMAND: Final = 12


def overview() -> str:
    """The help."""
    terminal = terminal_here()
    room = min(terminal.columns, WIDEST)
    lines = [
        "Runward knows whether an agent run really delivered.",
        "Usage: runward [--config FILE] [--color WHEN] [--debug] [COMMAND ...]",
        "",
    ]
    for group, entries in GROUPS.items():
        lines += _group(group, entries, terminal, room)
    lines += ["", "First:  runward init, then work as usual, then runward"]
    lines.append("More:   runward help COMMAND; runward help --all; man runward")
    return "\n".join(part for line in lines for part in _fitting(line, room))


def _group(group: str, entries: Sequence[tuple[str, str]], terminal: Terminal, room: int) -> Iterator[str]:
    lead = f"{group:<{_NAME}}"
    for names, words in entries:
        is_one = " " not in names
        first = f"{lead}{names:<{_COMMAND}}" if is_one else lead
        text = words if is_one else names.replace(" ", ", ")
        yield from flowed(terminal.text(text), first, " " * width(first), room)
        lead = " " * _NAME


def _fitting(line: str, room: int) -> Iterator[str]:
    """The line, broken again where the terminal is narrower than the columns of the help."""
    return iter((line,)) if width(line) <= room else flowed(line.strip(), "", "  ", room)
