"""What a person is shown before a step runs: its command, the outcomes before it, and the hashes of what was
produced."""

import hashlib
import json
from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.asking import Asking, TryLater, ask
from runward.handlers.chains.advancing import Position, command_at
from runward.handlers.chains.stepping import NotStarted
from runward.handlers.contracts.verify import boundary
from runward.handlers.facts import HashesOf, ProducedBy, Session, SessionOf
from runward.handlers.outcomes.facts import ArtifactFilesOf, OutcomesIn
from runward.handlers.unreadable import Unreadable


class Shown(NamedTuple):
    """What is shown, and its hash (SHA-256, hex)."""

    value: dict[str, JsonValue]
    hash: str


def shown(position: Position, step: int) -> Asking[Shown | NotStarted]:
    """What would be shown now."""
    command = yield from command_at(position, step)
    if isinstance(command, NotStarted):
        return command
    outcomes: list[JsonValue] = []
    artifacts: list[JsonValue] = []
    for number, standing in sorted(position.steps.items()):
        if standing.session_key is None or number == step:
            continue
        outcome, produced = yield from _left(standing.session_key, standing.attempt)
        outcomes.append({"step": number, "outcome": standing.outcome, "files": outcome})
        artifacts += [{"step": number, **each} for each in produced]
    value: dict[str, JsonValue] = {
        "argv": list(command.argv),
        "env": dict(command.environment),
        "cwd": command.cwd,
        "outcomes": outcomes,
        "artifacts": artifacts,
    }
    if command.ready.worktree is not None:
        value["worktree"] = list(command.ready.worktree)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return Shown(value, hashlib.sha256(text.encode()).hexdigest())


def _left(session_key: str, attempt: int) -> Asking[tuple[JsonValue, list[dict[str, JsonValue]]]]:
    """What the files of a step's outcomes hold now: a hash or a problem for each file that its run produced, or
    that holds the large content of an artifact."""
    session = yield from ask(SessionOf(session_key))
    if session is None:
        return None, []
    files = yield from ask(OutcomesIn(session.path, session.artifacts_path))
    if isinstance(files, Unreadable):
        raise TryLater(f"the outcomes of {session_key} can't be read: {files.why}")
    said: JsonValue = [
        {"path": each.path, "sha256": hashlib.sha256(each.content or b"").hexdigest()} for each in files
    ]
    produced = yield from ask(ProducedBy(session_key, session.attempt))
    found = () if produced is None else tuple((each.id, each.path) for each in produced.files)
    large = yield from ask(ArtifactFilesOf(session_key))
    return said, (yield from _hashed(session, (*found, *large)))


def _hashed(session: Session, files: tuple[tuple[str, str], ...]) -> Asking[list[dict[str, JsonValue]]]:
    """The current content of each of these files below a session's artifacts; `files` are ids and paths."""
    if not files:
        return []
    within = boundary(session.artifacts_path, session.path)
    paths = tuple(path for _, path in files)
    found = yield from ask(HashesOf(session.artifacts_path, within, paths))
    if isinstance(found, Unreadable):
        raise TryLater(f"the artifacts of {session.key} can't be read: {found.why}")
    states = (
        [(each.sha256, each.state) for each in found.files]
        if found.exists
        else [(None, "absent")] * len(paths)
    )
    return [
        {"id": identifier, "path": path, "sha256": digest, "state": state}
        for (identifier, path), (digest, state) in zip(files, states, strict=True)
    ]
