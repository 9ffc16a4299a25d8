"""One session as a person reads it: `session show`."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.daemon.cli.terminal.output import align, coloured, safe, safe_line, width
from runward.daemon.store.tables.artifacts import ArtifactRow
from runward.daemon.store.tables.files import KeptFile
from runward.daemon.store.tables.problems import ProblemRow
from runward.daemon.store.tables.sessions import (
    SessionRow,
    StatusChange,
    about_of,
    contract_of,
    files_of,
    verification_of,
)
from runward.daemon.views.outcomes import ExpectedArtifact, disagreement, expected_artifacts
from runward.daemon.views.session_files import last_lines
from runward.daemon.views.sessions import activity_in_full, fix_of_unknown, is_unknown, launched_command
from runward.daemon.views.text import ago, duration, local, size, tokens
from runward.daemon.views.unjudged import NOT_JUDGED
from runward.handlers.model.files import MEANINGS

_WIDE: Final = 44
"""Where the verdict is in the section's first line."""


def panel(contract: JsonValue, verification: JsonValue, why: Mapping[str, str]) -> list[str]:
    """The section's lines; none without a contract.

    `why` gives the reason, by path, why a file doesn't count as delivered, if that is known.
    """
    expected = expected_artifacts(contract, verification, why)
    if expected is None:
        return []
    verdict = str(verification["status"]) if isinstance(verification, dict) else "not yet"
    lines = [f"{'Expected artifacts':<{_WIDE}}Verified: {coloured(verdict)}", ""]
    if not expected:
        return [*lines, "  nothing is expected"]
    rows = [
        ("REQUIRED" if each.is_required else "OPTIONAL", safe(each.id), safe(each.path), _state(each))
        for each in expected
    ]
    indent = " " * (width(rows[0][0]) + 4)
    for line, entry in zip(align(rows), expected, strict=True):
        lines.append(f"  {line}")
        if entry.description:
            lines.append(f"{indent}description: {safe(entry.description)}")
        lines += [f"{indent}declared by: {safe(entry.declared_by)}", ""]
    return lines[:-1]


def _state(entry: ExpectedArtifact) -> str:
    if entry.state == "not yet":
        return "not yet"
    if entry.state == "delivered":
        return click.style("OK" if entry.size is None else f"OK ({size(entry.size)})", fg="green")
    state = "MISSING" if entry.state == "missing" else "NOT DELIVERED"
    if entry.why:
        state = f"{state} ({safe(entry.why)})"
    return click.style(state, fg="red" if entry.is_required else "yellow")


NOT_RECORDED: Final = f"{NOT_JUDGED}: this is what its own files say; the daemon's verdict counts"


def lines_of(
    row: SessionRow,
    journal: str,
    history: Sequence[StatusChange],
    kept: Sequence[KeptFile],
    why: Mapping[str, str],
    outcomes: Sequence[ArtifactRow],
    now: float,
    bundle: str | None = None,
    problems: Sequence[ProblemRow] = (),
    cost: str | None = None,
    calls: str | None = None,
    ordered: Mapping[str, JsonValue] | None = None,
) -> list[str]:
    """Everything about a session, as lines for a terminal; `journal` is the directory of its journal."""
    verification = verification_of(row)
    lines = align(_facts(row, journal, now, bundle, cost, calls, ordered))
    clash = disagreement(row.status, row.reason_code, verification)
    if clash is not None:
        lines += ["", f"{coloured('warning', 'Status and verification differ')}: {safe(clash)}."]
    for section in (
        panel(contract_of(row), verification, why),
        _timeline(history),
        _files(row, kept),
        _outcomes(outcomes),
        _problems(row, problems),
        _last_words(row),
    ):
        if section:
            lines += ["", *section]
    return lines


def _problems(row: SessionRow, problems: Sequence[ProblemRow]) -> list[str]:
    """What is wrong with files of the run."""
    lines = [
        f"  {safe(each.path.removeprefix(f'{row.path}/'))}{'' if each.line is None else f':{each.line}'}:"
        f" {safe(each.message)}"
        for each in problems
    ]
    return [coloured("warning", "Problems"), "", *lines] if lines else []


def _outcomes(outcomes: Sequence[ArtifactRow]) -> list[str]:
    from runward.daemon.cli.session.artifact import passed_text

    if not outcomes:
        return []
    rows = [
        (f"  {safe(each.kind)}", safe(each.name), passed_text(each), safe(each.summary or ""), safe(each.id))
        for each in outcomes
    ]
    return ["Outcomes", *align(rows)]


