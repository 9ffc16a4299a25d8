"""What a person is shown before a step runs: its command, the outcomes before it, and every file that was left.

What is shown is what an approval covers. So a file that nothing binds is named, and approved only by leaving it out.
"""

import hashlib
import json
import posixpath
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.approvals.left_files import STATES, hash_of
from runward.handlers.chains.advancing import Position, command_at
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.contracts.hashes import TRIES
from runward.handlers.model.approvals import (
    FilesLeftIn,
    LeftFile,
    LeftFiles,
    LeftPlace,
    WorkPlace,
    Workplace,
    WorkplaceOf,
)
from runward.handlers.model.asking import Asking, TryLater, ask
from runward.handlers.model.contracts import ProducedBy
from runward.handlers.model.outcomes import ArtifactFilesOf, BeingRead, OutcomeFile, OutcomesIn
from runward.handlers.model.sessions import Session, SessionOf
from runward.handlers.model.unreadable import Unreadable


class Shown(NamedTuple):
    """What is shown, and its hash (SHA-256, hex)."""

    value: dict[str, JsonValue]
    hash: str


class _Named(NamedTuple):
    """Where a step's run left files, and the ids of those that its contract or an outcome names, by their paths."""

    step: int
    place: LeftPlace
    ids: Mapping[str, str]

    def step_of(self, file: LeftFile) -> int:
        """The number of the step that left the file."""
        return self.step


class _Worked(NamedTuple):
    """A directory outside the run directories, and the steps that worked there, with when they were ordered."""

    place: WorkPlace
    steps: tuple[tuple[float, int], ...]

    @property
    def step(self) -> int:
        """The first of them."""
        return self.steps[0][1]

    @property
    def ids(self) -> Mapping[str, str]:
        """No contract names a file there."""
        return {}

    def step_of(self, file: LeftFile) -> int:
        """The last step that had been ordered when the file changed."""
        changed_at = file.changed_at
        if changed_at is None:
            return self.step
        return max((each for each in self.steps if each[0] <= changed_at), default=self.steps[0])[1]


def shown(
    position: Position, step: int, tries: int, without: Collection[str] = (), until: float | None = None
) -> Asking[Shown | NotStarted]:
    """What would be shown now.

    `tries` says how often this was tried, `without` which files don't matter. What others changed later than `until`
    (Unix seconds) where they work together with steps doesn't matter either.
    """
    command = yield from command_at(position, step)
    if isinstance(command, NotStarted):
        return command
    outcomes: list[JsonValue] = []
    places: list[_Named] = []
    workplaces: dict[int, Workplace] = {}
    for number, standing in sorted(position.steps.items()):
        if standing.session_key is None or number == step:
            continue
        session = yield from ask(SessionOf(standing.session_key))
        files = None if session is None else (yield from _outcome_files(session))
        outcomes.append({"step": number, "outcome": standing.outcome, "files": files})
        if session is not None:
            places.append((yield from _place(number, session)))
            workplace = yield from ask(WorkplaceOf(session.key))
            if workplace is not None:
                workplaces[number] = workplace
    worked = _worked(position, places, workplaces, until)
    value: dict[str, JsonValue] = {
        "argv": list(command.argv),
        "env": dict(command.environment),
        "cwd": command.cwd,
        "outcomes": outcomes,
        "artifacts": list((yield from _left(places, worked, tries, without))),
    }
    if command.ready.worktree is not None:
        value["worktree"] = list(command.ready.worktree)
    return Shown(value, hash_of(value))


def _outcome_files(session: Session) -> Asking[JsonValue]:
    """What the files of a step's outcomes hold now."""
    files = yield from ask(OutcomesIn(session.path, session.artifacts_path))
    if isinstance(files, Unreadable):
        raise TryLater(f"the outcomes of {session.key} can't be read: {files.why}")
    if isinstance(files, BeingRead):
        raise TryLater(f"the reports of {session.key} are being read")
    return [
        {
            "path": each.path,
            "sha256": None if (content := _content(each)) is None else hashlib.sha256(content).hexdigest(),
        }
        for each in files
    ]


def _content(file: OutcomeFile) -> bytes | None:
    """What stands for a file: its content, or if it is a large report, what was read of it."""
    return file.content if file.report is None else json.dumps(file.report, sort_keys=True).encode()


def _place(step: int, session: Session) -> Asking[_Named]:
    produced = yield from ask(ProducedBy(session.key, session.attempt))
    large = yield from ask(ArtifactFilesOf(session.key))
    ids = {path: identifier for identifier, path in large}
    ids |= {} if produced is None else {each.path: each.id for each in produced.files}
    return _Named(step, LeftPlace(session.path, session.artifacts_path, tuple(ids)), ids)


def _worked(
    position: Position, places: list[_Named], workplaces: Mapping[int, Workplace], until: float | None
) -> list[_Worked]:
    """The worktrees that are kept, and the directories that no run directory has in it, each once."""
    found: list[_Worked] = []
    shared: dict[str, list[tuple[float, int]]] = {}
    for number, workplace in workplaces.items():
        ordered = (workplace.ordered_at, number)
        worktree = position.step(number).worktree
        if workplace.worktree is not None:
            if worktree is not None and worktree.is_kept(position.steps[number].status != "completed"):
                since = workplace.ordered_at if workplace.begun_at is None else workplace.begun_at
                found.append(_Worked(WorkPlace(workplace.worktree, since, is_worktree=True), (ordered,)))
            continue
        cwd = posixpath.normpath(workplace.cwd)
        whole = [place for each in places for place in (each.place.path, each.place.artifacts_path)]
        if not any(cwd == each or cwd.startswith(f"{each}/") for each in whole):
            shared.setdefault(cwd, []).append(ordered)
    for cwd, steps in shared.items():
        found.append(_Worked(WorkPlace(cwd, min(steps)[0], until), tuple(sorted(steps))))
    return found


def _left(
    places: list[_Named], worked: list[_Worked], tries: int, without: Collection[str]
) -> Asking[Iterator[dict[str, JsonValue]]]:
    """Every file that the runs of these steps left."""
    if not places:
        return iter(())
    question = FilesLeftIn(tuple(each.place for each in places), tuple(each.place for each in worked))
    answer = yield from ask(question)
    found: list[tuple[_Named | _Worked, LeftFiles]] = []
    everywhere: list[_Named | _Worked] = [*places, *worked]
    for named, each in zip(everywhere, answer, strict=True):
        if isinstance(each, Unreadable):
            raise TryLater(f"what step {named.step} left can't be read: {each.why}")
        found.append((named, each))
    files = [(named, file) for named, left in found for file in left.files]
    changing = [file.path for _, file in files if file.state == "changing" and file.path not in without]
    if changing and tries + 1 < TRIES:
        raise TryLater(f"{', '.join(changing[:5])} {STATES['changing']}")
    return (_as_json(named, file) for named, file in files)


def _as_json(named: _Named | _Worked, file: LeftFile) -> dict[str, JsonValue]:
    """A file as it is shown. A directory whose files are not shown one by one has no id."""
    shown: dict[str, JsonValue] = {
        "step": named.step_of(file),
        "id": named.ids.get(file.path),
        "path": file.path,
        "sha256": file.sha256,
        "state": file.state,
    }
    if file.state in ("hashed", "too_large"):
        shown["size"] = file.size
    if file.identity is not None:
        shown["identity"] = dict(file.identity._asdict())
    if file.target is not None:
        shown["target"] = file.target
    if file.state == "many":
        shown["files"] = file.number
    return shown
