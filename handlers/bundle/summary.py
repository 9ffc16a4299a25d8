"""PR_SUMMARY.md: what a session did, for people. The same facts are also available as JSON.

All of it comes from facts; what is not known is `unknown`. Values come from agents, so each is put on one line,
without control characters, and nothing in them acts as Markdown or HTML. Nobody is mentioned, and nothing becomes a link.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.bundle.verification_runs import VerificationRun
from runward.handlers.model.bundle import Cost, FileEdit
from runward.handlers.model.stored import Stored, as_json

LONGEST: Final = 500
"""Characters of a value; a longer one is cut."""

MOST_ITEMS: Final = 200
"""Items of a list; further ones are counted."""

UNKNOWN: Final = "unknown"

_REFERENCE: Final = re.compile(
    r"@(?=\S)|(?<=\w):(?=//)|\b(?:mailto|xmpp):(?=\S)|\bwww(?=\.)|#(?=\d)|\bgh-(?=\d)", re.IGNORECASE
)
"""Where a mention, an address or a reference begins, which pages make active although nothing is markup."""
_APART: Final = "\u200b"
"""A space without width: what it divides is shown as it is, and does nothing."""

_MARKUP: Final = re.compile(r"([\\`*{}\[\]<>#|~!&]|(?<![^\W_])_|_(?![^\W_]))")
"""Characters that Markdown or HTML may treat as markup. An underscore inside a word is not markup."""


class Failure(NamedTuple):
    """Why the session did not complete, and what to do about it."""

    root_cause: str
    next_steps: tuple[str, ...]


class Verified(NamedTuple):
    """The last run of a verification command. What is not known is None."""

    command: str
    exit_code: int | None
    tests_passed: int | None
    tests_total: int | None


class Summary(NamedTuple):
    """The facts. `tokens` are those given and made."""

    session_id: str
    changes: tuple[str, ...]
    files: tuple[FileEdit, ...]
    verification: tuple[Verified, ...]
    confidence: float | None
    issue_number: int | None
    duration_s: float
    apm: float | None
    sapm: float | None
    tokens: tuple[int, int] | None = None
    cost: Cost | None = None
    failure: Failure | None = None
    lacks_untracked: bool = False
    """Whether the files that git does not track are unknown."""
    estimate: str | None = None
    """What it cost at list prices, if it doesn't say itself what it cost."""
    calls: int | None = None
    failed_calls: int | None = None


_STORED: Final = Stored(Summary)


def dump_summary(summary: Summary) -> str:
    """The facts as JSON text, for the store."""
    return as_json(summary)


def load_summary(text: str) -> Summary:
    """The facts that were stored. Raises `ValueError` for what another version of `dump_summary` wrote."""
    return _STORED.load(text)


def verified(runs: Sequence[VerificationRun]) -> tuple[Verified, ...]:
    """Verification as the summary has it."""
    return tuple(
        Verified(
            run.command,
            run.exit_code,
            None if run.results is None else run.results.passed,
            None if run.results is None else run.results.total,
        )
        for run in runs
    )


def rates(calls: int, succeeded: int, duration_s: float) -> tuple[float | None, float | None]:
    """Calls a minute, and that times the share of calls that succeeded. None without a time or a call."""
    if duration_s <= 0:
        return None, None
    apm = round(calls * 60 / duration_s, 1)
    return apm, round(apm * succeeded / calls, 1) if calls else None


def summary_json(summary: Summary) -> dict[str, JsonValue]:
    """The facts for programs."""
    failure, tokens, cost = summary.failure, summary.tokens, summary.cost
    return {
        "changes": list(summary.changes),
        "files": [each._asdict() for each in summary.files],
        "verification": [each._asdict() for each in summary.verification],
        "confidence": summary.confidence,
        "issue_number": summary.issue_number,
        "duration_s": summary.duration_s,
        "calls": summary.calls,
        "failed_calls": summary.failed_calls,
        "apm": summary.apm,
        "sapm": summary.sapm,
        "tokens": None if tokens is None else {"input": tokens[0], "output": tokens[1]},
        "cost": None if cost is None else cost._asdict(),
        "estimate": summary.estimate,
        "failure": None
        if failure is None
        else {"root_cause": failure.root_cause, "next_steps": list(failure.next_steps)},
    }


