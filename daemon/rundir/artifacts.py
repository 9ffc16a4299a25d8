"""Facts about expected artifacts: what is at a contract's paths, and what is near a path where nothing is."""

import os
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from runward.config.contract import Contract
from runward.config.glob_rule import path_matches
from runward.config.json_value import is_text
from runward.daemon.rundir.opening import (
    LISTED,
    opened,
    opened_below,
    unreadable,
)
from runward.daemon.rundir.resolving import NOTHING_THERE, fact_at, open_artifacts, open_run, refusal
from runward.handlers.model.files import FileFact, RootFacts, RuledPath, Unreadable


def artifact_facts(root: str, within: str, paths: Sequence[str | RuledPath]) -> RootFacts | Unreadable:
    """A fact for each of `paths`, relative to the directory `root`.

    If `within` is given, `root` is below it and no component after `within` may be a link.
    """
    try:
        descriptor = open_artifacts(root, within)
    except OSError as error:
        return unreadable(error)
    try:
        if descriptor is None:
            absent = (NOTHING_THERE,) * len(paths)
            near = _with_near_misses(None, root, within, paths, absent)
            return RootFacts(False, near) if near != absent else RootFacts(False)
        return RootFacts(True, _with_near_misses(descriptor, root, within, paths, _facts(descriptor, paths)))
    except OSError as error:
        return unreadable(error)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _with_near_misses(
    descriptor: int | None,
    root: str,
    within: str,
    paths: Sequence[str | RuledPath],
    facts: tuple[FileFact, ...],
) -> tuple[FileFact, ...]:
    """The facts; absent artifacts with the file that is nearly them, if there is one. Without a `descriptor` there is no root."""
    named = [path if isinstance(path, str) else path.file or path.rules.glob for path in paths]
    absent = [
        name for name, fact in zip(named, facts, strict=True) if name is not None and fact.state == "absent"
    ]
    if not absent:
        return facts

    globs = frozenset(path.path for path in paths if isinstance(path, RuledPath) and path.rules.glob)
    expected = frozenset(name for name in named if name is not None) - globs
    parent = os.path.dirname(root)
    above = open_run(within) if parent == within else open_artifacts(parent, within) if within else None
    try:
        near = near_misses(descriptor, above, absent, expected, globs)
    finally:
        if above is not None:
            os.close(above)
    return tuple(
        fact._replace(near=near[name]) if name in near and fact.state == "absent" else fact
        for name, fact in zip(named, facts, strict=True)
    )


def _facts(root: int, paths: Sequence[str | RuledPath]) -> tuple[FileFact, ...]:
    ruled = [path for path in paths if isinstance(path, RuledPath)]
    if not ruled:
        return tuple(fact_at(root, path) for path in paths if isinstance(path, str))
    from runward.daemon.rundir.ruled_artifacts import RuledLook  # only contracts with rules pay for this

    ruled_facts = iter(RuledLook(root).facts(ruled))
    return tuple(fact_at(root, path) if isinstance(path, str) else next(ruled_facts) for path in paths)


def contract_facts(
    contract: Contract, root: str, within: str, run: str, started_at: float, layout: str | None = None
) -> RootFacts | Unreadable:
    """A fact for each entry. `root` and `within` are those of `artifact_facts`, `run` is the run's directory.

    With the `layout` of a foreign session `run` is its log or directory. `started_at` (Unix seconds) is when the session started.
    """
    if all(entry.rules is None for entry in contract.expected):
        return artifact_facts(root, within, [entry.path for entry in contract.expected])
    from runward.handlers.contracts.files import (
        outcome_kinds,
        outcome_paths,
        paths_asked,
        reads_outcomes,
        with_outcomes,
    )

    facts = artifact_facts(root, within, paths_asked(contract, started_at))
    if isinstance(facts, Unreadable) or not reads_outcomes(contract):
        return facts
    from runward.daemon.rundir.outcomes import outcomes_in
    from runward.handlers.model.outcomes import BeingRead, ReadOutcome
    from runward.handlers.outcomes.reading import read_outcomes

    files = outcomes_in(run, root, outcome_paths(contract))
    if isinstance(files, Unreadable):
        return files
    assert not isinstance(files, BeingRead), "reports are read here, and waited for"
    read, _ = read_outcomes(files, wanted=outcome_kinds(contract))
    if layout is not None:
        from runward.daemon.rundir.session_reading import final_message
        from runward.handlers.outcomes.reading import outcome_in

        message = final_message(layout, run)
        if isinstance(message, Unreadable):
            return message
        own = None if message is None else outcome_in(message, "final message")
        read += [own] if isinstance(own, ReadOutcome) else []
    return with_outcomes(contract, facts, read)


# Files that are nearly what a contract expects, such as `Review.md` where `review.md` is absent, never count as delivered.
# They are named because a person who reads "absent" would otherwise search for them. A run can make any number of files
# with any names, so what is listed and compared is bounded.
MOST_ABSENT: Final = 20
"""Absent artifacts for which anything is searched."""

