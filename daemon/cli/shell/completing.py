"""What the shell completes ids and names with: the store read-only, and never a word on the terminal.

Every command names its completers, so what only they need is imported when a shell asks.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from runward.config.settings import Settings
from runward.daemon.configuration.settings import load_settings, working_directory
from runward.daemon.store import reading

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_OFFERED: Final = 200
_NEWEST: Final = 100
_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+")
"""Text that a shell takes literally: a run may call itself `x;sh`, and what is offered is put on the command line."""

Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"
Words: TypeAlias = Iterable[str | tuple[str, str]]
"""Words that may be offered, alone or each with what is said about it."""


def _beginning(words: Words, incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    explained = ((each, None) if isinstance(each, str) else each for each in words)
    return [
        CompletionItem(word, help=about)
        for word, about in explained
        if word.startswith(incomplete) and _PLAIN.fullmatch(word)
    ]


def _always(words: Callable[[], Words]) -> Completer:
    """Completes with the same words everywhere."""
    return lambda context, parameter, incomplete: _beginning(words(), incomplete)


def _from_settings(words: Callable[[Settings], Words]) -> Completer:
    """Completes with words of the settings in force; with none if they are invalid."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        settings = _settings(context)
        return [] if settings is None else _beginning(words(settings), incomplete)

    return complete


def _from_store(words: Callable[[sqlite3.Connection], Words]) -> Completer:
    """Completes with words of the store; with none if it can't be read."""

    @_from_settings
    def stored(settings: Settings) -> Words:
        try:
            with reading.reading(settings.state_dir) as connection:
                return list(words(connection))
        except reading.StoreUnreadable:
            return []

    return stored


def _or_file(complete: Completer) -> Completer:
    """Completes with files once the word looks like one."""

    def with_files(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        return (files if "/" in incomplete else complete)(context, parameter, incomplete)

    return with_files


def _settings(context: click.Context) -> Settings | None:
    # Completion begins before the command, so `--config` is only a parameter yet.
    config = context.find_root().params.get("config")
    return load_settings(config, os.environ, working_directory()).value


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Files, which the shell knows."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def directories(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Directories, which the shell knows."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def sessions(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Session ids that begin so, the newest first, with their status."""

    def beginning(store: sqlite3.Connection) -> Words:
        from runward.daemon.store.tables.session_lists import sessions_beginning

        rows = sessions_beginning(store, incomplete, _OFFERED)
        return [
            (session_id if session_id.startswith(incomplete) else key, status)
            for key, session_id, status in rows
        ]

    return _from_store(beginning)(context, parameter, incomplete)


@_from_store
def jobs(store: sqlite3.Connection) -> Words:
    """The numbers of open jobs, with what they are."""
    from runward.daemon.store.tables.jobs import open_jobs

    rows = open_jobs(store)[:_OFFERED]
    return ((str(job.id), f"{job.state} {job.handler}") for job in rows)


@_or_file
@_from_settings
def playbooks(settings: Settings) -> Words:
    """The names of playbooks."""
    from runward.daemon.configuration.declared_files import playbook_names

    return playbook_names(settings)


@_or_file
@_from_settings
def chains(settings: Settings) -> Words:
    """The names of chains."""
    from runward.daemon.configuration.declared_files import chain_names

    return chain_names(settings)


@_or_file
@_from_settings
def agents(settings: Settings) -> Words:
    """The names of agent profiles."""
    from runward.daemon.configuration.declared_files import agent_names

    return agent_names(settings)


roots: Final = _from_settings(lambda settings: [root.name for root in settings.roots])


@_always
def layouts() -> Words:
    """The names of all layouts."""
    from runward.handlers.layouts import native, registry

    return [native.LAYOUT, *registry.LAYOUTS.names()]


@_always
def outcome_kinds() -> Words:
    """The kinds of outcomes that are registered."""
    from runward.config.outcome import kinds

    return sorted(kinds())


@_from_store
def chain_runs(store: sqlite3.Connection) -> Words:
    """The newest chain runs."""
    from runward.daemon.store.tables.chain_runs import chain_runs

    return (each.id for each in chain_runs(store, None, None, None, _NEWEST))


@_from_store
def approvals(store: sqlite3.Connection) -> Words:
    """The approvals that are asked for."""
    from runward.daemon.store.tables.approvals import open_approvals

    return (each.id for each in open_approvals(store))


@_from_store
def invocations(store: sqlite3.Connection) -> Words:
    """The newest invocations."""
    from runward.daemon.store.tables import invocations as table

    return (each.id for each in table.invocations(store, table.Wanted(limit=_NEWEST)))


@_from_store
def outcomes(store: sqlite3.Connection) -> Words:
    """The newest outcomes of sessions."""
    from runward.daemon.store.tables import artifacts

    return (each.id for each in artifacts.artifacts(store, artifacts.Wanted(limit=_NEWEST)))


@_from_store
def shows(store: sqlite3.Connection) -> Words:
    """The topics of shows."""
    from runward.daemon.store.tables import shows as table

    return (each.topic for each in table.shows(store))


@_from_store
def principals(store: sqlite3.Connection) -> Words:
    """The principals of the exchange."""
    from runward.daemon.store.tables.principals import principals

    return (each.id for each in principals(store))


@_from_store
def models(store: sqlite3.Connection) -> Words:
    """The models that replied last."""
    from runward.daemon.store.tables.usage import newest_models

    return newest_models(store)


@_from_settings
def tokens(settings: Settings) -> Words:
    """The tokens for HTTP."""
    from pathlib import Path

    from runward.daemon.disk.credentials import list_tokens

    return (each.id for each in list_tokens(Path(settings.state_dir)))


def shared_artifacts(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """The artifacts of the exchange; those that everyone has are offered without a store, too."""
    from runward.handlers.exchange.contracts import CONTRACTS
    from runward.handlers.exchange.genesis import METHODS

    written = _written_artifacts(context, parameter, incomplete)
    return written + _beginning([*METHODS, *CONTRACTS], incomplete)


@_from_store
def _written_artifacts(store: sqlite3.Connection) -> Words:
    from runward.daemon.store.tables.shared_artifacts import shared_artifacts

    return (each.id for each in shared_artifacts(store))


@_from_store
def shared_types(store: sqlite3.Connection) -> Words:
    """The types of the artifacts of the exchange."""
    from runward.daemon.store.tables.shared_artifacts import shared_artifacts

    return sorted({each.type for each in shared_artifacts(store)})


@_from_store
def dead_notices(store: sqlite3.Connection) -> Words:
    """The notices that were given up."""
    from runward.daemon.store.tables import notices

    return (each.id for each in notices.notices(store, "dead", _NEWEST))


@_always
def zones() -> Words:
    """The names of time zones."""
    from zoneinfo import available_timezones

    return sorted(available_timezones())


events: Final = _always(
    lambda: (
        *("ready", "session.finished", "settings.refused", "job.held"),
        *("root.problem", "started", "stopped"),
    )
)
"""The events that lines of the log are about, as far as they are often asked for."""


def values(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """The values that the named playbook's command takes and that aren't given yet, each with its `=`."""
    from runward.daemon.configuration.declared_files import NotFound, find_playbook

    settings, name = _settings(context), context.params.get("playbook")
    if settings is None or not isinstance(name, str) or "/" in name:
        return []
    try:
        playbook = find_playbook(settings, name).value
    except NotFound:
        return []
    given = {word.partition("=")[0].rstrip(":") for word in context.params.get("values") or ()}
    takes = () if playbook is None else playbook.takes
    return _beginning((f"{each}=" for each in takes if each not in given), incomplete)
