"""Kimi Code's `config.toml`: our entries of `[[hooks]]` added and removed in the text; the rest stays byte for byte."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.problem import Problem
from runward.daemon.hooks.settings_file import Edited, Refused, is_our_shell_command, refused
from runward.daemon.hooks.toml_text import TomlText, line_break_of, quoted_in_toml, read_toml_text

AGENT: Final = "kimi"
KEY: Final = "hooks"
_TIMEOUT: Final = 10
"""Seconds after which Kimi Code continues without us."""

_FIX: Final = f"write each hook as a table [[{KEY}]], and try again"
_VALUE: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'|[^\s#]+")
_BREAKS: Final = re.compile(r"(?:\r?\n){0,2}\Z")


class _Ours(NamedTuple):
    """One of our entries: what it says, and where it is. `header` is the offset of its first line.

    From `start` on it is removed: from the two line breaks before it.
    """

    event: str
    command: str
    header: int
    start: int
    end: int


def install(text: str | None, name: str, command: str, events: Sequence[str]) -> Edited:
    """The settings with our `command` for each of these events, and for no other. Raises `Refused`.

    With one event that it doesn't know, Kimi Code ignores all hooks, the person's own ones, too.
    """
    if text is not None and [(each.event, each.command) for each in _ours(text, name)] == [
        (event, command) for event in events
    ]:
        return Edited(text)
    before = uninstall(text, name).text
    if not events:
        return Edited(before)
    if before is None:
        return Edited("\n\n".join(_entry(event, command, "\n") for event in events) + "\n")
    _expect_tables(read_toml_text(before, name), name)
    line_break = line_break_of(before)
    # Before the last line break, so that a text without one at its end comes back without one.
    at = len(before) - (len(line_break) if before.endswith(line_break) else 0)
    ours = "".join(line_break * 2 + _entry(event, command, line_break) for event in events)
    after = before[:at] + ours + before[at:]
    _expect_same(before, after, name)
    if uninstall(after, name).text != before:
        raise _not_editable(name)
    return Edited(after)


def uninstall(text: str | None, name: str) -> Edited:
    """The settings without our entries. Raises `Refused`."""
    if text is None:
        return Edited(None)
    ours, after = _ours(text, name), text
    # From the end, so that the places of those before it stay as they are.
    for each in reversed(ours):
        after = after[: each.start] + after[each.end :]
    _expect_same(text, after, name)
    was_made = bool(ours) and ours[0].header == 0 and after == "\n"
    return Edited(None if was_made else after)


def events_in(text: str, name: str) -> tuple[str, ...]:
    """The events that have an entry of Runward's. Raises `Refused`."""
    return tuple(dict.fromkeys(each.event for each in _ours(text, name)))


def _entry(event: str, command: str, line_break: str) -> str:
    lines = (
        f"[[{KEY}]]",
        f'event = "{event}"',
        f"command = {quoted_in_toml(command)}",
        f"timeout = {_TIMEOUT}",
    )
    return line_break.join(lines)


def _ours(text: str, name: str) -> list[_Ours]:
    """Our entries in the text, in order. Raises `Refused`."""
    read = read_toml_text(text, name)
    hooks = read.document.get(KEY, [])
    found = []
    for number, entry in enumerate(hooks if isinstance(hooks, list) else []):
        if not isinstance(entry, dict) or not is_our_shell_command(entry.get("command"), AGENT):
            continue
        _expect_tables(read, name)
        header = read.offset(read.marks[(KEY, number)].value)
        last = max(read.offset(read.marks[(KEY, number, key)].value) for key in entry)
        value, breaks = _VALUE.match(text, last), _BREAKS.search(text[:header])
        assert value is not None, "a value has a character"
        assert breaks is not None, "it may be empty"
        event, command = str(entry.get("event")), str(entry["command"])
        found.append(_Ours(event, command, header, breaks.start(), value.end()))
    return found


def _expect_tables(read: TomlText, name: str) -> None:
    """Raises `Refused` if the hooks are not tables of their own, to which others can be added."""
    if KEY not in read.document:
        return
    hooks, text = read.document[KEY], read.text
    places = [read.offset(read.marks[(KEY,)].value)]
    if isinstance(hooks, list):
        places = [read.offset(read.marks[(KEY, number)].value) for number in range(len(hooks))] or places
    if not all(text.startswith("[[", place) for place in places):
        raise refused(name, text, places[0], f"{KEY} is not a list of tables", _FIX)


def _expect_same(before: str, after: str, name: str) -> None:
    """Read again as Kimi Code reads it: whatever the edit did to the text, nothing but ours may have changed."""
    if before != after and others_in(before, name) != others_in(after, name):
        raise _not_editable(name)


def others_in(text: str, name: str) -> list[object]:
    """What is in the settings apart from our entries, in a comparable form: a NaN equals nothing. Raises `Refused`."""
    document = dict(read_toml_text(text, name).document)
    hooks = document.pop(KEY, [])
    others = [
        each
        for each in (hooks if isinstance(hooks, list) else [hooks])
        if not isinstance(each, dict) or not is_our_shell_command(each.get("command"), AGENT)
    ]
    return [repr(each) for each in (*sorted(document.items()), *others)]


def _not_editable(name: str) -> Refused:
    return Refused(Problem(name, None, None, "can't be edited in a way that can be undone", "do it by hand"))
