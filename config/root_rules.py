"""The rules between the roots, and between them and the state directory, by the texts of their paths alone."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final

from runward.config.problem import Problem, quoted
from runward.config.settings_layers import DEFAULT, Placed

OWN_ROOTS: Final = "runs"
"""Native runs without a root of their own go to `<state_dir>/runs`; `runs-nightly` and the like may be next to it."""


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
