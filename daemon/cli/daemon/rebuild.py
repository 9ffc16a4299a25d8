"""`doctor --rebuild`: what the journals say, compared with the store, for people and for programs."""

import json

import click

from runward.config.counting import counted
from runward.daemon.cli.exits import GOOD, NOT_FOUND, NOT_SO
from runward.daemon.cli.terminal.output import coloured, fail, print_json, safe
from runward.daemon.cli.terminal.progress import progress
from runward.daemon.doctor.rebuild import Difference, Rebuilt, rebuild
from runward.daemon.store.reading import exists

_SHOWN = 20
"""Differences that people are shown."""


def print_rebuilt(state: str, as_json: bool) -> int:
    """Compare and print; returns the exit code."""
    if not exists(state):
        fail(f"no daemon has run in {state} yet: there is no store", NOT_FOUND)
    with progress() as shown:
        rebuilt = rebuild(state, shown)
    if as_json:
        print_json(rebuilt.as_json())
    else:
        for line in _lines(rebuilt):
            click.echo(line)
    return GOOD if rebuilt.same else NOT_SO


def _lines(rebuilt: Rebuilt) -> list[str]:
    lines = [_said(each) for each in rebuilt.differences[:_SHOWN]]
    differing = len(rebuilt.differences) + rebuilt.further
    if differing > _SHOWN:
        lines.append(f"{differing - _SHOWN} more differences (--json lists them)")
    word = coloured("ok", "the same") if rebuilt.same else coloured("failed", "not the same")
    of = f"{rebuilt.compared} of {counted(rebuilt.sessions, 'session', 'sessions')}"
    lines.append(f"{word}: the store agrees with the journals of {of}")
    if not rebuilt.same:
        lines[-1] = f"{word}: {counted(differing, 'field differs', 'fields differ')}, {of} compared"
    if rebuilt.not_compared:
        fields = counted(rebuilt.not_compared, "field", "fields")
        lines.append(f"not compared: {fields} that lines of earlier versions lack")
    for why, count in rebuilt.without_journal.items():
        lines.append(f"not compared: {counted(count, 'session', 'sessions')}: {safe(why)}")
    return lines


def _said(each: Difference) -> str:
    live, folded = (_cut(json.dumps(value, ensure_ascii=False)) for value in (each.live, each.folded))
    return safe(f"{each.session}: {each.field}: the store says {live}, the journal {folded}")


def _cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:119]}…"