def _facts(
    row: SessionRow,
    journal: str,
    now: float,
    bundle: str | None,
    cost: str | None,
    calls: str | None,
    ordered: Mapping[str, JsonValue] | None,
) -> list[tuple[str, str]]:
    took = duration(max(0.0, (row.finished_at or now) - row.started_at))
    about = about_of(row)
    launched = launched_command(row)
    cwd = about.cwd or launched.cwd
    facts: list[tuple[str, str | None]] = [
        ("Session", safe(row.session_id)),
        ("Key", safe(row.key)),
        ("Status", f"{coloured(row.status)} ({safe(row.reason_code)})"),
        ("Record", coloured("warning", NOT_RECORDED) if row.not_judged_yet else None),
        ("Reason", safe(row.reason_summary)),
        ("Activity", activity_in_full(row, now) if is_unknown(row) else row.activity),
        ("Fix", fix_of_unknown(row.layout) if is_unknown(row) else None),
        ("Linked", ", ".join(safe(each) for each in json.loads(row.linked))),
        ("Evidence", row.ended_by),
        ("Delivery", coloured(row.delivery) if row.delivery else None),
        ("Attempt", str(row.attempt) if row.attempt > 1 else None),
        ("Started", f"{local(row.started_at)} ({ago(row.started_at, now)})"),
        ("Finished", f"{local(row.finished_at)} (took {took})" if row.finished_at else f"- (for {took})"),
        ("Playbook", row.playbook and safe(row.playbook)),
        ("Agent", row.agent and safe(row.agent)),
        ("Command", launched.command and safe(launched.command)),
        ("Cwd", cwd and safe(cwd)),
        ("Prompt", about.prompt and safe(about.prompt)),
        ("Model", about.model and safe(about.model)),
        ("Tokens", tokens(about.usage)),
        ("Cost", cost and safe(cost)),
        ("Calls", calls),
        *_ordered(ordered),
        ("Invocation", row.invocation_id and safe(row.invocation_id)),
        ("Containment", row.containment and safe(row.containment)),
        ("Contract", _contract(row)),
        ("Origin", "history: it ended before its root was first seen" if row.origin == "history" else None),
        ("Path", safe(row.path)),
        ("Artifacts", safe(row.artifacts_path) if contract_of(row) is not None else None),
        ("Logs", ", ".join(safe(path) for path in _logs(row))),
        ("Journal", safe(f"{journal}/events.jsonl") if row.origin == "live" else None),
        ("Bundle", safe(bundle) if bundle is not None else None),
    ]
    return [(f"{name}:", value) for name, value in facts if value]


def _ordered(by: Mapping[str, JsonValue] | None) -> list[tuple[str, str | None]]:
    """Who ordered it from this host, and by what it was let in."""
    if by is None:
        return []
    # Nothing for sessions of this host.
    from runward.daemon.views.ordered import acceptance_in_words, order_in_words

    accepted = acceptance_in_words(by)
    return [
        ("Ordered by", safe(order_in_words(by))),
        ("Order", safe(str(by["order"]))),
        ("Accepted by", accepted and safe(accepted)),
    ]


def _contract(row: SessionRow) -> str | None:
    """The result of the contract; nothing if none was declared and nothing is wrong."""
    problem = f": {safe(row.contract_problem)}" if row.contract_problem is not None else ""
    if row.artifact_contract_json is None:
        return f"{coloured('warning', 'none')}{problem}" if problem else None
    fixed = f"fixed ({row.contract_basis})" + (", with the legs of flow.json" if row.folded else "")
    return f"{fixed}; {coloured('warning', 'not folded')}{problem}" if problem else fixed


def _timeline(history: Sequence[StatusChange]) -> list[str]:
    rows = [
        (
            f"  {local(change.at)}",
            coloured(change.status),
            safe(change.reason_code),
            safe(change.reason_summary),
            f"({change.source})",
        )
        for change in history
    ]
    return ["Timeline", "", *align(rows)] if rows else []


def _files(row: SessionRow, kept: Sequence[KeptFile]) -> list[str]:
    rows = [
        (f"  {safe(str(each['path']))}", size(int(str(each["size"]))), _hash(each))
        for each in files_of(row, kept)
        if isinstance(each, dict)
    ]
    return [f"Files in {safe(row.artifacts_path)}", "", *align(rows)] if rows else []


_LOGS: Final = ("stdout.log", "stderr.log")
_LAST_LINES: Final = 10


def _logs(row: SessionRow) -> list[str]:
    """Where the run's output is kept."""
    if row.layout != NATIVE:
        return []
    return [path for name in _LOGS if os.path.isfile(path := f"{row.path}/{name}")]


def _last_words(row: SessionRow) -> list[str]:
    """The end of what a run that did not complete wrote to stderr; of one in a terminal, of all that it wrote."""
    if row.layout != NATIVE or row.status in ("running", "completed"):
        return []
    # In a terminal there is one log: stderr is recorded with stdout.
    name = "stderr.log" if os.path.isfile(f"{row.path}/stderr.log") else "stdout.log"
    lines = last_lines(row.path, name, _LAST_LINES)
    return [f"Last lines of {name}", "", *(f"  {safe_line(line)}" for line in lines)] if lines else []


def _hash(file: Mapping[str, JsonValue]) -> str:
    """A file's hash in hex, or why there is none."""
    problem = None if file["problem"] is None else f"it {MEANINGS[str(file['problem'])]}"
    if file["sha256"] is None:
        return "not hashed yet" if problem is None else coloured("warning", f"not hashed: {problem}")
    digest = f"sha256 {file['sha256']}"
    return digest if problem is None else f"{digest} {coloured('warning', f'({problem})')}"
