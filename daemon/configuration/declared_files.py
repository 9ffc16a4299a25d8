"""Playbooks, agent profiles and chains: found by their names, and read with the files that they name.

Imports stay cheap, for the launcher's start-up.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from runward.config.document import AGENT_SUFFIX, CHAIN_SUFFIX, PLAYBOOK_SUFFIX, read_json
from runward.config.problem import Parsed, Problem, has_errors
from runward.daemon.configuration.listings import listed
from runward.daemon.configuration.settings import text_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from runward.config.agent import AgentProfile
    from runward.config.chain import Chain
    from runward.config.contract import Contract, ExpectedArtifact
    from runward.config.playbook import Playbook
    from runward.config.settings import Settings
    from runward.config.step import Callables

    D = TypeVar("D", Playbook, AgentProfile)
    T = TypeVar("T")

    TextOf = Callable[[str], str | Problem]
    """Reads the text of a file, or says what is wrong with it."""


class NotFound(LookupError):
    """There is no playbook or agent of this name, or no such file."""


def find_playbook(settings: Settings, name: str) -> Parsed[Playbook]:
    """The playbook of this name, or in the file of this name. Raises `NotFound`."""
    from runward.config.playbook import read_playbook

    return read_declaration(playbook_file(settings, name), read_playbook)


def find_agent(settings: Settings, name: str) -> Parsed[AgentProfile]:
    """The agent profile of this name, or in the file of this name. Raises `NotFound`."""
    from runward.config.agent import read_agent

    return read_declaration(agent_file(settings, name), read_agent)


def read_declaration(
    path: str, parse: Callable[[str, str], Parsed[D]], text_of: TextOf = text_of
) -> Parsed[D]:
    """The playbook or profile in a file. The schemas that its artifacts name are read, too."""
    parsed = read_text(path, parse, text_of)
    if parsed.value is None or not parsed.value.artifacts:
        return parsed
    artifacts, wrong = _with_schemas(parsed.value.artifacts, path, text_of)
    declaration = None if wrong else parsed.value._replace(artifacts=artifacts)
    return Parsed(declaration, parsed.problems + wrong)


def read_text(path: str, parse: Callable[[str, str], Parsed[T]], text_of: TextOf = text_of) -> Parsed[T]:
    """What `parse` makes of the text of a file, and of its path."""
    text = text_of(path)
    return Parsed(None, (text,)) if isinstance(text, Problem) else parse(text, path)


class Declared(NamedTuple):
    """What a playbook and its agent declare together, the contract that a run of them starts with.

    `contract` is set if no problem is an error, and may be None even then.
    """

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
    from runward.config.contract import resolve_contract

    problems: tuple[Problem, ...] = ()
    book = profile = None
    if playbook is not None:
        playbook = _as_file(playbook, (".yaml", ".yml"))
        book, problems = find_playbook(settings, playbook)
    if agent is not None:
        profile, problems_of_agent = find_agent(settings, _as_file(agent, (AGENT_SUFFIX,)))
        problems += problems_of_agent
    elif playbook is not None and book is not None and book.agent is not None:
        try:
            profile, problems_of_agent = find_agent(settings, book.agent)
        except NotFound as error:
            problems_of_agent = (missing_agent(settings, playbook, error),)
        problems += problems_of_agent
    if has_errors(problems):
        return Declared(book, profile, None, problems)
    contract = resolve_contract(
        playbook=book.artifacts if book is not None else None,
        agent=profile.artifacts if profile is not None else None,
    )
    return Declared(book, profile, contract, problems)


def missing_agent(settings: Settings, playbook: str, error: NotFound) -> Problem:
    """The problem of a playbook that names an agent which is not there."""
    fix = "write the profile, or correct the playbook's 'agent'"
    return Problem(playbook_file(settings, playbook), None, None, f"agent: {error}", fix)


def _as_file(name: str, suffixes: tuple[str, ...]) -> str:
    """A name that ends like a file and is one here means that file."""
    if "/" not in name and name.endswith(suffixes) and os.path.isfile(name):
        return f"./{name}"
    return name


def _with_schemas(
    artifacts: tuple[ExpectedArtifact, ...], file: str, text_of: TextOf
) -> tuple[tuple[ExpectedArtifact, ...], tuple[Problem, ...]]:
    """The artifacts declared by `file`, with the schemas that they name; and what is wrong with those."""
    problems: list[Problem] = []
    complete: list[ExpectedArtifact] = []
    for artifact in artifacts:
        rules = artifact.rules
        if rules is not None and rules.schema_file is not None:
            schema = _schema(os.path.join(os.path.dirname(file), rules.schema_file), text_of)
            if isinstance(schema, Problem):
                problems.append(schema)
            else:
                artifact = artifact._replace(rules=rules._replace(schema=schema, schema_file=None))
        complete.append(artifact)
    return tuple(complete), tuple(problems)


def _schema(path: str, text_of: TextOf) -> str | Problem:
    """The schema in a file as compact text."""
    import json

    import jsonschema_rs

    from runward.config.artifact_rules import MAX_SCHEMA

    text = text_of(path)
    if isinstance(text, Problem):
        return text
    parsed = read_json(text, path)
    if parsed.value is None:
        return parsed.problems[0]
    root = parsed.value.root
    if not isinstance(root, dict | bool):
        return Problem(path, 1, 1, "is not a JSON Schema", "write an object, or true or false")
    schema = json.dumps(root, sort_keys=True, separators=(",", ":"))
    if len(schema) > MAX_SCHEMA:
        return Problem(path, None, None, f"is larger than {MAX_SCHEMA >> 10} KiB", "make it smaller")
    try:
        jsonschema_rs.validator_for(root, pattern_options=jsonschema_rs.RegexOptions(), offline=True)
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        return Problem(path, None, None, f"is not a JSON Schema: {reason}", "fix it, or remove 'schema'")
    return schema


def playbook_file(settings: Settings, name: str) -> str:
    """Where the playbook of this name is. Raises `NotFound`."""
    return _find(name, settings.playbooks, [f"{name}{PLAYBOOK_SUFFIX}"], PLAYBOOK_SUFFIX, "playbook")


def agent_file(settings: Settings, name: str) -> str:
    """Where the agent profile of this name is. Raises `NotFound`."""
    return _find(
        name,
        settings.agents,
        [f"{name}{AGENT_SUFFIX}", f"{name}/{name}{AGENT_SUFFIX}"],
        AGENT_SUFFIX,
        "agent",
    )


def first_place(directories: tuple[str, ...], name: str, suffix: str) -> str:
    """Where the file of this name is looked for first: nothing hides it there."""
    return os.path.join(directories[0], f"{name}{suffix}") if directories else ""


def only_a_name(name: str) -> str:
    """A name that isn't the operator's own word here, and must not become a path of somebody's choosing.

    Raises `NotFound`.
    """
    if "/" in name or name.endswith((PLAYBOOK_SUFFIX, AGENT_SUFFIX)):
        raise NotFound(f"{name!r} is a file; only the name of a playbook or an agent is allowed here")
    return name


def playbook_names(settings: Settings) -> tuple[str, ...]:
    """The names of all playbooks in the directories of the settings."""
    return _names(settings.playbooks, PLAYBOOK_SUFFIX)


def find_chain(settings: Settings, name: str) -> Parsed[Chain]:
    """The chain of this name, or in the file of this name. Raises `NotFound`."""
    from runward.config.chain import read_chain

    return named_chain(settings, name, lambda text, path: read_chain(text, path, callables(settings)))


def named_chain(settings: Settings, name: str, parse: Callable[[str, str], Parsed[T]]) -> Parsed[T]:
    """What `parse` finds in the text of the chain of this name, or in the file of this name, and its path.

    Raises `NotFound`.
    """
    return read_text(chain_file(settings, name), parse)


def chain_file(settings: Settings, name: str) -> str:
    """Where the chain of this name is. Raises `NotFound`."""
    return _find(name, settings.chains, [f"{name}{CHAIN_SUFFIX}"], CHAIN_SUFFIX, "chain")


def callables(settings: Settings) -> Callables:
    """What steps of chains can name now."""
    from runward.config.step import Callables

    actions = tuple(each.name for each in settings.actions)
    return Callables(playbook_names(settings), actions, machines_zone(), _directory(settings))


def _directory(settings: Settings) -> str:
    """Where relative paths of chains start: next to the settings file, as the default directory of chains is."""
    if settings.files:
        return os.path.dirname(settings.files[0][0])
    return os.path.dirname(settings.chains[0]) if settings.chains else "/"


@lru_cache(maxsize=1)
def machines_zone() -> str:
    """The name of the machine's time zone, as it was at the first call; UTC if it has none."""
    from tzlocal import get_localzone_name

    try:
        return get_localzone_name() or "UTC"
    except (OSError, LookupError, ValueError):
        return "UTC"


