"""Everything that is wrong with what the operator wrote: settings, playbooks, agent profiles, chains, and what they need.

`daemon --check`, `daemon reload`, `doctor`, `status` and the daemon itself all say what this says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from runward.config.problem import Parsed, Problem
from runward.daemon.configuration.declared_files import (
    NotFound,
    agent_file,
    agent_names,
    chain_names,
    find_agent,
    find_chain,
    find_playbook,
    missing_agent,
    only_a_name,
    playbook_file,
    playbook_names,
)
from runward.daemon.configuration.extras import (
    FIX,
    FLEET_FIX,
    NO_FLEET,
    has_fleet,
    why_not_over_http,
    why_not_signed,
)
from runward.daemon.configuration.secret_file import SecretUnusable, first_line, secret_of

if TYPE_CHECKING:
    from runward.config.agent import AgentProfile
    from runward.config.chain import Chain
    from runward.config.playbook import Playbook
    from runward.config.settings import Settings

NO_CONTRACT: Final = "runs that name it have no contract"
DOES_NOT_FIRE: Final = "the chain does not fire"
_PRIVATE: Final = "write it into a file of mode 0600"


class Wrong(NamedTuple):
    """Something that a person has to correct, and what follows until then."""

    problem: Problem
    consequence: str = ""

    def message(self) -> str:
        """What is wrong, and what follows."""
        return "; ".join(filter(None, (self.problem.message, self.consequence)))


class Reading(NamedTuple):
    """How the files are read by name; each raises `NotFound`. `chains` is what is wrong with all of them."""

    playbook: Callable[[str], Parsed[Playbook]]
    agent: Callable[[str], Parsed[AgentProfile]]
    chains: Callable[[], Iterable[Problem]]


def complaints_about(parsed: Parsed[Settings], reading: Reading | None = None) -> tuple[Wrong, ...]:
    """Every complaint, each once; where the settings can't be used, those about them alone."""
    wrong = [Wrong(each) for each in parsed.problems]
    if parsed.value is not None:
        wrong += _about(parsed.value, reading or reading_of(parsed.value))
    # Several rules and playbooks can name one wrong file.
    return tuple(dict.fromkeys(wrong))


def reading_of(settings: Settings) -> Reading:
    """Read each file as it is now."""
    return Reading(
        lambda name: find_playbook(settings, name),
        lambda name: find_agent(settings, name),
        lambda: _of_each(chain_names, lambda name: find_chain(settings, name), settings),
    )


def reading_of_names(settings: Settings) -> Reading:
    """Read the chains, and of playbooks and agent profiles only whether they are there: the rest takes libraries."""

    def exists(find: Callable[[Settings, str], str], name: str) -> Parsed[Any]:
        find(settings, name)
        return Parsed(None)

    return reading_of(settings)._replace(
        playbook=lambda name: exists(playbook_file, name), agent=lambda name: exists(agent_file, name)
    )


def _about(settings: Settings, reading: Reading) -> Iterator[Wrong]:
    for problem in _of_each(playbook_names, lambda name: _of_playbook(settings, name, reading), settings):
        yield Wrong(problem, _only_for_errors(problem, NO_CONTRACT))
    for problem in _of_each(agent_names, reading.agent, settings):
        yield Wrong(problem, _only_for_errors(problem, NO_CONTRACT))
    for problem in reading.chains():
        yield Wrong(problem, _only_for_errors(problem, DOES_NOT_FIRE))
    yield from _rules_without_playbook(settings, reading)
    yield from map(Wrong, _secret_of_webhooks(settings))
    yield from map(Wrong, _files_of_recipients(settings))
    yield from map(Wrong, _files_of_fleet(settings))
    yield from _missing_libraries(settings)


def _only_for_errors(problem: Problem, consequence: str) -> str:
    return consequence if problem.severity == "error" else ""


