"""`[[roots]]`: the directories that the daemon watches, the layouts of the runs in them, and how roots are kept apart."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Annotated, Final, Literal, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, Problem, quoted
from runward.config.shape import Choice, Complain, DurationText, Glob, ListOf, Path, Text, TrueOrFalse
from runward.config.table import DEFAULT, Placed, Table

NATIVE: Final = "native"
"""The layout of the runs that Runward launches."""

FOREIGN_LAYOUTS: Final = (
    "ctcp",
    "adjutant",
    "lionagi",
    "show",
    "claude-code",
    "codex",
    "pi",
    "qwen",
    "droid",
    "opencode",
    "kilo",
    "copilot",
    "cline",
    "kimi",
)
"""The layouts of other tools: the values for a rule of `[[contracts]]`."""

AUTO: Final = "auto"
"""The layout of a root in which the layout of each session of another tool is recognised separately."""

LAYOUTS: Final = (NATIVE, AUTO, *FOREIGN_LAYOUTS)
"""What a root's layout may be."""

OWN_ROOTS: Final = "runs"
"""Native runs without a root of their own go to `<state_dir>/runs`; `runs-nightly` and the like may be next to it."""

ROOT_NAME: Final = Text(
    "The root's name, unique; part of its sessions' keys. Default: the last part of its path.", 100, "/:#"
)


class Root(NamedTuple):
    """A directory that the daemon watches, with the runs in it.

    `path` is absolute. `stale_after` and `start_within` are None if there is no limit.
    """

    name: Annotated[str, ROOT_NAME]
    path: Annotated[str, Path("The directory: absolute, from ~, or relative to the directory of this file.")]
    layout: Annotated[
        str,
        Choice(
            "How the runs in it are written; 'auto' recognises each foreign session by its files.", LAYOUTS
        ),
    ] = NATIVE
    history: Annotated[
        Literal["live", "record"],
        Choice(
            "What happens to runs that ended before the root was first seen: 'live' judges them like any other, "
            "'record' only records their status. Default: live for native roots, record for other tools'.",
            ("live", "record"),
        ),
    ] = "live"
    ignore: Annotated[
        tuple[str, ...],
        ListOf(
            "Run directories to ignore, as globs of their names; for transcripts, also names of directories above them.",
            Glob("A glob of one name.", 255, forbidden="/"),
            100,
        ),
    ] = ()
    settle: Annotated[
        float,
        DurationText(
            "How long a growing file of a foreign session must not change before an end in it counts.", 0.1
        ),
    ] = 2.0
    stale_after: Annotated[
        float | None,
        DurationText(
            "The silence after which a foreign session is ended, if it is not known whether its process is alive. "
            "Default: never.",
            1.0,
        ),
    ] = None
    start_within: Annotated[
        float | None,
        DurationText(
            "How long a foreign session may take to write its first line if it is not known "
            "whether its process is alive. Default: no limit.",
            1.0,
        ),
    ] = None
    bundle: Annotated[
        bool, TrueOrFalse("Whether each live session gets a bundle: replay, receipt and summary.")
    ] = True


_FOREIGN_KEYS: Final = ("settle", "stale_after", "start_within")
"""The keys of a root that only apply to other tools' layouts."""


def _check_foreign(root: Mapping[str, JsonValue], loc: Location, complain: Complain) -> None:
    """Keys that only apply to foreign sessions are not allowed for a native root."""
    if root.get("layout", NATIVE) != NATIVE:
        return
    for key in _FOREIGN_KEYS:
        if root.get(key) is not None:
            message = f"{quoted(key)} has no effect here: native runs say themselves when they end"
            complain(Complaint((*loc, key), message, "leave it out, or name the root's layout"))


ROOT: Final = Table(Root, required=("path",), check_whole=_check_foreign)


def root_of(value: Mapping[str, JsonValue]) -> Root:
    """The root in a checked table with its name and path."""
    usual = "live" if value.get("layout", NATIVE) == NATIVE else "record"
    return ROOT.from_json({"history": usual, **value})


def misplaced_roots(roots: Mapping[str, Placed], state_dir: Placed | None) -> Iterator[Problem]:
    """A problem for each two roots that overlap, and for each that overlaps the state directory (if known)."""
    paths = {name: _path(root) for name, root in roots.items()}
    for name, later in combinations(paths, 2):
        if _is_inside(paths[later], paths[name]) or _is_inside(paths[name], paths[later]):
            message = f"{quoted(paths[later])} overlaps the root {quoted(name)}, {quoted(paths[name])}"
            yield roots[later].problem(("roots",), message, "watch each directory through one root only")
    if state_dir is not None:
        for name, root in roots.items():
            yield from _beside_state(name, root, state_dir)


def _beside_state(name: str, root: Placed, state_dir: Placed) -> Iterator[Problem]:
    path, state = _path(root), str(state_dir.value)
    # Such a root would make the daemon look at its own files as if agents had written them.
    if _is_inside(state, path):
        message = f"{quoted(state)} is inside the root {quoted(name)}, {quoted(path)}"
        blamed, key = (root, "roots") if state_dir.file == DEFAULT else (state_dir, "state_dir")
        yield blamed.problem((key,), message, "keep Runward's own state out of the roots")
    elif _is_inside(path, state) and not is_own_root(path, state):
        message = f"{quoted(path)} is inside Runward's own state, {quoted(state)}"
        yield root.problem(("roots",), message, f"use {state}/{OWN_ROOTS}, or a directory elsewhere")


def _is_inside(path: str, other: str) -> bool:
    """Whether `path` is `other` or below it."""
    return path == other or path.startswith(f"{other.rstrip('/')}/")


def is_own_root(path: str, state_dir: str) -> bool:
    """Whether a path in the state directory is where roots may be."""
    first = path.removeprefix(state_dir.rstrip("/") + "/").split("/")[0]
    return first == OWN_ROOTS or first.startswith(f"{OWN_ROOTS}-")


def _path(root: Placed) -> str:
    assert isinstance(root.value, dict)
    return str(root.value["path"])