def summary_text(summary: Summary) -> str:
    """The facts as Markdown, with the seed's sections in its order."""
    issue = "none" if summary.issue_number is None else f"#{summary.issue_number}"
    confidence = UNKNOWN if summary.confidence is None else f"{summary.confidence:.2f}"
    lines = ["# PR Summary", "", "## Changes Made"]
    lines += _listed([f"- {plain(each)}" for each in summary.changes])
    lines += ["", "## Files Modified"]
    if summary.files or not summary.lacks_untracked:
        lines += _listed([_file(each) for each in summary.files])
    if summary.lacks_untracked:
        lines.append(f"- files that git does not track: {UNKNOWN}")
    lines += ["", "## Verification"]
    lines += _listed([_verification(each) for each in summary.verification])
    lines += ["", f"## Confidence: {confidence}", "", "## Session"]
    lines += [f"- ID: {plain(summary.session_id)}", f"- Issue: {issue}"]
    lines += [f"- Duration: {_duration(summary.duration_s)}", "", "## Performance"]
    lines += [f"- APM: {_known(summary.apm)}", f"- sAPM: {_known(summary.sapm)}", "", "## Cost"]
    lines += [f"- Tokens: {_tokens(summary.tokens)}", f"- Cost: {_cost(summary)}"]
    if summary.failure is not None:
        lines += ["", "## If Failed", f"- Root cause: {plain(summary.failure.root_cause) or UNKNOWN}"]
        steps = [f"- Suggested next steps: {plain(each)}" for each in summary.failure.next_steps]
        lines += steps or [f"- Suggested next steps: {UNKNOWN}"]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """A value as text that Markdown shows as it is: on one line, without control characters, at most `LONGEST` long."""
    apart = _REFERENCE.sub(lambda match: match[0] + _APART, one_line(text))
    return _MARKUP.sub(_escaped, apart)


def one_line(text: str) -> str:
    """A value on one line, without characters that control a terminal or the direction of text."""
    joined = " ".join("".join(" " if _is_control(each) else each for each in text[: 4 * LONGEST]).split())
    return joined if len(joined) <= LONGEST else joined[: LONGEST - 1] + "…"


def code(text: str) -> str:
    """A value as code: the fence is longer than any run of backticks in it."""
    line = one_line(text)
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}" if line else "``"


def _escaped(match: re.Match[str]) -> str:
    character = match[1]
    return {"<": "&lt;", ">": "&gt;", "&": "&amp;"}.get(character, f"\\{character}")


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _listed(items: list[str]) -> list[str]:
    if not items:
        return ["- none"]
    return (
        items if len(items) <= MOST_ITEMS else [*items[:MOST_ITEMS], f"- and {len(items) - MOST_ITEMS} more"]
    )


def _file(edit: FileEdit) -> str:
    if edit.lines_changed is None:
        return f"- {code(edit.path)} ({UNKNOWN} lines changed)"
    return f"- {code(edit.path)} ({edit.lines_changed} lines changed)"


def _verification(run: Verified) -> str:
    came = UNKNOWN if run.exit_code is None else ("PASS" if run.exit_code == 0 else "FAIL")
    counted = "" if run.tests_total is None else f" ({run.tests_passed}/{run.tests_total} tests)"
    return f"- {code(run.command)}: {came}{counted}"


def _duration(seconds: float) -> str:
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours}h {minutes}m {whole % 60}s"
    return f"{minutes}m {whole % 60}s" if minutes else f"{whole % 60}s"


def _known(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}"


def _tokens(tokens: tuple[int, int] | None) -> str:
    return UNKNOWN if tokens is None else f"{tokens[0]:,} in / {tokens[1]:,} out"


def _cost(summary: Summary) -> str:
    cost = summary.cost
    if cost is None:
        return UNKNOWN if summary.estimate is None else f"{summary.estimate}, an estimate"
    return f"{cost.amount:,.0f} msats" if cost.unit == "msats" else f"{cost.amount:.4f} USD"


_LINE: Final = re.compile(r"^[^\S\n]*[-*][^\S\n]*ID:(.*)$", re.MULTILINE)
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")


def names_session(summary: str, session_id: str) -> bool:
    """Whether the summary names this session: in its `- ID:` line, or anywhere if it has no such line."""
    wanted = {session_id, _plain(session_id), plain(session_id)}
    lines: list[str] = [line.strip() for line in _LINE.findall(summary)]
    if lines:
        return all(line in wanted or _plain(line) in wanted for line in lines)
    return session_id in summary or _plain(session_id) in _plain(summary)


def _plain(text: str) -> str:
    """A text without the markup of Markdown and HTML."""
    from html import unescape  # its table of entities has 2,000 names

    shown = unescape(_ESCAPED.sub(r"\1", text)).strip("`")
    return "".join(each if each.isprintable() else " " for each in shown).strip()
