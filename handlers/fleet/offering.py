"""What this host accepts from others, by its settings, and what it tells them of that."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final, Literal

from runward.config.contract import contract_to_json, resolve_contract
from runward.config.settings import ANY_HOST, Accept
from runward.handlers.model.fleet import Accepted
from runward.handlers.model.invocations import Play


def accepted(
    entries: Sequence[Accept],
    origin: str,
    kind: Literal["skill", "action"],
    name: str,
    signer: str | None = None,
) -> Accepted | None:
    """What all entries that accept it from this host allow together, within the longest time that one of them has.

    An entry with a key counts only for what that one signed.
    """
    fitting = [each for each in entries if each.has(origin, kind, name) and each.key in (None, signer)]
    if not fitting:
        return None
    limits = [each.longest for each in fitting]
    longest = None if None in limits else max(each for each in limits if each is not None)
    allow = frozenset(word for each in fitting for word in each.allow)
    return Accepted(allow, longest, tuple(_in_words(each, kind) for each in fitting))


def _in_words(entry: Accept, kind: Literal["skill", "action"]) -> str:
    """An entry as the settings have it, as far as it is about orders of this kind."""
    names = ("skills", entry.skills) if kind == "skill" else ("actions", entry.actions)
    lists = [
        (key, values) for key, values in (("from", entry.from_), names, ("allow", entry.allow)) if values
    ]
    words = [f"{key} = {json.dumps([*values], ensure_ascii=False)}" for key, values in lists]
    if entry.longest is not None:
        words.append(f'longest = "{entry.longest:g}s"')
    if entry.key is not None:
        words.append(f"key = {json.dumps(entry.key)}")
    return f"[[fleet.accept]] {', '.join(words)}"[:_MOST_WORDS]


_MOST_WORDS: Final = 1 << 10
"""Characters that are kept of an entry."""


def accepted_from(entries: Sequence[Accept], kind: Literal["skill", "action"], name: str) -> tuple[str, ...]:
    """Whose orders of this playbook or action are accepted, by name; only `ANY_HOST` if all are."""
    origins = {origin for each in entries for origin in each.from_ if each.has(origin, kind, name)}
    return (ANY_HOST,) if ANY_HOST in origins else tuple(sorted(origins))


def hash_of(play: Play) -> str | None:
    """A hash of what a playbook or an action starts, and of what that must leave behind; None if it starts nothing.

    Where the run goes is not part of it, nor how its file is written.
    """
    playbook = play.playbook
    if playbook is None or not playbook.command:
        return None
    contract = resolve_contract(playbook=playbook.artifacts, agent=play.defaults)
    starts = {
        "command": [*playbook.command],
        "shell": play.shell,
        "agent": play.agent,
        "timeout": playbook.timeout,
        "grace": playbook.grace,
        "contract": None if contract is None else contract_to_json(contract),
    }
    return hashlib.sha256(json.dumps(starts, sort_keys=True).encode()).hexdigest()
