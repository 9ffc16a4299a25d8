"""A patch, file by file: a strict reading of git's unified diffs.

Every line is checked against git's grammar, and each hunk against the lengths that it states. The patch may be hostile
and large: it is read line by line, and nothing of its content is kept but the targets of links.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from runward.handlers.ctcp.documents import MOST_BYTES

NOWHERE: Final = "/dev/null"

_LONGEST_PATHS: Final = 16 << 10
"""Characters of two paths without quotes: Linux has none of more than 4,096. The ways to part them grow with the length."""

_ESCAPE: Final = re.compile(r"\\([abtnvfr\"\\]|[0-3][0-7]{2})")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\(?:[abtnvfr"\\]|[0-3][0-7]{2}))*)"')
_MEANINGS: Final = dict(zip('abtnvfr"\\', '\a\b\t\n\v\f\r"\\', strict=True))


def one_path(text: str) -> str | None:
    """The path in the text, quoted or not. None if its quoting is broken. A time after a tab is dropped."""
    if not text.startswith('"'):
        return text.partition("\t")[0]
    quoted = _QUOTED.match(text)
    if quoted is None or text[quoted.end() :].partition("\t")[0]:
        return None
    return _unquoted(quoted[1])


def two_paths(text: str) -> list[tuple[str, str]]:
    """Every way to read the text as two paths with a blank between them."""
    if text.startswith('"'):
        quoted = _QUOTED.match(text)
        if quoted is None or text[quoted.end() : quoted.end() + 1] != " ":
            return []
        second = one_path(text[quoted.end() + 1 :])
        return [] if second is None else [(_unquoted(quoted[1]), second)]
    if text.endswith('"'):
        at = text.find(' "')
        last = _QUOTED.fullmatch(text, at + 1) if at != -1 else None
        return [] if last is None else [(text[:at], _unquoted(last[1]))]
    if len(text) > _LONGEST_PATHS:
        return []
    # git quotes no blanks: a name with ` b/` in it can be parted in several ways, and the other lines say which is meant.
    return [(text[: at.start()], text[at.end() :]) for at in re.finditer(" (?=b/)", text)]


def _unquoted(inside: str) -> str:
    """The text between the quotes, which is bytes: octal escapes are bytes of UTF-8."""
    raw = _ESCAPE.sub(lambda escape: _MEANINGS.get(escape[1]) or chr(int(escape[1], 8)), _as_bytes(inside))
    return raw.encode("latin-1").decode(errors="surrogateescape")


def _as_bytes(text: str) -> str:
    """The text's bytes, one character for each."""
    return text.encode(errors="surrogateescape").decode("latin-1")


LINK: Final = "120000"

_LONGEST_TARGET: Final = 1 << 16
_HEADER: Final = "diff --git "
_HUNK: Final = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_CONTEXT: Final = ("", " ", "\r")
"""How a line of context begins. Mail programs and editors remove the blank of an empty one."""
_MODE: Final = re.compile(r"(old|new|deleted file|new file) mode ([0-7]{6})")
_INDEX: Final = re.compile(r"index [0-9a-f]{4,64}\.\.[0-9a-f]{4,64}(?: ([0-7]{6}))?")
_MOVED: Final = re.compile(r"(rename|copy) (from|to) (.+)", re.DOTALL)
_LIKENESS: Final = re.compile(r"(?:dis)?similarity index \d{1,3}%")
_BINARY_PART: Final = re.compile(r"(?:literal|delta) \d{1,12}")
_BASE85: Final = re.compile(r"[A-Za-z][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{5,65}")


class DiffFault(NamedTuple):
    """Something that is wrong: the name of the rule, why, and the line."""

    rule: str
    message: str
    line: int


@dataclass(slots=True)
class FileDiff:
    """What a patch does to one file. `old` and `new` are without the prefixes; None if there is no such side."""

    line: int
    old: str | None = None
    new: str | None = None
    modes: dict[str, str] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    added: int = 0
    is_binary: bool = False
    target: str | None = None
    changes: bool = False

    @property
    def is_link(self) -> bool:
        """Whether it leaves a link behind."""
        return any(self.modes.get(key) == LINK for key in ("new", "new file", "index"))

    @property
    def touched(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for each in (self.old, self.new) if each is not None))


