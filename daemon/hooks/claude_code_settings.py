"""The `settings.json` of Claude Code, and of agents with the same form: our hooks added and removed in the text.

The rest stays byte for byte.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Problem
from runward.daemon.hooks.events import events_of
from runward.daemon.hooks.settings_file import Edited, Refused, is_our_shell_command, refused

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_SCALAR: Final = re.compile(r"[^\s,\]}]+")


# It scans a text that `json` has already accepted, so it looks for ends, not for mistakes.
class Span(NamedTuple):
    """A value from the offset `start` up to `end`; a member's `start` is that of its key, `key` is None in a list."""

    start: int
    end: int
    key: str | None
    value: int
    """Where the value begins."""
    items: tuple["Span", ...] = ()
    """The items of a list or an object, in the order of the text."""

    def members(self, key: str) -> list["Span"]:
        """The members with this key: more than one if the text has it twice."""
        return [item for item in self.items if item.key == key]


def _json_places(text: str) -> Span:
    """The document's value with everything in it. Raises `RecursionError` if it is nested too deeply."""
    start = _skip(_BLANK, text, 0)
    return _value(text, start, start, None)


def _value(text: str, start: int, at: int, key: str | None) -> Span:
    match text[at]:
        case "{" | "[":
            return _container(text, start, at, key)
        case '"':
            return Span(start, _skip(_STRING, text, at), key, at)
        case _:
            return Span(start, _skip(_SCALAR, text, at), key, at)


def _container(text: str, start: int, opened: int, key: str | None) -> Span:
    items: list[Span] = []
    at = _skip(_BLANK, text, opened + 1)
    while text[at] not in "]}":
        if text[at] == ",":
            at = _skip(_BLANK, text, at + 1)
        items.append(_member(text, at) if text[opened] == "{" else _value(text, at, at, None))
        at = _skip(_BLANK, text, items[-1].end)
    return Span(start, at + 1, key, opened, tuple(items))


def _member(text: str, start: int) -> Span:
    end = _skip(_STRING, text, start)
    key = str(json.loads(text[start:end]))
    at = _skip(_BLANK, text, _skip(_BLANK, text, end) + 1)
    return _value(text, start, at, key)


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None, f"json accepted what the scan can't follow at {at}"
    return match.end()


class Form(NamedTuple):
    """What differs between the agents whose settings have this form. `timeout` is in the agent's own unit.

    `events` are the hooks that tell something which the daemon can use. With `has_comments` the agent reads comments as
    JavaScript has them.
    """

    agent: str
    title: str
    events: tuple[str, ...]
    timeout: int
    has_comments: bool = False


TIMEOUT: Final = 10
"""Seconds after which the agents continue without us."""

CLAUDE_CODE: Final = Form(
    agent="claude-code",
    title="Claude Code",
    events=events_of("claude-code"),
    timeout=TIMEOUT,
)
DROID: Final = Form(
    agent="droid",
    title="Droid",
    events=events_of("droid"),
    timeout=TIMEOUT,
)
"""It skips events that it doesn't know. `droid exec` calls no `UserPromptSubmit`."""
QWEN: Final = Form(
    agent="qwen",
    title="Qwen Code",
    events=events_of("qwen"),
    timeout=TIMEOUT * 1000,
    has_comments=True,
)
"""It skips events that it doesn't know. 0.24 counts seconds below 1000, and milliseconds from there on, as earlier ones do."""

_WAS_EMPTY: Final = " "
_BOM: Final = "\ufeff"
_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
"""A comment, or a string, in which nothing begins a comment."""

_INDENT: Final = re.compile(r"\n([ \t]+)\S")


class _Style(NamedTuple):
    """How a text is laid out: the indentation of one level, None if everything is on one line, and the line break."""

    unit: str | None
    line_break: str


class _Ours(NamedTuple):
    """One of our commands in the text, and what contains it, from the root's member `hooks` inwards."""

    hooks: Span
    event: Span
    group: Span
    entries: Span
    entry: Span
    command: Span

    @property
    def name(self) -> str | None:
        return self.event.key


