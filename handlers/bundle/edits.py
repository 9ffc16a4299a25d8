"""Which files a session changed, and how many lines of each: with its own tools, and as git sees it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from runward.config.json_value import JsonValue
from runward.handlers.bundle.verification_runs import command_of
from runward.handlers.model.bundle import FileEdit

MOST_FILES: Final = 1000
_MOST_LINES: Final = 2000
"""Longest text, in lines, that is compared line by line. In a longer one all lines count as changed."""

_PATHS: Final = ("file_path", "notebook_path", "path", "filename", "file")
_EDITORS: Final = frozenset(
    {
        "edit",
        "multiedit",
        "write",
        "notebookedit",
        "file_edit",
        "file_write",
        "str_replace_editor",
        "str_replace_based_edit_tool",
        "edit_file",
        "write_file",
        "create_file",
        "editor",
        "replace",
        "apply_patch",
    }
)
"""Names of tools that change files, in small letters."""

_PATCH_FILE: Final = ("*** Update File: ", "*** Add File: ", "*** Delete File: ")


@dataclass(slots=True)
class Edits:
    """The changes of a session. Each counts once, when its call has succeeded."""

    _pending: dict[str, list[FileEdit]] = field(default_factory=dict)
    _files: dict[str, int | None] = field(default_factory=dict)
    left_out: int = 0
    """Changed files that are not kept, because there are too many."""

    def called(self, call: str, tool: str, params: JsonValue) -> None:
        """A tool was called under this id."""
        # An edit counts only when its call succeeded.
        edits = _edits_of(tool, params)
        if edits:
            self._pending[call] = edits

    def returned(self, call: str, success: bool) -> None:
        """The call came back."""
        for each in self._pending.pop(call, []) if success else ():
            if each.path not in self._files and len(self._files) >= MOST_FILES:
                self.left_out += 1
                continue
            before = self._files.get(each.path, 0)
            known = before is not None and each.lines_changed is not None
            self._files[each.path] = (before or 0) + (each.lines_changed or 0) if known else None

    def files(self) -> tuple[FileEdit, ...]:
        """The changed files, in the order of their first change."""
        return tuple(FileEdit(path, lines) for path, lines in self._files.items())


def _edits_of(tool: str, params: JsonValue) -> list[FileEdit]:
    name = tool.lower().rpartition(".")[2]
    patch = _patch_of(name, params)
    if patch is not None:
        return _of_patch(patch)
    if name not in _EDITORS or not isinstance(params, dict):
        return []
    path = next((value for key in _PATHS if isinstance(value := params.get(key), str) and value), None)
    return [] if path is None else [FileEdit(path, _lines_of(params))]


def _lines_of(params: dict[str, JsonValue]) -> int | None:
    """The lines that a call changes, by its own account. None if it doesn't say."""
    edits = params.get("edits")
    if isinstance(edits, list):
        counts = [_lines_of(each) if isinstance(each, dict) else None for each in edits]
        return sum(count or 0 for count in counts) if None not in counts else None
    old, new = (
        params.get("old_string", params.get("old_str")),
        params.get("new_string", params.get("new_str")),
    )
    if isinstance(old, str) and isinstance(new, str):
        return None if params.get("replace_all") is True else _changed(old.splitlines(), new.splitlines())
    for key in ("content", "file_text", "new_source", "text"):
        text = params.get(key)
        if isinstance(text, str):
            return len(text.splitlines())
    return None


def _changed(old: list[str], new: list[str]) -> int:
    """Lines that differ: of a changed line only the new one counts."""
    if max(len(old), len(new)) > _MOST_LINES:
        return max(len(old), len(new))
    import difflib  # only if something was edited

    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")


def _patch_of(name: str, params: JsonValue) -> str | None:
    """The text of a patch that this call applies, with its own tool or through a shell."""
    if name == "apply_patch":
        patch = params
        if isinstance(params, dict):
            patch = params.get("input", params.get("patch"))
        return patch if isinstance(patch, str) else None
    if isinstance(params, dict):
        words = params.get("command")
        if (
            isinstance(words, list)
            and len(words) > 1
            and words[0] == "apply_patch"
            and isinstance(words[1], str)
        ):
            return words[1]
        command = command_of(params)
        if command is not None and command.startswith("apply_patch "):
            patch = params.get("command", params.get("cmd"))
            return patch if isinstance(patch, str) else None
    return None


def _of_patch(patch: str) -> list[FileEdit]:
    per_file: dict[str, tuple[int, int]] = {}
    path = None
    for line in patch.splitlines():
        begins = next((each for each in _PATCH_FILE if line.startswith(each)), None)
        if begins is not None:
            path = line.removeprefix(begins).strip()
            per_file.setdefault(path, (0, 0))
        elif path is not None and line[:1] in ("+", "-"):
            added, removed = per_file[path]
            per_file[path] = (added + 1, removed) if line[0] == "+" else (added, removed + 1)
    return [FileEdit(path, max(counts)) for path, counts in per_file.items()]


MOST_COMMITS: Final = 200
MOST_FILES_OF_GIT: Final = 1000


def subjects(text: str, unsure: Collection[str] = ()) -> tuple[str, ...]:
    """The subjects in the output of `git log -z --format="%H %s"`, which has the newest first.

    `unsure` are the commits that may have been made before the session began.
    """
    lines: list[str] = []
    for entry in [each for each in text.split("\0") if each][:MOST_COMMITS]:
        commit, _, subject = entry.partition(" ")
        lines.append(f"{subject} (in the second in which the session began)" if commit in unsure else subject)
    return tuple(reversed(lines))


def changed(text: str) -> tuple[FileEdit, ...]:
    """The files in the output of `git diff --numstat -z`. The lines of a binary file are not counted."""
    edits: list[FileEdit] = []
    for entry in text.split("\0")[:MOST_FILES_OF_GIT]:
        counts = entry.split("\t", 2)
        if len(counts) == 3:
            added, removed, path = counts
            known = added.isdecimal() and removed.isdecimal()
            edits.append(FileEdit(path, int(added) + int(removed) if known else None))
    return tuple(edits)


def with_git(own: Sequence[FileEdit], top: str, files: Sequence[FileEdit]) -> tuple[FileEdit, ...]:
    """The session's own edits and what git found, each file once, as git counts it."""
    prefix = top.rstrip("/") + "/"
    by_path = {prefix + each.path: each for each in files}
    counted = {each.path: each for each in own}
    for path, each in by_path.items():
        known = counted.get(path)
        lines = (
            known.lines_changed if each.lines_changed is None and known is not None else each.lines_changed
        )
        counted[path] = FileEdit(path, lines)
    return tuple(counted.values())