class _Lines:
    """The lines of a patch, with one line of lookahead. Each character represents a byte."""

    def __init__(self, content: bytes | bytearray) -> None:
        self._content, self._start = content, 0
        self.number = 0
        self.line: str | None = None
        self.too_long: int | None = None
        self.advance()

    def advance(self) -> str | None:
        """Advance to the next line. None after the last."""
        start, content = self._start, self._content
        if start >= len(content):
            self.line = None
            return None
        end = content.find(b"\n", start)
        end = len(content) if end == -1 else end
        self._start = end + 1
        self.number += 1
        if end - start > MOST_BYTES:
            self.too_long, end = self.number, start + 80
        self.line = content[start:end].decode("latin-1")
        return self.line


def read_diff(content: bytes | bytearray) -> Iterator[FileDiff | DiffFault]:
    """What the patch does to each file, and what is wrong with it. After a fault, reading continues at the next file."""
    lines = _Lines(content)
    while lines.line is not None and not lines.line.strip():
        lines.advance()
    if lines.line is None:
        yield DiffFault("not_a_diff", "is empty", max(1, lines.number))
        return
    if not lines.line.startswith(_HEADER):
        yield DiffFault("not_a_diff", "does not begin with 'diff --git'", lines.number)
        return
    while lines.line is not None:
        yield _section(lines)
        # Only the beginning of the line was read, so nothing that follows can be trusted.
        if lines.too_long is not None:
            yield DiffFault("too_large", f"the line is over {MOST_BYTES >> 20} MiB", lines.too_long)
            return


def _is_binary(line: str) -> bool:
    """Whether it is `Binary files A and B differ`. An expression would try each " and " in a hostile line."""
    inside = line.removeprefix("Binary files ").removesuffix(" differ")
    is_framed = len(line) - len(inside) == len("Binary files  differ")
    return is_framed and inside.find(" and ", 1, len(inside) - 1) != -1


def _section(lines: _Lines) -> FileDiff | DiffFault:
    """One file's part, up to the next header or the end."""
    diff = FileDiff(lines.number)
    header = _text(lines.line or "")[len(_HEADER) :]
    lines.advance()
    sides, fault = _extended(lines, diff)
    fault = fault or _name(header, sides, diff) or _body(lines, diff)
    if fault is None and not diff.changes:
        fault = DiffFault("not_a_diff", "changes nothing", diff.line)
    while lines.line is not None and not lines.line.startswith(_HEADER):
        if fault is None and lines.line.strip():
            fault = _stray(lines.line, lines.number, diff)
        lines.advance()
    return diff if fault is None else fault


def _extended(lines: _Lines, diff: FileDiff) -> tuple[list[str], DiffFault | None]:
    """The lines between the header and the first hunk: the texts after `---` and `+++`, if they are there."""
    while (line := lines.line) is not None:
        if mode := _MODE.fullmatch(line):
            diff.modes[mode[1]] = mode[2]
            diff.changes = True
        elif index := _INDEX.fullmatch(line):
            if index[1]:
                diff.modes["index"] = index[1]
        elif moved := _MOVED.fullmatch(line):
            path = one_path(_text(moved[3]))
            if path is None:
                return [], DiffFault("names", "has a name whose quotes are broken", lines.number)
            if moved[2] in diff.moves:
                return [], DiffFault("not_a_diff", f"says '{moved[1]} {moved[2]}' twice", lines.number)
            diff.moves[moved[2]] = path
            diff.changes = True
        elif not _LIKENESS.fullmatch(line):
            break
        lines.advance()
    if lines.line is not None and lines.line.startswith("@@ "):
        return [], DiffFault("not_a_diff", "has a hunk without '---' and '+++' above it", lines.number)
    if lines.line is None or not lines.line.startswith("--- "):
        return [], None
    old, number = _text(lines.line)[4:], lines.number
    below = lines.advance()
    if below is None or not below.startswith("+++ "):
        return [], DiffFault("not_a_diff", "has '---' without '+++' below it", number)
    new = _text(below)[4:]
    below = lines.advance()
    if below is None or not below.startswith("@@ "):
        return [], DiffFault("not_a_diff", "has no hunk below '+++'", number)
    return [old, new], None


