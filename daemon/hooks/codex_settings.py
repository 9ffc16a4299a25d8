"""Codex's `config.toml`: our program added to `notify` and removed, in the text; the rest stays byte for byte.

Codex knows one program to notify. An existing one is kept: it follows Runward's and a `--`, as it was written, and is called
by ours.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Problem
from runward.config.toml_document import toml_texts
from runward.daemon.hooks.settings_file import Edited, Refused, is_ours, refused
from runward.daemon.hooks.toml_text import BOM, line_break_of, quoted_in_toml, read_toml_text

AGENT: Final = "codex"
KEY: Final = "notify"
_THEN: Final = "--"
_FIX: Final = "make it a list of texts at the top of the file, or take it out, and try again"


class _Notify(NamedTuple):
    """The key `notify` in the text: its words, and the offsets of key, list and words."""

    words: list[str]
    key: int
    start: int
    end: int
    spans: list[tuple[int, int]]

    @property
    def own(self) -> int:
        """How many of the words are Runward's, including the `--`; 0 if it is another program."""
        if not is_ours(self.words, AGENT):
            return 0
        return self.words.index(_THEN) + 1 if _THEN in self.words else len(self.words)


def install(text: str | None, name: str, words: Sequence[str], events: Sequence[str]) -> Edited:
    """The settings with our program, `words`, in `notify`, if that is among the events. Raises `Refused`."""
    if KEY not in events:
        return uninstall(text, name)
    if text is None:
        return Edited(_line(words) + "\n")
    before, notify = _read(text, name)
    after = _with(text, name, notify, words)
    parsed, _ = _read(after, name)
    new = notify is None or not notify.own
    # Read again as Codex reads it: whatever the edit did to the text, no other key may have changed.
    if _others(parsed) != _others(before) or (new and uninstall(after, name).text != text):
        raise Refused(
            Problem(name, None, None, "can't be edited in a way that can be undone", "do it by hand")
        )
    return Edited(after)


def uninstall(text: str | None, name: str) -> Edited:
    """The settings without our program, with the one that was there before. Raises `Refused`."""
    if text is None:
        return Edited(None)
    _, notify = _read(text, name)
    if notify is None or not notify.own:
        return Edited(text)
    if notify.words[notify.own - 1] == _THEN:
        return Edited(text[: notify.spans[0][0]] + text[_after_then(text, notify) :])
    if text == _line(notify.words) + "\n":
        return Edited(None)
    return Edited(_without_key(text, notify))


def events_in(text: str, name: str) -> tuple[str, ...]:
    """`notify`, if it calls our program. Raises `Refused`."""
    _, notify = _read(text, name)
    return (KEY,) if notify is not None and notify.own else ()


def others_in(text: str, name: str) -> list[object]:
    """What is in the settings apart from our program. Raises `Refused`."""
    document, notify = _read(text, name)
    return [*_others(document), *(notify.words[notify.own :] if notify is not None else ())]


def _with(text: str, name: str, notify: _Notify | None, words: Sequence[str]) -> str:
    if notify is None:
        at = len(BOM) if text.startswith(BOM) else 0
        return text[:at] + _line(words) + (line_break_of(text) if text[at:] else "") + text[at:]
    if notify.own:
        wanted = [*words, _THEN] if notify.words[notify.own - 1] == _THEN else list(words)
        if notify.words[: notify.own] == wanted:
            return text
        return text[: notify.spans[0][0]] + _list(wanted) + text[notify.spans[notify.own - 1][1] :]
    # With ours in front as well, it would be called twice for each event.
    if any(is_ours(notify.words[number:], AGENT) for number in range(len(notify.words))):
        message = "another program already calls Runward's hook"
        raise refused(name, text, notify.start, message, "take it out there, or leave it as it is")
    at = notify.start + 1
    return f"{text[:at]}{_list([*words, _THEN])}, {text[at:]}"


def _after_then(text: str, notify: _Notify) -> int:
    """Where the earlier program begins: after our `--`, its comma and one space."""
    end = notify.spans[notify.own - 1][1]
    if text[end : end + 1] != ",":
        return end
    return end + 2 if text[end + 1] == " " else end + 1


def _without_key(text: str, notify: _Notify) -> str:
    """The text without the key and its list, and without their line if there is nothing else on it."""
    start = text.rfind("\n", 0, notify.key) + 1
    if start == 0 and text.startswith(BOM):
        start = len(BOM)
    line_end = text.find("\n", notify.end)
    end = len(text) if line_end < 0 else line_end + 1
    if text[start : notify.key].strip() or text[notify.end : end].strip():
        return text[: notify.key] + text[notify.end :]
    return text[:start] + text[end:]


def _read(text: str, name: str) -> tuple[dict[str, JsonValue], _Notify | None]:
    """The document and what it says of `notify`. Raises `Refused`."""
    read = read_toml_text(text, name)
    document = read.document
    if KEY not in document:
        return document, None
    words, mark = document[KEY], read.marks[(KEY,)]
    start = read.offset(mark.value)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise refused(name, text, start, f"{KEY} is not a list of texts", _FIX)
    assert mark.key is not None, "a key has a place"
    spans, end = toml_texts(text, start)
    return document, _Notify([str(word) for word in words], read.offset(mark.key), start, end, spans)


def _others(document: dict[str, JsonValue]) -> list[tuple[str, str]]:
    """The rest of a document apart from `notify`, in a comparable form: a NaN equals nothing."""
    return sorted((key, repr(value)) for key, value in document.items() if key != KEY)


def _line(words: Sequence[str]) -> str:
    return f"{KEY} = [{_list(words)}]"


def _list(words: Sequence[str]) -> str:
    return ", ".join(quoted_in_toml(word) for word in words)