def _of_each(
    names: Callable[[Settings], Iterable[str]],
    read: Callable[[str], Parsed[Playbook] | Parsed[AgentProfile] | Parsed[Chain]],
    settings: Settings,
) -> list[Problem]:
    """What is wrong with the files of these names, or with a directory that can't be listed."""
    problems: list[Problem] = []
    try:
        for name in names(settings):
            try:
                problems += read(name).problems
            except NotFound as error:
                problems.append(Problem(name, None, None, str(error), None))
    except OSError as error:
        fix = "check its permissions"
        problems.append(Problem(str(error.filename), None, None, f"can't be read: {error.strerror}", fix))
    return problems


def _of_playbook(settings: Settings, name: str, reading: Reading) -> Parsed[Playbook]:
    """A playbook; if the agent that it names isn't there, that is the playbook's mistake."""
    parsed = reading.playbook(name)
    agent = parsed.value.agent if parsed.value is not None else None
    if agent is None:
        return parsed
    try:
        reading.agent(only_a_name(agent))
    except NotFound as error:
        return Parsed(None, (*parsed.problems, missing_agent(settings, name, error)))
    return parsed


def _rules_without_playbook(settings: Settings, reading: Reading) -> Iterator[Wrong]:
    """The rules whose playbook isn't there; what is wrong with one that is, is said at the playbook itself."""
    for number, rule in enumerate(settings.contracts):
        try:
            reading.playbook(only_a_name(rule.playbook))
        except NotFound as error:
            loc, fix = ("contracts", number, "playbook"), "write the playbook, or correct the rule"
            yield Wrong(
                rule.named_at.problem(loc, str(error), fix), "sessions that it matches have no contract"
            )


def _secret_of_webhooks(settings: Settings) -> Iterator[Problem]:
    """What is wrong with the file of the secret, and that nothing listens for deliveries that it signs."""
    path, key = settings.github_secret_file, "webhooks.github"
    if path is None:
        return
    if settings.http is None:
        message = "[webhooks.github] is set, but nothing listens"
        yield settings.problem(key, message, "add [http] to the settings", "warning")
        return
    try:
        secret_of(path)
    except SecretUnusable as error:
        yield settings.problem(key, f"webhooks.github.secret_file: {error}", _PRIVATE)


def _files_of_recipients(settings: Settings) -> Iterator[Problem]:
    """What is wrong with the files that hold the addresses and secrets of those who are notified."""
    for number, each in enumerate(settings.notify):
        try:
            if each.address_file is not None:
                first_line(each.address_file)
            if each.secret_file is not None:
                secret_of(each.secret_file)
        except SecretUnusable as error:
            yield settings.problem("notify", f"notify[{number}]: {error}", _PRIVATE)


def _files_of_fleet(settings: Settings) -> Iterator[Problem]:
    """What is wrong with the files that the connection to the fleet's database needs."""
    if settings.fleet is None:
        return
    try:
        secret_of(settings.fleet.password_file)
    except SecretUnusable as error:
        yield settings.problem("fleet", f"fleet.password_file: {error}", _PRIVATE)
    if settings.fleet.ca_file is not None and not os.path.isfile(settings.fleet.ca_file):
        message = f"fleet.ca_file: there is no file {settings.fleet.ca_file}"
        yield settings.problem("fleet", message, "put it back, or join the fleet again")


def _missing_libraries(settings: Settings) -> Iterator[Wrong]:
    """What the settings ask for and what is not installed."""
    tools, signing = why_not_over_http(settings.http), why_not_signed(settings.bundle.rules.sign)
    if tools is not None:
        yield Wrong(settings.problem("http.mcp", tools, FIX))
    if settings.fleet is not None and not has_fleet():
        yield Wrong(settings.problem("fleet", NO_FLEET, FLEET_FIX), "until then nothing is reported")
    if signing is not None:
        fix = "install them, or leave bundle.sign out"
        yield Wrong(settings.problem("bundle.sign", signing, fix), "until then no bundle is complete")
