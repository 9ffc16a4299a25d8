"""What the shell completes ids and names with: the store read-only, and never a word on the terminal."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable
from typing import Final

import click
from click.shell_completion import CompletionItem

from runward.config.settings import Settings
from runward.daemon.configuration.declared_files import (
    NotFound,
    agent_names,
    chain_names,
    find_playbook,
    playbook_names,
)
from runward.daemon.configuration.settings import load_settings, working_directory
from runward.daemon.store import reading, reading_queue, reading_sessions

_OFFERED = 200
_NEWEST: Final = 100
_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+")
"""Text that a shell takes literally: a run may call itself `x;sh`, and what is offered is put on the command line."""


def sessions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Session ids that begin so, the newest first, with their status."""
    settings = _settings(context)
    if settings is None:
        return []
    try:
        with reading.reading(settings.state_dir) as connection:
            rows = reading_sessions.sessions_beginning(connection, incomplete, _OFFERED)
    except reading.StoreUnreadable:
        return []
    words = [
        (identifier if identifier.startswith(incomplete) else key, status) for key, identifier, status in rows
    ]
    return [CompletionItem(word, help=status) for word, status in words if _PLAIN.fullmatch(word)]


def jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The numbers of open jobs, with what they are."""
    settings = _settings(context)
    if settings is None:
        return []
    try:
        with reading.reading(settings.state_dir) as connection:
            rows = reading_queue.open_jobs(connection)
    except reading.StoreUnreadable:
        return []
    return [
        CompletionItem(str(job.id), help=f"{job.state} {job.handler}")
        for job in rows[:_OFFERED]
        if str(job.id).startswith(incomplete)
    ]


def playbooks(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of playbooks; a file's name once it looks like one."""
    if "/" in incomplete:
        return [CompletionItem(incomplete, type="file")]
    settings = _settings(context)
    names = playbook_names(settings) if settings is not None else ()
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def chains(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of chains; a file's name once it looks like one."""
    if "/" in incomplete:
        return [CompletionItem(incomplete, type="file")]
    settings = _settings(context)
    return _beginning(chain_names(settings) if settings is not None else (), incomplete)


def agents(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of agent profiles; a file's name once it looks like one."""
    if "/" in incomplete:
        return [CompletionItem(incomplete, type="file")]
    settings = _settings(context)
    return _beginning(agent_names(settings) if settings is not None else (), incomplete)


def roots(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the roots of the settings."""
    settings = _settings(context)
    return _beginning([root.name for root in settings.roots] if settings is not None else (), incomplete)


def layouts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of all layouts."""
    from runward.handlers.layouts import native, registry

    return _beginning([native.LAYOUT, *registry.LAYOUTS.names()], incomplete)


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files, which the shell knows."""
    return [CompletionItem(incomplete, type="file")]


def directories(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Directories, which the shell knows."""
    return [CompletionItem(incomplete, type="dir")]


def outcome_kinds(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The kinds of outcomes that are registered."""
    from runward.config.outcome import kinds

    return _beginning(sorted(kinds()), incomplete)


def chain_runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The newest chain runs."""
    from runward.daemon.store import reading_chains

    return _of_store(
        context,
        incomplete,
        lambda store: (each.id for each in reading_chains.chain_runs(store, None, None, None, _NEWEST)),
    )


def approvals(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The approvals that are asked for."""
    from runward.daemon.store import reading_chains

    return _of_store(
        context, incomplete, lambda store: (each.id for each in reading_chains.open_approvals(store))
    )


def invocations(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The newest invocations."""
    from runward.daemon.store.tables.invocations import Wanted, invocations

    wanted = Wanted(limit=_NEWEST)
    return _of_store(
        context,
        incomplete,
        lambda store: (each.id for each in invocations(store, wanted)),
    )


def outcomes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The newest outcomes of sessions."""
    from runward.daemon.store.tables import artifacts

    wanted = artifacts.Wanted(limit=_NEWEST)
    return _of_store(
        context, incomplete, lambda store: (each.id for each in artifacts.artifacts(store, wanted))
    )


def shows(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The topics of shows."""
    from runward.daemon.store.tables.shows import shows

    return _of_store(context, incomplete, lambda store: (each.topic for each in shows(store)))


def principals(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The principals of the exchange."""
    from runward.daemon.store import reading_exchange

    return _of_store(
        context, incomplete, lambda store: (each.id for each in reading_exchange.principals(store))
    )


def tokens(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tokens for HTTP."""
    from pathlib import Path

    from runward.daemon.disk.credentials import list_tokens

    settings = _settings(context)
    if settings is None:
        return []
    return _beginning([each.id for each in list_tokens(Path(settings.state_dir))], incomplete)


def shared_artifacts(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The artifacts of the exchange."""
    from runward.daemon.store import reading_exchange
    from runward.handlers.exchange.contracts import CONTRACTS
    from runward.handlers.exchange.genesis import METHODS

    written = _of_store(
        context, incomplete, lambda store: (each.id for each in reading_exchange.shared_artifacts(store))
    )
    return written + _beginning([*METHODS, *CONTRACTS], incomplete)


def shared_types(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The types of the artifacts of the exchange."""
    from runward.daemon.store import reading_exchange

    return _of_store(
        context,
        incomplete,
        lambda store: sorted({each.type for each in reading_exchange.shared_artifacts(store)}),
    )


def dead_notices(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The notices that were given up."""
    from runward.daemon.store.tables import notices

    return _of_store(
        context,
        incomplete,
        lambda store: (each.id for each in notices.notices(store, "dead", _NEWEST)),
    )


def zones(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of time zones."""
    from zoneinfo import available_timezones

    return _beginning(sorted(available_timezones()), incomplete)


def events(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The events that lines of the log are about, as far as they are often asked for."""
    return _beginning(_EVENTS, incomplete)


_EVENTS: Final = (
    "ready",
    "session.finished",
    "settings.refused",
    "job.held",
    "root.problem",
    "started",
    "stopped",
)


def _of_store(
    context: click.Context, incomplete: str, words: Callable[[sqlite3.Connection], Iterable[str]]
) -> list[CompletionItem]:
    """Those of the store's words that begin so; none if it can't be read."""
    settings = _settings(context)
    if settings is None:
        return []
    try:
        with reading.reading(settings.state_dir) as connection:
            return _beginning(words(connection), incomplete)
    except reading.StoreUnreadable:
        return []


def _beginning(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    matching = [word for word in words if word.startswith(incomplete)]
    return [CompletionItem(word) for word in matching if _PLAIN.fullmatch(word)]


def values(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The values that the named playbook's command takes and that aren't given yet, each with its `=`."""
    settings, name = _settings(context), context.params.get("playbook")
    if settings is None or not isinstance(name, str) or "/" in name:
        return []
    try:
        playbook = find_playbook(settings, name).value
    except NotFound:
        return []
    given = {word.partition("=")[0].rstrip(":") for word in context.params.get("values") or ()}
    words = [f"{each}=" for each in playbook.takes if each not in given] if playbook is not None else []
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _settings(context: click.Context) -> Settings | None:
    """The settings in force; completion begins before the command, so `--config` is only a parameter yet."""
    config = context.find_root().params.get("config")
    return load_settings(config, os.environ, working_directory()).value
