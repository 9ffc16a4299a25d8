"""What a playbook and its agent declare together: the contract that a run of them starts with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runward.config.contract import Contract, resolve_contract
from runward.config.problem import Problem, has_errors
from runward.config.settings import Settings
from runward.daemon.configuration.declared_files import (
    NotFound,
    find_agent,
    find_playbook,
    playbook_file,
)

if TYPE_CHECKING:  # their readers import pydantic and yaml
    from runward.config.agent import AgentProfile
    from runward.config.playbook import Playbook


@dataclass(frozen=True, slots=True)
class Declared:
    """What was read: `contract` is set if no problem is an error, and may be None even then."""

    playbook: Playbook | None
    agent: AgentProfile | None
    contract: Contract | None
    problems: tuple[Problem, ...]

    @property
    def is_right(self) -> bool:
        """Whether all of it can be used."""
        return not has_errors(self.problems)


def declared(settings: Settings, playbook: str | None, agent: str | None) -> Declared:
    """What a playbook and an agent (its own, unless one is named) declare together.

    Raises `NotFound` for what the caller named. If only the playbook names a missing agent, that is the playbook's
    mistake.
    """
    problems: tuple[Problem, ...] = ()
    book = profile = None
    if playbook is not None:
        playbook = as_file(playbook, (".yaml", ".yml"))
        read = find_playbook(settings, playbook)
        book, problems = read.value, read.problems
    named = agent if agent is not None else (book.agent if book is not None else None)
    if named is not None:
        try:
            agent_file = find_agent(settings, as_file(named, (".md",)) if agent is not None else named)
            profile, problems = agent_file.value, problems + agent_file.problems
        except NotFound as error:
            if agent is not None:
                raise
            fix = "write the profile, or correct the playbook's 'agent'"
            problems += (
                Problem(playbook_file(settings, playbook or ""), None, None, f"agent: {error}", fix),
            )
    contract = None
    if not has_errors(problems):
        contract = resolve_contract(
            playbook=book.artifacts if book is not None else None,
            agent=profile.artifacts if profile is not None else None,
        )
    return Declared(book, profile, contract, problems)


def as_file(name: str, suffixes: tuple[str, ...]) -> str:
    """A name that ends like a file and is one here means that file."""
    if "/" not in name and name.endswith(suffixes) and os.path.isfile(name):
        return f"./{name}"
    return name
