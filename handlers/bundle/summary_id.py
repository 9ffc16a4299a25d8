"""Which session a PR_SUMMARY.md names."""

import html
import re
from typing import Final

from runward.handlers.bundle.summary import plain

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
    shown = html.unescape(_ESCAPED.sub(r"\1", text)).strip("`")
    return "".join(each if each.isprintable() else " " for each in shown).strip()
