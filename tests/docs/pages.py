"""The project's pages as tests read them: fenced blocks with what is said before them, links, headings, tables."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

_FENCE: Final = re.compile(r"^```(\S*)\s*$")
_COMMENT: Final = re.compile(r"^<!-- (not run|file|ends|demo|on|with|written by): (.+) -->$")
_HOME: Final = re.compile(r"^(?:#|//) (~/\S+)$")
_LINK: Final = re.compile(r"\]\(([^()\s]+)\)")
_CELL: Final = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `notes` are the comments before it; `file` is where a reader would write it, with `~`."""

    page: str
    line: int
    language: str
    text: str
    notes: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        if "file" in self.notes:
            return self.notes["file"]
        first = _HOME.match(self.text.partition("\n")[0])
        return first.group(1) if first else None


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown page, by its path from the repository's root."""

    name: str
    text: str

    @property
    def path(self) -> Path:
        return ROOT / self.name

    def blocks(self) -> list[Block]:
        """Every fenced block, in order."""
        found: list[Block] = []
        notes: dict[str, str] = {}
        inside: list[str] | None = None
        began, language = 0, ""
        for number, line in enumerate(self.text.splitlines(), 1):
            fence = _FENCE.match(line.strip())
            if inside is not None:
                if line.strip() == "```":
                    found.append(Block(self.name, began, language, "\n".join(inside) + "\n", notes))
                    inside, notes = None, {}
                else:
                    inside.append(line)
            elif fence is not None:
                inside, began, language = [], number, fence.group(1)
            elif comment := _COMMENT.match(line.strip()):
                notes = {**notes, comment.group(1): comment.group(2)}
            elif line.strip():
                notes = {}
        assert inside is None, f"{self.name}: the block of line {began} never ends"
        return found

    def visible(self) -> str:
        """The text without the comments, which nobody sees."""
        return "\n".join(line for line in self.text.splitlines() if not _COMMENT.match(line.strip()))

    def prose(self) -> str:
        """The text without its blocks and without code in it."""
        lines: list[str] = []
        fenced = False
        for line in self.text.splitlines():
            if line.strip().startswith("```"):
                fenced = not fenced
            elif not fenced:
                lines.append(line)
        return re.sub(r"`[^`\n]*`", "", "\n".join(lines))

    def links(self) -> list[str]:
        """Where the page links to."""
        return _LINK.findall(self.prose())

    def anchors(self) -> set[str]:
        """The anchors of its headings, as GitHub makes them."""
        found = set()
        for line in self.text.splitlines():
            if line.startswith("#"):
                heading = line.lstrip("#").strip().lower()
                found.add(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
        return found

    def section(self, heading: str) -> str:
        """The text under a heading, up to the next heading of any level."""
        lines: list[str] = []
        inside = fenced = False
        for line in self.text.splitlines():
            fenced ^= line.startswith("```")
            if line.startswith("#") and not fenced:
                inside = line == heading
            elif inside:
                lines.append(line)
        assert lines, f"{self.name} has no {heading!r}"
        return "\n".join(lines)

    def table(self, heading: str) -> list[list[str]]:
        """The cells of the first table under a heading, without its head."""
        rows: list[list[str]] = []
        for line in self.section(heading).splitlines():
            if line.startswith("|"):
                rows.append([cell.strip() for cell in _CELL.split(line.strip().strip("|"))])
            elif rows:
                break
        return rows[2:]


def page(name: str) -> Page:
    """The page of this path."""
    return Page(name, (ROOT / name).read_text())


def pages() -> list[Page]:
    """Every page of the project."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [page(str(path.relative_to(ROOT))) for path in sorted(paths)]


def documentation() -> str:
    """The text of all pages under docs/, but for the decisions: what is said there isn't documented by it."""
    return "\n".join(
        each.text for each in pages() if each.name.startswith("docs/") and "/decisions/" not in each.name
    )


def codes(cell: str) -> list[str]:
    """What stands in backquotes."""
    return re.findall(r"`([^`]+)`", cell)
