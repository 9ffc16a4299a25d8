"""`session show` on a terminal: what a session was, what it left and how it went, on one screen."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import click

from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.daemon.cli.terminal.output import coloured, width
from runward.daemon.cli.terminal.signs import Terminal
from runward.daemon.cli.terminal.tables import Column, flowed, flowed_part, table_rows
from runward.daemon.store.tables.problems import ProblemRow
from runward.daemon.store.tables.sessions import SessionRow, StatusChange, about_of, verification_of
from runward.daemon.views.answers import Answer
from runward.daemon.views.outcomes import ExpectedArtifact, disagreement
from runward.daemon.views.sessions import launched_command
from runward.daemon.views.text import age, clock, local, size, tokens
from runward.daemon.views.text import took as length

_NAMED_FILES: Final = ("run.json", "exit.json", "events.jsonl", "stdout.log", "stderr.log")
_MOST: Final = {"expected": 6, "timeline": 4, "problems": 2, "lines of a fact": 2}
"""Rows of each part: a screen has 24."""

_LEAD: Final = 11
_STATES: Final = {
    "delivered": ("completed", "OK"),
    "missing": ("failed", "MISSING"),
    "not delivered": ("failed", "NOT DELIVERED"),
    "not yet": ("pending", "not yet"),
}


class Shown(NamedTuple):
    """What the screen is made of; `bundle`, `cost` and `calls` are in words, `ordered` is who ordered it from this host."""

    row: SessionRow
    answer: Answer
    history: Sequence[StatusChange]
    expected: Sequence[ExpectedArtifact] | None
    bundle: str | None
    cost: str | None
    calls: str | None
    ordered: Mapping[str, JsonValue] | None
    problems: Sequence[ProblemRow]


def page(shown: Shown, terminal: Terminal, cleaned: Callable[[str], str]) -> list[str]:
    """The screen. `cleaned` takes secrets out of a text, before it is broken into lines."""

    def text(foreign: str) -> str:
        return terminal.text(cleaned(foreign))

    sign = terminal.sign(shown.answer.state)
    head = [*flowed(text(shown.answer.sentence), f"{sign} ", "  ", terminal.columns), ""]
    sections = (_expected(shown, terminal, text), _timeline(shown.history, terminal, text))
    rest = [line for section in sections if section for line in ("", *section)]
    name = shown.answer.name
    next_ones = f"runward why {name}" + (f"; runward session logs {name}" if _has_log(shown.row) else "")
    rest += ["", *flowed(terminal.command(cleaned(next_ones)), "Next: ", "      ", terminal.columns)]
    whole = f"runward session show {name} --all (keys, evidence, hashes)"
    rest += flowed(terminal.command(cleaned(whole)), "All:  ", "      ", terminal.columns)
    facts = _fact_lines(shown, terminal, text, _MOST["lines of a fact"])
    if len(head) + len(facts) + len(rest) >= _ROWS:
        facts = _fact_lines(shown, terminal, text, 1)
    return [*head, *facts, *rest]


_ROWS: Final = 24


def _fact_lines(shown: Shown, terminal: Terminal, text: Callable[[str], str], most: int) -> list[str]:
    """The facts, each in at most so many lines."""
    lines = []
    for name, value in _facts(shown, terminal):
        lead, indent = f"{name:<{_LEAD}}", " " * _LEAD
        lines += flowed_part(text(value), lead, indent, terminal.columns, most, terminal.ellipsis).lines
    return lines


def _ordered(by: Mapping[str, JsonValue] | None) -> str | None:
    if by is None:
        return None
    from runward.daemon.views.ordered import order_in_words  # nothing for sessions of this host

    return f"by {order_in_words(by)}"


def _facts(shown: Shown, terminal: Terminal) -> Iterator[tuple[str, str]]:
    row, about = shown.row, about_of(shown.row)
    launched = launched_command(row)
    cwd = about.cwd or launched.cwd
    took = max(0.0, (row.finished_at or terminal.now) - row.started_at)
    facts: list[tuple[str, str | None]] = [
        ("Ordered", _ordered(shown.ordered)),
        ("Ran", launched.command),
        ("Prompt", about.prompt),
        ("In", cwd and terminal.path(cwd)),
        ("When", f"{local(row.started_at)}, for {length(took)}, {age(row.started_at, terminal.now)} ago"),
        ("Playbook", _playbook(row)),
        ("Agent", row.agent or (None if row.layout == NATIVE else row.layout)),
        ("Model", ", ".join(each for each in (about.model, tokens(about.usage), shown.cost) if each)),
        ("Calls", shown.calls),
        ("Files", terminal.path(row.path)),
        ("", "  ".join(_files(row))),
        ("Bundle", shown.bundle),
        ("Differs", disagreement(row.status, row.reason_code, verification_of(row))),
    ]
    facts += [("Problem", each.message) for each in shown.problems[: _MOST["problems"]]]
    return ((name, value) for name, value in facts if value)


def _playbook(row: SessionRow) -> str | None:
    basis = {
        "launcher": "fixed when it started",
        "hook": "fixed when its hook told of it",
        "first_look": "fixed at the first look",
        "late": "fixed after its end",
    }.get(row.contract_basis or "")
    if row.contract_problem is not None:
        return f"{row.playbook or 'its contract'} can't be used as it is: {row.contract_problem}"
    return row.playbook and row.playbook + (f" ({basis})" if basis else "")


def _files(row: SessionRow) -> Iterator[str]:
    """The files of a native run that people look for, and how long its logs are."""
    for name in _NAMED_FILES if row.layout == NATIVE else ():
        try:
            found = os.lstat(f"{row.path}/{name}").st_size
        except OSError:
            continue
        yield f"{name} ({size(found)})" if name.endswith(".log") else name


def _has_log(row: SessionRow) -> bool:
    return row.layout == NATIVE and os.path.isfile(f"{row.path}/stdout.log")


def _expected(shown: Shown, terminal: Terminal, text: Callable[[str], str]) -> list[str]:
    if not shown.expected:
        return []
    verification = verification_of(shown.row)
    verdict = str(verification["status"]) if isinstance(verification, dict) else "not yet"
    title, verified = "Expected artifacts", f"Verified: {coloured(verdict)}"
    gap = min(terminal.columns, 80) - len(title) - width(verified)
    head = f"{click.style(title, bold=True)}{' ' * gap}{verified}" if gap > 1 else title
    chosen = shown.expected[: _MOST["expected"]]
    rows = table_rows(
        [
            Column("", [f"  {_sign(each, terminal)}" for each in chosen]),
            Column("", ["REQUIRED" if each.is_required else "OPTIONAL" for each in chosen], 3),
            Column("", [text(each.id) for each in chosen], 2),
            Column("", [text(each.path) for each in chosen]),
            Column("", [_state(each) for each in chosen]),
            Column("", [text(each.why or each.description) for each in chosen], 1),
        ],
        terminal.columns,
        terminal.ellipsis,
    )
    more = len(shown.expected) - len(chosen)
    return [head, *rows, *([f"  and {more} more"] if more > 0 else [])]


def _sign(each: ExpectedArtifact, terminal: Terminal) -> str:
    state = _STATES[each.state][0]
    return terminal.sign("skipped" if state == "failed" and not each.is_required else state)


def _state(each: ExpectedArtifact) -> str:
    word = _STATES[each.state][1]
    return f"{word} ({size(each.size)})" if each.state == "delivered" and each.size is not None else word


def _timeline(history: Sequence[StatusChange], terminal: Terminal, text: Callable[[str], str]) -> list[str]:
    last = history[-_MOST["timeline"] :]
    if not last:
        return []
    rows = table_rows(
        [
            Column("", [f"  {clock(each.at, terminal.now)}" for each in last], 1),
            Column("", [coloured(each.status) for each in last]),
            Column("", [text(each.reason_summary) for each in last]),
        ],
        terminal.columns,
        terminal.ellipsis,
    )
    return [click.style("Timeline", bold=True), *rows]