MOST_NAMES: Final = 1000
"""Names that are looked at for all of them, with one for each directory that is opened."""

DEEPEST: Final = 2
"""Levels of directories below the root that are searched, besides those in which something is expected."""

ABOVE: Final = ".."
_SHORTEST: Final = 3
"""Characters before the ending that a name has at least, if one wrong character is forgiven."""


def near_misses(
    root: int | None,
    above: int | None,
    absent: Sequence[str],
    expected: frozenset[str],
    globs: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """For each of the `absent` paths the file that is nearly it, if there is one, by its path from `root`.

    Those in `globs` are globs that match nothing. What is `expected` under its own name is none. `above` is the directory
    that the root is in, if it belongs to the run, too. If there is no `root`, the directories beside its place are searched
    instead. Raises `OSError` if the machine is at fault.
    """
    nearest: dict[str, tuple[int, int, str]] = {}
    for candidate in _files(root, above, absent[:MOST_ABSENT]):
        if candidate in expected:
            continue
        for wanted in absent[:MOST_ABSENT]:
            rank = _rank_of_glob(wanted, candidate) if wanted in globs else _rank(wanted, candidate)
            if rank is not None:
                ranked = rank, len(candidate), candidate
                nearest[wanted] = min(nearest.get(wanted, ranked), ranked)
    return {wanted: path for wanted, (_, _, path) in nearest.items()}


def _files(root: int | None, above: int | None, absent: Sequence[str]) -> Iterator[str]:
    """The regular files near the absent ones: first beside them, then above the root, then below it, level by level."""
    left = MOST_NAMES
    beside = dict.fromkeys(os.path.dirname(path) for path in absent)
    todo = deque(
        [
            *((each, DEEPEST if each == "" else 1) for each in beside),
            (ABOVE, 0 if root is not None else 1),
            ("", DEEPEST),
        ]
    )
    seen: set[str] = set()
    while todo and left > 0:
        directory, levels = todo.popleft()
        parts = directory.split("/")
        start = above if parts[0] == ABOVE else root
        if directory in seen or start is None:
            continue
        seen.add(directory)
        left -= 1
        try:
            for name, is_directory in _names(start, parts[1:] if parts[0] == ABOVE else parts, left):
                left -= 1
                path = f"{directory}/{name}" if directory else name
                if not is_directory:
                    yield path
                elif levels > 0 and not name.startswith("."):
                    todo.append((path, levels - 1))
        except OSError as error:
            refusal(error)  # raises if the machine is at fault


def _names(start: int, parts: list[str], most: int) -> list[tuple[str, bool]]:
    """The names of regular files and directories in a directory, and whether each is a directory."""
    names: list[tuple[str, bool]] = []
    with (
        opened_below(start, [part for part in parts if part]) as place,
        opened(".", LISTED, place) as listed,
        os.scandir(listed) as entries,
    ):
        for _, entry in zip(range(most), entries, strict=False):
            is_directory = entry.is_dir(follow_symlinks=False)
            # Another name no text of the store could have.
            if is_text(entry.name) and (is_directory or entry.is_file(follow_symlinks=False)):
                names.append((entry.name, is_directory))
    return sorted(names)


def _rank(wanted: str, candidate: str) -> int | None:
    """How near the path of a file is to what is wanted, 0 nearest. None if it is something else, or the same."""
    place, name = os.path.split(_folded(wanted))
    other_place, other = os.path.split(_folded(candidate))
    if wanted == candidate:
        return None  # it has just arrived
    if place != other_place:
        return 2 if name == other else None
    if name == other:
        return 0
    return 1 if _has_other_ending(name, other) or _has_one_wrong(name, other) else None


def _rank_of_glob(wanted: str, candidate: str) -> int | None:
    """How near a file is to a glob: 0 or not at all, because a glob leaves open what its files are called."""
    if candidate.startswith(f"{ABOVE}/") or path_matches(f"/{candidate}", f"/{wanted}"):
        return None
    return 0 if path_matches(f"/{_folded(candidate)}", f"/{_folded(wanted)}") else None


@lru_cache(maxsize=4 * MOST_NAMES)
def _folded(path: str) -> str:
    """The path without what people don't see: the case, and the way in which characters are composed."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def _has_other_ending(name: str, other: str) -> bool:
    stem, other_stem = os.path.splitext(name)[0], os.path.splitext(other)[0]
    return other.startswith(f"{name}.") or stem == other_stem


def _has_one_wrong(name: str, other: str) -> bool:
    """Whether one character is missing, too many or another one, or two neighbours are swapped."""
    short, long = sorted((name, other), key=len)
    if len(long) - len(short) > 1 or len(os.path.splitext(name)[0]) < _SHORTEST:
        return False
    same = next((at for at, char in enumerate(short) if char != long[at]), len(short))
    short, long = short[same:], long[same:]
    if len(short) < len(long):
        return short == long[1:]
    return short[1:] == long[1:] or (short[:2] == long[1::-1] and short[2:] == long[2:])