def install(
    text: str | None, name: str, command: str, events: Sequence[str], form: Form = CLAUDE_CODE
) -> Edited:
    """The settings with our `command` for each of these of the form's events, and for no other. Raises `Refused`."""
    if not events:
        return uninstall(text, name, form)
    if text is None:
        return Edited(_pretty({"hooks": {event: [_group(command, form)] for event in events}}, "  ") + "\n")
    before, style = text, _style(text, name, form)
    # One edit at a time, each in the text as it is then: an edit moves all places behind it.
    while (following := _towards(text, name, command, events, style, form)) is not None:
        text = following
    # Tried before the file is written: what is installed must be removable without a trace.
    if not _ours(before, name, form) and uninstall(text, name, form).text != before:
        raise Refused(
            Problem(name, None, None, "can't be edited in a way that can be undone", "do it by hand")
        )
    return Edited(text)


def uninstall(text: str | None, name: str, form: Form = CLAUDE_CODE) -> Edited:
    """The settings without Runward's commands, and without what was added for them. Raises `Refused`."""
    while text is not None and (entries := _ours(text, name, form)):
        # From the end, so that the places of those before it stay as they are.
        text = _without(text, entries[-1])
    return Edited(text)


def events_in(text: str, name: str, form: Form = CLAUDE_CODE) -> tuple[str, ...]:
    """The events that have a command of Runward's in the settings. Raises `Refused`."""
    return tuple(dict.fromkeys(str(each.name) for each in _ours(text, name, form)))


def others_in(text: str, name: str, form: Form = CLAUDE_CODE) -> list[object]:
    """What is in the settings apart from our commands, in their order. Raises `Refused`."""
    events_in(text, name, form)  # which refuses what can't be walked through
    document = json.loads((_plain(text) if form.has_comments else text).removeprefix(_BOM))
    hooks = document.pop("hooks", {})
    return [
        *document.items(),
        *(
            (event, {**group, "hooks": entry})
            for event, groups in hooks.items()
            for group in groups
            for entry in group["hooks"]
            if not is_our_shell_command(entry.get("command"), form.agent)
        ),
    ]


def _towards(
    text: str, name: str, command: str, events: Sequence[str], style: _Style, form: Form
) -> str | None:
    """The text one step closer to the goal; None if nothing is left to do."""
    seen: set[str | None] = set()
    for each in _ours(text, name, form):
        if each.name in seen or each.name not in events:
            return _without(text, each)
        seen.add(each.name)
        if json.loads(text[each.command.value : each.command.end]) != command:
            return text[: each.command.value] + _compact(command) + text[each.command.end :]
    missing = next((event for event in events if event not in seen), None)
    return None if missing is None else _with(text, name, missing, command, style, form)


def _with(text: str, name: str, event: str, command: str, style: _Style, form: Form) -> str:
    root, group = _document(text, name, form), _group(command, form)
    hooks = _only(root, "hooks", text, name)
    if hooks is None:
        return _put(text=text, container=root, depth=0, key="hooks", value={event: [group]}, style=style)
    groups = _only(hooks, event, text, name)
    if groups is None:
        return _put(text=text, container=hooks, depth=1, key=event, value=[group], style=style)
    return _put(text=text, container=groups, depth=2, key=None, value=group, style=style)


def _put(text: str, container: Span, depth: int, key: str | None, value: JsonValue, style: _Style) -> str:
    """The text with a value at the end of a list, or of an object under `key`."""
    unit, line_break = style
    lead = "" if key is None else f"{_compact(key)}: "
    if unit is None:
        written, parting = lead + _compact(value), ", "
    else:
        margin = line_break + unit * (depth + 1)
        written, parting = lead + _pretty(value, unit).replace("\n", margin), f",{margin}"
    if not container.items:
        at = container.value + 1
        return text[:at] + _WAS_EMPTY + written + text[at:]
    at = container.items[-1].end
    return text[:at] + parting + written + text[at:]


def _without(text: str, ours: _Ours) -> str | None:
    """The text without an entry, and without any container that held only it and was made for it."""
    root = _root(text)
    chain = [
        (ours.entries, ours.entry),
        (ours.event, ours.group),
        (ours.hooks, ours.event),
        (root, ours.hooks),
    ]
    for number, (container, item) in enumerate(chain):
        place = container.items.index(item)
        if place:
            return text[: container.items[place - 1].end] + text[item.end :]
        if len(container.items) > 1:
            return text[: item.start] + text[container.items[1].start :]
        # One space before our entry: the container was there and empty, so it stays.
        if number and text[container.value + 1 : item.start] == _WAS_EMPTY:
            return text[: container.value + 1] + text[item.end :]
    if text.rstrip() == _pretty(json.loads(_plain(text).removeprefix(_BOM)), "  "):
        return None
    return text[: root.value] + "{}" + text[root.end :]