def chain_names(settings: Settings) -> tuple[str, ...]:
    """The names of all chains in the directories of the settings, by their files."""
    return _names(settings.chains, CHAIN_SUFFIX)


def agent_names(settings: Settings) -> tuple[str, ...]:
    """The names of all agent profiles in the directories of the settings: `NAME.md` or `NAME/NAME.md`."""
    names = set(_names(settings.agents, AGENT_SUFFIX))
    for directory in settings.agents:
        if os.path.isdir(directory):
            names.update(
                each.name
                for each in listed(directory)
                if os.path.isfile(f"{each.path}/{each.name}{AGENT_SUFFIX}")
            )
    return tuple(sorted(names))


def _names(directories: tuple[str, ...], suffix: str) -> tuple[str, ...]:
    names: set[str] = set()
    for directory in directories:
        if os.path.isdir(directory):
            # An editor's lock or a link to nothing is not a playbook: a lookup by name would not find it either.
            names.update(
                each.name.removesuffix(suffix)
                for each in listed(directory)
                if each.name.endswith(suffix) and not each.name.startswith(".") and each.is_file
            )
    return tuple(sorted(names))


def _find(name: str, directories: tuple[str, ...], files: list[str], suffix: str, noun: str) -> str:
    """An existing path: `name` itself if it looks like one, else the first in the directories."""
    if "/" in name or name.endswith(suffix):
        if os.path.isfile(name):
            return name
        if os.path.exists(name):
            raise NotFound(f"{name} is not a regular file")
        raise NotFound(f"there is no {noun} file {name}")
    if "\0" not in name and name not in ("", ".", ".."):
        for directory in directories:
            for file in files:
                path = os.path.join(directory, file)
                if os.path.isfile(path):
                    return path
    places = ", ".join(directories) or "no directory"
    raise NotFound(f"there is no {noun} {name!r} in {places}{_suggestion(name, directories, suffix)}")


def _suggestion(name: str, directories: tuple[str, ...], suffix: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, _names(directories, suffix), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