def _name(header: str, sides: list[str], diff: FileDiff) -> DiffFault | None:
    """Determine which file it is: all lines must agree."""
    moves, fault = diff.moves, DiffFault("names", "its lines name different files", diff.line)
    if moves and len(moves) != 2:
        return DiffFault("names", "has one end of a rename or copy only", diff.line)
    ways = [(old[2:], new[2:]) for old, new in two_paths(header) if old[:2] == "a/" and new[:2] == "b/"]
    if moves:
        ways = [way for way in ways if way == (moves["from"], moves["to"])]
    else:
        ways = [way for way in ways if way[0] == way[1]]
    if not ways:
        problem = (
            "its lines name different files"
            if moves
            else "'diff --git' does not name one file as a/… and b/…"
        )
        if header.endswith("\r"):
            problem = (
                "its lines end in CR LF, which belong to the names: save it with LF alone, as git writes it"
            )
        return fault._replace(message=problem)
    old, new = ways[0]
    is_new, is_gone = "new file" in diff.modes, "deleted file" in diff.modes
    # `git apply` takes the names from one of these lines, other programs from another: they must not differ.
    if sides:
        wanted = NOWHERE if is_new else f"a/{old}", NOWHERE if is_gone else f"b/{new}"
        if (one_path(sides[0]), one_path(sides[1])) != wanted:
            return fault
    diff.old, diff.new = None if is_new else old, None if is_gone else new
    return None


def _body(lines: _Lines, diff: FileDiff) -> DiffFault | None:
    """The hunks, or the binary patch."""
    if lines.line == "GIT binary patch":
        diff.is_binary = diff.changes = True
        lines.advance()
        return _binary(lines)
    if lines.line is not None and _is_binary(lines.line):
        diff.is_binary = diff.changes = True
        lines.advance()
        return None
    while lines.line is not None and lines.line.startswith("@@ "):
        number, stated = lines.number, _HUNK.match(lines.line)
        if stated is None:
            return DiffFault("not_a_diff", "has a hunk without its numbers", number)
        diff.changes = True
        counts = [1 if each is None else int(each) for each in stated.groups()]
        added = _hunk(lines, diff, counts[0], counts[1])
        if added is None:
            return DiffFault("hunk", "the hunk is shorter or longer than it states", number)
        diff.added += added
    return None


def _hunk(lines: _Lines, diff: FileDiff, old: int, new: int) -> int | None:
    """Read one hunk of `old` and `new` lines: how many it adds. None if it is shorter or longer than that."""
    added = 0
    lines.advance()
    while (line := lines.line) is not None and (old > 0 or new > 0):
        sign = line[:1]
        if sign == "+":
            # The content of a link is its target, which is checked: `git apply` makes the link.
            if diff.is_link and len(diff.target or "") < _LONGEST_TARGET:
                diff.target = (diff.target or "") + _text(line[1:])
            new -= 1
            added += 1
        elif sign == "-":
            old -= 1
        elif sign in _CONTEXT:
            old -= 1
            new -= 1
        elif sign != "\\":
            return None
        lines.advance()
    # `\ No newline at end of file` may follow the last line too, when all lines are counted. Its words depend on the language.
    while lines.line is not None and lines.line.startswith("\\ "):
        lines.advance()
    return added if old == new == 0 else None


def _binary(lines: _Lines) -> DiffFault | None:
    parts = 0
    while lines.line is not None and _BINARY_PART.fullmatch(lines.line) and parts < 2:
        parts += 1
        line = lines.advance()
        while line is not None and _BASE85.fullmatch(line):
            line = lines.advance()
        if lines.line == "":
            lines.advance()
    return None if parts else DiffFault("not_a_diff", "has a binary patch without content", lines.number)


def _stray(line: str, number: int, diff: FileDiff) -> DiffFault:
    """A line that is left over after a file's part."""
    if diff.added and line[:1] in ("+", "-", " "):
        return DiffFault("hunk", "the hunk above is longer than it states", number)
    return DiffFault("not_a_diff", "the line is not part of a diff", number)


def _text(line: str) -> str:
    """A line whose characters stand for bytes, as text."""
    return line.encode("latin-1").decode(errors="surrogateescape")