def _ours(text: str, name: str, form: Form) -> list[_Ours]:
    return list(_find(text, name, form))


def _find(text: str, name: str, form: Form) -> Iterator[_Ours]:
    """Our commands in the text, in order. Raises `Refused` if a container of hooks has the wrong type."""
    hooks = _only(_document(text, name, form), "hooks", text, name)
    for event in hooks.items if hooks is not None else ():
        assert hooks is not None
        _only(hooks, str(event.key), text, name)
        _expect(event, "[", f"hooks.{event.key} is not a list", text, name, form)
        for group in event.items:
            _expect(group, "{", f"a group of hooks.{event.key} is not an object", text, name, form)
            entries = _only(group, "hooks", text, name)
            if entries is None:
                raise refused(
                    name, text, group.value, f"a group of hooks.{event.key} has no hooks", _fix(form)
                )
            _expect(
                entries, "[", f"the hooks of a group of hooks.{event.key} are not a list", text, name, form
            )
            for entry in entries.items:
                _expect(entry, "{", f"a hook of hooks.{event.key} is not an object", text, name, form)
                command = _only(entry, "command", text, name)
                if command is not None and is_our_shell_command(_read(text, command), form.agent):
                    yield _Ours(
                        hooks=hooks, event=event, group=group, entries=entries, entry=entry, command=command
                    )


def _fix(form: Form) -> str:
    return f"see {form.title}'s documentation of hooks, fix it, and try again"


def _document(text: str, name: str, form: Form) -> Span:
    """The places in a text that is a JSON object, with hooks in an object if it has any. Raises `Refused`."""
    try:
        plain = _plain(text) if form.has_comments else text
        json.loads(plain.removeprefix(_BOM), parse_constant=_no_constant)
        root = _root(text)
    except json.JSONDecodeError as error:
        message, fix = f"is not JSON: {error.msg}", "fix it, and try again"
        raise Refused(Problem(name, error.lineno, error.colno, message, fix)) from error
    except (RecursionError, ValueError) as error:
        message = "is nested too deeply" if isinstance(error, RecursionError) else f"is not JSON: {error}"
        raise Refused(Problem(name, None, None, message, "fix it, and try again")) from error
    _expect(root, "{", "does not contain an object", text, name, form)
    hooks = _only(root, "hooks", text, name)
    if hooks is not None:
        _expect(hooks, "{", "hooks is not an object", text, name, form)
        for event in form.events:
            groups = _only(hooks, event, text, name)
            if groups is not None:
                _expect(groups, "[", f"hooks.{event} is not a list", text, name, form)
    return root


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not one of its numbers")


def _plain(text: str) -> str:
    """The text with blanks in place of its comments."""
    return _COMMENT.sub(lambda each: each[0] if each[0][0] == '"' else re.sub(r"[^\r\n]", " ", each[0]), text)


def _root(text: str) -> Span:
    """The places in the text; its byte order mark and its comments are skipped like blanks."""
    text = _plain(text)
    return _json_places(" " + text[1:] if text.startswith(_BOM) else text)


def _only(container: Span, key: str, text: str, name: str) -> Span | None:
    """The member with this key, which must not be there twice."""
    members = container.members(key)
    # JSON lets a key appear twice, and readers differ in which one counts. An edit could change the wrong
    # one.
    if len(members) > 1:
        raise refused(name, text, members[1].start, f"the key {key!r} appears twice", "keep one of them")
    return members[0] if members else None


def _expect(span: Span, bracket: str, message: str, text: str, name: str, form: Form) -> None:
    if text[span.value] != bracket:
        raise refused(name, text, span.value, message, _fix(form))


def _read(text: str, span: Span) -> JsonValue:
    value: JsonValue = json.loads(text[span.value : span.end])
    return value


def _group(command: str, form: Form) -> JsonValue:
    return {"hooks": [{"type": "command", "command": command, "timeout": form.timeout}]}


def _style(text: str, name: str, form: Form) -> _Style:
    root, indent = _document(text, name, form), _INDENT.search(text)
    line_break = "\r\n" if "\r\n" in text else "\n"
    if indent is not None:
        return _Style(indent[1], line_break)
    return _Style(None if root.items else "  ", line_break)


def _pretty(value: JsonValue, unit: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False)


def _compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
